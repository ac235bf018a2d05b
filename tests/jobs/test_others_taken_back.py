"""The job: "take back what the others did": workers in the same folder, a worktree that was applied, last night's run.

Who did it makes no difference to the person: `nexus undo` gives the folder back, and `nexus redo` what was taken back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from program.stage import Done, Stage, calls, stage
from programs import need
from project_files import commit_all
from search import sample
from undo.world import files, tree

from nexus_cli.ledger import Ledger

WORK: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "TASK wipe": [("bash", {"command": "sleep 0.5; rm notes.txt; echo 1 > one.txt; sleep 0.5"})],
    "TASK write": [
        ("write_file", {"path": "two.txt", "content": "two\n"}),
        ("bash", {"command": "echo more >> two.txt; echo mine >> .env"}),
        ("write_file", {"path": "three.txt", "content": "three\n"}),
    ],
    "TASK beside": [("bash", {"command": "echo changed >> app.py; echo new > beside.txt"})],
    "TASK night": [("bash", {"command": "rm .env; echo night > app.py"})],
}


def model(body: Any) -> dict[str, Any]:
    """Workers do their task one call after the other; the manager starts those that it is asked for."""
    messages = body["messages"]
    last = max(at for at, one in enumerate(messages) if one["role"] == "user")
    asked = str(messages[last]["content"])
    done = sum(one["role"] == "tool" for one in messages[last:])
    for task, steps in WORK.items():
        if asked.find(task) >= 0 and "MANAGE" not in asked:
            return calls(steps[done]) if done < len(steps) else {"text": "Done."}
    plans: dict[str, list[list[tuple[str, dict[str, Any]]]]] = {
        "MANAGE both": [[("agent", {"task": "TASK wipe"}), ("agent", {"task": "TASK write"})]],
        "MANAGE beside": [[("agent", {"task": "TASK beside", "worktree": True})]],
        "MANAGE apply": [
            [("agent", {"task": "TASK beside", "worktree": True})],
            [("agents", {"action": "apply", "agent": "w1"})],
        ],
    }
    steps_of = next((plan for words, plan in plans.items() if words in asked), [])
    at, count = 0, done
    while at < len(steps_of) and count >= len(steps_of[at]):
        count -= len(steps_of[at])
        at += 1
    return calls(*steps_of[at]) if at < len(steps_of) else {"text": "All is done."}


def own_files(folder: Path) -> dict[str, Any]:
    return {name: about for name, about in files(tree(folder)).items() if not name.startswith(".git/")}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, model) as made:
        folder = made.folder
        (folder / "app.py").write_text("x = 1\n")
        (folder / ".gitignore").write_text(".env\n")
        commit_all(folder)
        (folder / "notes.txt").write_text("only copy\n")
        (folder / ".env").write_text("KEY=1\n")
        yield made


def check_taken_back(place: Stage, work: Callable[[], Done], *undo: str) -> dict[str, Any]:
    """Let work happen; take it back, bring it back, and take it back again; return the first report."""
    before = own_files(place.folder)
    done = work()
    assert done.status == 0, done
    after = own_files(place.folder)
    assert before != after, done
    report = place.run("undo", *undo, "--json")
    assert report.status == 0, (report, done)
    journals = [one.read_text() for one in (place.nexus_home / "data/undo").glob("*.jsonl")]
    assert own_files(place.folder) == before, journals
    assert not report.result["kept"] and not report.result["unfollowed"], report
    assert place.run("redo", *undo[:2], "--json").status == 0 and own_files(place.folder) == after
    shown = place.run("diff", *undo[:2])
    assert shown.status == 0 and shown.text, shown
    assert place.run("undo", *undo, "--json").status == 0 and own_files(place.folder) == before
    return report.result


def test_workers_that_worked_in_the_folder_at_once(place: Stage) -> None:
    report = check_taken_back(place, lambda: place.ask("--allow", "all", "--json", "MANAGE both"))
    assert report["restored"] == [".env", "notes.txt"] and report["removed"] == ["one.txt", "three.txt", "two.txt"]


def test_a_worktree_that_the_model_applied(place: Stage) -> None:
    report = check_taken_back(place, lambda: place.ask("--allow", "all", "--json", "MANAGE apply"))
    assert "app.py" in report["restored"] and "beside.txt" in report["removed"]


def test_a_worktree_that_the_person_applied_in_the_shell(place: Stage) -> None:
    assert place.ask("--allow", "all", "--json", "MANAGE beside").status == 0
    (listed,) = place.run("worktree", "list", "--json").result["worktrees"]
    name = listed["name"]
    work = partial(place.run, "worktree", "apply", name)
    report = check_taken_back(place, work, "--session", f"worktree-{name}")
    assert report["restored"] == ["app.py"] and report["removed"] == ["beside.txt"]
    rows = [row["text"] for row in place.run("timeline", "--json").result["rows"] if row["kind"] == "files"]
    assert rows[0] == f"you applied the changes of worktree {name} to the project: app.py, beside.txt"
    of = f"the apply of worktree {name}: app.py, beside.txt"
    assert rows[1:] == [f"you undid {of}", f"you redid {of}", f"you undid {of}"]
    other = place.run("undo", "--session", "worktree-other", "--json")
    assert other.status == 2, other
    before = own_files(place.folder)
    assert work().status == place.run("worktree", "remove", name).status == 0
    told = place.run("undo")  # of the session, whose worker changed the removed folder
    way = f"to undo what was applied from it: nexus undo --session worktree-{name}"
    assert told.status == 1 and "Nothing undone: 1 kept." in told.text and way in " ".join(told.text.split()), told
    assert not told.told, "only where there is nothing to undo the session is named"
    assert not Path(listed["folder"]).exists()
    assert place.run("undo", "--session", f"worktree-{name}").status == 0 and own_files(place.folder) == before


@pytest.mark.parametrize("by", sample(["newest", "run", "session"], 3))
def test_a_run_that_nobody_watched(place: Stage, by: str) -> None:
    need("bwrap")
    added = place.run("schedule", "add", "TASK night", "--in", "1h", "--allow", "auto")
    assert added.status == 0, added
    with closing(Ledger.open(place.ledger)) as ledger:
        ledger.plans.change(1, next_at=time.time() - 1.0)
    before = own_files(place.folder)
    done = place.run("serve", "--once", "--json")
    assert done.status == 0, done
    (run,) = done.result["runs"]
    after = own_files(place.folder)
    assert after["app.py"][2] == b"night\n" and ".env" not in after
    shown = place.run("runs", "show", run["id"], "--json").result
    key = {"newest": (), "run": ("--session", run["id"]), "session": ("--session", shown["session"])}[by]
    report = place.run("undo", *key, "--json")
    assert report.status == 0 and report.result["restored"] == [".env", "app.py"], report
    assert own_files(place.folder) == before
    assert place.run("redo", *key, "--json").status == 0 and own_files(place.folder) == after
