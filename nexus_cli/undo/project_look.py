"""Look at a project before and after a command: one walk over all that is in it, through descriptors and no link.

What has the stamp of the last look is not opened again. Files that are as git's index says are not read either; the
bytes of all others go to the byte store. Left out are folders that a tool fills and git ignores (`rebuilt_folders`),
and git's own folders, which are kept whole (`repository_copy`).
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from nexus_cli.config.paths import folders_above, is_home_or_root
from nexus_cli.config.programs import find_program
from nexus_cli.config.protected_places import BUILD_FOLDERS
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.real_files import REPLACED, open_listable, real_path
from nexus_cli.sandbox.own_git import Git, GitError
from nexus_cli.tools.atomic_write import is_draft
from nexus_cli.tree.byte_store import ByteStore
from nexus_cli.tree.file_state import FILE, GIT, SHA256, SPECIAL, FileState
from nexus_cli.tree.read_state import MAX_COPIED, NOTHING, StampedState, StateReader, describe, open_states
from nexus_cli.undo.coverage import PROJECT_ITSELF, REBUILT
from nexus_cli.undo.git_index import find_tracked
from nexus_cli.undo.rebuilt_folders import is_filled_by_tool, is_named_by_tool
from nexus_cli.undo.records import MAX_LEVELS, TOO_DEEP
from nexus_cli.undo.repository_copy import find_git_folders
from nexus_cli.undo.saved_look import SavedLook, parse_rows

MOST = 300_000
"""Most entries of one look; with more, new ones are not followed."""
SECONDS = 3.0
"""Time limit of one run of git, and of reading the files of one look, while a command waits for it."""
WALK_SECONDS = 20.0
"""Time limit of one walk over all entries."""
_LATER_SECONDS = 0.5
"""Time limit of copying what an earlier look only had the time to link."""
_CHECKED_SECONDS = 0.05
"""Time limit of reading what git's index says not to have changed, in one look before a command."""
_ASKED_SECONDS = 1.0
"""Time after which no further repository inside is asked what it ignores."""
_LARGE = 1_000_000
"""Bytes above which a file is read after all others: the time may not be enough for all."""
_KIND, _FOLDER, _REGULAR = stat.S_IFMT(0o177777), stat.S_IFDIR, stat.S_IFREG
_FEW = 30
"""Number of files to read up to which git's index is not asked: that would cost more."""

LINKED = "only a removal can be undone"
UNREAD = "cannot be read"
UNCOPIED = "no copy could be made"
SPECIAL_FILE = "a socket or a device"


class NotFollowed(Exception):
    """A project whose changes cannot be known; the text is the reason."""


@dataclass
class Look:
    """The files of a project at one moment."""

    states: dict[str, StampedState] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    """Folders that were left out: what is below them later is not new."""
    repositories: list[str] = field(default_factory=list)
    """Folders with a `.git`, "" for the project itself."""
    not_covered: dict[str, str] = field(default_factory=dict)
    """Paths that an undo may not bring back, each with the reason."""
    is_whole: bool = True
    """False if there were more than `MOST` entries, or the walk took too long: a path that is missing here may have
    been there."""
    at: int = field(default_factory=time.time_ns)
    """When it began (ns)."""


