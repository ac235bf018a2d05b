"""Read from a session's steps which changes are in force, and what the next undo or redo takes back.

An undo is a step like any other, with the ids of the steps that it took back. A redo is an undo of an undo. A path of a
step is in force unless a later step that is in force took it back. One that an undo did not find, because it was moved
away, is in force again once it is there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from nexus_cli.config.paths import folders_above
from nexus_cli.core.grouping import group_pairs
from nexus_cli.undo.plan_references import merge_references
from nexus_cli.undo.plan_restore import is_inside, merge_changes
from nexus_cli.undo.records import GIT_FOLDER, MODE, ReferenceChange, Step

_OF_WORKER = re.compile(r"w\d[\d.]*: ")
"""Beginning of the name of a worker's step (`workers.py`)."""


def without_worktree_steps(steps: Sequence[Step], data: Path) -> list[Step]:
    """Return the steps without those of workers in their worktrees, in turns that changed anything else: what is in a
    worktree is applied again or removed as a whole, and an undo of its apply leaves it. A worktree in which the session
    works itself is no worker's."""
    worktrees = f"{os.path.realpath(data)}/worktrees/"
    own_roots = {step.root for step in steps if not (step.undoes or _OF_WORKER.match(step.what))}
    theirs = [step for step in steps if step.root.startswith(worktrees) and step.root not in own_roots]
    beside = {step.id for step in theirs if _OF_WORKER.match(step.what)}
    turns = {step.turn for step in steps if step.id not in beside and not step.undoes and has_effect([step])}
    return [step for step in steps if step.id not in beside or step.turn not in turns]


def steps_in_force(steps: Sequence[Step], paths: Sequence[str] = ()) -> list[Step]:
    """Return the steps with the changes in force, none that are empty; with absolute `paths` those of these, and of the
    folders above that were made or removed with them. References count as the `.git` of their repository, if `paths`
    name that itself."""
    undone: set[tuple[str, ...]] = set()
    in_force = []
    for step in reversed(steps):
        remaining = [(place, change) for change in step.changes if (step.id, place := change.place) not in undone]
        places = [place for place, change in remaining if not (change.was_missing and os.path.lexists(place))]
        undone.update((id_, place) for place in places for id_ in step.undoes)
        moved = tuple(
            reference
            for reference in step.references
            if (step.id, step.root, reference.repository, reference.name) not in undone
        )
        undone.update((id_, step.root, change.repository, change.name) for change in moved for id_ in step.undoes)
        inside = {place for place, _ in remaining if is_inside(place, paths)}
        above = {folder for place in (inside if paths else ()) for folder in folders_above(place)}
        changes = [
            change for place, change in remaining if place in inside or (place in above and change.is_whole_folder)
        ]
        repositories = {path.removesuffix(f"/{GIT_FOLDER}") for path in paths if path.endswith(f"/{GIT_FOLDER}")}
        moved = tuple(
            change for change in moved if not paths or f"{step.root}/{change.repository}".rstrip("/") in repositories
        )
        if changes or moved:
            in_force.append(replace(step, changes=tuple(changes), references=moved))
    return in_force[::-1]


def group_by_turn(steps: Iterable[Step]) -> dict[int, list[Step]]:
    """Return the steps of each turn, without those that undo others."""
    return group_pairs((step.turn, step) for step in steps if not step.undoes)


def newest_turn(steps: Iterable[Step]) -> int | None:
    """Return the newest turn of the steps in force that changed something, None if there is none."""
    return max((turn for turn, turn_steps in group_by_turn(steps).items() if has_effect(turn_steps)), default=None)


def newest_undo(every: Sequence[Step], in_force: Sequence[Step]) -> list[Step]:
    """Return the steps of the newest undo in force that changed something, one for each root, else []."""
    undone = {step.id for step in every if step.undoes}
    undos = (step for step in in_force if step.undoes and undone.isdisjoint(step.undoes))
    groups = group_pairs((step.id.rpartition("-")[0], step) for step in undos)
    return next((group for group in reversed(list(groups.values())) if has_effect(group)), [])


def needed_by_redo(every: Sequence[Step]) -> set[str]:
    """Return the contents that the undos in force removed or replaced: there may be no other copy."""
    undone = {step.id for step in every if step.undoes}
    undos = [step for step in steps_in_force(every) if step.undoes and undone.isdisjoint(step.undoes)]
    contents = {change.before.content for step in undos for change in step.changes if change.before != change.after}
    return contents | {content for step in undos for content in contents_of(step.references)}


def contents_of(references: Iterable[ReferenceChange]) -> set[str]:
    """Return the contents of the files of git's folder among `references`, as the byte store names them."""
    return {value.partition(MODE)[0] for reference in references for value in (reference.before, reference.after)}


def has_effect(steps: Sequence[Step]) -> bool:
    """Return True if a path or a reference is not after `steps` as it was before."""
    return any(change.before != change.after for change in merge_changes(steps)) or any(
        reference.is_change for reference in merge_references(steps)
    )
