"""`nexus undo`, `nexus redo` and `nexus diff`: what a script gets, and what the model is told of it."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from json_shape import problems
from program.stage import PRICED, QUICK, Stage, calls, end, stage, until
from program.terminal_run import TerminalRun
from undo.world import World

from nexus_cli.undo.undo_turn import UndoReport
from nexus_cli.undo.unsure_changes import SECONDS


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, lambda body: {"text": "done"}) as made:
        yield made


def work_of(place: Stage, session: str) -> World:
    """The project of a stage; what turns change is recorded for its session."""
    return World(Path(os.path.realpath(place.folder)), place.nexus_home / "data", session)


DIES = """import os
from nexus_cli.undo.follow_changes import ChangeJournal
ChangeJournal.record_edit = lambda *arguments: os.kill(os.getpid(), 9)
"""


@pytest.mark.matrix
def test_an_edit_whose_process_was_killed_before_its_record_is_taken_back(place: Stage) -> None:
    (place.folder / "a.py").write_text("old\n")
    edits = [calls(("edit_file", {"path": "a.py", "edits": [{"old": "old", "new": "new"}]}))]
    place.script([*edits, "done"])
    assert place.ask("--allow", "edit", "change a.py", bug=DIES).status == -9
    assert (place.folder / "a.py").read_text() == "new\n"
    assert place.ask("-c", "go on").status == 0
    assert "nexus was killed in it" in place.run("undo").told[-1]
    done = place.run("undo", "--turn", "1", "--json")
    assert done.result["restored"] == ["a.py"] and (place.folder / "a.py").read_text() == "old\n"


def test_a_turn_is_taken_back_shown_and_brought_back(place: Stage) -> None:
    session = place.ask("--json", "change a.py").result["session"]
    work = work_of(place, session)
    work.write("src/a.py", "old\n")
    work.turn(lambda: [work.write("src/a.py", "new\n"), work.write("made.txt", "x\n")])
    for verb in ("undo", "diff"):
        nothing = place.run(verb, "")
        assert nothing.status == 2 and "PATH: the value is empty" in nothing.told[0], nothing
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
    assert again.status == 0 and again.text == "Nothing to undo.\n" and "newest of this folder" in again.told[-1]
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
    assert any("--turn 3" in line for line in place.run("undo", "--dry-run", "3").told)
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
def test_the_model_is_told_once_and_with_an_edit_that_the_file_has_other_changes(place: Stage) -> None:
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
    told = [one["content"] for one in messages if one["role"] == "user" and "undid" in one["content"]]
    assert len(told) == 1 and "the file changes of turn 1: a.py as before the turn" in told[0]
    result = next(one["content"] for one in reversed(messages) if one["role"] == "tool")
    assert "changed on disk since it was read" in result, result
    assert (place.folder / "a.py").read_text() == "mine\n"
    place.ask("-c", "thanks")
    last = [one["content"] for one in place.server.requests[-1].body["messages"] if one["role"] == "user"][-1]
    assert "undid" not in last


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


WAITS = "touch began; while [ ! -e ended ]; do sleep 0.05; done"


def edit_during(place: Stage, command: str, *writes: tuple[str, str], options: Sequence[str] = ()) -> None:
    """Let a turn run a command that waits for the file `ended`, and write files while it runs."""
    place.script([calls(("bash", {"command": command})), {"text": "done"}])
    child = place.begin("ask", "--allow", "all", *options, "test it")
    try:
        assert until((place.folder / "began").exists)
        for name, text in writes:
            (place.folder / name).write_text(text)
        time.sleep(SECONDS + 0.2)
        (place.folder / "ended").touch()
        assert child.wait() == 0
    finally:
        end(child)


@pytest.mark.matrix
def test_what_the_person_saved_while_a_command_ran_stays_and_goes_when_told(place: Stage) -> None:
    mine, new = place.folder / "mine.txt", place.folder / "new.txt"
    mine.write_text("old\n")
    edit_during(place, WAITS, ("mine.txt", "mine\n"), ("new.txt", "new\n"))
    left = place.run("undo", "--json")
    assert left.status == 1 and left.result["removed"] == ["began", "ended"] and not left.result["restored"]
    assert {one["path"] for one in left.result["kept"]} == {"mine.txt", "new.txt"}
    assert all("nexus undo --all" in one["why"] for one in left.result["kept"]) and mine.read_text() == "mine\n"
    assert place.run("undo", "--all").status == 0 and mine.read_text() == "old\n" and not new.exists()
    assert place.run("redo", "new.txt").status == 0 and new.exists() and mine.read_text() == "old\n"
    assert place.run("redo").status == 0 and mine.read_text() == "mine\n"


@pytest.fixture
def database(place: Stage) -> Path:
    """A file that is too large to copy."""
    path = place.folder / "data.db"
    path.touch()
    os.truncate(path, 250_000_000)
    return path


NAMED = "undo will not cover data.db (250 MB, "


@pytest.mark.matrix
def test_what_undo_does_not_cover_is_told_before_the_command_and_by_undo(place: Stage, database: Path) -> None:
    place.script(
        [calls(("bash", {"command": "echo > a"}), ("bash", {"command": "echo x >> data.db"})), {"text": "done"}]
    )
    asked = place.ask("--allow", "all", "--stream-json", "drop it")
    told = [line for line in map(json.loads, asked.text.splitlines()) if line["type"] == "notice"]
    assert len([one for one in told if NAMED in one["text"]]) == 1, told
    assert [one["path"] for one in json.loads(asked.text.splitlines()[-1])["not_covered"]] == ["data.db"]
    done = place.run("undo", "--json")
    assert done.status == 1 and [one["path"] for one in done.result["not_covered"]] == ["data.db"], done
    assert done.result["removed"] == ["a"] and not [*problems(done.result, UndoReport)]


@pytest.mark.matrix
def test_a_command_that_may_change_what_undo_does_not_cover_is_refused_if_undo_is_required(
    place: Stage, database: Path
) -> None:
    place.settings(QUICK + PRICED + "[undo]\nrequire = true\n")
    place.script([calls(("bash", {"command": "echo > a"})), {"text": "done"}])
    done = place.ask("--allow", "all", "--json", "drop it")
    (row,) = done.result["denied"]
    assert NAMED in row["why"] and not (place.folder / "a").exists()
    database.unlink()
    place.script([calls(("bash", {"command": "echo > a"})), {"text": "done"}])
    assert not place.ask("--allow", "all", "--json", "drop it").result["denied"] and (place.folder / "a").exists()


@pytest.mark.matrix
@pytest.mark.parametrize(("most", "covered"), [(0, False), (2, True)])
def test_the_largest_file_that_is_copied_before_a_command_is_a_setting(place: Stage, most: int, covered: bool) -> None:
    """Also `0`, and also more than all that a look would copy otherwise; a file that a tool edits is kept whatever it
    says."""
    place.settings(QUICK + PRICED + f"[undo]\nmax_file_mb = {most}\n")
    (place.folder / "data.db").write_bytes(b"old" * 500_000)
    (place.folder / "a.py").write_text("old\n")
    edit = ("edit_file", {"path": "a.py", "edits": [{"old": "old", "new": "new"}]})
    place.script([calls(("bash", {"command": "printf x | dd of=data.db conv=notrunc"}), edit), {"text": "done"}])
    asked = place.ask("--allow", "all", "--stream-json", "drop it")
    assert ("undo will not cover" in asked.text and "data.db (2 MB, " in asked.text) != covered
    done = place.run("undo", "--json")
    assert done.result["restored"] == (["a.py", "data.db"] if covered else ["a.py"]), done
    assert ([one["path"] for one in done.result["not_covered"]] == ["data.db"]) != covered


@pytest.mark.matrix
def test_a_question_about_a_command_says_what_undo_will_not_cover(place: Stage, database: Path) -> None:
    place.script([calls(("bash", {"command": "echo > a"})), {"text": "done"}])
    with TerminalRun("ask", "--allow", "edit", "drop it", env=place.env(), cwd=place.folder, columns=200) as terminal:
        terminal.timeout = 10
        terminal.expect(re.escape(NAMED))
        terminal.expect("es")
        terminal.send("n\n")
        terminal.finish()
    assert not (place.folder / "a").exists()


@pytest.mark.matrix
def test_an_added_folder_is_covered_and_named_as_the_project_is(place: Stage) -> None:
    second = place.folder.parent / "second"
    second.mkdir()
    for name in ("its.txt", "mine.txt", "data.db"):
        (second / name).write_text("old\n")
    os.truncate(second / "data.db", 250_000_000)
    command = f"{WAITS}; rm ../second/its.txt"
    edit_during(place, command, ("../second/mine.txt", "mine\n"), options=("--add-dir", str(second)))
    done = place.run("undo", "--json")
    assert str(second / "its.txt") in done.result["restored"] and not done.result["not_covered"], done
    assert [one["path"] for one in done.result["kept"]] == [str(second / "mine.txt")]
