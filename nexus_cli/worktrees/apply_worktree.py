"""Bring the changes of a worktree to the project that it was made of: a three-way merge of each file, on its bytes.

The base is the state that was applied last, at first the carried-over one. Only files are written, never the index. A
file that both sides changed is merged; a conflict in a text is marked in the file. A path that cannot be merged stays
as the person has it and is reported. Everything is computed before the first file is written.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Literal

from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.worktree_record import WorktreeRecord, read_record
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonOf, to_json_value
from nexus_cli.core.real_files import list_folder, open_folder, open_real
from nexus_cli.sandbox.own_git import GitError, failure, merge_texts
from nexus_cli.tree import file_state
from nexus_cli.tree.blob_hash import blob_id
from nexus_cli.tree.file_state import (
    BLOCKED,
    FILE,
    FOLDER,
    SPECIAL,
    FileState,
    PresentState,
)
from nexus_cli.tree.write_state import (
    ChangedMeanwhileError,
    look_at,
    remove_empty_folders,
    remove_path,
    write_state,
)
from nexus_cli.worktrees.inspect_worktree import open_store, save_state
from nexus_cli.worktrees.own_repository import find_git
from nexus_cli.worktrees.project_files import is_taken_back, read_file
from nexus_cli.worktrees.snapshot_store import (
    EXECUTABLE,
    LINK,
    MISSING,
    NO_FILE,
    BlobReader,
    SnapshotStore,
    TreeChange,
    TreeFile,
)
from nexus_cli.worktrees.worktrees import compare_states, require_folder

_CHANGED = "the worktree has changed since you reviewed it"
_FAILED = 128
"""`git merge-file` exits with at least this status on errors, below it with the number of conflicts."""


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """A path that could not be merged."""

    path: str
    why: str
    is_marked: bool
    """True if both versions are in the file, with markers; else the project's is untouched."""


@dataclass
class ApplyResult:
    """The outcome for each change of a worktree."""

    written: list[str] = field(default_factory=list)
    """Paths that were written or deleted."""
    there: list[str] = field(default_factory=list)
    """Paths whose project file already equals the one in the worktree."""
    conflicts: list[MergeConflict] = field(default_factory=list)
    nothing_new: bool = False
    """True if every change was applied before."""

    def to_json(self, record: WorktreeRecord) -> AppliedWorktree:
        return AppliedWorktree(version=1, name=record.name, folder=str(record.folder), **to_json_value(self))


class AppliedWorktree(JsonOf[ApplyResult]):
    """The result of an apply."""

    version: Literal[1]
    name: str
    folder: str


@dataclass(frozen=True, slots=True)
class _Step:
    """One change and the way to apply it."""

    change: TreeChange
    present: TreeFile
    """The file at its path when the step was planned."""
    seen_before: TreeFile
    """The file at the path before a rename, when the step was planned."""
    result: TreeFile
    """The file after the step; its blob is "" for a merged text."""
    origin: PresentState
    """The project's file that is changed or moved: its rights stay."""
    merged: bytes | None = None
    """The merged text."""
    conflict: str = ""
    is_marked: bool = False
    is_there: bool = False

    @property
    def writes(self) -> bool:
        """True if something is written or deleted, where it is not there."""
        return not self.conflict or self.is_marked


@dataclass(frozen=True, slots=True)
class UnappliedChanges:
    """The changes that applying a worktree would make in its project."""

    tree: str
    """The state of the worktree."""
    paths: list[str]
    """The paths that would be written or deleted, relative to the project."""
    links: dict[str, str]
    """The targets of the links among them."""


def list_unapplied(record: WorktreeRecord) -> UnappliedChanges:
    """Return the changes that applying a worktree would make. Raises `NexusError`."""
    links = {}
    with compare_states(record) as store:
        tree = save_state(record)
        changes = _list_changes(record, store, tree)
        with store.open_blobs() as blobs:
            for change in changes:
                if change.new.mode == LINK:
                    links[os.fsdecode(change.path)] = os.fsdecode(blobs.read(change.new.blob))
    paths = {os.fsdecode(path) for change in changes for path in (change.path, change.before)}
    return UnappliedChanges(tree, sorted(paths), links)


