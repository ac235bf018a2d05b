"""The options of `nexus ask`, each seen in what reaches the model or what is left in the folder."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from program.stage import MODEL, PRICED, Done, Seen, calls, clean, play, stage
from server.blocks import is_prefix
from server.received import tool_results

FIVE: dict[str, str | None] = {"NEXUS_MODEL": None}


def unsaved(root: Path) -> dict[str, Any]:
    with stage(root, [calls(("glob", {"pattern": "*"})), "fine"]) as place:
        before = sorted(path for path in place.home.rglob("*"))
        done = place.ask("--no-save", "--json", "hi")
        after = sorted(path for path in place.home.rglob("*"))
        failing = place.ask("--no-save", "hi", env={"OPENAI_API_BASE": "http://127.0.0.1:9/v1"})
        left = list(place.folder.iterdir())
        return {"done": done, "before": before, "after": after, "failing": failing, "folder": left}


def cut_off(root: Path) -> list[Done]:
    steps = [{"text": "half an answer", "finish": "length"}, {"text": "half an answer", "fault": "no_finish"}]
    with stage(root, [*steps, steps[1], steps[0]]) as place:  # what breaks off is asked for again, once
        return [place.ask(*words, "--json", "hi") for words in (["--no-save"], ["--no-save"], [])]


def toolless(root: Path) -> tuple[Done, Any]:
    with stage(root, [calls(("bash", {"command": "touch made"})), "without tools, then"]) as place:
        done = place.ask("--no-tools", "--allow", "all", "--json", "hi")
        return done, [request.body for request in place.server.requests]


def resumed(root: Path) -> dict[str, Any]:
    with stage(root) as place:
        (place.folder / "sub").mkdir()
        first = place.ask("--json", "-C", "sub", "one").result["session"]
        other = place.ask("--json", "two").result["session"]
        renamed = place.run("sessions", "rename", first, "my work")
        again = [place.ask("--json", "-r", key, "more") for key in ("my work", first, first[:-8])]
        newest = place.ask("--json", "-c", "-C", "sub", "and more")
        fork = place.run("sessions", "fork", first, "--name", "a copy")
        forked = place.ask("--json", "-r", "a copy", "in the copy")
        listed = place.run("sessions", "list", "--all", "--json").result["sessions"]
        unsaved = place.ask("--no-save", "--json", "-c", "-C", "sub", "aside")
        still = place.run("sessions", "list", "--all", "--json").result["sessions"]
        deleted = place.run("sessions", "delete", "--yes", first)
        return {
            "first": first,
            "other": other,
            "renamed": renamed,
            "again": again,
            "newest": newest,
            "fork": fork,
            "forked": forked,
            "listed": listed,
            "unsaved": unsaved,
            "still": still,
            "deleted": deleted,
            "requests": list(place.server.requests),
            "after": place.run("sessions", "list", "--all", "--json").result["sessions"],
            "copy": place.run("replay", "--session", "a copy"),
            "gone": place.run("sessions", "show", first),
        }


def effort(root: Path) -> tuple[Done, Any]:
    with stage(root) as place:
        done = place.ask("-m", "openai/gpt-5", "--effort", "high", "hi")
        return done, place.server.requests[0].body


def alias(root: Path) -> tuple[Done, Any]:
    with stage(root) as place:
        place.settings(PRICED + '[alias]\nfast = "openai/scripted"\n')
        done = place.ask("--json", "-m", "fast", "hi", env={"NEXUS_MODEL": "anthropic/not-this-one"})
        return done, place.server.requests[0].body


def capped(root: Path) -> list[Any]:
    with stage(root) as place:
        place.ask("hi")
        place.ask("--max-total-tokens", "4000", "hi")
        place.ask("--max-cost", "0.03", "hi")
        return [request.body for request in place.server.requests]


def several_keys(root: Path) -> tuple[Done, int]:
    with stage(root) as place:
        return place.ask("hi", env={**FIVE, "ANTHROPIC_API_KEY": "sk-none"}), len(place.server.requests)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    scenes = (unsaved, cut_off, toolless, resumed, effort, alias, capped, several_keys)
    return play(tmp_path_factory.mktemp, *scenes)


def test_without_saving_nothing_is_written_and_nothing_can_be_resumed(seen: Seen) -> None:
    shown = seen["unsaved"]
    assert shown["done"].status == 0 and shown["done"].result["text"] == "fine"
    assert shown["after"] == shown["before"] and shown["folder"] == []
    assert shown["failing"].status == 1 and len(shown["failing"].told) == 1


@pytest.mark.matrix
def test_nobody_is_told_to_go_on_with_what_was_not_kept(seen: Seen) -> None:
    *unkept, kept = seen["cut_off"]
    for done, kind in zip(unkept, ("length", "provider"), strict=True):
        assert done.result["error"]["kind"] == kind and "Nothing was saved" in done.result["error"]["hint"]
        assert len(done.told) == 1 + (kind == "provider") and "ask to continue" not in str(done.told)
    assert kept.result["error"]["hint"] == "The partial answer is kept; ask the model to continue"


def test_without_tools_none_is_offered_and_none_runs(seen: Seen) -> None:
    done, (first, second) = seen["toolless"]
    assert (done.status, done.result["text"], done.result["files_changed"]) == (0, "without tools, then", [])
    assert not first.get("tools") and "tools are switched off for this run" in tool_results(second)[0]


def test_a_session_is_found_by_id_by_name_and_as_the_newest_of_its_folder(seen: Seen) -> None:
    shown = seen["resumed"]
    assert shown["renamed"].status == 0
    assert {done.result["session"] for done in (*shown["again"], shown["newest"])} == {shown["first"]}
    requests = shown["requests"]
    lane = [requests[0], *requests[2:6]]
    assert all(is_prefix(first.blocks, second.blocks) for first, second in pairwise(lane))


def test_a_session_goes_on_without_being_saved(seen: Seen) -> None:
    shown = seen["resumed"]
    assert (shown["unsaved"].status, shown["unsaved"].result["session"]) == (0, shown["forked"].result["session"])
    assert is_prefix(shown["requests"][5].blocks, shown["requests"][6].blocks) and shown["still"] == shown["listed"]


def test_a_fork_begins_as_its_origin_and_outlives_it(seen: Seen) -> None:
    shown = seen["resumed"]
    fork = shown["fork"].text.strip()
    assert shown["forked"].result["session"] == fork != shown["first"]
    assert is_prefix(shown["requests"][4].blocks, shown["requests"][5].blocks)
    assert {one["id"] for one in shown["listed"]} == {shown["first"], shown["other"], fork}
    assert shown["deleted"].status == 0 and {one["id"] for one in shown["after"]} == {shown["other"], fork}
    assert shown["copy"].status == 0, shown["copy"]
    assert shown["gone"].status == 2 and clean(shown["gone"])


def test_effort_reaches_the_wire(seen: Seen) -> None:
    done, body = seen["effort"]
    assert done.status == 0 and body["reasoning_effort"] == "high"


def test_an_alias_wins_over_the_environment(seen: Seen) -> None:
    done, body = seen["alias"]
    assert done.result["model"] == MODEL and body["model"] == "scripted"


def test_a_limit_lowers_the_output_cap_before_it_refuses(seen: Seen) -> None:
    plain, tokens, cost = ({**body}.get("max_tokens") or body["max_completion_tokens"] for body in seen["capped"])
    assert plain == 8192
    assert 1024 <= tokens < 3000 and 1024 <= cost < 4000, (tokens, cost)


def test_several_keys_are_listed_and_nothing_is_sent(seen: Seen) -> None:
    done, sent = seen["several_keys"]
    assert (done.status, sent, len(done.told)) == (2, 0, 1) and clean(done)
    assert "OPENAI_API_KEY (" in done.told[0] and "ANTHROPIC_API_KEY (" in done.told[0]