class LookedProject:
    """One project, and what is known of its files. Its methods block and may be called by several threads."""

    def __init__(
        self,
        root: Path,
        data: Path,
        key: str,
        store: ByteStore | None,
        seconds: float = SECONDS,
        most: int = MAX_COPIED,
    ) -> None:
        """`root` is a real path. The last look is saved in a file named by `key` in the data folder.

        Without a `store` no bytes are kept, and nothing is saved. `seconds` limits one run of git, and reading the
        files of one look; those of more than `most` bytes are linked.
        """
        self.root = root
        self._seconds, self._most = seconds, most
        data_folder = real_path(data)
        self._own = str(data_folder.relative_to(root)) if data_folder.is_relative_to(root) else ""
        """Our own data folder, if it is in the project."""
        self._saved = SavedLook(data / "undo" / "looks" / f"{key}.json")
        self._store = store
        self._git: Git | None = None
        self._git_dir: Path | None = None
        self._last = Look()
        self._tool_folders: dict[tuple[str, int], bool] = {}
        """By path and inode of a folder that a tool may fill: True if it is left out."""
        self._uncovered: set[str] = set()
        """Paths that may not be covered, because a look could not keep them."""
        self._unchecked: list[str] = []
        """Files that are as git's index says, and were not read. The last ones, of the newest change, are first."""
        self._repositories: set[str] = set()
        """Folders with a `.git`, of the newest look."""
        self._lock = threading.Lock()

    def begin(self) -> Look:
        """Look at the project before a command; `end` has to follow. Raises `NotFollowed`: then not."""
        with self._lock:
            return self._look_guarded(self._begin)

    def end(self, before: Look) -> Look:
        """Look at the project after the command that began with `before`. Raises `NotFollowed`."""
        with self._lock:
            return self._look_guarded(lambda: self._look_again(before))

    def restore(self, rows: JsonObject, values: JsonObject) -> Look:
        """Return the look that `save` wrote, as the one of a command that began in another process.

        Raises `ValueError`, `KeyError` or `TypeError` for a damaged file.
        """
        with self._lock:
            self._find_git()
            look = Look(parse_rows(rows), skipped=set(values["skipped"]), is_whole=values["is_whole"])
            look.at = values["at"]
            self._last = look
            return look

    def save(self, look: Look, repositories: JsonObject) -> None:
        """Save a look and the rows of its repositories, for the process that finds out what a killed one changed.
        Raises `OSError`."""
        values = {"root": str(self.root), "is_whole": look.is_whole, "at": look.at, "skipped": sorted(look.skipped)}
        self._saved.save(look.states, {**values, "repositories": repositories})

    def remove(self) -> None:
        """Remove the saved look."""
        with suppress(OSError):
            self._saved.place.unlink()

    def _ask(self, paths: Iterable[str], ask: Callable[[Git, list[bytes]], list[bytes]]) -> set[str]:
        """Return the paths that `ask` returns from the innermost repository around each of `paths`, and the paths that
        there was no time to ask about."""
        groups: dict[str, list[str]] = {}
        for path in paths:
            if (above := self._find_repository(path)) is not None:
                groups.setdefault(f"{above}/" if above else "", []).append(path)
        answers, end = set[str](), time.monotonic() + _ASKED_SECONDS
        for base, group in groups.items():
            if base and time.monotonic() > end:  # in each git may wait for a pipe
                answers.update(group)
                continue
            with suppress(GitError, OSError):
                if git := self._make_git(base) if base else self._git:
                    inner = [os.fsencode(path[len(base) :]) for path in group]
                    answers |= {f"{base}{os.fsdecode(path)}" for path in ask(git, inner)}
        return answers

    def _find_repository(self, path: str) -> str | None:
        """Return the innermost repository of the newest look above a path, None if it is in none."""
        above = ("", *(place[1:] for place in folders_above(f"/{path}")))
        return next((folder for folder in reversed(above) if folder in self._repositories), None)

    def find_generated(self, paths: Iterable[str]) -> set[str]:
        """Return the generated paths of `paths`: git ignores them, or they are in a folder with the name of one that
        tools fill, and git does not track them."""
        excluded = {path for path in paths if not BUILD_FOLDERS.isdisjoint(path.lower().split("/"))}
        excluded -= self._ask(excluded, lambda git, _: git.items("ls-files", "-z"))
        return excluded | self._ask(paths, Git.list_ignored)

    def _look_guarded(self, work: Callable[[], Look]) -> Look:
        try:
            look = work()
        except (OSError, GitError, ValueError) as error:
            raise NotFollowed(str(error) or type(error).__name__) from error
        self._last = look
        return look

    def _begin(self) -> Look:
        if is_home_or_root(self.root):
            raise NotFollowed("the home folder and / are not tracked")
        self._find_git()
        look = self._look({})
        uncovered = {}
        with open_states(self.root, self._store, _LATER_SECONDS, self._most) as reader:
            if self._store is not None:
                self._check_blobs(look, reader)
            for path in sorted(self._uncovered):
                record = look.states.get(path, NOTHING)
                if self._store is not None and record.is_late and not reader.is_late:
                    record = look.states[path] = reader.read(path)
                if why := _explain_uncovered(record.state):
                    uncovered[path] = why
        self._uncovered = set(uncovered)
        look.not_covered |= uncovered
        rebuilt = (path for path in sorted(look.skipped) if path and "cache" not in path.rpartition("/")[2].lower())
        look.not_covered = {**dict.fromkeys(rebuilt, REBUILT), **look.not_covered}
        return look

    def _check_blobs(self, look: Look, reader: StateReader) -> None:
        """Read files of which the index alone says that they are their blobs: a command may have written the index."""
        end = time.monotonic() + _CHECKED_SECONDS
        while self._unchecked and time.monotonic() < end:
            path = self._unchecked.pop()
            record = look.states.get(path, NOTHING)
            if (oid := record.state.content).startswith(GIT):
                completed = reader.complete(path, record, oid=oid.removeprefix(GIT))
                if completed is NOTHING:
                    del look.states[path]
                elif completed.state != record.state:
                    look.states[path] = completed

    def _find_git(self) -> None:
        """Find git and its folder for this project, if it is the root of a repository."""
        if not os.path.lexists(self.root / ".git"):
            self._git = None
        elif self._git is None and (folders := find_git_folders(self.root)):
            self._git, self._git_dir = self._make_git(""), folders.git_dir

    def _make_git(self, folder: str) -> Git | None:
        """Return git in a repository of the project: a broken one is not that of a folder above."""
        place, program = self.root / folder, find_program("git", self.root)
        variables = {"GIT_WORK_TREE": str(place), "GIT_CEILING_DIRECTORIES": str(place.parent)}
        return Git(program, place, variables, self._seconds, place) if program else None

    def _look_again(self, before: Look) -> Look:
        if not self.root.exists():
            return Look(dict.fromkeys(before.states, NOTHING))
        self._find_git()
        return self._look(before.states)

    def _look(self, before: Mapping[str, StampedState]) -> Look:
        """Look at the project; what was there in `before` is looked at even where the walk does not come."""
        look = Look()
        with open_states(self.root, self._store, self._seconds, self._most) as reader:
            walk = _Walk(reader, self._last.states, look, self._own)
            waiting = [""]
            while waiting:
                walk.run(waiting)
                waiting = self._choose_folders(walk, look)
            walk.note_pairs()
            reader.begin()  # a walk that takes long leaves time to keep something
            self._read_files(walk.unread, look, reader)
            self._uncovered.update(walk.special, walk.unread)
            if look.skipped or not look.is_whole:
                for path in sorted(before.keys() - look.states.keys()):
                    if (state := reader.read(path, before[path])) is not NOTHING:
                        look.states[path] = state
        return look

    def _choose_folders(self, walk: _Walk, look: Look) -> list[str]:
        """Return the folders that look like a tool's and are followed nevertheless; note the others as skipped.

        Followed is what git does not ignore, without git what has no name of a tool's folder, and what was followed
        before: a command may have marked it.
        """
        deferred, walk.deferred = walk.deferred, {}
        self._repositories = set(look.repositories) - ({""} if self._git is None else set())
        new = {path: inode for path, inode in deferred.items() if (path, inode) not in self._tool_folders}
        if new:
            if find_program("git", self.root) is None:
                self._repositories = set()
            # With a slash: an ignore file inside, as pytest and uv write it, counts for a folder with a tool's name.
            tool_paths = {f"{path}/" if is_named_by_tool(path) else path: path for path in new}
            ignored = {tool_paths[path] for path in self._ask(tool_paths, Git.list_ignored)}
            ignored |= {path for path in new if self._find_repository(path) is None and is_named_by_tool(path)}
            filled = {path.rpartition("/")[0] for path in self._last.states}
            self._tool_folders |= {(path, inode): path in ignored and path not in filled for path, inode in new.items()}
        left_out = {path for path, inode in deferred.items() if self._tool_folders[path, inode]}
        look.skipped |= left_out
        for path in left_out:
            del look.states[path]
        return [path for path in deferred if path not in left_out]

    def _read_files(self, unread: Mapping[str, os.stat_result], look: Look, reader: StateReader) -> None:
        """Complete the states of files that are new or may have changed."""
        if self._store is None:
            return
        tracked = {}
        if self._git is not None and self._git_dir is not None and len(unread) > _FEW:
            attributes = any(path.endswith(".gitattributes") for path in look.states)
            with suppress(GitError, OSError, ValueError):
                tracked = find_tracked(self._git, self._git_dir, unread, attributes)
        clean = [
            path
            for path, tracked_file in tracked.items()
            if tracked_file.is_clean and unread[path].st_size <= MAX_COPIED
        ]
        self._unchecked += sorted(clean, key=lambda path: unread[path].st_ctime_ns)
        for path in sorted(unread, key=lambda path: unread[path].st_size > _LARGE):
            record, entry = look.states[path], tracked.get(path)
            if entry is not None and entry.is_clean:
                look.states[path] = replace(record, state=replace(record.state, content=f"{GIT}{entry.oid}"))
                continue
            earlier = self._last.states.get(path)
            if (state := reader.complete(path, record, earlier, entry.oid if entry else "")) is NOTHING:
                del look.states[path]
            else:
                look.states[path] = state


