"""Find the changes between two looks that are not the work of the command that ran between them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from nexus_cli.undo.byte_store import ByteStore
from nexus_cli.undo.journal import read_steps_since
from nexus_cli.undo.plan_restore import continues
from nexus_cli.undo.project_look import Look
from nexus_cli.undo.read_content import blob_hash
from nexus_cli.undo.records import ABSENT, FILE, GIT, FileChange, FileState, Step

_FINE, _COARSE = 50_000_000, 2_000_000_000
"""Nanoseconds by which the times of a file system may be behind the clock, and those of one that has whole seconds."""


def mark_moved_in(changes: list[FileChange], before: Look, after: Look, store: ByteStore) -> list[FileChange]:
    """Return `changes` with those marked that brought an older, unfollowed file to a new path. Blocks."""
    old = {change.path for change in changes if _is_older(change, before, after)}
    if not old:
        return changes
    known = {_find_content(one.state) for one in before.seen.values()} - {(FILE, "")}
    blobs: dict[int, set[str]] = {}
    for one in before.tracked.values():
        if not one.is_read:
            blobs.setdefault(one.size, set()).add(one.oid)

    def is_known(state: FileState) -> bool:
        if _find_content(state) in known or state.content.startswith(GIT):
            return True
        oids = blobs.get(state.size, set()) if state.kind == FILE else set()
        with suppress(OSError):
            if oids:
                with store.open(state.content) as file:
                    return _hash_blob(file, state.size, len(next(iter(oids)))) in oids
        return False

    return [
        replace(change, is_moved_in=True) if change.path in old and not is_known(change.after) else change
        for change in changes
    ]


def drop_recorded(changes: list[FileChange], step: Step, data: Path) -> list[FileChange]:
    """Return `changes` without those that other calls, of any session, recorded since `step` began.

    Where the command changed a path before or after them, or both, these parts are left. Blocks; raises `OSError`.
    """
    if not changes:
        return changes
    recorded: dict[str, list[FileState]] = {}
    for other in read_steps_since(data, step.at):
        for one in other.changes if other.id != step.id else ():
            known = recorded.setdefault(f"{other.root}/{one.path}", [])
            at = 0 if one.is_earlier else len(known)
            known[at:at] = one.before, one.after
    found = []
    for change in changes:
        states = recorded.get(f"{step.root}/{change.path}")
        if states is None:
            found.append(change)
            continue
        if not any(_is_same(change.before, state) for state in states):
            found.append(replace(change, after=states[0], stamp=(0, 0, 0), is_earlier=True))
        if not _is_same(states[-1], change.after):
            found.append(replace(change, before=states[-1]))
    return found


def _is_same(one: FileState, other: FileState) -> bool:
    return continues(one, other) and one.mode == other.mode


def _is_older(change: FileChange, before: Look, after: Look) -> bool:
    new = after.seen.get(change.path)
    slack = _FINE if new is not None and new.stamp[1] % 1_000_000_000 else _COARSE
    return change.before.kind == ABSENT and new is not None and new.stamp[1] < before.at - slack


def _find_content(state: FileState) -> tuple[str, str]:
    """Return the kind and content of a file, or target of a link, which a copy shares."""
    return state.kind, state.content if state.kind == FILE else state.target


def _hash_blob(file: IO[bytes], size: int, oid_length: int) -> str:
    digest = blob_hash(size, oid_length)
    while piece := file.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()
