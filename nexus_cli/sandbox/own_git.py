"""Run git for nexus itself: the one door. Git runs inside walls, because a repository's files may name programs that
it starts and files that it reads.

It sees the project, the git folders that belong to it, the system and the person's git settings, and writes what
`Git.writes` names. It has no network, few variables, and bounded memory, time and file size. What git prints as errors
is not passed on: a file that a link led it to may be quoted there. `git_walls` says what git sees, `walls` starts it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nexus_cli.config.host_environment import working_folder
from nexus_cli.config.paths import is_below, project_root
from nexus_cli.config.programs import ProgramRefused, end_group, find_program, git_command, git_environment
from nexus_cli.config.worktree_record import find_source
from nexus_cli.core.errors import NexusError, reason_of
from nexus_cli.core.real_files import read_regular, real_path
from nexus_cli.core.shared_types import Environ, Paths

if TYPE_CHECKING:
    from nexus_cli.sandbox.walls import Walls

SECONDS = 600.0
"""Time limit of one run: a large repository on a slow disk takes minutes."""
_SYSTEM_PROGRAMS = "/usr/bin/" if sys.platform == "linux" else "\0"
_SYSTEM_SETTINGS = "/etc/gitconfig"
"""Where the system's settings are for a program of these. For others only git knows."""
_MAX_SETTINGS = 1 << 16
"""Most bytes of a file of settings that is read here; a larger one is git's to read."""
_SIDES = ("ours", "base", "new")
_PATIENCE = 2.0
"""Seconds after which a run may be waiting for a pipe in the place of a file of git."""
_BOUNDS = ("-c", "core.packedGitWindowSize=64m", "-c", "core.packedGitLimit=1g", "-c", "safe.directory=*")
"""Git maps packs in pieces, so that its address space can be bounded. Whose the repository is does not matter inside
walls, which hold for any: root in a container works in the project of a user."""
_PASSED_VARIABLES = (
    "HOME USER LOGNAME PATH TZ XDG_CONFIG_HOME LD_LIBRARY_PATH DYLD_LIBRARY_PATH LOCALE_ARCHIVE NIX_LD "
    "NIX_LD_LIBRARY_PATH GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_NOSYSTEM"
).split()
"""Variables of the person that git gets: none has a key."""
_REASONS = (
    (b"No space left on device", "no space left on the device"),
    (b"Disk quota exceeded", "the disk quota is exceeded"),
    (b"dubious ownership", "the repository belongs to another user; see safe.directory in `git help config`"),
    (b"Ignoring path", "git rejects names such as .Git; rename or delete that path"),
    (b"could not open directory", "a folder cannot be listed"),
    (b"ut of memory", "git ran out of memory"),
    (b"not a git repository", "not a git repository"),
    (b"ermission denied", "git was denied access to a file, or the file is a link out of the project"),
)
"""Phrases in git's errors, and what is told instead."""
_COMPLAINED_PATH = re.compile(rb"(?:could not open directory '|Ignoring path )([^'\n]+)")
_HIDDEN_FROM_GIT = (b"could not open directory", b"Ignoring path")
"""Git only warns about a folder that it cannot list and a name like `.Git`; we treat both as errors."""


class GitError(Exception):
    """A run of git that failed. The text has our own words alone, no text of git's: a model may read it."""


def explain(verb: str, status: int, errors: bytes = b"", cwd: Path | None = None) -> str:
    """Explain the failure of a run of git in our own words, with the name of a file of `cwd` that git complains of."""
    why = next((reason for words, reason in _REASONS if words in errors), "")
    named_paths = [os.fsdecode(path) for path in _COMPLAINED_PATH.findall(errors)] if cwd else []
    existing = next((path for path in named_paths if os.path.lexists(os.path.join(cwd or "", path))), "")
    return (
        f"git {verb} failed: {why}{existing and f' ({existing})'}" if why else f"git {verb} exited with status {status}"
    )


