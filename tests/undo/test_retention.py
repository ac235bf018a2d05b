"""The copies are bounded: those of the oldest steps go first, and nothing that a newer step or a look names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from undo.test_looks import OWNER, followed, places_of
from undo.world import World

from nexus_cli.tree.byte_store import ByteStore
from nexus_cli.undo import retention
from nexus_cli.undo.follow_changes import ChangeJournal, StepOwner
from nexus_cli.undo.journal import read_steps
from nexus_cli.undo.plan_restore import NOT_KEPT
from nexus_cli.undo.retention import count_used, forget_session, trim_store


@pytest.fixture(autouse=True)
def all_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_GRACE_SECONDS", -1.0)


def remove_files(data: Path, root: Path, *names: str) -> None:
    """One step for each file of 100,000 bytes that is removed."""
    journal = ChangeJournal(data)
    for name in names:
        (root / name).write_bytes(os.urandom(100_000))
        with followed(journal, root):
            (root / name).unlink()
    journal.close()


def test_the_oldest_bytes_go_first(tmp_path: Path) -> None:
    root, data = places_of(tmp_path)
    remove_files(data, root, *"abcde")
    assert count_used(data) == 500_000
    trim_store(data, 250_000)
    assert count_used(data) == 200_000
    steps = read_steps(data, "session")
    assert [ByteStore(data).holds(step.changes[0].before.content) for step in steps] == [False] * 3 + [True] * 2


def test_what_a_running_process_has_looked_at_stays(tmp_path: Path) -> None:
    root, data = places_of(tmp_path)
    (root / "precious.txt").write_bytes(os.urandom(100_000))
    journal = ChangeJournal(data)
    begun = journal.begin(OWNER, "bash", "", root)
    trim_store(data, 0)
    (root / "precious.txt").unlink()
    journal.end(begun)
    (step,) = read_steps(data, "session")
    assert ByteStore(data).holds(step.changes[0].before.content)


@pytest.mark.matrix
def test_the_bound_holds_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, data = places_of(tmp_path)
    monkeypatch.setattr("nexus_cli.undo.follow_changes._TRIM", 100_000)
    journal = ChangeJournal(data, most=300_000)
    for number in range(20):
        (root / "a").write_bytes(os.urandom(50_000))
        with followed(journal, root):
            (root / "a").write_bytes(b"%d" % number)
    assert count_used(data) <= 500_000
    last = read_steps(data, "session")[-1].changes[0]
    assert ByteStore(data).holds(last.before.content)


def test_a_deleted_session_takes_its_bytes_along(tmp_path: Path) -> None:
    root, data = places_of(tmp_path)
    remove_files(data, root, "a", "b")
    forget_session(data, "session")
    assert count_used(data) == 0 and read_steps(data, "session") == []
    forget_session(data, "another")


def test_a_damaged_object_is_not_taken_for_the_file(tmp_path: Path) -> None:
    store = ByteStore(tmp_path)
    content = store.put(b"right")
    assert store.open(content).read() == b"right"
    next(tmp_path.glob("undo/objects/*/*")).write_bytes(b"wrong")
    for wrong in (content, "sha256:../../x", "git:abc", "link:1-2-3-4", ""):
        with pytest.raises(OSError):
            store.open(wrong)


def test_a_linked_file_that_is_written_in_place_is_lost_not_wrong(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"before")
    folder, store = os.open(tmp_path, os.O_RDONLY), ByteStore(tmp_path / "data")
    content = store.link(folder, "big", os.stat(tmp_path / "big"))
    assert store.open(content).read() == b"before" and count_used(tmp_path / "data") == 0
    (tmp_path / "big").write_bytes(b"after, in place")
    os.close(folder)
    assert not store.holds(content)
    with pytest.raises(OSError):
        store.open(content)


def test_what_a_redo_needs_stays(world: World) -> None:
    """The undo removed the only other copy; once it is redone, only the steps of the turn need their bytes."""
    world.turn(lambda: world.write("made", os.urandom(100_000)))
    world.turn(lambda: world.write("other", os.urandom(100_000)))
    world.undo(turn=1)
    trim_store(world.data, 0)
    assert count_used(world.data) == 100_000
    assert world.redo()["restored"] == ["made"]
    trim_store(world.data, 0)
    assert count_used(world.data) == 0


def test_what_an_ended_process_did_not_write_to_its_end_goes_after_a_day(world: World) -> None:
    world.store.put(b"kept")
    old, new = (world.store.objects / f".new-{name}" for name in ("old", "new"))
    for draft in (old, new):
        draft.write_bytes(b"half")
    os.utime(old, (1, 1))
    trim_store(world.data, 10**9)
    assert not old.exists() and new.exists() and count_used(world.data) == 4


@pytest.mark.parametrize("ending", ["touch -r .env big.bin", "touch -r .env big.bin; rm big.bin"])
def test_a_large_file_written_in_place_at_an_unchanged_time_is_told_not_restored_wrong(
    world: World, ending: str
) -> None:
    world.write(".env", "KEY=1\n")
    world.write("big.bin", bytes(6_000_000))
    os.utime(world.path("big.bin"), ns=(1, 10**18))
    os.utime(world.path(".env"), ns=(1, 10**18))
    world.turns = 1
    journal = ChangeJournal(world.data, most_file=5_000_000)
    begun = journal.begin(StepOwner(world.session, 1), "bash", "", world.project)
    line = f"printf wrong | dd of=big.bin conv=notrunc; {ending}"
    subprocess.run(["bash", "-c", line], cwd=world.project, check=True, capture_output=True)
    journal.end(begun)
    report = world.undo()
    assert [(one["path"], one["why"]) for one in report["kept"]] == [("big.bin", NOT_KEPT)] and not report["restored"]
