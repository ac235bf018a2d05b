"""Sandbox profiles: the files a command may read and write, and its network access.

`read` sees only the project, the system and tools, and writes only its temporary folder. `write` sees all but
credentials, and writes the project and caches of its own. `net` adds the network. `none` is not sandboxed. Backends
translate a profile into rules, mounts or a policy.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Literal, get_args

from nexus_cli.config.paths import Places, folders_above, home_folder, is_below, private_dir
from nexus_cli.config.protected_places import credential_paths, fold_path, own_paths, shown_paths
from nexus_cli.config.worktree_record import MAX_OF_LINK, RECORD, find_worktree, read_git_file
from nexus_cli.core.real_files import (
    LISTED,
    NEW,
    copy_file,
    open_folder,
    open_parent,
    open_real,
    read_regular,
    real_path,
    stat_at,
)
from nexus_cli.core.shared_types import Environ, Paths
from nexus_cli.sandbox.visible_places import closed_places, hidden_in_tools, shown_places

ProfileName = Literal["read", "write", "net", "none"]
PROFILES: tuple[ProfileName, ...] = get_args(ProfileName)

_HOOKS = ".cache/pre-commit"
_CACHES = (
    ("GOCACHE", ".cache/go-build", True),
    ("GOLANGCI_LINT_CACHE", ".cache/golangci-lint", True),
    ("UV_CACHE_DIR", ".cache/uv", True),
    ("PIP_CACHE_DIR", ".cache/pip", True),
    ("GRADLE_USER_HOME", ".gradle", True),
    ("CCACHE_DIR", ".cache/ccache", True),
    ("ZIG_GLOBAL_CACHE_DIR", ".cache/zig", True),
    ("PRE_COMMIT_HOME", _HOOKS, True),
    ("PREK_HOME", ".cache/prek", True),
    ("PYLINTHOME", ".cache/pylint", True),
    ("MPLCONFIGDIR", ".config/matplotlib", True),
    ("IPYTHONDIR", ".ipython", True),
    ("JUPYTER_RUNTIME_DIR", ".local/share/jupyter/runtime", True),
    ("GOPATH", "go", False),
    ("GOMODCACHE", "go/pkg/mod", False),
    ("CARGO_HOME", ".cargo", False),
    ("npm_config_cache", ".npm", False),
    ("COREPACK_HOME", ".cache/node/corepack", False),
    ("pnpm_config_store_dir", ".local/share/pnpm/store", False),
    ("npm_config_store_dir", ".local/share/pnpm/store", False),
    ("npm_package_config_node_gyp_devdir", ".cache/node-gyp", False),
    ("npm_config_devdir", ".cache/node-gyp", False),
    ("YARN_CACHE_FOLDER", ".cache/yarn", False),
    ("YARN_GLOBAL_FOLDER", ".yarn/berry", False),
    ("DENO_DIR", ".cache/deno", False),
    ("POETRY_CACHE_DIR", ".cache/pypoetry", False),
    ("PDM_CACHE_DIR", ".cache/pdm", False),
    ("COMPOSER_CACHE_DIR", ".cache/composer", False),
    ("NUGET_PACKAGES", ".nuget/packages", False),
    ("MAVEN_OPTS", ".m2/repository", False),
)
"""Caches of build tools: the variable that moves the cache, its default place in the home folder, and whether the tool
fails if it cannot write there."""
_NPM_LOCKS, _PNPM_LOCK = ("package-lock.json", "npm-shrinkwrap.json"), "pnpm-lock.yaml"
_NESTED = 8
"""Most nested worktrees."""


@dataclass(frozen=True, slots=True)
class SandboxProfile:
    """The rights of a sandboxed command."""

    name: ProfileName
    project: Path
    cwd: Path
    writable: Paths = ()
    """Real paths of writable folders and files, besides `temp`; the project first."""
    hidden: Paths = ()
    """Files and folders that cannot be read, existing or not."""
    denied: Paths = ()
    """The part of `hidden` from the person's deny rules. Landlock still allows creating and removing files beside
    them."""
    write_denied_paths: Mapping[str, str] = field(default_factory=dict)
    """Whole paths that the person's deny rules keep from being written, existing or not, each with its rule."""
    write_denied_patterns: Mapping[str, str] = field(default_factory=dict)
    """Regular expressions of further such paths, folded."""
    mounts_write_denied: bool = False
    """True if the backend keeps existing ones read-only; else they are compared after a command, and put back."""
    revealed: Paths = ()
    """Existing paths inside hidden folders that may be read. A link does not reveal a hidden target. A project that is
    a worktree of nexus is in a hidden folder; its writable paths are in `writable` too."""
    guarded: Paths = ()
    """The project and its folders down to `cwd`, whose protected names (`config/protected_places.py`) are restored
    after a command. Further folders are found before each command (`guarded_places`)."""
    added: Paths = ()
    """Folders used like the project: writable, and their protected names are restored too."""
    git_folder: Path | None = None
    """The git folder of a worktree, inside its repository's git folder and outside the project."""
    records: Path | None = None
    """Nexus's data folder, which stores the snapshot of guarded places while a command runs."""
    network: bool = False
    unix_sockets: bool = False
    temp: Path | None = None
    """The private folder for `TMPDIR`."""
    claude_home: Path | None = None
    """For a hook: the folder of the project that bubblewrap shows as `~/.claude`, with what is there read-only. A hook
    may also write `.claude/*.log`."""
    caches: tuple[tuple[str, str], ...] = ()
    """Environment variables that move caches of build tools to the project's own cache folder, which is in
    `writable`."""
    notes: tuple[str, ...] = ()
    """Warnings for the person, such as a project that cannot be written."""

    def each_guarded(self) -> Iterator[SandboxProfile]:
        """Yield a profile for the project, and one for each added folder as a project: `guarded` names its places."""
        if self.guarded:
            yield self
        for path in self.added:
            yield replace(self, project=path, cwd=path, guarded=(path,), added=(), git_folder=None)

    def find_rule(self, path: str) -> str:
        """Return the deny rule that keeps a path from being written, "" if none does."""
        exact_rule = next(
            (rule for kept_path, rule in self.write_denied_paths.items() if is_below(path, kept_path)), ""
        )
        matches = (rule for pattern, rule in self.write_denied_patterns.items() if re.match(pattern, fold_path(path)))
        return exact_rule or next(matches, "")

    def for_hook(self, folders: Places) -> SandboxProfile:
        """Return the profile for a hook, whose logs are often in `~/.claude`."""
        cache = next((path for path in self.writable if path.is_relative_to(os.path.realpath(folders.cache))), None)
        with suppress(OSError):
            # Not in the cache itself: commands must not make links there.
            return replace(self, claude_home=private_dir(folders.cache / "claude" / cache.name)) if cache else self
        return self

    @property
    def roots(self) -> Paths:
        """Return all writable paths, `temp` included."""
        return (*self.writable, *([self.temp] if self.temp else []))