@dataclass(frozen=True, slots=True)
class Git:
    """Git in one folder."""

    program: str
    cwd: Path
    variables: Environ = field(default_factory=dict)
    seconds: float = SECONDS
    """Time limit of one run."""
    project: Path | None = None
    """The folder whose files git may read, with the git folder that belongs to it; None for the project of `cwd`."""
    reads: Paths = ()
    """Further folders that git may read."""
    writes: Paths = ()
    """Folders and files that git may write; no link among them is followed."""

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Return the output of a run. Raises `GitError` if it fails, cannot be started or takes too long."""
        status, output, errors = self.try_run(*arguments, stdin=stdin)
        if status or any(words in errors for words in _HIDDEN_FROM_GIT):
            raise GitError(explain(_name(arguments), status, errors, self.cwd))
        return output

    def line(self, *arguments: str) -> str:
        """Return the output of a run as one line of text."""
        return os.fsdecode(self.run(*arguments)).strip("\n")

    def head(self) -> str:
        """Return the commit of HEAD, "" without one that can be read. Raises as `try_run`."""
        return os.fsdecode(self.try_run("rev-parse", "--quiet", "--verify", "HEAD^{commit}")[1]).strip()

    def items(self, *arguments: str, inputs: Iterable[bytes] = ()) -> list[bytes]:
        """Return the items that a run with `-z` prints, and let it read `inputs`: paths or entries. Raises as `run`."""
        return self.run(*arguments, stdin=_join(inputs)).split(b"\0")[:-1]

    def list_ignored(self, paths: Iterable[bytes]) -> list[bytes]:
        """Return those of `paths` that git ignores, as far as it comes. Raises as `try_run`."""
        # Exits with 1 if none is ignored.
        return self.try_run("check-ignore", "-z", "--stdin", stdin=_join(paths))[1].split(b"\0")[:-1]

    def try_run(self, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        """Return exit status, output and errors, which nobody may be told; raise `GitError` if git cannot be started
        or takes too long."""
        try:
            with self._start(*arguments, stderr=subprocess.PIPE, start_new_session=True) as run:
                try:
                    try:
                        output, errors = run.communicate(stdin, timeout=min(_PATIENCE, self.seconds))
                    except subprocess.TimeoutExpired:
                        self._refuse_pipe()
                        output, errors = run.communicate(timeout=self.seconds - _PATIENCE)
                except BaseException:
                    end_group(run.pid)
                    raise
        except subprocess.TimeoutExpired:
            raise GitError(f"git {_name(arguments)} took longer than {self.seconds:.0f} s") from None
        except (OSError, ValueError) as error:
            raise GitError(f"git could not be started ({error})") from None
        return run.returncode, output, errors

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a run with pipes for input and output, whose time is not limited. Raises `OSError`."""
        self._refuse_pipe()
        return self._start(*arguments)

    def _refuse_pipe(self) -> None:
        """Raise `ProgramRefused` if git would wait for a file that it reads."""
        from nexus_cli.sandbox.git_walls import find_pipe  # noqa: PLC0415  (the first run of git)

        if pipe := find_pipe(self.project or project_root(self.cwd)):
            raise ProgramRefused(f"{pipe} is a named pipe, which would block git: remove it")

    def _start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        command, env, walls = self.prepare(*arguments)
        return walls.start(command, env=env, cwd=self.cwd, **(streams | options))

    def prepare(self, *arguments: str) -> tuple[list[str], dict[str, str], Walls]:
        """Return command line, environment and walls of a run; raise `OSError` if git must not run here now."""
        from nexus_cli.sandbox.git_settings import read_git_settings  # noqa: PLC0415  (the first run of git)
        from nexus_cli.sandbox.git_walls import find_walls  # noqa: PLC0415  (as above)

        root = project_root(real_path(self.cwd))
        source = find_source(root)
        passed = tuple((name, os.environ[name]) for name in _PASSED_VARIABLES if name in os.environ)
        variables = read_git_settings(os.environ).variables
        env = {**_find_environment(self.cwd, working_folder(), source, passed), **variables, **self.variables}
        walls = find_walls(Path(self.program), self.project or root, self.reads, self.writes)
        return git_command(self.program, {root, source}, *_BOUNDS, *arguments), env, walls

    def may_use(self, folder: Path) -> bool:
        """Return True if the real path `folder` is in the project, or a git folder that belongs to it.

        What git says of its folders is resolved after it has ended, when a command may have put a link there.
        """
        from nexus_cli.sandbox.git_walls import list_git_folders  # noqa: PLC0415  (as in `walls`)

        return is_below(folder, self.cwd, *list_git_folders(self.cwd))

    def without_filters(self) -> Sequence[str]:
        """Return options that switch off every filter of any configuration, because comparing files would run them."""
        if not self._may_have_filters():
            return ()
        listed = self.try_run("config", "--includes", "-z", "--name-only", "--get-regexp", "^filter[.]")[1]
        names = {name.rpartition(".")[0] for name in os.fsdecode(listed).split("\0") if name}
        if any("=" in name for name in names):
            raise GitError("git is configured with a filter whose name contains `=`, which cannot be disabled")
        off = ("clean=", "smudge=", "process=", "required=false")
        return [word for name in sorted(names) for value in off for word in ("-c", f"{name}.{value}")]

    def _may_have_filters(self) -> bool:
        """Return False if every file of settings that git reads here is known, and none has a filter or names another
        file: then git need not be asked."""
        from nexus_cli.sandbox.git_settings import read_git_settings  # noqa: PLC0415  (as in `prepare`)

        root = project_root(real_path(self.cwd))
        if not self.program.startswith(_SYSTEM_PROGRAMS) or self.variables or not os.path.isdir(root / ".git"):
            return True
        system = os.environ.get("GIT_CONFIG_SYSTEM") or _SYSTEM_SETTINGS
        settings_files = read_git_settings(os.environ).visible
        for file in (*settings_files, Path(system), root / ".git" / "config", root / ".git" / "config.worktree"):
            try:
                data = read_regular(file, _MAX_SETTINGS).lower()
            except FileNotFoundError:
                continue
            except OSError:
                return True
            if b"filter" in data or b"include" in data:
                return True
        return False


