"""Follow the repositories of a project: copy each before a command, and find out after it which were lost, and what
became of the references of the others."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nexus_cli.core.elide import name_first
from nexus_cli.core.errors import reason_of
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.real_files import open_folder, open_real, scan_folder
from nexus_cli.tree.byte_store import ByteStore
from nexus_cli.tree.file_state import ABSENT_STATE, FileState
from nexus_cli.tree.read_state import RACY
from nexus_cli.undo.linked_objects import drop_written
from nexus_cli.undo.plan_references import REFS, STASH, SYMBOLIC
from nexus_cli.undo.read_references import STASH_LOG, RepositoryState, is_same_value, read_state
from nexus_cli.undo.records import GIT_FOLDER, HEAD, REPOSITORY, FileChange, ReferenceChange
from nexus_cli.undo.repository_copy import (
    CopyBounds,
    GitFolders,
    find_copy,
    find_git_folders,
    is_lost,
    keep_repository,
)
from nexus_cli.worktrees.own_repository import HOLDS

NO_REPOSITORY = "the command removed the repository, and there is no complete copy"
WRITTEN = "overwritten in place; undo cannot restore it"
PUSHED = "keeps the pushed commits"
EMPTIED_LOG = "the reflog of HEAD was emptied; undo does not restore it"
_REFTABLE = "its references are in the reftable format"
_REMOTE = "refs/remotes/"
_BY_PUSH = b"\tupdate by push\n"
"""End of the log of a remote branch after a push."""
_QUIET = frozenset({"ORIG_HEAD"})
"""What commands note that change nothing else."""


@dataclass
class RepositoryChanges:
    """The changes of a command to the repositories of a project."""

    lost: list[FileChange] = field(default_factory=list)
    references: list[ReferenceChange] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    """What undo cannot bring back."""
    unchanged: set[str] = field(default_factory=set)
    """Paths of the folders of git of which a copy would not be needed: nothing changed."""


class Repositories:
    """The repositories of the project `root`, and what is known of them.

    Its methods block, and may be called by several threads.
    """

    def __init__(self, root: Path, data: Path, store: ByteStore) -> None:
        self.root, self._data, self._store = root, data, store
        self._lock = threading.Lock()
        self._states: dict[str, RepositoryState] = {}
        self._copied: dict[str, object] = {}
        """By path: the stamp of a repository as it was last copied whole."""
        self.not_covered: dict[str, str] = {}
        """The repositories that could not be copied whole before the newest command, each with the reason."""

    def begin(self, paths: Iterable[str]) -> dict[str, RepositoryState]:
        """Copy what is new in the repositories at the relative `paths` ("": the root), and return their states."""
        with self._lock:
            bounds, states, kept_folders = CopyBounds(), dict[str, RepositoryState](), list[Path]()
            self.not_covered = {}
            for path in sorted(paths):
                try:
                    folders = find_git_folders(self.root / path)
                    if folders is None:
                        raise OSError("its git folder could not be found in the project")
                    state = states[path] = read_state(folders, self._store, self._states.get(path))
                    state.is_whole = not is_lost(*folders)
                    above = next((folder for folder in kept_folders if folders.common.is_relative_to(folder)), None)
                    self._keep(path, state, bounds, above)
                    kept_folders.append(folders.common)
                    with suppress(OSError), open_folder(folders.common / "reftable"):
                        self.not_covered[git_folder(path)] = _REFTABLE
                except FileNotFoundError:  # git finds no repository there either
                    continue
                except OSError as error:
                    self.not_covered[git_folder(path)] = reason_of(error)
            self._states = dict(states)
            return states

    def _keep(self, path: str, state: RepositoryState, bounds: CopyBounds, above: Path | None) -> None:
        """Copy a repository, unless it is as it was copied last. Raises `OSError`."""
        folders, objects = state.folders, _stamp_objects(state.folders)
        stamp = None if objects is None else (folders, above, state.stamps, objects)
        if stamp and self._copied.get(path) == stamp and find_copy(self._data, folders.place) is not None:
            return
        self._copied.pop(path, None)
        keep_repository(self._data, folders, bounds, above)
        newest = max([*(objects or {}).values(), *(row[3] for row in state.stamps.values())], default=0)
        if stamp and newest + RACY < state.at:
            self._copied[path] = stamp

    def end(self, before: Mapping[str, RepositoryState]) -> RepositoryChanges:
        """Compare the repositories with their states before a command."""
        with self._lock:
            repository_changes, uncovered = (
                RepositoryChanges(),
                {path for path, why in self.not_covered.items() if why != _REFTABLE},
            )
            for path, old in before.items():
                name, known_copy = git_folder(path), find_copy(self._data, old.folders.place)
                with suppress(OSError):
                    if known_copy and (written := drop_written(known_copy)):
                        file_names = name_first([f"{name}/{file}" for file in written], 3)
                        repository_changes.notices.append(f"{file_names}: {WRITTEN}")
                copy = None if name in uncovered else known_copy
                if old.is_whole and is_lost(*old.folders):
                    self._states.pop(path, None)
                    repository_changes.lost.append(FileChange(name, FileState(REPOSITORY), ABSENT_STATE))
                    repository_changes.notices += [] if copy else [NO_REPOSITORY]
                    if old.folders.git_dir == old.folders.common:  # else its references are those of another
                        remaining = dict[str, str]()
                        with suppress(OSError):
                            remaining = read_state(old.folders, self._store, old).values
                        # If another repository is made in its place, the copy has the references of that one.
                        repository_changes.references += _compare(path, old.values, remaining, self._store)
                    continue
                with suppress(OSError):
                    new = self._states[path] = read_state(old.folders, self._store, old)
                    if old.log and not new.log:
                        kept_note = f", but its commits are kept in {copy}" if copy else ""
                        repository_changes.notices.append(f"{name}: {EMPTIED_LOG}{kept_note}")
                    pushed = name_first(_find_pushed(old, new), 3)
                    repository_changes.notices += [f"{pushed} {PUSHED}"] if pushed else []
                    changes = _compare(path, old.values, new.values, self._store)
                    repository_changes.references += changes
                    repository_changes.unchanged |= (
                        {name} if not changes and self.not_covered.get(name) != _REFTABLE else set()
                    )
            return repository_changes


def make_rows(states: Mapping[str, RepositoryState]) -> JsonObject:
    """Return states as JSON, for the process that finds out what a killed one did."""
    return {path: [list(map(str, state.folders)), state.values, state.is_whole] for path, state in states.items()}


def parse_rows(rows: JsonObject) -> dict[str, RepositoryState]:
    """Make states of the rows of `make_rows`. Raises `KeyError`, `TypeError`, `ValueError`."""
    return {
        path: RepositoryState(GitFolders(*map(Path, folders)), values, is_whole=is_whole)
        for path, (folders, values, is_whole) in rows.items()
    }


def git_folder(path: str) -> str:
    """Return the path of the `.git` of the repository at `path`."""
    return f"{path}/{GIT_FOLDER}" if path else GIT_FOLDER


def _stamp_objects(folders: GitFolders) -> dict[str, int] | None:
    """Return the times of the folders of objects; None if there are other places of objects, which are always
    searched. Raises `OSError`."""
    if any(os.path.lexists(folders.common / name) for name in ("modules", "lfs")):
        return None
    place = folders.common / "objects"
    with open_folder(place) as folder, scan_folder(folder) as entries:
        return {entry.name: entry.stat(follow_symlinks=False).st_mtime_ns for entry in entries}


def _find_pushed(old: RepositoryState, new: RepositoryState) -> list[str]:
    """Return the remote branches that a push moved since `old`, as their logs say."""
    moved = (name for name, value in new.values.items() if name.startswith(_REMOTE) and old.values.get(name) != value)
    pushed = []
    for name in moved:
        with suppress(OSError), open_real(old.folders.common / "logs" / name) as log:
            log.seek(-len(_BY_PUSH), os.SEEK_END)
            if log.read() == _BY_PUSH:
                pushed.append(name.removeprefix(_REMOTE))
    return pushed


def _compare(path: str, before: Mapping[str, str], after: Mapping[str, str], store: ByteStore) -> list[ReferenceChange]:
    """Return the changes of a repository, with the branches of a HEAD that moved, and both files of the stash.

    What a fetch or a push notes of another repository, and what keeps the objects of a worktree of nexus, is no change;
    its removal is.
    """
    names = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    names = {
        name
        for name in names
        if not (name.startswith((_REMOTE, HOLDS)) and name in after)
        and not is_same_value(store, name, before.get(name, ""), after.get(name, ""))
    }
    if names <= _QUIET:
        return []
    heads = {value.removeprefix(SYMBOLIC) for value in (before.get(HEAD, ""), after.get(HEAD, ""))}
    if HEAD in names or names & heads:
        names |= {HEAD, *(head for head in heads if head.startswith(REFS))}
    names |= {STASH, STASH_LOG} if names & {STASH, STASH_LOG} else set()
    return [ReferenceChange(path, name, before.get(name, ""), after.get(name, "")) for name in sorted(names)]
