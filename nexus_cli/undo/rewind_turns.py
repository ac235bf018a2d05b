"""Find what the turns of a session changed, and which of them a rewind takes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.core.errors import UsageError
from nexus_cli.undo.follow_changes import KILLED, KILLED_MEANWHILE, settle_killed
from nexus_cli.undo.journal import read_steps
from nexus_cli.undo.plan_restore import find_changes
from nexus_cli.undo.records import FileChange
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


def changes_by_turn(data: Path, session: str) -> dict[int, TurnChanges]:
    """Return the changes of each turn that changed a file or a reference of git."""
    every = without_worktree_steps(read_steps(data, session), data)
    in_force = {turn for turn, steps in group_by_turn(steps_in_force(every)).items() if has_effect(steps)}
    by_turn = {}
    for turn, steps in group_by_turn(every).items():
        changes = find_changes(steps)
        was_killed = any(step.unfollowed in (KILLED, KILLED_MEANWHILE) for step in steps)
        if changes or was_killed or has_effect(steps):
            by_turn[turn] = TurnChanges(changes, turn in in_force, was_killed)
    return by_turn


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
