"""Find what the turns of a session changed, and which of them a rewind takes back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.core.errors import UsageError
from nexus_cli.undo.follow_changes import KILLED, KILLED_MEANWHILE, settle_killed
from nexus_cli.undo.journal import read_steps
from nexus_cli.undo.plan_references import merge_references
from nexus_cli.undo.plan_restore import NOTHING, find_changes, plan_restore
from nexus_cli.undo.records import GIT_FOLDER, FileChange, Step
from nexus_cli.undo.restore import Restorer
from nexus_cli.undo.undone_steps import group_by_turn, has_effect, steps_in_force, without_worktree_steps


@dataclass(frozen=True, slots=True)
class TurnChanges:
    """The changes of one turn."""

    changes: Sequence[FileChange]
    """All of files, also those that were undone; none if only references of git changed."""
    in_force: bool
    """False once all of them were undone."""
    was_killed: bool
    """True if nexus was killed in it; `changes` may then be unknown."""


def changes_by_turn(data: Path, session: str, *, looks: bool = False) -> dict[int, TurnChanges]:
    """Return the changes of each turn that changed a file or a reference of git. With `looks` those of a turn whose
    files are as they were before count as undone. Blocks."""
    every = without_worktree_steps(read_steps(data, session), data)
    in_force = {turn for turn, steps in group_by_turn(steps_in_force(every)).items() if has_effect(steps)}
    by_turn = {}
    for turn, steps in group_by_turn(every).items():
        changes = find_changes(steps)
        was_killed = any(step.unfollowed in (KILLED, KILLED_MEANWHILE) for step in steps)
        if changes or was_killed or has_effect(steps):
            is_undone = turn not in in_force or (looks and not was_killed and _are_put_back(data, steps, changes))
            by_turn[turn] = TurnChanges(changes, not is_undone, was_killed)
    return by_turn


def _are_put_back(data: Path, steps: Sequence[Step], changes: Sequence[FileChange]) -> bool:
    """Return True if there are `changes`, and each path is as it was before, as `git checkout .` leaves it; False if
    the turn changed a repository or a reference, which are not compared."""
    has_git = any(reference.is_change for reference in merge_references(steps))
    if has_git or any(os.path.basename(change.path) == GIT_FOLDER for change in changes):
        return False
    with Restorer(data, {change.root for change in changes}) as restorer:
        return bool(changes) and all(plan_restore([change], restorer.look)[0].does == NOTHING for change in changes)


def find_turns(data: Path, session: str, first: int) -> list[int]:
    """Return the turns from `first` in force, newest first; raise `NexusError` if nexus was killed in one."""
    settle_killed(data, session)
    turns = group_by_turn(steps_in_force(without_worktree_steps(read_steps(data, session), data)))
    selected = sorted((turn for turn, steps in turns.items() if turn >= first and has_effect(steps)), reverse=True)
    for turn in selected:
        if any(step.unfollowed == KILLED_MEANWHILE and not step.is_unsure for step in turns[turn]):
            hint = f"/diff {turn} shows these changes, and /undo {turn} undoes all of them. Then repeat /rewind"
            raise UsageError(f"turn {turn}", KILLED_MEANWHILE, hint)
    return selected
