"""The worktrees of a project: find or make one, work in it, inspect it, remove it.

The content of a worktree is its difference from the carried-over state. `apply_worktree` applies it to the project.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.worktree_record import (
    WorktreeCondition,
    WorktreeObject,
    WorktreeRecord,
    read_all_records,
    read_project_records,
    read_record,
    read_records,
    record_folder,
    worktrees_of,
)
from nexus_cli.core.elide import name_first
from nexus_cli.core.errors import NexusError, UsageError, suggest_name
from nexus_cli.core.json_value import to_json_value
from nexus_cli.core.real_files import real_path
from nexus_cli.core.surrogates import mask_unprintable
from nexus_cli.sandbox.own_git import GitError, failure
from nexus_cli.tree.real_tree import RealTree
from nexus_cli.worktrees.carry_ignored import read_carried
from nexus_cli.worktrees.inspect_worktree import WorktreeState, inspect_worktree, open_store, save_state
from nexus_cli.worktrees.make_worktree import fill_worktree, prepare_record, read_source
from nexus_cli.worktrees.own_repository import (
    UNPUBLISHED,
    delete_references,
    has_own_repository,
    list_own_references,
    publish_branch,
    read_published,
    read_tips,
    refresh_references,
    repository_git,
)
from nexus_cli.worktrees.snapshot_store import ChangeCounts, SnapshotStore

LONGEST = 60
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
STAY = "stay"
"""File of a record folder from the beginning of a stay to its end; a killed process leaves it."""
WAIT = 600.0
"""Seconds to wait while others make or remove worktrees of the same project: copies of dependencies take their time."""


class UnappliedError(UsageError):
    """Error of a removal that would lose something; the person may force the removal."""

    def __init__(self, record: WorktreeRecord, why: str, *, is_applied: bool = False) -> None:
        over = "" if is_applied else f"To apply its changes: nexus worktree apply {record.name}. "
        hint = f"{over}To delete it: nexus worktree remove {record.name} --force"
        super().__init__(f"kept worktree {record.name}", why, hint)


@dataclass
class WorktreeStay:
    """A process that works in a worktree. Until it ends, nobody can remove the worktree."""

    record: WorktreeRecord
    notices: list[str]
    review: str = "To see its changes: nexus worktree diff {name}. To apply them: nexus worktree apply {name}"
    """The way to its changes, in the line of `leave`."""
    is_new: bool = False
    """True if the worktree was created for this stay."""
    _lock: FileLock | None = None

    def place_of(self, folder: Path, root: Path) -> Path:
        """Return the folder of the worktree that corresponds to `folder` of the project `root`, created if missing; the
        worktree itself if that fails."""
        place = self.record.folder / os.path.relpath(folder, root)
        try:
            real = real_path(place)
            if not real.is_relative_to(self.record.folder):
                return self.record.folder
            real.mkdir(parents=True, exist_ok=True)
            return real
        except OSError:
            return self.record.folder

    def leave(self) -> str:
        """End the stay. Remove the worktree if it is empty and unused; else return a line that describes its content.
        May be called more than once; only the first call returns the line. Raises nothing but `NexusError`."""
        lock, self._lock = self._lock, None
        if lock is None:
            return ""
        try:
            with _change_worktrees(self.record.folder.parent):
                lock.release()
                (self.record.home / STAY).unlink(missing_ok=True)
                if not self.record.home.is_dir():
                    return f"worktree {self.record.name} was removed meanwhile"
                alone = FileLock.take(self.record.lock)
                if alone is None:
                    return ""
                with alone:
                    return self._remove_if_empty()
        except (NexusError, GitError, OSError) as error:
            why = error.message if isinstance(error, NexusError) else str(error)
            return f"kept worktree {self.record.name} in {self.record.folder}: {why}"
        finally:
            lock.release()

    def _remove_if_empty(self) -> str:
        record = read_record(self.record.folder)
        if record is None or not record.folder.is_dir():
            return f"the folder of worktree {self.record.name} no longer exists: {self.record.folder}"
        state = inspect_worktree(record)
        if state.is_empty(record):
            branches = _delete(record, with_branch=True)
            return (
                f"removed the unchanged worktree {record.name}; {_report_kept_branches(branches)}" if branches else ""
            )
        notice = publish_branch(record)
        name = record.name
        description = f"worktree {record.folder}: {state.describe()}{notice and f'; {notice}'}"
        if state.is_applied(record) and state.counts.files:
            return f"{description}; all changes are applied. To delete it: nexus worktree remove {name}"
        return f"{description}. {self.review.format(name=name)}"

    def end(self) -> None:
        """End the stay and leave the worktree unchanged."""
        lock, self._lock = self._lock, None
        if lock is not None:
            with suppress(GitError, NexusError, OSError):
                (self.record.home / STAY).unlink(missing_ok=True)
                publish_branch(self.record)
            lock.release()


def check_name(name: str) -> None:
    """Raise `UsageError` unless `name` can name a folder and a branch."""
    printable = mask_unprintable(name[:LONGEST])
    why = ""
    if len(name) > LONGEST:
        why = f"the name has more than {LONGEST} characters"
    elif not _NAME.fullmatch(name):
        why = "the name must consist of letters, digits, '.', '-' and '_', and begin with a letter or digit"
    elif ".." in name or name.endswith((".", ".lock")):
        why = "git does not allow this branch name"
    if why:
        raise UsageError(f"no worktree '{printable}'", why, "Choose another name")


def enter_worktree(project_root: Path, name: str) -> WorktreeStay:
    """Enter the worktree of this name, made if it does not exist. Raises `NexusError`."""
    check_name(name)
    folder = worktrees_of(project_root)
    with _explain_failure(f"worktree {name} cannot be created"), _change_worktrees(folder):
        record = _find_whole(folder / name)
        worktree, notices = (record, list[str]()) if record else _make(folder, project_root, name)
        if record is not None:
            with suppress(GitError, OSError):
                refresh_references(record)
        return _stay(worktree, notices, is_new=record is None)


def enter_existing(record: WorktreeRecord) -> WorktreeStay:
    """Enter an existing worktree. Raises `NexusError`."""
    with _explain_failure(f"worktree {record.name} cannot be entered"), _change_worktrees(record.folder.parent):
        return _stay(record, [], is_new=False)


def _stay(record: WorktreeRecord, notices: list[str], *, is_new: bool) -> WorktreeStay:
    lock = FileLock.wait(record.lock, shared=True)
    (record.home / STAY).touch()
    return WorktreeStay(record, notices, is_new=is_new, _lock=lock)


def _find_whole(place: Path) -> WorktreeRecord | None:
    """Return the record of the worktree at `place` if it is complete and its folder exists."""
    record = read_record(place)
    return record if record is not None and record.base and place.is_dir() else None


def _make(folder: Path, project_root: Path, name: str) -> tuple[WorktreeRecord, list[str]]:
    place, notices = folder / name, list[str]()
    record = read_record(place)
    if record is None and os.path.lexists(place):
        why = f"{place} exists, but nexus has no record of it"
        raise UsageError(f"no worktree {name}", why, "Move the folder away, or choose another name")
    source = read_source(project_root)
    if record is None:  # left over from a removal that was killed
        _delete_tree(record_folder(place))
    _remove_abandoned(folder)
    for half in (worktree for worktree in read_records(folder) if not worktree.base):  # its process was killed
        _discard(half.folder)
    if record is not None and record.base:
        branches = _delete(record, with_branch=False)
        branch = f"; {_report_kept_branches(branches, 'has published commits')}" if branches else ""
        notices.append(f"the folder of worktree {name} was deleted and created again{branch}")
    try:
        record, further = fill_worktree(prepare_record(folder, name, source), source)
    except BaseException:
        with suppress(OSError):
            _discard(place)
        raise
    return record, notices + further


def _remove_abandoned(folder: Path) -> None:
    """Remove the empty worktrees whose processes were killed."""
    for record in [worktree for worktree in read_records(folder) if worktree.base and (worktree.home / STAY).exists()]:
        alone = FileLock.take(record.lock)
        if alone is None:
            continue
        with alone, suppress(GitError, NexusError, OSError):
            if record.folder.is_dir() and inspect_worktree(record).is_empty(record):
                _delete(record, with_branch=True)
            else:
                (record.home / STAY).unlink()


def _discard(place: Path) -> None:
    """Delete a worktree that could not be completed."""
    record = read_record(place)
    if record is not None:
        _delete(record, with_branch=True)
    else:
        _delete_tree(record_folder(place))


def find_worktree_of(project_root: Path, name: str) -> WorktreeRecord:
    """Return the worktree of this name; raise `UsageError` if it does not exist."""
    check_name(name)
    worktrees = list_worktrees(project_root)
    record = next((worktree for worktree in worktrees if worktree.name == name), None)
    if record is None:
        hint = suggest_name(name, [worktree.name for worktree in worktrees], "See `nexus worktree list`")
        raise UsageError(f"worktree {name}", f"there is no such worktree in {project_root}", hint)
    return record


def list_worktrees(project_root: Path | None) -> list[WorktreeRecord]:
    """Return the worktrees of a project by name, then those made from them. Without a project, return all."""
    records = read_all_records() if project_root is None else read_project_records(project_root)
    return [record for record in records if record.base]


def is_in_use(record: WorktreeRecord) -> bool:
    """True if a live process works in a worktree."""
    alone = FileLock.take(record.lock)
    if alone is not None:
        alone.release()
    return alone is None


def require_folder(record: WorktreeRecord) -> None:
    """Raise `UsageError` if the folder of a worktree was deleted or its repository is missing."""
    if not record.folder.is_dir():
        why, name = f"the folder no longer exists: {record.folder}", record.name
        raise UsageError(f"worktree {name}", why, f"To remove it: nexus worktree remove {name}")
    if not record.repository.is_dir():
        why = f"the repository of the project no longer exists: {record.repository}"
        raise UsageError(
            f"worktree {record.name}", why, f"Move the repository back; the worktree is in {record.folder}"
        )


def diff_worktree(record: WorktreeRecord, *, stat: bool = False, binary: bool = False, tree: str = "") -> bytes:
    """Return the changes of a worktree, as a patch or counted by file, up to the state `tree`, by default its current
    one. Raises `NexusError`."""
    options = ("--stat",) if stat else ("-p", "--binary", "--full-index") if binary else ()
    with compare_states(record) as store:
        return store.diff(record.base, tree or save_state(record), *options)


@dataclass(frozen=True, slots=True)
class WorktreeChanges:
    """The changes of a worktree since one of its states."""

    diff: bytes
    counts: ChangeCounts
    tree: str
    """Its present state."""


def read_changes(record: WorktreeRecord, *, since: str = "", path: str = "") -> WorktreeChanges:
    """Compare a worktree, or one `path` of it, with its state `since`, by default the first one.

    The present state gives the same as the first one. Raises `NexusError`.
    """
    paths = (path,) if path else ()
    with compare_states(record) as store:
        tree = save_state(record)
        old = since if since not in ("", tree) else record.base
        return WorktreeChanges(store.diff(old, tree, paths=paths), store.count_changes(old, tree, paths), tree)


def describe_worktree(record: WorktreeRecord) -> WorktreeObject:
    """Return a worktree as JSON. Never raises: an error becomes its `problem`."""
    value = WorktreeObject(
        **to_json_value(record),
        state="missing",
        in_use=False,
        **to_json_value(ChangeCounts(0, 0, 0)),
        commits=0,
        kept=[],
        carried=list(read_carried(record.home)),
        problem="",
    )
    if not record.folder.is_dir():
        return value
    try:
        require_folder(record)
        state = inspect_worktree(record)
    except (GitError, OSError, NexusError) as error:
        return WorktreeObject(value, state="unreadable", problem=str(error))
    counts = state.counts
    name: WorktreeCondition = (
        "empty" if state.is_empty(record) else "applied" if state.is_applied(record) and counts.files else "changed"
    )
    details = {"in_use": is_in_use(record), "commits": state.commits, "kept": list(state.kept)}
    return WorktreeObject(value, state=name, **to_json_value(counts), **details)


def remove_worktree(record: WorktreeRecord, *, force: bool = False) -> str:
    """Remove a worktree with its branch. Return a line about commits that can still be reached, or "".

    Raises `UsageError` while it is in use or, unless `force`, has unapplied changes.
    """
    name = record.name
    with _explain_failure(f"worktree {name} cannot be removed"), _change_worktrees(record.folder.parent):
        alone = FileLock.take(record.lock)
        if alone is None and not force:
            why = "a session is working in this worktree"
            raise UsageError(f"worktree {name} was not removed", why, "End that session first, or use --force")
        with alone or nullcontext():
            return _remove(record, force)


def _remove(record: WorktreeRecord, force: bool) -> str:
    if not record.folder.is_dir():
        branches = _delete(record, with_branch=False)
        return _report_kept_branches(branches, "has published commits")
    built: Sequence[str] = ()
    has_moved = False
    if not force:
        try:
            state = inspect_worktree(record)
            built, has_moved = state.built, state.has_moved
        except GitError as error:
            hint = "Check the contents of the worktree, or remove it with --force"
            raise UsageError(f"worktree {record.name} was not removed", str(error), hint) from error
        why = _describe_unapplied(record, state)
        if why:
            raise UnappliedError(record, why, is_applied=state.is_applied(record))
    tips: dict[str, str] = {}
    line = ""
    try:
        line = publish_branch(record, everything=True)
        if has_own_repository(record):
            tip, tips = read_published(record).popitem()[1], list_own_references(record)
        else:
            tip, _ = read_tips(repository_git(record), record.branch)
        tips = {"": tip, **tips} if tip not in ("", record.start) else tips
    except (GitError, NexusError, OSError) as error:
        line = f"{UNPUBLISHED}: {error}"
        if has_moved:
            hint = f"To remove it without keeping its commits: nexus worktree remove {record.name} --force"
            raise UsageError(f"worktree {record.name} was not removed", line, hint) from error
    branches = _delete(record, with_branch=True)
    commits = [f"{name} {oid[:12]}".strip() for name, oid in tips.items()]
    lost = f"also deleted (ignored): {', '.join(built[:3])}{' and more' * bool(built[3:])}" if built else ""
    were = f"its commits: {', '.join(commits)}; to keep a commit: git branch NAME COMMIT" if commits else ""
    lines = [line, _report_kept_branches(branches), lost, were]
    return "; ".join(filter(None, lines))


def _describe_unapplied(record: WorktreeRecord, state: WorktreeState) -> str:
    """Describe the changes that removing a worktree would lose, "" for none."""
    if state.is_empty(record):
        return ""
    if state.taken_back:
        return f"the project no longer has the applied changes ({name_first(state.taken_back, 3)})"
    if not state.is_applied(record):
        return f"the worktree has unapplied changes ({state.describe()})"
    if extra := [path for path in state.kept if path not in state.built]:
        return f"the worktree has content that is not in the diff ({', '.join(extra[:3])})"
    if state.unreachable or (not state.counts.files and state.has_moved):
        return f"the branch {record.branch} was moved, or has commits that the files do not include"
    return ""


def _report_kept_branches(
    branches: Sequence[str], why: str = "checked out elsewhere, or with commits that are not of the worktree"
) -> str:
    return f"kept branch {', '.join(branches)} ({why})" if branches else ""


def _delete(record: WorktreeRecord, *, with_branch: bool) -> list[str]:
    """Delete folder, entry and record of a worktree, and its branch; without `with_branch` only a branch without
    commits.

    Return the branches that stay. The folder is removed in one step: others who work there would take a missing file
    for a deleted one. Raises `OSError` if that fails or files cannot be deleted; then the record stays too.
    """
    with suppress(FileNotFoundError):
        _move_to_record(record)
    try:
        branches = delete_references(record, repository_git(record), only_empty=not with_branch)
    except (GitError, NexusError):
        branches = [record.branch] if record.repository.is_dir() and record.branch else []
    _delete_tree(record_folder(record.folder))
    return branches


def _move_to_record(record: WorktreeRecord) -> None:
    """Move the folder of a worktree to its record folder, to be deleted with it."""
    place = record.home / f"removed-{os.urandom(6).hex()}"
    try:
        record.folder.rename(place)
    except PermissionError:  # a folder must be writable to be moved
        os.chmod(record.folder, stat.S_IRWXU)
        record.folder.rename(place)


def _delete_tree(folder: Path) -> None:
    """Delete a folder with its content, including read-only folders, following no link. Raises `OSError`."""
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)  # by descriptors; fails in read-only folders
    if os.path.lexists(folder):
        tree = RealTree([str(folder.parent)])
        try:
            tree.remove(str(folder))
        finally:
            tree.close()


def read_state(record: WorktreeRecord) -> WorktreeState:
    """Return the state of a worktree; raise `NexusError` if its folder is gone, or git fails."""
    with compare_states(record):
        return inspect_worktree(record)


@contextmanager
def compare_states(record: WorktreeRecord) -> Iterator[SnapshotStore]:
    """Yield the store of a worktree; raise `NexusError` if its folder is gone, or git fails in the block."""
    require_folder(record)
    with _explain_failure(f"worktree {record.name} cannot be compared"):
        yield open_store(record)


@contextmanager
def _explain_failure(what: str) -> Iterator[None]:
    """Turn a failure of git or the disk into `NexusError`."""
    try:
        yield
    except (GitError, OSError) as error:
        raise failure(what, error) from error


@contextmanager
def _change_worktrees(folder: Path) -> Iterator[None]:
    """Hold the lock under which one process at a time makes, enters or removes worktrees of a project."""
    try:
        lock = FileLock.wait_for(folder / ".making.lock", WAIT)
    except TimeoutError as error:
        why = "another process is creating, entering or removing a worktree"
        raise UsageError("the worktrees are locked", why, "Try again later") from error
    with lock:
        yield