def make_profile(
    name: ProfileName,
    *,
    project: Path,
    cwd: Path,
    own: Places,
    temp: Path | None,
    added: Iterable[Path] = (),
    write: Iterable[str] = (),
    unix_sockets: bool = False,
    denied: Paths = (),
    make_caches: bool = True,
    environ: Environ = os.environ,
) -> SandboxProfile:
    """Make the profile `name` for commands of `project`; only existing folders and files are writable.

    The `added` folders (real paths) are used like the project.
    `write` has the person's additions (`sandbox.write`), `denied` the files that deny rules hide. A project that is
    or contains the home folder is not writable, which a note says.
    """
    project, cwd = real_path(project), real_path(cwd)
    secret = (*credential_paths(environ), *own_paths(own), Path("/run/secrets"), Path("/var/run/secrets"))
    hidden = (*secret, *denied)
    if name == "none":
        return SandboxProfile(name, project, cwd, unix_sockets=True, network=True)
    revealed = _find_shown(project, own)
    if name == "read":
        hidden, revealed = _narrow(project, cwd, own, environ, hidden, revealed, tuple(added))
        revealed = (*revealed, temp) if temp else revealed
        return SandboxProfile(name, project, cwd, hidden=hidden, denied=denied, revealed=revealed, temp=temp)
    home = real_path(home_folder(environ))
    added = tuple(added)
    candidates = (project, *added, *_personal_paths(write, home))
    writable = [place for place in candidates if place.parent != place and not home.is_relative_to(place)]
    notes = [
        f"commands cannot write in {place}: it is or contains your home folder"
        for place in candidates
        if place not in writable
    ]
    if any(is_below(path, *writable) and os.path.exists(path) for path in secret):
        notes.append(
            "the sandbox hides paths in writable folders: with Landlock, commands cannot create files next to them"
        )
    git_folder = find_worktree_folder(project)
    if project in writable and git_folder and not home.is_relative_to(git_folder.parent.parent):
        # The whole git folder, as in the main worktree: `rebase` and `stash` create `packed-refs.lock` in it.
        writable.append(git_folder.parent.parent)
    folder = _cache_folder(own, _find_repository(project, git_folder, own), make_caches)
    for path in folder if make_caches else ():
        _copy_hook_index(path, home, environ)
    inside = cwd.relative_to(project).parts if cwd.is_relative_to(project) else ()
    guarded = tuple(project.joinpath(*inside[:depth]) for depth in range(len(inside) + 1))
    return SandboxProfile(
        name,
        project,
        cwd,
        writable=tuple(dict.fromkeys([*writable, *folder])),
        hidden=hidden,
        denied=denied,
        revealed=revealed,
        guarded=guarded if project in writable else (),
        added=tuple(place for place in added if place in writable),
        git_folder=git_folder,
        records=own.data,
        network=name == "net",
        unix_sockets=unix_sockets,
        temp=temp,
        caches=tuple(find_caches(folder, (project, cwd), home, environ, name == "net", writable)),
        notes=tuple(notes),
    )