@lru_cache(16)
def _find_environment(
    cwd: Path, _working_folder: Path, _source: Path, passed: tuple[tuple[str, str], ...]
) -> dict[str, str]:
    """Return the environment of git in `cwd`; it also depends on our working folder and the project's source."""
    return git_environment(cwd, dict(passed))


def find_git(folder: Path, project: Path | None = None) -> Git | None:
    """Return git in `folder`, None if it is not installed outside the project."""
    program = find_program("git", project or folder)
    return Git(program, folder, project=project) if program else None


def merge_texts(program: str, texts: Sequence[bytes], *options: str, folder: Path | None = None) -> tuple[int, bytes]:
    """Merge one side, the base and the other side of a text; return git's exit status, which is the number of conflicts
    or at least 128, and the result.

    Git reads private copies in a new folder of `folder`, where it finds no repository and no settings. Raises
    `GitError` and `OSError`.
    """
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_DIR": os.devnull}
    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        for side, data in zip(_SIDES, texts, strict=True):
            (place / side).write_bytes(data)
        git = Git(program, place, alone, project=place)
        return git.try_run("merge-file", "-p", "-q", *options, *_SIDES)[:2]


def failure(what: str, error: GitError | OSError, hint: str = "The project's files were not changed") -> NexusError:
    """Return the error to show to a person when git or the disk failed, with `hint` unless the disk is full."""
    why = reason_of(error)
    reason = f"{why}: {error.filename}" if isinstance(error, OSError) and error.filename else why
    full = "no space" in why.lower() or "quota" in why.lower()
    return NexusError("internal", what, reason, "Free some space" if full else hint)


def _join(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)


def _name(arguments: Sequence[str]) -> str:
    """Return the subcommand of a run that may begin with options `-c NAME=VALUE`."""
    remaining = list(arguments)
    while remaining[:1] == ["-c"]:
        del remaining[:2]
    return remaining[0] if remaining else "git"
