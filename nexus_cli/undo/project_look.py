"""Look at the files of a project before and after a command: git lists what differs from its index, else all files.

Git works on a private copy of the index, so that nothing is written in the repository. It compares no content and runs
no filter: what may have changed is read here, and equal bytes are recognized by their blob's name. Bytes that git does
not have go to the byte store. Files in folders that tools fill are left out.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from nexus_cli.config.paths import private_dir
from nexus_cli.config.programs import find_program
from nexus_cli.config.protected_places import MADE_BY_TOOLS
from nexus_cli.core.elide import name_first
from nexus_cli.core.real_files import copy_content, list_folder, open_folder, open_regular
from nexus_cli.sandbox.own_git import Git, GitError, explain
from nexus_cli.tools.atomic_write import is_draft
from nexus_cli.undo.byte_store import ByteStore
from nexus_cli.undo.read_state import NOTHING, Seen, StateReader
from nexus_cli.undo.records import GIT, fields_of, parse_state
from nexus_cli.undo.repository_copy import is_lost

MOST = 20_000
"""Most files that git does not track in one look; with more, new files are not followed."""
MOST_INDEX = 256 << 20
"""Most bytes of an index that is copied; with a larger one the project is looked at without git."""
SECONDS = 3.0
"""Time limit of one run of git, and of reading the files of one look, while a command waits for it."""
_MAY_BE_WORK = frozenset({"vendor", "build", "dist", "target", "_build", ".build", ".bundle", "htmlcov"})
"""Names of folders that a person may fill too: left out only if git ignores them."""
_NEVER = MADE_BY_TOOLS - _MAY_BE_WORK
_MOST_LISTED = 100
"""Most of these folders of which one look lists what is directly in them."""
_CHECKED = ("filter", "ident", "working-tree-encoding")
"""Attributes with which a file may have other bytes than its blob of the same size."""
_REFRESH = 200
"""Number of unchanged files that git's index takes for changed, above which the copy of the index is refreshed."""

_CLOSED = re.compile(rb"could not open directory '(.+?)/': ", re.DOTALL)
"""Git's warning about a folder that may not be read."""
_RECENT = 2_000_000_000


class NotFollowed(Exception):
    """A project whose changes cannot be known; the text is the reason."""


class Tracked(NamedTuple):
    """A file in git's index."""

    oid: str
    mode: int
    """Permission bits of the file."""
    size: int
    """Bytes of the file, -1 if it was not there."""
    is_read: bool
    """True if its bytes are not those of its blob, or git does not compare it: it is read like an untracked file."""


@dataclass
class Look:
    """The files of a project at one moment, without those that are as git's index says."""

    seen: dict[str, Seen] = field(default_factory=dict)
    ignored: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    """Folders that were left out: what is below them later is not new."""
    inside: dict[str, set[str]] = field(default_factory=dict)
    """By such a folder: the names directly in it, without caches."""
    is_whole: bool = True
    """False if there were more than `MOST` files: a file that is missing here may have been there."""
    tracked: Mapping[str, Tracked] = field(default_factory=dict)
    repositories: list[str] = field(default_factory=list)
    """Relative paths of the folders with a `.git`, "" for the root."""
    not_covered: dict[str, str] = field(default_factory=dict)
    """By path that undo cannot bring back: the reason."""
    at: int = field(default_factory=time.time_ns)
    """When it began (ns)."""