def _narrow(
    project: Path, cwd: Path, folders: Places, environ: Environ, secret: Paths, revealed: Paths, added: Paths
) -> tuple[Paths, Paths]:
    """Return the hidden and shown paths of `read`: besides `secret`, it hides all but the project, system and tools."""
    closed = closed_places(project, environ)
    worktree = find_worktree_folder(project)
    git = worktree.parent.parent if worktree else None
    visible = (*shown_places(project, cwd, git, folders, environ), *added)
    places, secrets = set(map(str, closed)), set(map(str, secret))
    inside = (path for path in visible if str(path) not in places and has_above(str(path), places))
    kept_tools = tuple(path for path in inside if not has_above(str(path), secrets))
    settings = hidden_in_tools(kept_tools, (project, cwd, *added, *([git] if git else []), *revealed))
    return (*secret, *closed, *settings), (*revealed, *kept_tools)


def has_above(path: str, folders: Set[str]) -> bool:
    """Return True if a path is one of many `folders` or inside one."""
    return not {path, *folders_above(path), os.sep}.isdisjoint(folders)


def _find_shown(project: Path, folders: Places) -> Paths:
    paths = [Path(os.path.realpath(path.parent), path.name) for path in shown_paths(folders) if os.path.lexists(path)]
    worktree = find_worktree(project, folders)
    if worktree is None:
        return tuple(paths)
    # The worktree's record names the project whose trust applies to it; its repository borrows objects of that one's.
    lenders: list[Path] = []
    while worktree is not None and len(lenders) < _NESTED:
        lenders.append(worktree.repository)
        paths.append(worktree.home / RECORD)
        worktree = find_worktree(worktree.source, folders)
    return (*paths, project, *lenders)


def _personal_paths(paths: Iterable[str], home: Path) -> list[Path]:
    full_paths = [os.path.join(home, path[2:]) if path.startswith("~/") else path for path in paths]
    return [real_path(path) for path in full_paths if os.path.isabs(path) and os.path.lexists(path)]


def find_caches(
    folders: Paths, places: Collection[Path], home: Path, environ: Environ, network: bool, writable: Collection[Path]
) -> Iterator[tuple[str, str]]:
    """Yield the variables, with values, that move caches of build tools into the cache folder of the project (`folders`
    has it, or is empty) at `places`: its root and the working folder.

    The person's caches have programs and sources that run later in other projects: a command may read them, but not
    write. A cache is moved if the tool needs to write it, if the person has none, or if there is a network to fill it
    from; from then on it stays moved. Caches that the person made `writable` are not moved. npm complains at each start
    of the variables that pnpm before 11 and node-gyp before 11.4 need: a project of npm does not get the former, a
    command without network not the latter.
    """
    locks = {name for name in (*_NPM_LOCKS, _PNPM_LOCK) for place in places if os.path.lexists(place / name)}
    withheld = {"npm_config_store_dir": bool(locks) and _PNPM_LOCK not in locks, "npm_config_devdir": not network}
    for folder, (variable, place, gives_up) in product(folders, _CACHES):
        usual, moved_place = _usual_place(variable, place, home, environ), folder / place
        is_read = os.path.exists(usual) and not (gives_up or network or moved_place.exists())
        if withheld.get(variable) or is_read or is_below(os.path.realpath(usual), *writable):
            continue
        option = f"{environ.get(variable, '')} -Dmaven.repo.local={moved_place}".strip()
        yield variable, option if variable == "MAVEN_OPTS" else str(moved_place)