class _Walk:
    """One walk over the folders below the root of a reader."""

    def __init__(self, reader: StateReader, last: Mapping[str, StampedState], look: Look, own_folder: str) -> None:
        self._reader, self._last, self._look, self._own = reader, last, look, own_folder
        self._end = time.monotonic() + WALK_SECONDS
        self._linked: dict[tuple[int, int], str] = {}
        """By device and inode of a file with several links: the first path, which most have alone, since a copy that
        there was no time for is a link."""
        self._pairs: dict[str, list[str]] = {}
        """By these paths: all of the same file."""
        self._paired: list[str] = []
        """Paths that were among several in the last look."""
        self.unread: dict[str, os.stat_result] = {}
        """Files whose content is not known."""
        self.special: list[str] = []
        """Sockets and devices."""
        self.deferred: dict[str, int] = {}
        """Folders that a tool may fill, with their inode: not entered."""
        self._names: dict[str, set[str]] = {}
        """Names in the folders above those that are walked."""

    def run(self, waiting: list[str]) -> None:
        """Walk over the folders of `waiting` and all below them."""
        chosen = set(waiting)
        while waiting and self._look.is_whole:
            folder = waiting.pop()
            try:
                above = self._reader.chain.open(folder)
                with open_listable(above) as listed, os.scandir(listed) as entries:
                    self._walk_folder(listed, folder, list(entries), waiting, is_chosen=folder in chosen)
            except (OSError, ValueError) as error:
                if getattr(error, "errno", 0) not in REPLACED:
                    self._leave_out(folder, UNREAD)

    def _leave_out(self, folder: str, why: str) -> None:
        self._look.skipped.add(folder)
        self._look.not_covered[folder or PROJECT_ITSELF] = why

    def _walk_folder(
        self, handle: int, folder: str, entries: list[os.DirEntry[str]], waiting: list[str], *, is_chosen: bool
    ) -> None:
        names = {entry.name for entry in entries}
        above, _, folder_name = folder.rpartition("/")
        if folder and not is_chosen and is_filled_by_tool(folder_name, names, self._names.get(above, set())):
            self.deferred[folder] = os.fstat(handle).st_ino
            return
        base, states, inner, find_known = f"{folder}/" if folder else "", self._look.states, [], self._last.get
        for entry in entries:
            name = entry.name
            path = base + name
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError as error:
                if error.errno not in REPLACED:
                    self._leave_out(path, UNREAD)
                continue
            mode = status.st_mode
            kind = mode & _KIND
            if name[0] == "." and (name == ".git" or is_draft(name)):
                if name == ".git":
                    self._look.repositories.append(folder)
                continue
            if kind == _FOLDER:
                if path == self._own:
                    continue
                inner.append(path)
            elif status.st_nlink > 1:
                first = self._linked.setdefault((status.st_dev, status.st_ino), path)
                if first is not path:
                    self._pairs.setdefault(first, [first]).append(path)
            record = find_known(path)
            # as in `make_stamp`, which costs a tenth of a look
            stamp = (status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns, mode)
            if record is None or record.stamp != stamp or not (record.is_settled or record.is_late):
                try:
                    record = describe(handle, name, status)
                except OSError:
                    continue
                if kind == _REGULAR:
                    self.unread[path] = status
                elif record.state.kind == SPECIAL:
                    self.special.append(path)
            elif record.state.pair:
                self._paired.append(path)
            states[path] = record
        if inner and folder.count("/") + 2 > MAX_LEVELS:
            for path in inner:
                self._leave_out(path, TOO_DEEP)
        elif inner:
            self._names[folder] = names
            waiting += inner
        self._look.is_whole = len(states) <= MOST and time.monotonic() < self._end

    def note_pairs(self) -> None:
        """Note which paths are hard links to the same file."""
        firsts = {path: min(paths) for paths in self._pairs.values() for path in paths}
        for path in (*firsts, *(paired for paired in self._paired if paired not in firsts)):
            record, first = self._look.states.get(path), firsts.get(path, "")
            if record is not None and record.state.pair != first:
                self._look.states[path] = replace(record, state=replace(record.state, pair=first))


def _explain_uncovered(state: FileState) -> str:
    """Return the reason that an undo may not bring the path back, "" if it may."""
    if state.kind != FILE or not state.content:
        return {SPECIAL: SPECIAL_FILE, FILE: UNCOPIED}.get(state.kind, "")
    if state.content.startswith((SHA256, GIT)):
        return ""
    return f"{state.size / 1e6:,.0f} MB, {LINKED}" if state.size > _LARGE else LINKED
