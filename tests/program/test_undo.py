"""`nexus undo`, `nexus redo` and `nexus diff`: what a script gets, and what the model is told of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from json_shape import problems
from program.stage import PRICED, QUICK, Stage, calls, stage
from search import sample
from undo.test_whole_tree import set_up, whole
from undo.world import World

from nexus_cli.core.json_types.report_types import UndoReport


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, lambda body: {"text": "done"}) as made:
        made.settings(QUICK + PRICED)
        yield made


def work_of(place: Stage, session: str) -> World:
    """The project of a stage; what turns change is recorded for its session."""
    return World(Path(os.path.realpath(place.folder)), place.nexus_home / "data", session)


def test_a_turn_is_taken_back_shown_and_brought_back(place: Stage) -> None:
    session = place.ask("--json", "change a.py").result["session"]
    work = work_of(place, session)
    work.write("src/a.py", "old\n")
    work.turn(lambda: [work.write("src/a.py", "new\n"), work.write("made.txt", "x\n")])
    shown = place.run("diff")
    assert shown.status == 0 and "-old\n+new\n" in shown.text and "+++ b/made.txt" in shown.text
    assert place.run("diff", "--turn", "1", "src").text.count("+++") == 1
    tried = place.run("undo", "--dry-run", "--json")
    assert tried.result["dry_run"] is True and (place.folder / "made.txt").exists()
    done = place.run("undo", "--json")
    assert done.status == 0, done
    promised = {"turn": 1, "restored": ["src/a.py"], "removed": ["made.txt"], "kept": [], "head_moved": None}
    assert {key: done.result[key] for key in promised} == promised
    assert not [*problems(done.result, UndoReport)] and not [*problems(tried.result, UndoReport)]
    assert (place.folder / "src/a.py").read_text() == "old\n" and not (place.folder / "made.txt").exists()
    again = place.run("undo")
    assert again.status == 0 and again.text == "Nothing to undo.\n"
    assert place.run("redo").text.startswith("Redid turn 1: 2 files restored.")
    (place.folder / "src/a.py").write_text("mine\n")
    kept = place.run("undo", "--session", session, "--turn", "1")
    assert kept.status == 1 and "src/a.py (changed since); earlier version: src/a.py.nexus-undo" in kept.text
    assert (place.folder / "src/a.py").read_text() == "mine\n"


def test_what_cannot_be_undone_is_an_error_of_usage_or_nothing(place: Stage) -> None:
    none = place.run("undo")
    assert none.status == 2 and "no session" in none.told[-1]
    session = place.ask("--json", "hi").result["session"]
    assert place.run("undo", "--session", session).text == "Nothing to undo.\n"
    assert place.run("redo", "--json").result["turn"] is None
    assert place.run("diff").status == 0
    for turn in ("2", "0", "x"):
        assert place.run("undo", "--turn", turn).status == 2
    assert place.run("undo", "--turn", "1", "--json").result["turn"] == 1
    assert place.run("undo", "--session", "nosuch").status == 2


@pytest.mark.matrix
def test_a_path_is_relative_to_the_working_folder(place: Stage) -> None:
    work = work_of(place, place.ask("--json", "hi").result["session"])
    work.write("src/a", "old\n")
    work.write("src/b", "old\n")
    work.turn(lambda: [work.write("src/a", "new\n"), work.write("src/b", "new\n")])
    (place.folder / "other").symlink_to("src")
    assert place.run("undo", "--json", str(place.folder / "other" / "b")).result["restored"] == ["src/b"]
    assert place.run("undo", "--json", "./src/../src/a").result["restored"] == ["src/a"]


@pytest.mark.matrix
def test_the_model_is_told_once_and_reads_again_before_an_edit(place: Stage) -> None:
    edit = {"path": "a.py", "edits": [{"old": "old", "new": "mine"}]}

    def model(body: Any) -> Any:
        last = body["messages"][-1]
        if last["role"] == "user" and "look" in last["content"]:
            return calls(("read_file", {"path": "a.py"}))
        if last["role"] == "user" and "edit" in last["content"]:
            return calls(("edit_file", edit))
        return {"text": "done"}

    place.script(model)
    (place.folder / "a.py").write_text("old\n")
    session = place.ask("--json", "look at it").result["session"]
    work = work_of(place, session)
    work.turn(lambda: work.write("a.py", "new\n"))
    assert place.run("undo").status == 0 and (place.folder / "a.py").read_text() == "old\n"
    place.ask("--allow", "edit", "-c", "edit it")
    messages = place.server.requests[-1].body["messages"]
    told = [one["content"] for one in messages if one["role"] == "user" and "took back" in one["content"]]
    assert len(told) == 1 and "the file changes of turn 1: a.py as before it" in told[0]
    result = next(one["content"] for one in reversed(messages) if one["role"] == "tool")
    assert "read it again" in result, result
    assert (place.folder / "a.py").read_text() == "old\n"
    place.ask("-c", "thanks")
    last = [one["content"] for one in place.server.requests[-1].body["messages"] if one["role"] == "user"][-1]
    assert "took back" not in last


@pytest.mark.matrix
def test_names_that_are_hostile_to_a_terminal_or_json_are_harmless(place: Stage) -> None:
    work = work_of(place, place.ask("--json", "hi").result["session"])
    names = ["a\nb", "\x1b[31mred", "n" * 255, os.fsdecode(b"\xff\xfe"), "caf\u00e9", "cafe\u0301", "-rf", "a b"]
    for name in names:
        work.write(name, "old\n")
    work.turn(lambda: [work.write(name, "new\n") for name in names])
    told = place.run("undo")
    assert told.status == 0 and b"\x1b" not in told.stdout and len(told.text.splitlines()) == len(names) + 1
    assert all(work.path(name).read_bytes() == b"old\n" for name in names)
    assert place.run("redo").status == 0
    for name in names:
        work.write(name, "own\n")
    done = place.run("undo", "--json")
    assert done.status == 1 and len(json.loads(done.stdout)["kept"]) == len(names)
    assert sum(re.search(r"\.nexus-undo$", name) is not None for name in os.listdir(place.folder)) == len(names)


@pytest.mark.parametrize("allow", sample(["all", "auto"], 1))
def test_folders_pipes_rights_and_links_are_as_before_the_command(place: Stage, allow: str) -> None:
    work = work_of(place, "")
    set_up(work)
    for number in range(60):
        work.path(f"many/{number}/in").mkdir(parents=True)
    before = whole(work)
    command = "rm -rf private uploads pipe x; chmod -R 777 many; echo more >> a; mkdir -p made/empty"
    turn = [
        calls(("bash", {"command": command})),
        calls(("write_file", {"path": "new/deep/file", "content": "new\n"})),
        {"text": "done"},
    ]
    place.script(lambda body: turn.pop(0))
    session = place.ask("--allow", allow, "--json", "clean up").result["session"]
    after = whole(work)
    assert {"new/deep/file", "made/empty"} < after.keys() and "private" not in after
    preview, done = place.run("undo", "--dry-run", "--json"), place.run("undo", "--json")
    assert done.status == 0 and done.result["kept"] == [], done
    assert whole(work) == before and preview.result == done.result | {"dry_run": True}
    assert {"uploads/empty/", "many/7/in/", "pipe", "a", "b", "c"} <= set(done.result["restored"])
    assert done.result["removed"] == ["made/empty/", "new/deep/file"]
    redone = place.run("redo", "--json").result["restored"]
    assert whole(work) == after and {"a", "many/7/in/", "made/empty/", "new/deep/file"} <= set(redone)
    text = place.run("undo", "--session", session).text
    assert "7 files and 122 folders restored" in " ".join(text.split()), text
    assert whole(work) == before
