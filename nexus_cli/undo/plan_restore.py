"""Plan what an undo does to each path: compare its state before and after a turn with its present one.

Pure: the present states are given. A path that nobody changed since gets its earlier state back. What the person
changed since stays: merged with the earlier state where that works without a conflict, else with it beside. Mode,
owner, attributes and hard links are compared each by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from nexus_cli.config.paths import folders_above, is_below
from nexus_cli.core.errors import reason_of
from nexus_cli.core.grouping import group_pairs
from nexus_cli.core.progress import track
from nexus_cli.core.real_files import join_path
from nexus_cli.tree.file_state import (
    ABSENT,
    ABSENT_PRESENT_STATE,
    ABSENT_STATE,
    BLOCKED,
    FILE,
    FOLDER,
    SPECIAL,
    FileState,
    PresentState,
)
from nexus_cli.undo.records import GIT_FOLDER, FileChange, Step

CHANGED = "changed since"
BETWEEN = "changed by you or another program during the turn"
DELETED = "deleted since"
MOVED_IN = "an older file, which the command moved, copied or unpacked here"
UNSURE = "may be your own change, made during a command; to undo it too: `nexus undo --all` or `nexus undo PATH`"
NOT_KEPT = "no readable copy of the earlier content exists"
FOREIGN = "not a path inside the project"
IN_GIT = "a file in .git, which undo does not restore"
IN_THE_WAY = "a parent folder is now a link or a file"
NO_KIND = "a socket or a device, which cannot be restored"
NOTHING, RESTORE, MERGE, REMOVE, KEEP = "nothing", "restore", "merge", "remove", "keep"


UNKNOWN = PresentState(FileState(SPECIAL))


@dataclass(frozen=True, slots=True)
class Action:
    """The action of an undo on one path."""

    change: FileChange
    now: PresentState
    does: str
    """`nothing`, `restore`, `merge` (restore the merged text, `keep` on a conflict), `remove` or `keep`."""
    state: FileState | None = None
    """The state to restore or to merge; with `keep` the one to put beside, None if there is none; with `nothing` the
    present one, with the hard links of before."""
    why: str = ""
    """Why the path is kept."""


def merge_changes(steps: Iterable[Step]) -> list[FileChange]:
    """Return the change of each path from before the first of `steps` to after the last."""
    merged: dict[str, FileChange] = {}
    for change in (change for step in steps for change in step.changes):
        if first := merged.get(change.place):
            earlier, later = (change, first) if change.is_earlier else (first, change)
            is_broken = first.is_broken or not continues(earlier.after, later.before)
            change = replace(later, before=earlier.before, is_broken=is_broken, is_moved_in=earlier.is_moved_in)
        merged[change.place] = change
    return list(merged.values())


def find_changes(steps: Iterable[Step]) -> list[FileChange]:
    """Return the changes of `steps` for people: without folders that came or went with a path in them."""
    changes = [change for change in merge_changes(steps) if change.before != change.after]
    above = {place for change in changes for place in folders_above(change.place)}
    return [change for change in changes if not change.is_whole_folder or change.place not in above]


def continues(after: FileState, before: FileState) -> bool:
    """Return True if a state after one step can be the one before the next; blobs of git are compared by size."""
    if after.kind != FILE or before.kind != FILE:
        return (after.kind, after.target) == (before.kind, before.target)
    forms = {file_state.content.partition(":")[0] for file_state in (after, before)}
    return after.content == before.content if len(forms) == 1 else after.size == before.size


def why_refused(change: FileChange) -> str:
    """Return the reason that a path is never touched, whatever the journal says; "" if it may be."""
    parts = [*change.root.split("/")[1:], *change.path.split("/")]
    if not change.root.startswith("/") or "\0" in change.place or not {"", ".", ".."}.isdisjoint(parts):
        return FOREIGN
    return IN_GIT if any(part.casefold() == ".git" for part in parts) else ""


def plan_restore(changes: Sequence[FileChange], look: Callable[[FileChange], PresentState]) -> list[Action]:
    """Return an action for each change, in the order in which they are carried out.

    `look` returns the present state, and raises `OSError` if it cannot be read. Removals that make room for a restored
    path come first, the others last, so that a moved file is back before its copy goes.
    """
    plan = [_plan_path(change, look) for change in track(changes, 0.0, 0.4)]
    _note_links(plan, look)
    _plan_links(plan)
    going = {
        planned.change.place
        for planned in plan
        if planned.does == REMOVE or (planned.does == RESTORE and _is_folder(planned.state))
    }
    for index, action in enumerate(plan):
        change, above = action.change, {f"{action.change.root}/{action.now.blocker}"}
        if action.now is UNKNOWN and change.after.kind == ABSENT and not why_refused(change):
            above = set(folders_above(change.place))  # the turn may have closed the folder
        if action.now.kind in (BLOCKED, SPECIAL) and not going.isdisjoint(above):
            plan[index] = replace(_decide(change, ABSENT_PRESENT_STATE), now=PresentState(FileState(BLOCKED)))
    _keep_filled_folders(plan)
    coming = {planned.change.place for planned in plan if planned.does in (RESTORE, MERGE)}
    needed = {above for place in coming for above in folders_above(place)}

    def order(action: Action) -> tuple[int, int]:
        place = action.change.place
        if action.does != REMOVE:
            return (1, place.count("/")) if _is_folder(action.state) else (2, 0)
        makes_room = place in needed or not coming.isdisjoint(folders_above(place))
        return 0 if makes_room else 3, -place.count("/")

    return sorted(plan, key=order)


def _is_folder(state: FileState | None) -> bool:
    return state is not None and state.kind == FOLDER


def _note_links(plan: list[Action], look: Callable[[FileChange], PresentState]) -> None:
    """Decide again on paths that are hard links to one file now, by the names that share it."""
    paths = {action.change.place for action in plan}
    files = ((index, action) for index, action in enumerate(plan) if action.now.kind == FILE)
    shared = group_pairs(((action.change.root, action.now.file), index) for index, action in files)
    for group in shared.values():
        action = plan[group[0]]
        pair = min(plan[index].change.path for index in group) if group[1:] else ""
        linked = replace(action.change, path=action.change.after.pair)
        if action.now.stamp[-1] > len(group) and linked.place not in paths and not why_refused(linked):
            with suppress(OSError):
                pair = linked.path if look(linked).file == action.now.file else pair
        for index in group if pair else ():
            now = plan[index].now
            plan[index] = _decide(plan[index].change, replace(now, state=replace(now.state, pair=pair)))


def _plan_links(plan: list[Action]) -> None:
    """Restore files that are as they were except for their hard links: those that have to share a file with one that
    stays, or share one and must not."""
    paths = {action.change.place for action in plan}
    files: dict[tuple[str, str, str], tuple[int, ...]] = {}
    names: dict[tuple[str, tuple[int, ...]], tuple[str, str, str]] = {}
    for index, action in enumerate(plan):
        root, path, state = action.change.root, action.change.path, action.state
        if action.does != NOTHING or action.now.kind != FILE or state is None:
            continue
        name, file = (root, state.pair, "" if state.pair else path), action.now.file
        is_right = names.setdefault((root, file), name) == name and files.setdefault(name, file) == file
        pair = action.now.state.pair
        is_far = state.pair != pair and f"{root}/{state.pair or pair}" not in paths
        if not is_right or is_far:
            plan[index] = replace(action, does=RESTORE)


def _keep_filled_folders(plan: list[Action]) -> None:
    """Keep the folders of the turn in which something is left."""
    going = {action.change.place for action in plan if action.does == REMOVE}
    folders = [
        index
        for index, planned in enumerate(plan)
        if planned.now.kind == FOLDER and not _is_folder(planned.change.before)
    ]
    for index in sorted(folders, key=lambda index: -plan[index].change.place.count("/")):
        action, place = plan[index], plan[index].change.place
        if any(f"{place}/{name}" not in going for name in action.now.contents):
            going.discard(place)
            if action.does in (REMOVE, RESTORE):
                plan[index] = replace(action, does=NOTHING if action.does == REMOVE else KEEP)


def _plan_path(change: FileChange, look: Callable[[FileChange], PresentState]) -> Action:
    """Decide on one path, after looking at it; one that cannot be looked at is kept."""
    if os.path.basename(change.path) == GIT_FOLDER:  # put back as a whole, see `repository_copy`
        return Action(change, ABSENT_PRESENT_STATE, NOTHING)
    if why := why_refused(change):
        return Action(change, UNKNOWN, KEEP, why=why)
    if change.before == change.after:
        return Action(change, ABSENT_PRESENT_STATE, NOTHING)
    try:
        now = look(change)
    except OSError as error:
        return Action(change, UNKNOWN, KEEP, why=reason_of(error).lower())
    return _decide(change, now)


def _decide(change: FileChange, now: PresentState) -> Action:
    before, after, goal = change.before, change.after, _find_goal(change, now)
    if now.is_like(goal):
        return Action(change, now, NOTHING, goal)
    if before.kind == SPECIAL:
        return Action(change, now, KEEP, why=NO_KIND)
    if change.is_broken:
        return Action(change, now, KEEP, why=BETWEEN) if before.kind == ABSENT else _restore(change, now, KEEP, BETWEEN)
    if now.holds(after):
        if before.kind == ABSENT:
            if change.is_moved_in:
                return Action(change, now, KEEP, why=MOVED_IN)
            is_same = now.kind != FILE or now.state.mode == after.mode
            return Action(change, now, REMOVE if is_same else KEEP, why=CHANGED)
        return _restore(change, now, RESTORE)
    if before.kind == ABSENT:
        return Action(change, now, KEEP, why=IN_THE_WAY if now.kind == BLOCKED else CHANGED)
    if now.kind == after.kind == before.kind == FILE:
        return _restore(change, now, RESTORE if now.holds(before) else MERGE)
    why = IN_THE_WAY if now.kind == BLOCKED else DELETED if now.kind == ABSENT else CHANGED
    return _restore(change, now, KEEP, why)


def _find_goal(change: FileChange, now: PresentState) -> FileState:
    """Return the state before the turn; a mode, owner, attributes and hard links that the person set since stay."""
    before, after, present = change.before, change.after, now.state
    if not before.kind == after.kind == present.kind:
        return before
    names = ("mode", "owner", "attributes", "pair")
    return replace(
        before, **{name: own_value for name in names if (own_value := getattr(present, name)) != getattr(after, name)}
    )


def _restore(change: FileChange, now: PresentState, does: str, why: str = CHANGED) -> Action:
    """Return an action with the earlier state."""
    before = change.before
    if before.kind == FILE and not before.content and not now.holds(before):
        return Action(change, now, KEEP, why=NOT_KEPT)
    is_bare = does == KEEP and before.kind == FOLDER and FOLDER in (change.after.kind, now.kind)
    return Action(change, now, does, None if is_bare else _find_goal(change, now), why)


def state_of(now: PresentState) -> FileState:
    """Return a present state as the journal records it."""
    if now.kind == FILE:
        return replace(now.state, content=max(now.contents, default=""))
    return ABSENT_STATE if now.kind == BLOCKED else now.state


def unchanged(path: str, now: PresentState) -> FileChange:
    """Return the record of a path that an undo has considered and left as it is."""
    return FileChange(path, state_of(now), state_of(now))


def is_inside(place: str, paths: Sequence[str]) -> bool:
    """Return True if `place` is one of `paths` or below one; True without paths."""
    return not paths or is_below(place, *paths)


def find_paths(words: Sequence[str], folder: str) -> list[str]:
    """Return the absolute paths that a person may mean by `words` in `folder`: as written, and through links above
    the last name."""
    paths = [join_path(folder, word) for word in words]
    real = [os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for path in paths]
    return list(dict.fromkeys([*paths, *real]))