def _list_changes(record: WorktreeRecord, store: SnapshotStore, tree: str) -> list[TreeChange]:
    """Return the changes since the last apply; if there are none, the applied ones that the project took back."""
    if tree != record.applied:
        return store.changes(record.applied, tree)
    return [change for change in store.changes(record.base, tree) if is_taken_back(record, change)]


def apply_worktree(record: WorktreeRecord, *, reviewed: str = "") -> ApplyResult:
    """Apply the new changes of a worktree to its source project, and record them. Raises `NexusError`, also if the
    worktree is no longer in the `reviewed` state, or other changes of it were applied since `record` was read.

    Files that were written before an error stay written, and are recorded as applied.
    """
    require_folder(record)
    if not record.source.is_dir():
        raise _refusal(
            record, f"the project no longer exists: {record.source}", "To see its changes: nexus worktree diff"
        )
    try:
        with FileLock.wait(record.home / "apply.lock"), FileLock.wait(record.lock, shared=True):
            now = read_record(record.folder) or record
            if reviewed and now.applied != record.applied:
                raise _refusal(record, _CHANGED, "Review the worktree again")
            return _apply(now, reviewed)
    except (GitError, OSError) as error:
        hint = f"Files that were already written are kept. To retry: nexus worktree apply {record.name}"
        raise failure(f"worktree {record.name} cannot be applied", error, hint) from error


def _apply(record: WorktreeRecord, reviewed: str) -> ApplyResult:
    store = open_store(record)
    tree = save_state(record)
    if reviewed not in ("", tree):
        raise _refusal(record, _CHANGED, "Review the worktree again")
    if list_folder(record.folder) in ([], [".git"]) and store.list_base():
        hint = f"To remove it: nexus worktree remove {record.name} --force"
        raise _refusal(
            record,
            "the worktree is empty; applying it would delete every project file that was copied into it",
            hint,
        )
    changes = _list_changes(record, store, tree)
    result = ApplyResult(nothing_new=not changes)
    if result.nothing_new:
        return result
    store.hold(tree, record.start)
    taken_steps: list[_Step] = []
    with store.open_blobs() as blobs:
        planner = _Planner(record, blobs)
        steps = [planner.plan(change) for change in planner.split_renames(changes)]
        # Steps that come first move files out of the way of the others; deletions make room for the rest.
        steps.sort(key=lambda step: 2 if step.present.mode in (FOLDER, BLOCKED) else step.result.mode == MISSING)
        try:
            for step in steps:
                if _take_step(planner, step, blobs, result):
                    taken_steps.append(step)
        finally:
            _record_applied(record, store, tree, taken_steps, is_whole=len(taken_steps) == len(steps))
    result.written.sort()
    result.conflicts.sort(key=lambda conflict: conflict.path)
    return result


def _refusal(record: WorktreeRecord, why: str, hint: str) -> NexusError:
    return UsageError(f"worktree {record.name} cannot be applied", why, hint)


def _record_applied(
    record: WorktreeRecord, store: SnapshotStore, tree: str, taken_steps: list[_Step], *, is_whole: bool
) -> None:
    """Record the changes that the project has now: all of `tree`, or the earlier ones and those of `taken_steps`."""
    applied = tree
    if not is_whole:
        changes = [step.change for step in taken_steps]
        entries = [(change.new.mode, change.new.blob, change.path) for change in changes]
        entries += [(MISSING, "", change.before) for change in changes if change.before != change.path]
        applied = store.replace_paths(record.applied, entries)
        store.hold(applied, record.start)
    merged = dict(record.merged)
    for step in taken_steps:
        if step.merged is not None:
            path = os.fsdecode(step.change.before)
            merged[path] = f"{merged.get(path, '')} {step.seen_before.blob}"
    replace(record, applied=applied, merged=merged).save()


