"""Find the files of the person's git settings, as git lists them, and decide which of them the profile `read` shows.

git runs for that outside the sandbox and outside any repository, and again only after one of the files has changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.config.git_configuration import personal_files, personal_folder, read_configuration
from nexus_cli.config.programs import find_program, run_git_outside
from nexus_cli.config.protected_places import holds_password
from nexus_cli.core.environ import copy_environ
from nexus_cli.core.real_files import read_beginning
from nexus_cli.core.shared_types import Environ, Paths
from nexus_cli.core.version_memo import read_version

MOST_LISTED = 20
"""Most calls of git for one listing: the first, and one for each conditionally included file."""
MOST_NAMED = 200
"""Most files that are looked for in settings."""
_SECONDS = 5
_MOST_READ = 1 << 20
"""Most bytes of a settings file that are searched for names."""
_NAMES_FILE = frozenset({"core.excludesfile", "core.attributesfile", "blame.ignorerevsfile", "mailmap.file"})
"""Settings whose value is the path of a file that git reads."""


@dataclass(frozen=True, slots=True)
class GitSettings:
    """The settings files to show, or the values to pass on if they are hidden."""

    shown: Paths = ()
    is_hidden: bool = False
    """True if one of the files has a password or is a pipe, or git could not list them: commands get none of them."""
    safe_directories: tuple[str, ...] = ()
    """Values of `safe.directory`, in order."""

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables that stand for hidden settings of git: it fails on those that it cannot read."""
        if not self.is_hidden:
            return {}
        variables = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_COUNT": str(len(self.safe_directories))}
        for place, folder in enumerate(self.safe_directories):
            variables |= {f"GIT_CONFIG_KEY_{place}": "safe.directory", f"GIT_CONFIG_VALUE_{place}": folder}
        return variables


_kept: dict[tuple[str, ...], tuple[dict[Path, tuple[int, ...]], GitSettings]] = {}


def read_git_settings(environ: Environ, project: Path) -> GitSettings:
    """Return the git settings of the person with this `environ`. Never runs a git that is inside `project`."""
    names = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "PATH")
    key = (str(project), *(environ.get(name, "") for name in names))
    cached = _kept.get(key)
    if cached is None or any(read_version(path) != stamp for path, stamp in cached[0].items()):
        looked_at, settings = _list_settings(environ, project)
        cached = _kept[key] = {path: read_version(path) for path in looked_at}, settings
    return cached[1]


def _list_settings(environ: Environ, project: Path) -> tuple[set[Path], GitSettings]:
    """Return all paths that the settings depend on, existing or not, and the settings."""
    usual, folder = personal_files(environ), personal_folder(environ)
    # git reads its default ignore and attributes files even without settings.
    further = [folder / name for name in ("ignore", "attributes") if folder.is_absolute()]
    if not any(path.is_file() for path in usual):
        return {*usual, *further}, GitSettings(tuple(path for path in further if path.is_file()))
    home = environ.get("HOME", "")
    read = [*usual, *find_named(usual, home=home)]
    if any(path.is_fifo() for path in read):  # git would wait for it
        return {*read, *further}, GitSettings(is_hidden=True)
    origins, listed, safe = dict.fromkeys(usual), dict.fromkeys(further), list[str]()
    included: list[Path] = []
    is_listed = True
    for turn in range(MOST_LISTED):
        rows = _run_git(environ, project, included[turn - 1] if turn else None)
        is_listed = is_listed and rows is not None
        for origin, setting, value in rows or ():
            origins[origin] = None
            path = _expand(value, home, origin.parent)
            if setting == "safe.directory" and not turn:
                safe.append(value)
            elif setting in _NAMES_FILE and path:
                listed[path] = None
            elif setting.startswith(("include.", "includeif.")) and setting.endswith(".path") and path:
                # Outside a repository no condition is true: list a conditionally included file by itself.
                is_new = setting.startswith("includeif.") and path not in origins and path.is_file()
                included += [path] * is_new
                origins[path] = None
        if turn >= len(included):
            break
    files = [path for path in origins if path.is_file()]
    is_hidden = not is_listed or len(included) >= MOST_LISTED or any(map(holds_password, files))
    files = [*(() if is_hidden else files), *(further if is_hidden else listed)]
    shown = tuple(dict.fromkeys(path for path in files if path.is_file() and not holds_password(path)))
    return {*origins, *listed}, GitSettings(shown, is_hidden, tuple(safe))


def find_named(settings: Iterable[Path], *folders: Path, home: str = "") -> Iterator[Path]:
    """Yield each existing path that is a value in these files of git's settings, or in one that is named there. A
    relative name counts from the file's own folder, and from each of `folders`."""
    queue = list(settings)
    for file in queue:  # it grows
        try:
            data = read_beginning(file, _MOST_READ)
        except OSError:
            continue
        values = (value for _, value in read_configuration(data))
        for path in (_expand(value, home, folder) for value in values for folder in (file.parent, *folders)):
            if path and path not in queue and len(queue) < MOST_NAMED and os.path.exists(path):
                queue.append(path)
                yield path


def _expand(value: str, home: str, folder: Path) -> Path | None:
    """Return the path that a setting in a file of `folder` names, None if it names none."""
    value = value.removeprefix(":(optional)")
    if value.startswith("~/") and os.path.isabs(home):
        return Path(home, value[2:])
    return Path(folder, os.path.expanduser(value)) if value and not value.startswith("%(") else None


def _run_git(environ: Environ, project: Path, file: Path | None) -> Iterable[tuple[Path, str, str]] | None:
    """Return origin, key and value of all settings, or of those in `file`; None if git cannot list them."""
    git = find_program("git", project, environ)
    if git is None:
        return None
    alone = copy_environ(environ) | {"GIT_CONFIG_NOSYSTEM": "1"}
    source = ["--file", str(file)] if file else []
    query = ("config", *source, "--includes", "--show-origin", "--null", "--list")
    output = run_git_outside(git, project, alone, *query, seconds=_SECONDS)
    return None if output is None else list(_read_rows(os.fsdecode(output)))


def _read_rows(output: str) -> Iterator[tuple[Path, str, str]]:
    words = output.split("\0")
    for origin, setting in zip(words[::2], words[1::2], strict=False):
        name, _, value = setting.partition("\n")
        kind, _, path = origin.partition(":")
        if kind == "file":
            yield Path("/", path), name.lower() if "." in name else name, value
