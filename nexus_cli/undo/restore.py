"""Carry out an undo: give paths their earlier states, and record that as a step, so that a redo can take it back.

What is about to be replaced is kept first, then the plan is written to the journal, then the files are written. An undo
that was killed or failed halfway is carried on by the next one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from nexus_cli.config.paths import folders_above
from nexus_cli.core.clock import utc_now
from nexus_cli.core.errors import DISK_FULL_ERRORS, reason_of
from nexus_cli.core.progress import track
from nexus_cli.core.real_files import open_folder
from nexus_cli.tree.byte_store import ByteStore, hash_file
from nexus_cli.tree.file_state import (
    ABSENT,
    ABSENT_PRESENT_STATE,
    ABSENT_STATE,
    BLOCKED,
    FILE,
    FOLDER,
    HARD_LINK,
    FileState,
    PresentState,
)
from nexus_cli.tree.write_state import (
    DRAFT_MODE,
    ChangedMeanwhileError,
    finish_folder,
    free_name,
    keep_bytes,
    look_at,
    make_folder,
    make_writable,
    remove_draft,
    remove_empty_folders,
    remove_folder,
    remove_path,
    write_state,
)
from nexus_cli.undo import plan_restore as plans
from nexus_cli.undo.journal import append_step, begin_step, disk_errors
from nexus_cli.undo.plan_references import TurnReference
from nexus_cli.undo.plan_restore import Action, state_of, unchanged
from nexus_cli.undo.read_content import ContentReader, merge_without_conflict, read_all
from nexus_cli.undo.records import FileChange, ReferenceChange, Step
from nexus_cli.undo.restore_references import put_references

COPY_SUFFIX = ".nexus-undo"
"""Ending of the name under which an earlier state is put beside a path that keeps its present one."""
MAX_SYNCED = 100
"""Most paths of an undo whose files are synced one by one: for thousands that would take half a minute."""
MAX_MERGED = 5_000_000
"""Most bytes of a text that is merged."""


@dataclass(frozen=True, slots=True)
class KeptPath:
    """A path that an undo left as it is."""

    path: str
    why: str
    aside: str | None = None
    """The path of a copy with the earlier content; null if there is no copy."""


@dataclass
class RestoreResult:
    """The result of an undo, by absolute path; that of a folder ends with `/`."""

    restored: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list[KeptPath] = field(default_factory=list)
    refused: dict[str, list[str]] = field(default_factory=dict)
    """By what was refused and why: the paths that were restored without it."""

    def add(self, place: str, before: str, after: str) -> None:
        """Add a path that is restored or removed, with its kinds before and after."""
        is_folder = FOLDER in (after, before if after == ABSENT else after)
        (self.removed if after == ABSENT else self.restored).append(f"{place}/" if is_folder else place)

    def settle(self, whole_folders: set[str]) -> None:
        """Leave out the created or removed folders of `whole_folders` that contain a reported path. Report what was
        refused, in one line for all paths."""
        for places in (self.restored, self.removed):
            above = {parent for place in places for parent in folders_above(place.rstrip("/"))} & whole_folders
            places[:] = [place for place in places if place.rstrip("/") not in above]
        above = {parent for kept_path in self.kept for parent in folders_above(kept_path.path)} & whole_folders
        self.kept[:] = [kept_path for kept_path in self.kept if kept_path.path not in above]
        for part, places in self.refused.items():
            more = f"; also {len(places) - 1:,} more" if places[1:] else ""
            self.kept.append(KeptPath(min(places), f"restored without {part}{more}"))

    references: list[tuple[str, ReferenceChange]] = field(default_factory=list)
    """Those that got an earlier value, each with its root."""


class Restorer:
    """One undo or redo. A context manager: it holds the roots open."""

    def __init__(self, data: Path, roots: Iterable[str]) -> None:
        self._data, self._store = data, ByteStore(data)
        self._root_paths = sorted(set(roots))
        self._roots: dict[str, int] = {}
        self._missing_roots: set[str] = set()
        """Roots that do not exist any more."""
        self._stack = ExitStack()
        self._present: dict[str, PresentState] = {}
        """The present states that a plan is made of."""
        self._kept_paths: dict[str, KeptPath] = {}
        """By the place of an earlier state that is put aside: the path that is kept."""
        self._beside: dict[str, str] = {}
        """By place: where its earlier state is put."""
        self._whole_folders: set[str] = set()
        """Folders that are made or removed."""
        self._links: dict[tuple[str, str], list[str]] = {}
        """By root and `FileState.pair`: the paths that become hard links to one file."""
        self.result = RestoreResult()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._reader = stack.enter_context(ContentReader(self._data))
            for root in self._root_paths:
                try:
                    self._roots[root] = stack.enter_context(open_folder(root))
                except FileNotFoundError:
                    self._missing_roots.add(root)
                except OSError:  # leads through a link now, or is none of ours: its paths are kept
                    continue
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # Planning

    def plan(self, changes: Sequence[FileChange]) -> list[Action]:
        """Return the actions for `changes`, with texts merged. Changes no file of the person. Raises `OSError` if the
        disk is full."""
        self._whole_folders = {change.place for change in changes if change.is_whole_folder}
        actions = plans.plan_restore(changes, self._look)
        return [self._merge(action) if action.does == plans.MERGE else action for action in actions]

    def preview(self, actions: Sequence[Action]) -> RestoreResult:
        """Return the result that carrying out `actions` would have."""
        restore_result = RestoreResult()
        for action in actions:
            place = action.change.place
            if action.does == plans.KEEP:
                beside = self._find_beside(action.change, action.now) if action.state else None
                aside = f"{action.change.root}/{beside}" if beside else None
                restore_result.kept.append(KeptPath(place, action.why, aside))
            elif action.does != plans.NOTHING:
                restore_result.add(place, action.now.kind, action.state.kind if action.state else ABSENT)
        restore_result.settle(self._whole_folders)
        return restore_result

    def _look(self, change: FileChange) -> PresentState:
        """Look at a path. One whose content cannot be compared is unchanged if its stamp is that of the journal."""
        if change.root not in self._roots:
            return ABSENT_PRESENT_STATE if change.root in self._missing_roots else PresentState(FileState(BLOCKED))
        contents, lists = (change.before.content, change.after.content), change.before.kind != FOLDER
        now = look_at(self._roots[change.root], change.path, contents, lists=lists)
        after = change.after.content
        is_same = now.kind == FILE and now.stamp[:3] == change.stamp
        if is_same and (not now.contents or not after or after.startswith(HARD_LINK)):
            now = replace(now, contents=now.contents | {after})
        links = {content for content in (change.before.content, after) if content.startswith(HARD_LINK)} - now.contents
        equal_links = {link for link in links if now.kind == FILE and self._is_copy(link, now)}
        return replace(now, contents=now.contents | equal_links) if equal_links else now

    def _is_copy(self, content: str, now: PresentState) -> bool:
        """Return True if a file has the bytes of a hard link in the store, as one that an undo restored has."""
        with suppress(OSError), self._store.open(content) as file:
            if os.fstat(file.fileno()).st_size == now.state.size:
                return hash_file(file) in now.contents
        return False

    def _merge(self, action: Action) -> Action:
        """Merge the earlier text into the present one. The texts are kept in the store."""
        change, state, merged = action.change, action.state, None
        if state is None:
            return action
        if action.now.state.size > MAX_MERGED:
            return replace(action, does=plans.KEEP)
        with suppress(ChangedMeanwhileError, FileNotFoundError, PermissionError):
            ours, _ = keep_bytes(self._roots[change.root], change.path, action.now, self._store)
            texts = [
                read_all(self._reader, change.root, content, MAX_MERGED)
                for content in (ours, change.after.content, state.content)
            ]
            if (data := [text for text in texts if text is not None])[2:]:
                merged = merge_without_conflict(data)
        if merged is None:
            return replace(action, does=plans.KEEP)
        result = replace(state, content=self._store.put(merged), size=len(merged))
        return replace(action, does=plans.RESTORE, state=result)

    # Carrying out

    def execute(
        self, actions: Sequence[Action], references: Sequence[TurnReference], step: Step, undone: Sequence[Step]
    ) -> None:
        """Carry out what is planned and record it in steps like `step`, one for each root, that undo the steps
        `undone`.

        If the disk is full, raises `OSError` before the first file is written, when nothing has changed; after it
        `NexusError`, and `resume` carries on.
        """
        changes: dict[str, list[FileChange]] = {}
        for action in track(actions, 0.4, 0.5):
            changes.setdefault(action.change.root, []).extend(self._prepare(action))
        steps = []
        undoes = tuple(undone_step.id for undone_step in undone)
        for number, root in enumerate(dict.fromkeys([*changes, *(reference.root for reference in references)]), 1):
            moved = tuple(reference.as_undone() for reference in references if reference.root == root)
            template = replace(step, changes=tuple(changes.get(root, ())), references=moved)
            steps.append(replace(template, id=f"{step.id}-{number}", root=root, undoes=undoes))
            begin_step(self._data, steps[-1])
        self._execute(steps)

    def resume(self, begun: Sequence[Step]) -> None:
        """Carry on undos that did not end. Raises as `execute`."""
        for step in begun:
            paths = {change.path for change in step.changes if change.before == change.after}
            for change in step.changes:
                self._whole_folders |= {change.place} if change.is_whole_folder else set()
                if step.root in self._roots and not plans.why_refused(change):
                    remove_draft(self._roots[step.root], change.path, _draft_name(step))
                path = change.path.partition(COPY_SUFFIX)[0]
                if change.path != path and path in paths:
                    kept_path = KeptPath(f"{step.root}/{path}", plans.CHANGED)
                    self._kept_paths[change.place] = kept_path
        self._execute(begun)

    def _prepare(self, action: Action) -> list[FileChange]:
        """Keep the bytes that an action replaces; return the changes that it makes."""
        change, now, state = action.change, action.now, action.state
        before = state_of(now)
        if action.does == plans.NOTHING:
            self._present[change.place] = now
            pair = state.pair if state is not None and now.kind == FILE else ""
            was_missing = change.before.kind == before.kind == ABSENT != change.after.kind
            unchanged_state = replace(before, pair=pair or before.pair)
            return [FileChange(change.path, before, unchanged_state, was_missing=was_missing)]
        if action.does != plans.KEEP:
            try:
                now, content = self._keep_bytes(change, now, state)
                self._present[change.place] = now
                before = replace(before, content=content)
                return [FileChange(change.path, before, state or ABSENT_STATE)]
            except (ChangedMeanwhileError, FileNotFoundError, PermissionError):
                action = replace(action, why=plans.CHANGED)
        kept_path = KeptPath(change.place, action.why)
        beside = self._find_beside(change, now) if state else None
        if state is None or beside is None:
            self.result.kept.append(kept_path)
            return [unchanged(change.path, now)]
        self._kept_paths[f"{change.root}/{beside}"] = kept_path
        self._present[f"{change.root}/{beside}"] = ABSENT_PRESENT_STATE
        return [unchanged(change.path, now), FileChange(beside, ABSENT_STATE, state)]

    def _keep_bytes(self, change: FileChange, now: PresentState, state: FileState | None) -> tuple[PresentState, str]:
        """Keep the bytes of a file, if `state` has others; return its present state and content. Raises as
        `keep_bytes`."""
        if now.kind != FILE or (state is not None and now.holds(state)):
            return now, state.content if state is not None and now.kind == FILE else ""
        root = self._roots[change.root]
        try:
            content, present = keep_bytes(root, change.path, now, self._store)
        except ChangedMeanwhileError:  # a hard link to it was kept, or somebody has touched it
            present = self._look(change)
            if not present.is_like(state_of(now)):
                raise
            content, present = keep_bytes(root, change.path, present, self._store)
        return present, content

    def _find_beside(self, change: FileChange, now: PresentState) -> str | None:
        """Return a free path for the earlier state of a path, None if there is no place for one.

        Where a link or a file is in the way, the files of the former folder get a folder beside it.
        """
        root = self._roots.get(change.root)
        if root is None:
            return None
        top = now.blocker or change.path
        try:
            if f"{change.root}/{top}" not in self._beside:
                self._beside[f"{change.root}/{top}"] = free_name(root, top, COPY_SUFFIX)
        except OSError:
            return None
        return self._beside[f"{change.root}/{top}"] + change.path[len(top) :]

    def _execute(self, steps: Sequence[Step]) -> None:
        """Make the planned changes of `steps`, and record those that were made."""
        for root in self._missing_roots.intersection(step.root for step in steps):
            with suppress(OSError):
                self._roots[root] = self._stack.enter_context(open_folder(root, create=True))
        for step in steps:
            for change in step.changes:
                if change.after.pair:
                    self._links.setdefault((step.root, change.after.pair), []).append(change.path)
                is_closed = ~change.before.mode & DRAFT_MODE
                if is_closed and change.before.kind == FOLDER != change.after.kind and not plans.why_refused(change):
                    with suppress(ChangedMeanwhileError, OSError, KeyError):  # its files can be removed then
                        make_writable(self._roots[step.root], change.path)
            with disk_errors("the undo or redo is not complete"):
                moved = tuple(put_references(step.root, step.references, self._store))
                self.result.references += [
                    (step.root, reference_change)
                    for reference_change in moved
                    if reference_change.before != reference_change.after
                ]
                changes = [
                    file_change for change in track(step.changes, 0.5) for file_change in self._make(step, change)
                ]
                changes = [file_change for change in reversed(changes) for file_change in self._finish(step, change)][
                    ::-1
                ]
                append_step(self._data, replace(step, changes=tuple(changes), references=moved, at=utc_now()))
        self.result.settle(self._whole_folders)

    def _make(self, step: Step, change: FileChange) -> list[FileChange]:
        """Make one planned change; return the changes that were made. A folder gets its rights later."""
        if change.before == change.after:
            return [change]
        place = change.place
        if why := plans.why_refused(change):
            self.result.kept.append(KeptPath(place, why))
            return []
        now, why = self._present.get(place), plans.CHANGED
        try:
            if step.root not in self._roots:
                raise ChangedMeanwhileError
            if change.after.kind == FOLDER:
                return self._make_folder(change, now)
            if change.before.kind == FOLDER and not remove_folder(self._roots[step.root], change.path):
                if change.after.kind != ABSENT:
                    raise ChangedMeanwhileError
                finish_folder(self._roots[step.root], change.path, change.before, change.before)
                return [FileChange(change.path, change.before, change.before)]
            if now is None or now.kind in (FOLDER, BLOCKED):
                now = self._look(change)
                is_gone = change.after.kind == ABSENT
                is_made = now.is_like(change.after) or (is_gone and now.kind in (BLOCKED, FOLDER))
                if is_made and (is_gone or change.before.pair == change.after.pair):  # by an undo that was killed
                    self._add_to_result(place, change)
                    return [change]
                if not is_made and not now.holds(ABSENT_STATE if change.before.kind == FOLDER else change.before):
                    raise ChangedMeanwhileError
            try:
                return [self._write(step, change, now)]
            except ChangedMeanwhileError:  # its time changes with its hard links too
                now = self._look(change)
                if not now.is_like(change.before):
                    raise
                return [self._write(step, change, now)]
        except ChangedMeanwhileError:
            with suppress(OSError):
                now = self._look(change)
        except OSError as error:
            if error.errno in DISK_FULL_ERRORS:
                raise
            why = reason_of(error).lower()
        return self._keep(step, change, now or plans.UNKNOWN, why)

    def _make_folder(self, change: FileChange, now: PresentState | None) -> list[FileChange]:
        """Make a folder, in place of a file that goes; `_finish` gives it its rights."""
        root = self._roots[change.root]
        if now is None or now.kind == BLOCKED:
            now = self._look(change)
        if now.kind not in (FOLDER, ABSENT):
            if not now.is_like(change.before):
                raise ChangedMeanwhileError
            remove_path(root, change.path, now)
        make_folder(root, change.path)
        return [change]

    def _finish(self, step: Step, change: FileChange) -> list[FileChange]:
        """Give a folder that was made, or has other rights now, its planned ones; return the change that was made."""
        if change.after.kind != FOLDER or change.before == change.after:
            return [change]
        place = change.place
        try:
            self._note_refused(place, finish_folder(self._roots[step.root], change.path, change.before, change.after))
        except (ChangedMeanwhileError, OSError) as error:
            why = str(getattr(error, "strerror", plans.CHANGED)).lower()
            return self._keep(step, change, PresentState(change.before), why)
        self._add_to_result(place, change)
        return [change]

    def _write(self, step: Step, change: FileChange, now: PresentState) -> FileChange:
        """Give a path its planned state; return the change with its stamp."""
        root, state, place = self._roots[step.root], change.after, change.place
        if state.kind == ABSENT:
            remove_path(root, change.path, now)
            remove_empty_folders(root, change.path, COPY_SUFFIX)
            self._add_to_result(place, change)
            return change
        twin = self._find_hard_link(step, change)
        is_linked = twin is not None and twin[1].file == now.file
        if is_linked or (twin is None and state.pair and now.is_like(state)):  # alone, or linked already
            return change
        with ExitStack() as stack:
            source = None
            if state.kind == FILE and twin is None and not (now.holds(state) and now.stamp[-1] == 1):
                try:
                    source = stack.enter_context(self._reader.open(step.root, state.content))
                except OSError as error:
                    raise FileNotFoundError(errno.ENOENT, plans.NOT_KEPT) from error
            status, refused = write_state(
                root, change.path, state, now, source, _draft_name(step), twin, synced=len(step.changes) <= MAX_SYNCED
            )
        self._note_refused(place, refused)
        self._add_to_result(place, change)
        return replace(change, stamp=(status.st_size, status.st_mtime_ns, status.st_ino))

    def _find_hard_link(self, step: Step, change: FileChange) -> tuple[str, PresentState] | None:
        """Return a path, with its state, that a planned file was a hard link of, and that is as planned by now."""
        pair = change.after.pair
        for path in (*self._links.get((step.root, pair), ()), pair) if pair else ():
            planned = FileChange(path, change.after, change.after, root=step.root)
            if path != change.path and not plans.why_refused(planned):
                with suppress(OSError):
                    now = self._look(planned)
                    if now.is_like(change.after):
                        return path, now
        return None

    def _note_refused(self, place: str, refused: Sequence[str]) -> None:
        for part in refused:
            self.result.refused.setdefault(part, []).append(place)

    def _add_to_result(self, place: str, change: FileChange) -> None:
        """Add a change that was made to the result."""
        if kept_path := self._kept_paths.get(place):
            self.result.kept.append(replace(kept_path, aside=place))
        else:
            self.result.add(place, change.before.kind, change.after.kind)

    def _keep(self, step: Step, change: FileChange, now: PresentState, why: str) -> list[FileChange]:
        """Put the planned state beside a path that turned out not to be as planned."""
        place = change.place
        earlier = self._kept_paths.get(place)
        kept_path = earlier or KeptPath(place, why)
        unchanged_path = [] if earlier else [unchanged(change.path, now)]
        beside = None if earlier or change.after.kind in (ABSENT, FOLDER) else self._find_beside(change, now)
        if beside is not None:
            aside = FileChange(beside, ABSENT_STATE, change.after, root=step.root)
            with suppress(ChangedMeanwhileError, OSError):
                self._kept_paths[aside.place] = kept_path
                return [*unchanged_path, self._write(step, aside, ABSENT_PRESENT_STATE)]
        self.result.kept.append(kept_path)
        return unchanged_path


def _draft_name(step: Step) -> str:
    return f".nexus-{step.id}"