class _Planner:
    """Plans each change."""

    def __init__(self, record: WorktreeRecord, blobs: BlobReader) -> None:
        self.root = record.source
        self.record = record
        self._blobs = blobs
        self._label = f"worktree {record.name}"
        self._length = len(record.base)
        self._git = find_git(record.source)
        self._origins: dict[bytes, PresentState] = {}
        """By the new path of a file that is moved: the state of the project's file."""

    def look(self, path: bytes) -> TreeFile:
        return read_file(self.root, path, self._length)

    def split_renames(self, changes: Iterable[TreeChange]) -> Iterator[TreeChange]:
        """Yield the changes; a rename of a file that the project has not changed is a deletion and a new file."""
        for change in changes:
            if self._is_free_rename(change):
                self._origins[change.path] = self.look(change.before).now
                yield TreeChange(change.before, change.before, change.old, NO_FILE)
                yield TreeChange(change.path, change.path, NO_FILE, change.new)
            else:
                yield change

    def _is_free_rename(self, change: TreeChange) -> bool:
        """True if a rename can be a move: the project's file is unchanged, and the new path is or will be free."""
        before = self.look(change.before)
        if change.before == change.path or before != change.old:
            return False
        inside = change.path.startswith(change.before + b"/") or change.before.startswith(change.path + b"/")
        target = self.look(change.path)
        # Equal stamps mean one file with two names, as on a case-insensitive disk: deleting it deletes both.
        return inside or (target in (NO_FILE, change.new) and target.now.stamp != before.now.stamp)

    def plan(self, change: TreeChange) -> _Step:
        present = self.look(change.path)
        before = self.look(change.before) if change.before != change.path else present
        base, new = change.old, change.new
        step = _Step(change, present, before, new, origin=self._origins.get(change.path, before.now))
        if b".git" in change.path.lower().split(b"/"):
            return replace(step, conflict="a path in .git")
        if present == new and (before is present or before == NO_FILE):
            return replace(step, is_there=True)
        if before is not present:
            if present != NO_FILE:
                return replace(step, conflict="renamed to a path that exists with different content")
            return self._merge(step, before, base, new)
        if present.mode in (FOLDER, BLOCKED) and base == NO_FILE:
            return step  # the path in the way may be deleted by an earlier step: looked at again then
        return self._merge(step, present, base, new)

    def _merge(self, step: _Step, ours: TreeFile, base: TreeFile, new: TreeFile) -> _Step:
        if ours == base:
            return step
        why = _describe_clash(ours, base, new)
        if why:
            return replace(step, conflict=why)
        mode = new.mode if ours.mode == base.mode else ours.mode
        if new.blob in (base.blob, ours.blob):
            return replace(step, result=TreeFile(mode, ours.blob))
        if ours.blob == base.blob:
            return replace(step, result=TreeFile(mode, new.blob))
        merged, conflicts = self._merge_text(step, ours, base, new)
        if merged is None:
            return replace(
                step, conflict="resolve the conflict markers in the file first, then apply the worktree again"
            )
        if conflicts >= _FAILED:
            return replace(step, conflict="a binary file that changed in both")
        why = f"{plural(conflicts, 'conflict')} marked in the file" if conflicts else ""
        return replace(step, result=TreeFile(mode), merged=merged, conflict=why, is_marked=bool(conflicts))

    def _merge_text(self, step: _Step, ours: TreeFile, base: TreeFile, new: TreeFile) -> tuple[bytes | None, int]:
        """Merge three texts; return the result, None if the project's has markers of an earlier merge, with the number
        of conflicts: at least `_FAILED` if one of the texts is none."""
        with open_real(self.root / os.fsdecode(step.change.before)) as file:
            own_content = file.read()
        if blob_id(own_content, self._length) != ours.blob:
            raise OSError(errno.EBUSY, "changed meanwhile", os.fsdecode(step.change.before))
        if f"\n>>>>>>> {self._label}\n".encode() in b"\n" + own_content:
            return None, 0
        texts = (own_content, self._blobs.read(base.blob), self._blobs.read(new.blob))
        options = (word for label in ("yours", "before", self._label) for word in ("-L", label))
        conflicts, merged = merge_texts(self._git, texts, *options, folder=self.record.home)
        return merged, conflicts


def _describe_clash(ours: TreeFile, base: TreeFile, new: TreeFile) -> str:
    """Return the reason that three states of a file cannot be merged by content, "" if they can."""
    in_place = {
        FOLDER: "a folder now has this name",
        BLOCKED: "a link or a file has replaced its folder",
        SPECIAL: "a device, pipe or socket now has its name",
    }
    if ours.mode in in_place:
        return in_place[ours.mode]
    if base == NO_FILE:
        return "new in both, with different content"
    if new == NO_FILE:
        return "deleted in the worktree, changed in the project"
    if ours == NO_FILE:
        return "changed in the worktree, deleted or moved in the project"
    return "changed in both, and links cannot be merged" if LINK in (ours.mode, base.mode, new.mode) else ""


