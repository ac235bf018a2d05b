"""Plan what an undo does to each path: compare its state before and after a turn with its present one.

Pure: the present states are given. A path that nobody changed since gets its earlier state back. What the person
changed since stays: merged with the earlier state where that works without a conflict, else with it beside.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from nexus_cli.core.progress import track
from nexus_cli.undo.records import ABSENT, FILE, FOLDER, GIT_FOLDER, LINK, SPECIAL, FileChange, FileState, Step

CHANGED = "changed since"
BETWEEN = "changed by somebody else during the turn"
DELETED = "deleted since"
MOVED_IN = "older than the command, which moved, copied or unpacked it here"
UNSURE = "perhaps yours: it changed while a command ran; `nexus undo --all` or `nexus undo PATH` takes it back"
NOT_KEPT = "its earlier content was not kept"
FOREIGN = "not a path inside the project"
IN_GIT = "in .git, which undo never touches"
IN_THE_WAY = "a folder above it is now a link or a file"
NOTHING, RESTORE, MERGE, REMOVE, KEEP = "nothing", "restore", "merge", "remove", "keep"
BLOCKED = "blocked"
"""Kind of a path besides those of `FileState`: a link or a file is where a folder above it was."""
ABSENT_STATE = FileState(ABSENT)


@dataclass(frozen=True, slots=True)
class PathChange:
    """The change of one path by all steps of a turn."""

    root: str
    path: str
    """Relative to `root`."""
    before: FileState
    after: FileState
    stamp: tuple[int, int, int] = (0, 0, 0)
    """See `FileChange.stamp`."""
    is_broken: bool = False
    """True if something else changed the path between two of the steps."""
    is_moved_in: bool = False
    """See `FileChange.is_moved_in`."""

    @property
    def place(self) -> str:
        """Absolute path."""
        return f"{self.root}/{self.path}"


@dataclass(frozen=True, slots=True)
class PresentState:
    """A path as it is now."""

    kind: str
    mode: int = 0
    contents: frozenset[str] = frozenset()
    """The content of a file, in every form of `FileState.content` that is known of it."""
    size: int = 0
    target: str = ""
    stamp: tuple[int, ...] = ()
    """Inode, size, times and mode: changes with each write."""
    blocker: str = ""
    """Path, relative to the root, of what is where a `blocked` path has a folder."""

    def holds(self, state: FileState) -> bool:
        """Return True if kind, content and target are those of `state`; modes are not compared."""
        if self.kind != state.kind:
            return False
        return state.content in self.contents if self.kind == FILE else self.target == state.target


@dataclass(frozen=True, slots=True)
class Action:
    """The action of an undo on one path."""

    change: PathChange
    now: PresentState
    does: str
    """`nothing`, `restore`, `merge` (restore the merged text, `keep` on a conflict), `remove` or `keep`."""
    state: FileState | None = None
    """The state to restore or to merge; with `keep` the one to put beside, None if there is none."""
    why: str = ""
    """Why the path is kept."""


def merge_changes(steps: Iterable[Step]) -> list[PathChange]:
    """Return the change of each path from before the first of `steps` to after the last."""
    found: dict[str, PathChange] = {}
    for step in steps:
        for change in step.changes:
            one = PathChange(
                step.root, change.path, change.before, change.after, change.stamp, is_moved_in=change.is_moved_in
            )
            first = found.get(one.place)
            if first and change.is_earlier:
                is_broken = first.is_broken or not continues(change.after, first.before)
                one = replace(first, before=change.before, is_broken=is_broken, is_moved_in=change.is_moved_in)
            elif first:
                is_broken = first.is_broken or not continues(first.after, change.before)
                one = replace(one, before=first.before, is_broken=is_broken, is_moved_in=first.is_moved_in)
            found[one.place] = one
    return list(found.values())


def continues(after: FileState, before: FileState) -> bool:
    """Return True if a state after one step can be the one before the next; blobs of git are compared by size."""
    if after.kind != FILE or before.kind != FILE:
        return (after.kind, after.target) == (before.kind, before.target)
    forms = {one.content.partition(":")[0] for one in (after, before)}
    return after.content == before.content if len(forms) == 1 else after.size == before.size


def why_refused(change: PathChange) -> str:
    """Return the reason that a path is never touched, whatever the journal says; "" if it may be."""
    parts = [*change.root.split("/")[1:], *change.path.split("/")]
    if not change.root.startswith("/") or "\0" in change.place or not {"", ".", ".."}.isdisjoint(parts):
        return FOREIGN
    return IN_GIT if any(part.casefold() == ".git" for part in parts) else ""


def plan_restore(changes: Sequence[PathChange], look: Callable[[PathChange], PresentState]) -> list[Action]:
    """Return an action for each change, in the order in which they are carried out.

    `look` returns the present state, and raises `OSError` if it cannot be read. Removals that make room for a restored
    path come first, the others last, so that a moved file is back before its copy goes.
    """
    plan = [_plan_path(change, look) for change in track(changes, 0.0, 0.4)]
    going = {one.change.place for one in plan if one.does == REMOVE}
    for at, action in enumerate(plan):
        if action.now.kind == BLOCKED and f"{action.change.root}/{action.now.blocker}" in going:
            plan[at] = replace(_decide(action.change, PresentState(ABSENT)), now=action.now)
    coming = {one.change.place for one in plan if one.does in (RESTORE, MERGE)}
    needed = {above for place in coming for above in _folders_above(place)}

    def order(action: Action) -> tuple[int, int]:
        if action.does != REMOVE:
            return 1, 0
        place = action.change.place
        makes_room = place in needed or not coming.isdisjoint(_folders_above(place))
        return 0 if makes_room else 2, -place.count("/")

    return sorted(plan, key=order)


def _folders_above(place: str) -> list[str]:
    parts = place.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]


def _plan_path(change: PathChange, look: Callable[[PathChange], PresentState]) -> Action:
    """Decide on one path, after looking at it; one that cannot be looked at is kept."""
    if change.path == GIT_FOLDER:  # put back as a whole, see `repository_copy`
        return Action(change, PresentState(ABSENT), NOTHING)
    if why := why_refused(change):
        return Action(change, PresentState(SPECIAL), KEEP, why=why)
    if change.before == change.after:
        return Action(change, PresentState(ABSENT), NOTHING)
    try:
        now = look(change)
    except OSError as error:
        return Action(change, PresentState(SPECIAL), KEEP, why=(error.strerror or str(error)).lower())
    return _decide(change, now)


def _decide(change: PathChange, now: PresentState) -> Action:
    before, after = change.before, change.after
    if now.holds(before) and (now.kind != FILE or now.mode == before.mode):
        return Action(change, now, NOTHING)
    if change.is_broken:
        return Action(change, now, KEEP, why=BETWEEN) if before.kind == ABSENT else _restore(change, now, KEEP, BETWEEN)
    room = now.kind == FOLDER and after.kind == ABSENT  # a folder of the turn: it goes with its last file
    if now.holds(after) or room:
        if before.kind == ABSENT:
            if change.is_moved_in:
                return Action(change, now, KEEP, why=MOVED_IN)
            is_same = now.kind != FILE or now.mode == after.mode
            return Action(change, now, NOTHING if room else REMOVE if is_same else KEEP, why=CHANGED)
        return _restore(change, now, RESTORE)
    if before.kind == ABSENT:
        return Action(change, now, KEEP, why=IN_THE_WAY if now.kind == BLOCKED else CHANGED)
    if now.kind == after.kind == before.kind == FILE:
        if now.holds(before):  # only modes differ
            return _restore(change, now, RESTORE if now.mode == after.mode else NOTHING)
        return _restore(change, now, MERGE)
    why = IN_THE_WAY if now.kind == BLOCKED else DELETED if now.kind == ABSENT else CHANGED
    return _restore(change, now, KEEP, why)


def _restore(change: PathChange, now: PresentState, does: str, why: str = CHANGED) -> Action:
    """Return an action with the earlier state; a mode that the person set since stays."""
    before = change.before
    if before.kind == FILE and not before.content:
        return Action(change, now, KEEP, why=NOT_KEPT)
    if now.kind == change.after.kind == before.kind == FILE and now.mode != change.after.mode:
        before = replace(before, mode=now.mode)
    return Action(change, now, does, before, why)


def state_of(now: PresentState) -> FileState:
    """Return a present state as the journal records it; anything but a file or a link is recorded as `absent`."""
    if now.kind == FILE:
        return FileState(FILE, now.mode, next(iter(sorted(now.contents, reverse=True)), ""), now.size)
    return FileState(LINK, target=now.target) if now.kind == LINK else ABSENT_STATE


def unchanged(path: str, now: PresentState) -> FileChange:
    """Return the record of a path that an undo has considered and left as it is."""
    return FileChange(path, state_of(now), state_of(now))


def is_inside(place: str, paths: Sequence[str]) -> bool:
    """Return True if `place` is one of `paths` or below one; True without paths."""
    return not paths or any(place == path or place.startswith(f"{path.rstrip('/')}/") for path in paths)


def find_paths(words: Sequence[str], folder: str) -> list[str]:
    """Return the absolute paths that a person may mean by `words` in `folder`: as written, and through links above
    the last name."""
    found = [os.path.normpath(os.path.join(folder, word)) for word in words]
    real = [os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for path in found]
    return list(dict.fromkeys([*found, *real]))
