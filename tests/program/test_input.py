"""What is piped in and out: binary, full, and readers that leave."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from program.stage import SECONDS, Done, Seen, Stage, clean, end, play, stage

LONG = {"default": {"text": "line of the answer\n", "repeat": 20_000, "chunk": 4096}}
"""More than a pipe holds."""


def asked(root: Path, *arguments: str, **more: Any) -> tuple[Done, str]:
    """One run, and the text of the last user message that the model saw."""
    with stage(root) as place:
        done = place.ask(*arguments, **more)
        seen = place.server.requests[-1].body["messages"][-1]["content"] if place.server.requests else ""
        return done, seen if isinstance(seen, str) else str(seen)


def binary(root: Path) -> list[Done]:
    with stage(root) as place:
        (place.folder / "core").write_bytes(b"\x7fELF\x02\x00\x00\xff\xfe\x00" * 50)
        return [place.ask("look", stdin=b"\x7fELF\x02\x00\x00\xff\xfe\x00" * 50), place.ask("look", "-f", "core")]


def both(root: Path) -> tuple[Done, str]:
    return asked(root, "what is this?", stdin=b"some <b>text</b>\n")


def plain_nexus(root: Path) -> tuple[Done, str]:
    with stage(root) as place:
        done = place.run(stdin=b"piped into plain nexus\n")
        return done, place.server.requests[-1].body["messages"][-1]["content"]


def read_by(place: Stage, reader: list[str], *arguments: str) -> Done:
    """Run `nexus ARGUMENTS | READER`; stdout is what the reader printed."""
    with subprocess.Popen(reader, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        child = place.begin(*arguments, stdout=process.stdin.fileno())
        process.stdin.close()  # the program alone writes
        try:
            stdout = process.stdout.read()
            _, stderr = child.communicate(timeout=SECONDS)
        finally:
            end(child)
    return Done(child.returncode, stdout, stderr)


def head(root: Path) -> Done:
    with stage(root, LONG) as place:
        return read_by(place, ["head", "-1"], "ask", "hi")


def head_of_lines(root: Path) -> tuple[Done, bool]:
    with stage(root, {"default": {"text": "x" * 64, "repeat": 2000, "pace": 0.005}}) as place:
        done = read_by(place, ["head", "-n", "8"], "ask", "--stream-json", "hi")
        return done, place.server.wait_for(lambda server: server.requests[0].closed_early)


def full(root: Path) -> list[Done]:
    with stage(root) as place, open("/dev/full", "wb") as disk:
        return [place.ask(*form, "hi", stdout=disk.fileno()) for form in ((), ("--json",))]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    scenes = (binary, both, plain_nexus, head, head_of_lines, full)
    return play(tmp_path_factory.mktemp, *scenes)


def test_binary_input_is_refused_with_a_way_to_convert_it(seen: Seen) -> None:
    for done, name in zip(seen["binary"], ("stdin", "core"), strict=True):
        assert (done.status, done.stdout) == (2, b"")
        assert done.told == [
            f"nexus: {name} is binary: binary data cannot be sent as text. Convert it first (base64, xxd, strings)."
        ]


def test_a_pipe_beside_a_prompt_is_a_block_of_its_own(seen: Seen) -> None:
    done, sent = seen["both"]
    assert done.status == 0 and sent.endswith("what is this?\n\n<stdin>\nsome <b>text</b>\n</stdin>")


def test_plain_nexus_with_a_pipe_is_ask(seen: Seen) -> None:
    done, sent = seen["plain_nexus"]
    assert (done.status, done.stdout, done.stderr) == (0, b"answer (1)\n", b"")
    assert sent.endswith("piped into plain nexus")


def test_a_reader_that_leaves_is_quiet(seen: Seen) -> None:
    done: Done = seen["head"]
    assert (done.status, done.stdout, done.stderr) == (0, b"line of the answer\n", b"")


def test_a_reader_of_lines_that_leaves_ends_the_request(seen: Seen) -> None:
    done, closed_early = seen["head_of_lines"]
    assert done.status == 130 and done.stdout.count(b"\n") == 8 and closed_early
    assert done.told[0] == "nexus: the reader of stdout closed it, so the turn was stopped"
    assert len(done.told) == 2 and done.told[1].startswith("Resume with: ")


def test_a_full_disk_behind_stdout_is_told_and_is_exit_1(seen: Seen) -> None:
    for done in seen["full"]:
        assert done.status == 1 and clean(done)
        assert (
            done.told[-2]
            == "nexus: stdout cannot be written: No space left on device. Check the destination of the output."
        )
        assert done.told[-1].startswith("Resume with: ")