def _take_step(planner: _Planner, step: _Step, blobs: BlobReader, result: ApplyResult) -> bool:
    """Apply a step, unless its file changed since, and note the outcome; True if the project has the change."""
    name = os.fsdecode(step.change.path)
    path = step.change.path
    conflict = step.conflict
    if step.is_there:
        result.there.append(name)
        return True
    if step.writes:
        now = planner.look(path)
        if now != step.present and not (step.present.mode in (FOLDER, BLOCKED) and now == NO_FILE):
            conflict = "changed in the project meanwhile"
        elif now.mode in (FOLDER, BLOCKED):
            conflict = _describe_clash(now, NO_FILE, step.result)
        elif not _write_result(planner.record, step, now.now, blobs):
            conflict = "changed in the project meanwhile"
        else:
            result.written.append(name)
    marked = step.is_marked and conflict == step.conflict
    if conflict:
        result.conflicts.append(MergeConflict(name, conflict, marked))
    if marked or not conflict:
        if step.change.before != path and (before := planner.look(step.change.before)) == step.seen_before:
            _delete_file(planner.root, os.fsdecode(step.change.before), before.now)
        return True
    return False


def _make_state(record: WorktreeRecord, step: _Step, now: PresentState, root: int) -> FileState:
    """Return the state of a file after a step: the rights of the one that it replaces, or that moves there, but the
    executable bit of git.

    A new file has the rights that its file in the worktree has too, as a key has few; no others may write it.
    """
    is_program = step.result.mode == EXECUTABLE
    if (former := now if now.kind == FILE else step.origin).kind == FILE:
        mode = former.state.mode
        if is_program and not mode & stat.S_IXUSR:
            mode |= (mode & 0o444) >> 2
        return replace(former.state, mode=mode if is_program else mode & ~0o111)
    path, mode, owner = os.fsdecode(step.change.path), 0o755, ""
    with suppress(OSError), open_folder(record.folder) as folder:
        in_worktree = look_at(folder, path, ()).state
        mode = in_worktree.mode & 0o775 if in_worktree.kind == FILE else mode
    with suppress(OSError), open_folder(os.path.dirname(path), inside=root) as above:
        status = os.stat(above)
        owner = f"{os.geteuid()}:{status.st_gid}" if status.st_mode & stat.S_ISGID else ""
    mode = (mode if is_program else mode & ~0o111) | stat.S_IRUSR | stat.S_IWUSR
    return FileState(FILE, mode, owner=owner)


def _write_result(record: WorktreeRecord, step: _Step, now: PresentState, blobs: BlobReader) -> bool:
    """Write, link, delete or change the mode of one file, atomically. Return False without a change unless it is still
    as `now`."""
    path = os.fsdecode(step.change.path)
    if step.result.mode == MISSING:
        return _delete_file(record.source, path, now)
    with open_folder(record.source) as root, _open_result(record, step, blobs) as source:
        if step.result.mode == LINK:
            state = FileState(file_state.LINK, target=os.fsdecode(source.read()))
        else:
            state = _make_state(record, step, now, root)
        try:
            write_state(root, path, state, now, source)
        except ChangedMeanwhileError:
            return False
    return True


@contextmanager
def _open_result(record: WorktreeRecord, step: _Step, blobs: BlobReader) -> Iterator[IO[bytes]]:
    """Open the new content: the merged text, the worktree's, or the project's own if only mode or name change."""
    if step.merged is not None:
        yield io.BytesIO(step.merged)
    elif step.result.blob == step.seen_before.blob:
        with open_real(record.source / os.fsdecode(step.change.before)) as file:
            yield file
    else:
        with tempfile.TemporaryFile(dir=record.home) as copy:
            blobs.copy(step.result.blob, copy)
            copy.seek(0)
            yield copy


def _delete_file(root: Path, path: str, expected: PresentState) -> bool:
    """Delete a file and the folders that become empty. Return False without a change if it is not as `expected`."""
    with open_folder(root) as folder:
        try:
            remove_path(folder, path, expected)
        except ChangedMeanwhileError:
            return False
        remove_empty_folders(folder, path)
    return True