class LookedProject:
    """One project, and what is known of its files. Its methods block and may be called by several threads."""

    def __init__(self, root: Path, data: Path, key: str, store: ByteStore | None, seconds: float = SECONDS) -> None:
        """`root` is a real path. The copy of the index and the last look are files named by `key` in the data folder.

        Without a `store` no bytes are kept, and these files are in a temporary folder. `seconds` limits one run of git,
        and reading the files of one look.
        """
        self.root = root
        self._seconds = seconds
        own = Path(os.path.realpath(data))
        self._own = f"{own.relative_to(root)}/" if own.is_relative_to(root) else ""
        """Our own data folder, if it is in the project."""
        self._temporary = None if store else tempfile.TemporaryDirectory(prefix="nexus-", ignore_cleanup_errors=True)
        self._data = data
        self._place = Path(self._temporary.name) if self._temporary else data / "undo" / "looks"
        self.index = self._place / f"{key}.index"
        self.table = self._place / f"{key}.json"
        self._tracked_file = self._place / f"{key}.tracked"
        self._store = store
        self._git: Git | None = None
        self._git_dir: Path | None = None
        self._repository: Path | None = None
        """The folder of git that holds the objects: of a linked worktree the common one."""
        self._options: Sequence[str] = ()
        self._index_stamp: tuple[int, ...] = ()
        self._lines: set[bytes] = set()
        self._submodules: list[str] = []
        self._attributes: tuple[object, ...] = ()
        self._tracked: dict[str, Tracked] = {}
        self._recent: dict[str, int] = {}
        """Tracked files that had just changed when the index was read, with the time (ns): git compares seconds."""
        self._last = Look()
        self._saved: Look | None = None
        self._running = 0
        self._lock = threading.Lock()

    def begin(self) -> Look:
        """Look at the project before a command; `end` has to follow. Raises `NotFollowed`: then not."""
        with self._lock:
            look = self._look_guarded(self._begin)
            self._running += 1
            listed = [path for path in sorted(look.skipped) if "cache" not in path.rpartition("/")[2].lower()]
            look.inside = {path: self._list_names(path) for path in listed[:_MOST_LISTED]}
            return look

    def end(self, before: Look) -> Look:
        """Look at the project after the command that began with `before`. Raises `NotFollowed`."""
        with self._lock:
            self._running -= 1
            return self._look_guarded(lambda: self._look_again(before))

    def restore(self, values: Mapping[str, Any]) -> Look:
        """Return the look that `save` wrote, as the one of a command that began in another process.

        Raises `NotFollowed` if git cannot be run now, `OSError`, and `ValueError`, `KeyError` or `TypeError` for
        damaged files.
        """
        with self._lock:
            try:
                self._find_git()
                if self._git is not None or self._tracked_file.exists():
                    rows = json.loads(self._tracked_file.read_text("ascii"))
                    self._tracked = {path: Tracked(*row) for path, row in rows.items()}
                if self._git is not None:
                    self._keep_lines(self._list_index())
            except GitError as error:
                raise NotFollowed(str(error)) from error
            self._running += 1
            seen = {
                path: Seen(parse_state(state), (a, b, c, d, e), is_settled)
                for path, (state, (a, b, c, d, e), is_settled) in values["seen"].items()
            }
            look = Look(seen, skipped=set(values["skipped"]), is_whole=values["is_whole"], tracked=self._tracked)
            look.at = values.get("at", 0)
            self._last = look
            return look

    def save(self, look: Look) -> None:
        """Write a look, for the process that finds out what a killed one changed. Raises `OSError`."""
        if self._saved is not None and self._saved.seen == look.seen:
            return
        self._saved = look
        rows = {path: [one.state, one.stamp, one.is_settled] for path, one in look.seen.items()}
        values = {
            "seen": rows,
            "skipped": sorted(look.skipped),
            "is_whole": look.is_whole,
            "at": look.at,
        }
        _write(self.table, {"root": str(self.root), **values})

    def remove(self) -> None:
        """Remove the copy of the index and the saved look."""
        for place in (self.index, self.table, self._tracked_file):
            with suppress(OSError):
                place.unlink()
        if self._temporary is not None:
            self._temporary.cleanup()

    def name_removed(self, before: Look) -> str:
        """Return a text with the folders that were left out of a look, and what lay directly in them, that is gone now,
        without caches; "" if none."""
        gone = []
        for path in sorted(before.skipped):
            if not os.path.lexists(self.root / path):
                gone += [] if "cache" in path.rpartition("/")[2].lower() else [path]
            elif inside := before.inside.get(path):
                gone += [f"{path}/{name}" for name in sorted(inside - self._list_names(path))]
        verb = "were" if gone[1:] else "was"
        told = f"{name_first(gone, 3)} {verb} removed; what is in folders that tools fill is not kept"
        return told if gone else ""

    def _list_names(self, path: str) -> set[str]:
        with suppress(OSError):
            return {name for name in list_folder(self.root / path) if "cache" not in name.lower()}
        return set()

    def _look_guarded(self, work: Callable[[], Look]) -> Look:
        try:
            look = work()
        except (OSError, GitError, ValueError) as error:
            raise NotFollowed(str(error) or type(error).__name__) from error
        self._last = look
        return look

    def _begin(self) -> Look:
        home = os.path.realpath(os.path.expanduser("~"))
        if str(self.root) in (os.sep, home):
            raise NotFollowed("the home folder and / are not followed")
        started = time.monotonic()
        try:
            return self._begin_with_git()
        except GitError:
            if time.monotonic() - started > self._seconds:
                raise
        self._forget_git()  # a broken repository
        return self._look({})

    def _begin_with_git(self) -> Look:
        self._find_git()
        if self._git is not None and self._running == 0:
            self._copy_index()
        self._recent = {path: at for path, at in self._recent.items() if at > time.time_ns() - _RECENT}
        look = self._look({})
        clean = [path for path, one in look.seen.items() if one.state.content.startswith(GIT)]
        if self._git is not None and self._index_stamp and len(clean) > _REFRESH and self._running == 0:
            self._refresh_index()
            self._read_index(again=clean)
            look = self._look({})
        return look

    def _find_git(self) -> None:
        """Find git and its folder for this project, if it is the root of a repository."""
        program = find_program("git", self.root) if os.path.lexists(self.root / ".git") else None
        if program is None:
            self._forget_git()
            return
        private_dir(self._place)
        if self._git is None:
            variables = {"GIT_INDEX_FILE": str(self.index), "GIT_WORK_TREE": str(self.root)}
            variables["GIT_CEILING_DIRECTORIES"] = str(self.root.parent)  # a broken one is not that of a folder above
            git = Git(program, self.root, variables, self._seconds, self.root, reads=(self.index,))
            status, output, _ = git.try_run("rev-parse", "--absolute-git-dir", "--git-common-dir")
            places = os.fsdecode(output).splitlines()
            folders = [Path(os.path.realpath(self.root / place)) for place in places]
            if status or len(folders) != 2 or not all(map(git.may_use, folders)):
                self._forget_git()
                return
            self._git = git
            self._git_dir, self._repository = folders
        self._options = ()

    def _refresh_index(self) -> None:
        """Let git refresh the copy of the index. It writes in a folder that has nothing else."""
        assert self._git is not None
        with tempfile.TemporaryDirectory(prefix="nexus-") as name:
            folder = Path(os.path.realpath(name))
            with open(self.index, "rb") as source:
                _copy_index(source, folder / "index")
            variables = {**self._git.variables, "GIT_INDEX_FILE": str(folder / "index")}
            git = replace(self._git, variables=variables, writes=(folder,))
            git.try_run(*self._options, "update-index", "-q", "--refresh")
            draft = self.index.with_name(f"{self.index.name}.new")
            draft.unlink(missing_ok=True)
            with open_folder(folder) as handle, open_regular(handle, "index") as source:
                _copy_index(source, draft)
            os.replace(draft, self.index)

    def _forget_git(self) -> None:
        self._git = None
        self._index_stamp = ()
        self._attributes = ()
        self._lines = set()
        self._tracked = {}
        self._submodules = []

    def _switch_off(self) -> None:
        """Find out which filters have to be off now: for all that compares files. Raises if git must not run here."""
        assert self._git is not None
        self._options = self._git.without_filters()

    def _look_again(self, before: Look) -> Look:
        started = time.monotonic()
        try:
            look = self._look_after(before)
        except GitError:
            if time.monotonic() - started > self._seconds:
                raise
            look = self._look_without_git(before)  # it broke the repository
        return look

    def _look_after(self, before: Look) -> Look:
        if before.tracked:
            git_dir = self._git_dir or self.root / ".git"
            if self._git is None or is_lost(self.root, git_dir, self._repository or git_dir):
                return self._look_without_git(before)
        self._options = ()
        if not self.root.exists():
            return Look(dict.fromkeys(before.seen, NOTHING))
        return self._look(before.seen)

    def _look_without_git(self, before: Look) -> Look:
        """Look after a command that removed the repository, or began before another one broke it."""
        self._git = None
        known = before.seen | dict.fromkeys(before.tracked, NOTHING)
        return self._look(known) if self.root.exists() else Look(dict.fromkeys(known, NOTHING))

    def _copy_index(self) -> None:
        """Copy the index if it has changed, and read its entries."""
        assert self._git_dir is not None
        stamp: tuple[int, ...] = ()
        attributes = self._find_attributes()
        with ExitStack() as opened:
            try:
                folder = opened.enter_context(open_folder(self._git_dir))
                source = opened.enter_context(open_regular(folder, "index"))
                about = os.fstat(source.fileno())
                stamp = (about.st_size, about.st_mtime_ns, about.st_ino, about.st_ctime_ns)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise GitError(f"the index cannot be read: {error.strerror}") from error
            if stamp and stamp == self._index_stamp and attributes == self._attributes:
                return
            self.index.unlink(missing_ok=True)
            if stamp:
                _copy_index(source, self.index)
        again: Iterable[str] = self._last.seen if attributes == self._attributes else self._tracked
        self._index_stamp = stamp
        self._attributes = attributes
        self._read_index(again)
        _write(self._tracked_file, self._tracked)

    def _find_attributes(self) -> tuple[object, ...]:
        """Return paths and change times of the files with git attributes; () if there are none."""
        assert self._git_dir is not None and self._git is not None
        named = [path for path in (*self._tracked, *self._last.seen) if path.endswith(".gitattributes")]
        places = [self.root / ".gitattributes", self._git_dir / "info/attributes", *(self.root / one for one in named)]
        found = []
        for place in dict.fromkeys(places):
            with suppress(OSError):
                found.append((str(place), os.lstat(place).st_ctime_ns))
        return tuple(found)

    def _read_index(self, again: Iterable[str]) -> None:
        """Read the entries of the index; look at the files of new ones, and of `again`."""
        assert self._git is not None
        lines = self._list_index()
        repeated = set(again)
        added = lines - self._lines
        new = {_path_of(line): line for line in added}
        if repeated:
            new |= {path: line for line in lines if (path := _path_of(line)) in repeated}
        gone = {_path_of(line) for line in self._lines - lines}
        self._tracked = {path: one for path, one in self._tracked.items() if path not in gone} | self._describe(new)
        self._keep_lines(lines)

    def _keep_lines(self, lines: set[bytes]) -> None:
        self._lines = lines
        self._submodules = [_path_of(line) for line in lines if line[1:9] == b" 160000 "]

    def _list_index(self) -> set[bytes]:
        return {*self._run("ls-files", "-v", "-s", "-z").split(b"\0")} - {b""}

    def _describe(self, lines: Mapping[str, bytes]) -> dict[str, Tracked]:
        """Return the entries of these lines of the index, with what the files are now."""
        assert self._git is not None
        if not lines:
            return {}
        oids = {line.split(b" ", 3)[2] for line in lines.values()}
        told = self._run("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=b"\n".join(oids) + b"\n")
        sizes = {row[0]: row[1] for one in told.splitlines() if len(row := one.split()) == 2}
        converted = self._find_converted(lines)
        found = {}
        for path, line in lines.items():
            tag, mode, oid, stage = line.partition(b"\t")[0].split(b" ")
            if mode == b"160000":
                continue
            size = -1
            bits = 0o755 if mode == b"100755" else 0o644
            is_file = mode != b"120000"
            with suppress(OSError, ValueError):
                about = os.lstat(self.root / path)
                size = about.st_size
                bits = stat.S_IMODE(about.st_mode)
                if about.st_ctime_ns > time.time_ns() - _RECENT:
                    self._recent[path] = about.st_ctime_ns
            is_same = size < 0 or sizes.get(oid) == b"%d" % size
            is_read = not (is_same and is_file and tag == b"H" and stage == b"0") or path in converted
            found[path] = Tracked(oid.decode(), bits, size if size >= 0 else int(sizes.get(oid, b"0") or 0), is_read)
        return found

    def _find_converted(self, lines: Mapping[str, bytes]) -> set[str]:
        """Return the paths whose attributes name a conversion that may keep the size."""
        if not self._attributes and not self._config("core.attributesfile"):
            return set()
        stdin = b"".join(os.fsencode(path) + b"\0" for path in lines)
        words = self._run("check-attr", "-z", "--stdin", *_CHECKED, stdin=stdin).split(b"\0")[:-1]
        values = zip(words[::3], words[2::3], strict=True)
        return {os.fsdecode(path) for path, value in values if value not in (b"unspecified", b"unset")}

    def _config(self, name: str) -> bool:
        assert self._git is not None
        return self._git.try_run("config", "--includes", "--get", name)[0] == 0

    def _look(self, before: Mapping[str, Seen]) -> Look:
        """Look at the project; the paths of `before` are looked at even if nothing lists them any more."""
        look = Look(tracked=self._tracked)
        last = self._last.seen
        with StateReader(self.root, self._store, self._seconds) as reader:
            found = dict.fromkeys(before, "") | self._list_files(look, reader)
            for path in sorted(found):
                if (self._own and path.startswith(self._own)) or is_draft(path.rpartition("/")[2]):
                    continue
                one = reader.read(path, last.get(path), found[path] or self._oid(path))
                if one is not NOTHING or path in before or path in self._tracked:
                    look.seen[path] = one
            look.repositories = [*reader.repositories, *([""] if os.path.lexists(self.root / ".git") else [])]
        return look

    def _list_files(self, look: Look, reader: StateReader) -> dict[str, str]:
        """Return the files to read, each with the blob that it probably equals or ""."""
        if self._git is None:
            return dict.fromkeys(self._list_below(look, reader, [""], _NEVER, MOST), "")
        tracked, others, ignored = self._list_by_git(look)
        nested = [path for path, is_folder in others.items() if is_folder]
        nested += self._submodules
        found = [path for path, is_folder in others.items() if not is_folder]
        found += self._list_below(look, reader, nested, _NEVER, MOST - len(found))
        folders = [path for path, is_folder in ignored.items() if is_folder]
        inside = self._list_below(look, reader, folders, MADE_BY_TOOLS, MOST - len(found))
        look.ignored = {*inside, *(path for path, is_folder in ignored.items() if not is_folder)}
        return dict.fromkeys((*found, *look.ignored), "") | tracked

    def _list_below(
        self, look: Look, reader: StateReader, folders: Iterable[str], skips: frozenset[str], most: int
    ) -> list[str]:
        """Return the files below `folders`, at most `most`."""
        found: list[str] = []
        for folder in folders:
            left = max(0, most - len(found))
            listed = list(reader.list_below(folder, skips, left + 1, look.skipped))
            look.is_whole = look.is_whole and len(listed) <= left
            found += listed[:left]
        return found

    def _oid(self, path: str) -> str:
        tracked = self._tracked.get(path)
        return tracked.oid if tracked is not None and not tracked.is_read else ""

    def _list_by_git(self, look: Look) -> tuple[dict[str, str], dict[str, bool], dict[str, bool]]:
        """Return the tracked files that may have changed, each with its blob, the untracked and the ignored ones, each
        with True for a folder."""
        skips = [word for name in sorted(_NEVER) for word in ("-x", f"{name}/")]
        commands = (
            ("diff-files", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=all"),
            ("ls-files", "-o", "-z", "--exclude-standard", *skips),
            ("ls-files", "-o", "-i", "-z", "--exclude-standard", "--directory", *skips),
        )
        with ThreadPoolExecutor(2) as pool:
            walks = [pool.submit(self._run_told, *one) for one in commands[1:]]
            self._switch_off()  # a command may have changed the settings
            raw = self._run(*commands[0])
            (others, closed), (ignored, _) = (one.result() for one in walks)
        look.skipped.update(map(os.fsdecode, _CLOSED.findall(closed)))
        words = raw.split(b"\0")[:-1]
        rows = zip(words[::2], map(os.fsdecode, words[1::2]), strict=True)
        tracked = {path: row.split(b" ")[2].decode() for row, path in rows}
        tracked |= {path: self._oid(path) for path in self._recent}
        tracked |= {path: "" for path, one in self._tracked.items() if one.is_read}
        return tracked, _split_folders(others, _NEVER, look), _split_folders(ignored, MADE_BY_TOOLS, look)

    def _run(self, *arguments: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
        """Return the output of git. Raises `GitError`, `OSError`."""
        return self._run_told(*arguments, stdin=stdin, ok=ok)[0]

    def _run_told(self, *arguments: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> tuple[bytes, bytes]:
        """Return the output of git and its warnings. Raises `GitError`, `OSError`."""
        assert self._git is not None
        status, output, errors = self._git.try_run(*self._options, *arguments, stdin=stdin)
        if status not in ok:
            raise GitError(explain(arguments[0], status, errors))
        return output, errors


def _path_of(line: bytes) -> str:
    return os.fsdecode(line.partition(b"\t")[2])


def _split_folders(output: bytes, skips: frozenset[str], look: Look) -> dict[str, bool]:
    """Return the listed paths, each with True for a folder, without those in folders of `skips`."""
    found = {}
    for one in output.split(b"\0")[:-1]:
        path = os.fsdecode(one)
        parts = path.lower().split("/")
        if skips.isdisjoint(parts):
            found[path.rstrip("/")] = path.endswith("/")
        else:
            depth = next(i for i, part in enumerate(parts) if part in skips)
            look.skipped.add("/".join(path.split("/")[: depth + 1]))
    return found


def _copy_index(source: IO[bytes], target: Path) -> None:
    """Copy an index to a new file, with its time: git compares the times of files with it. Raises `GitError` for one
    that is too large, and `OSError`."""
    about = os.fstat(source.fileno())
    if about.st_size > MOST_INDEX:
        raise GitError(f"the index has more than {MOST_INDEX >> 20} MiB")
    with open(target, "xb") as copy:
        copy_content(source.fileno(), copy.fileno(), about.st_size)
    os.utime(target, ns=(about.st_atime_ns, about.st_mtime_ns))


def _write(place: Path, values: object) -> None:
    draft = place.with_name(f"{place.name}.new")
    private_dir(place.parent)
    with open(
        os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w", encoding="ascii"
    ) as file:
        file.write(json.dumps(values, default=fields_of, separators=(",", ":")))
    os.replace(draft, place)
