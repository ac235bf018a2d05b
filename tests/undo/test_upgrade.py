"""What version 0.2 recorded is undone by this one, also in the middle of a session, or named as lost.

`version_0_2` has journals and a look as 0.2.0 wrote them, with ROOT for the project: 01OLD was killed in its third
turn, 01CUT in an undo.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from undo.test_only_copies import command
from undo.world import World, files, tree

from nexus_cli.undo.follow_changes import KILLED
from nexus_cli.undo.journal import read_begun
from nexus_cli.undo.retention import trim_store
from nexus_cli.undo.rewind_turns import changes_by_turn

WRITTEN = Path(__file__).parent / "version_0_2"
BEFORE = "git init -q -b main; echo tracked > t; mkdir d; echo in > d/f; git add -A; git commit -qm one; "
FIRST = "echo changed > u; rm -rf d t; echo new > n; "
SECOND = "git checkout -q -b feat; echo again > u; git add u; git commit -qm two; "


@pytest.fixture(autouse=True)
def author(monkeypatch: pytest.MonkeyPatch) -> None:
    """The author and the time of all commits, so that they have the names that the journals have."""
    for name in ("AUTHOR", "COMMITTER"):
        for key, value in (("NAME", "a"), ("EMAIL", "a@b"), ("DATE", "1700000000 +0000")):
            monkeypatch.setenv(f"GIT_{name}_{key}", value)


def upgraded(world: World, session: str, line: str) -> None:
    """Make the project by a line of the shell, and give the data folder what 0.2 left."""
    world.session = session
    subprocess.run(["sh", "-ec", line], cwd=world.project, check=True)
    for text in ("mine", "changed", "again", "new", *"12345"):
        world.store.put(f"{text}\n".encode())
    for place in WRITTEN.glob("*.json*"):
        folder = world.data / "undo" / ("looks" if place.suffix == ".json" else "")
        folder.mkdir(exist_ok=True)
        (folder / place.name).write_text(place.read_text().replace("ROOT", str(world.project)))


@pytest.mark.matrix
def test_turns_of_before_and_after_an_upgrade_are_taken_back(world: World) -> None:
    upgraded(world, "01OLD", f"{BEFORE} {FIRST} {SECOND}")
    before = files(tree(world.project))
    world.turns = 3
    command(world, "rm n; mkdir e; echo fourth > u")
    trim_store(world.data, 10**9, unnamed=True)
    assert set(changes_by_turn(world.data, "01OLD")) == {1, 2, 3, 4}
    report = world.undo()
    assert report["turn"] == 4 and not report["unfollowed"] and files(tree(world.project)) == before
    report = world.undo()
    assert report["turn"] == 2 and report["restored"] == ["u"] and not report["kept"]
    assert [KILLED in one for one in report["unfollowed"]] == [True]
    assert [one["name"] for one in report["references"] if one["restored"]] == ["HEAD"]
    head = subprocess.run(["git", "symbolic-ref", "HEAD"], cwd=world.project, capture_output=True, check=True)
    assert head.stdout == b"refs/heads/main\n" and world.path("u").read_text() == "changed\n"
    report = world.undo()
    assert report["turn"] == 1 and report["restored"] == ["d/f", "l", "t", "u"] and report["removed"] == ["n"]
    assert [world.path(name).read_text() for name in ("d/f", "l", "t", "u")] == [
        "in\n",
        "mine\n",
        "tracked\n",
        "mine\n",
    ]
    assert world.undo()["turn"] is None and not read_begun(world.data, "01OLD")
    assert world.redo()["turn"] == 1 and world.path("u").read_text() == "changed\n" and not world.path("t").exists()


@pytest.mark.matrix
def test_what_a_later_version_recorded_is_undone_as_far_as_it_is_known(world: World) -> None:
    subprocess.run(["sh", "-ec", BEFORE], cwd=world.project, check=True)
    before = files(tree(world.project))
    command(world, "rm t; git branch feat")
    journal = world.data / "undo" / f"{world.session}.jsonl"
    row = json.loads(journal.read_text().splitlines()[-1])
    (change,), (reference,) = row["changes"], row["references"]
    for one in (row, change, change["before"], reference):
        one["later"] = 1
    journal.write_text(f"{json.dumps(row)}\n")
    report = world.undo()
    assert report["restored"] == ["t"] and files(tree(world.project)) == before
    assert [one["name"] for one in report["references"]] == ["refs/heads/feat"]


def test_an_undo_that_was_cut_short_before_an_upgrade_is_completed(world: World) -> None:
    upgraded(world, "01CUT", "echo 1 > a; echo 4 > c; echo 5 > e; echo half > .nexus-undo.99b4399bfb6338a8-1")
    world.turns = 1
    report = world.undo()
    assert report["turn"] == 1 and not report["kept"] and not report["unfollowed"]
    assert {name: about[2] for name, about in files(tree(world.project)).items()} == {
        "a": b"1\n",
        "b": b"2\n",
        "c": b"3\n",
    }
    assert world.redo()["turn"] == 1 and [path.name for path in sorted(world.project.iterdir())] == ["c", "e"]