def _usual_place(variable: str, place: str, home: Path, environ: Environ) -> str:
    """Return the person's own folder of a cache."""
    configured, caches = environ.get(variable, ""), environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(configured):
        return configured
    if place.startswith(".cache/") and os.path.isabs(caches):
        return os.path.join(caches, place.removeprefix(".cache/"))
    return os.path.join(home, place)


def _cache_folder(folders: Places, repository: Path, make: bool) -> Paths:
    """Return the folder for caches that all worktrees of a repository share; () if it cannot be created."""
    name = hashlib.sha256(os.fsencode(repository)).hexdigest()[:16]
    folder = folders.cache / "sandbox" / name
    try:
        return (real_path(private_dir(folder) if make else folder),)
    except OSError:
        return ()


def _find_repository(project: Path, git_folder: Path | None, folders: Places) -> Path:
    """Return the git folder of the repository whose worktrees share the caches of a project."""
    worktree = find_worktree(project, folders)
    return git_folder.parent.parent if git_folder else worktree.repository if worktree else project / ".git"


def _copy_hook_index(cache: Path, home: Path, environ: Environ) -> None:
    """Copy pre-commit's index of the hooks that the person has installed into the cache of the project, unless the one
    there is newer.

    pre-commit writes it in each run. The hooks stay where they are, and are read by the paths in the index.
    """
    usual = _usual_place("PRE_COMMIT_HOME", _HOOKS, home, environ)
    with ExitStack() as opened, suppress(OSError):
        theirs = opened.enter_context(open_real(f"{os.path.realpath(usual)}/db.db")).fileno()
        inside = opened.enter_context(open_folder(cache))
        place, name = opened.enter_context(open_parent(f"{_HOOKS}/db.db", inside=inside, create=True))
        with suppress(FileNotFoundError):
            if stat_at(place, name).st_mtime_ns >= os.fstat(theirs).st_mtime_ns:
                return
        draft = f"{name}.{os.getpid()}"
        with suppress(FileNotFoundError):  # of a copy that failed
            os.unlink(draft, dir_fd=place)
        copy_file(theirs, os.open(draft, NEW, 0o600, dir_fd=place))
        os.replace(draft, name, src_dir_fd=place, dst_dir_fd=place)


def find_worktree_folder(project: Path) -> Path | None:
    """Return the git folder of `project` if it is a linked worktree of a repository elsewhere, or None.

    Read from files, without git: `.git` must be a file that names a folder `REPOSITORY/.git/worktrees/NAME`, and that
    folder must name this `.git` in turn. A project therefore cannot get access to another repository by naming it.
    """
    folder = read_git_file(project) or project
    try:
        back = _read_text(folder / "gitdir")
        common = real_path(folder / _read_text(folder / "commondir"))
    except (OSError, ValueError):
        return None
    fits = folder.parent == common / "worktrees" and not folder.is_relative_to(project)
    return folder if fits and os.path.realpath(folder / back) == str(project / ".git") else None


def _read_text(path: Path) -> str:
    return os.fsdecode(read_regular(path, MAX_OF_LINK)).strip()


class TempFolder:
    """A private folder for temporary files of one session's commands; removed by `close`."""

    def __init__(self, folders: Places) -> None:
        """Create the folder. Raises `OSError` if no place for it is writable."""
        base = next((base for base in ("/tmp", "/var/tmp") if os.access(base, os.W_OK)), None)
        _remove_stale(base or str(private_dir(folders.cache)))
        path = real_path(tempfile.mkdtemp(prefix=_NEW, dir=base or folders.cache))
        # Locked while this process lives, so that others do not remove the folder. Renamed once it is locked.
        self._lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = path.rename(path.with_name(_PREFIX + path.name.removeprefix(_NEW)))

    def close(self) -> None:
        """Remove the folder. May be called twice."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


_PREFIX, _NEW = "nexus-tmp-", "nexus-tmp-new-"
_FRESH = 60.0
"""Seconds for which a folder named `_NEW...` may still be unlocked."""


def _remove_stale(base: str) -> None:
    """Remove the temporary folders that killed processes left."""
    with suppress(OSError):
        for entry in list(os.scandir(base)):
            if not entry.name.startswith(_PREFIX) or not entry.is_dir(follow_symlinks=False):
                continue
            status = entry.stat(follow_symlinks=False)
            is_new = entry.name.startswith(_NEW) and time.time() - status.st_mtime < _FRESH
            if status.st_uid != os.getuid() or is_new:
                continue
            with suppress(OSError):
                handle = os.open(entry.path, LISTED)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(entry.path, ignore_errors=True)
                finally:
                    os.close(handle)
