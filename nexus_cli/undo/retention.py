"""Remove copies of files: above a number of bytes those of the oldest steps, and those of deleted sessions."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path

from nexus_cli.config.file_lock import FileLock
from nexus_cli.tree.byte_store import list_objects, used_bytes
from nexus_cli.undo.journal import journal_path, read_begun, read_steps
from nexus_cli.undo.repository_copy import count_copied_bytes, forget_copies, trim_copies
from nexus_cli.undo.saved_look import read_contents
from nexus_cli.undo.undone_steps import contents_of, needed_by_redo

_GRACE_SECONDS = 60.0
"""Seconds for which an object stays that no step names yet."""
_UNFINISHED_SECONDS = 86_400.0
"""Seconds after which an object that was not written to its end is removed."""
_ABANDONED_SECONDS = 30 * 86_400.0
"""Seconds after which what a killed process had looked at is removed, if its session was not resumed."""


def trim_store(data: Path, most: int, *, unnamed: bool = False) -> None:
    """Remove the bytes of the oldest steps until all take at most `most`; with `unnamed` also those of no step.

    What a running process or a redo may still need stays. Blocks; raises `OSError`.
    """
    _remove_lost(data / "undo" / "looks")
    for draft in (data / "undo" / "objects").glob(".new-*"):  # of a process that ended meanwhile
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime > _UNFINISHED_SECONDS:
                draft.unlink()
    objects = list_objects(data)
    total = used_bytes(status for _, status in objects.values())
    trim_copies(data, most - min(total, most))
    if unnamed:
        removed = (
            step for place in _journals(data) for read in (read_steps, read_begun) for step in read(data, place.stem)
        )
        forget_copies(data, {step.root for step in removed})
    if total <= most and not unnamed:
        return
    kept_names = read_contents((data / "undo" / "looks").glob("*.json"))
    journals = [read_steps(data, place.stem) for place in _journals(data)]
    kept_names |= {name for steps in journals for name in needed_by_redo(steps)}
    remaining = most - used_bytes(objects[name][1] for name in kept_names & objects.keys())
    steps = [step for journal in journals for step in journal]
    for step in sorted(steps, key=lambda candidate: candidate.at, reverse=True):
        states = [state for change in step.changes for state in (change.before, change.after)]
        names = ({state.content for state in states} | contents_of(step.references)) & objects.keys() - kept_names
        remaining -= used_bytes(objects[name][1] for name in names)
        if remaining < 0:
            break
        kept_names |= names
    for name in objects.keys() - kept_names:
        place, status = objects[name]
        if time.time() - status.st_ctime > _GRACE_SECONDS:
            place.unlink(missing_ok=True)


def forget_session(data: Path, session: str) -> None:
    """Remove journal and lock of a deleted session, and bytes that no other step names; may raise `OSError`."""
    place = journal_path(data, session)
    if place.exists():
        place.unlink()
        place.with_suffix(".lock").unlink(missing_ok=True)
        trim_store(data, sys.maxsize, unnamed=True)


def count_used(data: Path) -> int:
    """Return the bytes of all copies. Blocks."""
    return used_bytes(status for _, status in list_objects(data).values()) + count_copied_bytes(data)


def _journals(data: Path) -> list[Path]:
    return sorted((data / "undo").glob("*.jsonl"))


def _remove_lost(looks: Path) -> None:
    for place in looks.glob("*.lock"):
        if time.time() - place.stat().st_mtime > _ABANDONED_SECONDS and (lock := FileLock.take(place)):
            for file in looks.glob(f"{place.stem}[-.]*"):
                file.unlink(missing_ok=True)
            lock.release()
