"""The command that stands last on stderr really resumes, whatever it was that stopped the turn."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from program.stage import Done, Seen, calls, clean, play, stage
from search import sample
from server.blocks import is_prefix

GO_ON = "Continue where you stopped."


def resumed(
    root: Path, script: Any, *arguments: str, env: dict[str, str | None] | None = None, shell: bool = False
) -> dict[str, Any]:
    """A run that stops short, and what the last line of its stderr leads to: with `shell` as bash reads it."""
    with stage(root, script) as place:
        first = place.ask(*arguments, "hi", env=env)
        place.script(["went on"])
        command = first.told[-1].removeprefix("Resume with: ")
        words = shlex.split(command)
        if shell:
            words = place.shell(f"printf '%s\\0' {command}").text.split("\0")[:-1]
        assert words[0] == "nexus"
        second = place.run(*words[1:])
        requests = [request for request in place.server.requests if request.status == 200]
        prefix = len(requests) < 2 or is_prefix(requests[-2].blocks, requests[-1].blocks)
        last = requests[-1].body["messages"][-1]
        return {"first": first, "second": second, "prefix": prefix, "last": last, "replay": place.run("replay")}


def out_of_steps(root: Path) -> dict[str, Any]:
    return resumed(root, [calls(("glob", {"pattern": "*"}))], "--max-steps", "1", shell=True)


def unreachable(root: Path) -> dict[str, Any]:
    return resumed(root, None, env={"OPENAI_API_BASE": "http://127.0.0.1:9/v1"})


def cut_off(root: Path) -> dict[str, Any]:
    return resumed(root, [{"text": "half an answer", "finish": "length"}])


def lost(root: Path) -> dict[str, Any]:
    return resumed(root, [{"text": "half an answer " * 9, "fault": "reset"}] * 2)


def complete(root: Path) -> list[Done]:
    with stage(root) as place:
        place.ask("hi")
        return [place.ask("-c"), place.ask("-c", "--json", stdin=b"")]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return play(tmp_path_factory.mktemp, out_of_steps, unreachable, cut_off, lost, complete)


@pytest.mark.parametrize("name", sample(["out_of_steps", "unreachable", "cut_off", "lost"], 2))
def test_the_last_line_of_stderr_resumes_the_turn(seen: Seen, name: str) -> None:
    shown = seen[name]
    assert shown["first"].status in (1, 3) and clean(shown["first"])
    assert (shown["second"].status, shown["second"].stdout, shown["second"].stderr) == (0, b"went on\n", b"")
    assert shown["prefix"] and shown["replay"].status == 0


@pytest.mark.parametrize(("name", "role"), sample([("out_of_steps", "tool"), ("unreachable", "user")], 2))
def test_what_was_open_goes_on_without_another_word(seen: Seen, name: str, role: str) -> None:
    assert seen[name]["last"]["role"] == role and GO_ON not in str(seen[name]["last"]["content"])


@pytest.mark.parametrize("name", sample(["cut_off", "lost"], 2))
def test_a_reply_that_broke_off_is_asked_for_again(seen: Seen, name: str) -> None:
    last = seen[name]["last"]
    assert last["role"] == "user" and last["content"].endswith(GO_ON), last


@pytest.mark.matrix
def test_a_session_with_nothing_left_to_do_says_so(seen: Seen) -> None:
    plain, as_json = seen["complete"]
    assert (plain.status, plain.stdout) == (2, b"") and clean(plain)
    assert plain.told[0].startswith("nexus: no prompt: ")
    assert (as_json.status, as_json.kind) == (2, "usage")
