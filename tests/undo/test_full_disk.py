"""With a full disk no edit begins whose file could not be had back, and the person is told that the disk is full."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from undo.world import World

from nexus_cli.commands.forms import find_form
from nexus_cli.core.errors import NexusError
from nexus_cli.ledger.database import ledger_error
from nexus_cli.reports.turn_changes import count_turn
from nexus_cli.reports.turn_diff import turn_diff
from nexus_cli.tree.byte_store import ByteStore
from nexus_cli.undo import follow_changes, restore
from nexus_cli.undo.coverage import describe_uncovered
from nexus_cli.undo.follow_changes import ChangeJournal, StepOwner
from nexus_cli.undo.plan_restore import NOT_KEPT

Usage = namedtuple("Usage", "total used free")


def refuse(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("is_freed", [True, False])
def test_a_command_that_fills_the_disk_can_be_undone_when_it_is_free_again(
    world: World, monkeypatch: pytest.MonkeyPatch, is_freed: bool
) -> None:
    place, journal = world.write("a", "mine\n"), ChangeJournal(world.data)

    begun = journal.begin(StepOwner(world.session, 1), "bash", "c1", world.project)
    with monkeypatch.context() as patch:
        patch.setattr(follow_changes, "append_step", refuse)
        place.write_text("its\n")
        journal.end(begun)
        if not is_freed:
            journal.close()
    if is_freed:
        journal.close()
    world.turns = 1
    report = world.undo(turn=None if is_freed else 1)
    assert report["restored"] == ["a"] and place.read_text() == "mine\n"
    assert not list((world.data / "undo/looks").iterdir())


def test_a_command_that_cannot_be_written_down_is_named_as_not_covered_before_it_runs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, journal = world.write("a", "mine\n"), ChangeJournal(world.data)

    with monkeypatch.context() as patch:
        patch.setattr(follow_changes, "begin_step", refuse)
        begun = journal.begin(StepOwner(world.session, 1), "bash", "c1", world.project)
    told = describe_uncovered(begun.not_covered)
    assert told == "undo will not cover all of the project (this step cannot be recorded: No space left on device)"
    place.write_text("its\n")
    journal.end(begun)
    journal.close()
    world.turns = 1
    report = world.undo()
    assert report["restored"] == ["a"] and not report["not_covered"] and place.read_text() == "mine\n"


@pytest.mark.parametrize("is_kept", [True, False])
def test_what_a_command_wrote_to_files_that_cannot_be_copied_is_undone_by_what_was_kept_before(
    world: World, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    place, new, journal = world.write("a", "mine\n"), world.path("new"), ChangeJournal(world.data)
    world.turns = 1

    with monkeypatch.context() as patch:
        if not is_kept:
            patch.setattr(ByteStore, "put", refuse)
        begun = journal.begin(StepOwner(world.session, 1), "bash", "c1", world.project)
        patch.setattr(ByteStore, "put", refuse)
        place.write_text("its\n")
        new.write_text("new\n")
        journal.end(begun)
        journal.close()
    _, shown, unread = turn_diff(world.request())
    count = count_turn(world.data, world.session, 1, 5)
    report = world.undo()
    assert report["removed"] == ["new"] and "+new\n" in shown and count is not None
    if is_kept:
        assert report["restored"] == ["a"] and place.read_text() == "mine\n" and not unread and "-mine\n" in shown
        assert count.offer_undo(1) == "2 files (+2 -1)"
    else:
        assert [(one["path"], one["why"]) for one in report["kept"]] == [("a", NOT_KEPT)] and unread == ["a"]
        assert find_form("undo")(report, 30).splitlines()[-3:] == [
            "  kept      a (no readable",
            "  copy of the earlier content",
            "  exists)",
        ]
        assert count.offer_undo(1) == "2 files (+1 -0); /undo 1 cannot restore files whose earlier content was not kept"


def test_what_the_person_saved_since_a_command_is_not_taken_for_its_work(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, compare, journal = world.write("a", "mine\n"), follow_changes.compare_looks, ChangeJournal(world.data)

    def save_meanwhile(*looks: Any) -> Any:
        new = world.write("new", "ours\n")
        os.utime(new, ns=(new.stat().st_atime_ns, new.stat().st_mtime_ns + 1))
        return compare(*looks)

    begun = journal.begin(StepOwner(world.session, 1), "bash", "c1", world.project)
    with monkeypatch.context() as patch:
        patch.setattr(follow_changes, "compare_looks", save_meanwhile)
        patch.setattr(ByteStore, "put", refuse)
        place.write_text("its\n")
        world.write("new", "its.\n")
        journal.end(begun)
    world.turns = 1
    report = world.undo()
    assert report["restored"] == ["a"] and [one["path"] for one in report["kept"]] == ["new"]
    assert world.path("new").read_text() == "ours\n"


def test_a_redo_on_a_full_disk_says_that_nothing_was_redone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.turn(lambda: world.write("a", "its\n"))
    world.undo()
    monkeypatch.setattr(restore, "begin_step", refuse)
    with pytest.raises(NexusError, match="nothing was redone: no space left on device"):
        world.redo()
    assert not world.path("a").exists()


def test_an_edit_is_refused_if_its_file_cannot_be_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    place, new = world.write("notes.md", "the only copy\n"), world.path("new.md")
    journal = ChangeJournal(world.data)
    assert journal.find_unkept(journal.read_targets([place, new])) == ""

    monkeypatch.setattr(ByteStore, "put", refuse)
    assert journal.find_unkept(journal.read_targets([new])) == ""
    assert journal.find_unkept(journal.read_targets([place, new])).endswith(
        "(no space left on device). Free some space"
    )


@pytest.mark.parametrize(("free", "why"), [(0, "the disk is full"), (1 << 30, "the disk reported an error")])
def test_a_failed_write_on_a_full_disk_says_so(monkeypatch: pytest.MonkeyPatch, free: int, why: str) -> None:
    def usage(_: Path) -> Usage:
        return Usage(1, 1, free)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    assert ledger_error(error).why == why
