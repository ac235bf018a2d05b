"""Find the files of the person's git settings, and decide which of them the profile `read` shows.

They are read again only after one of them has changed. Every condition of an include counts as true.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import filterfalse, islice
from pathlib import Path

from nexus_cli.config.git_configuration import personal_files, personal_folder, read_file_settings
from nexus_cli.config.protected_places import holds_password
from nexus_cli.core.shared_types import Environ, Paths
from nexus_cli.core.version_memo import read_version

MAX_NAMED = 200
"""Most files that are looked for in settings."""
_INCLUDES = re.compile(r"include\.path|includeif\..*\.path", re.DOTALL)
_NAMES_FILE = frozenset({"core.excludesfile", "core.attributesfile", "blame.ignorerevsfile", "mailmap.file"})
"""Settings whose value is the path of a file that git reads."""


@dataclass(frozen=True, slots=True)
class GitSettings:
    """The settings files to show, or the values to pass on if they are hidden."""

    visible: Paths = ()
    is_hidden: bool = False
    """True if one of the files has a password, is a pipe or has a line that git refuses: commands get none of them."""
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


_cached: dict[tuple[str, ...], tuple[dict[Path, tuple[int, ...]], GitSettings]] = {}


def read_git_settings(environ: Environ) -> GitSettings:
    """Return the git settings of the person with this `environ`."""
    key = tuple(environ.get(name, "") for name in ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"))
    cached = _cached.get(key)
    if cached is None or any(read_version(path) != stamp for path, stamp in cached[0].items()):
        looked_at, settings = _list_settings(environ)
        cached = _cached[key] = {path: read_version(path) for path in looked_at}, settings
    return cached[1]


def _list_settings(environ: Environ) -> tuple[set[Path], GitSettings]:
    """Return all paths that the settings depend on, existing or not, and the settings."""
    usual, folder, home = personal_files(environ), personal_folder(environ), environ.get("HOME", "")
    # git reads its default ignore and attributes files even without settings.
    further = [folder / name for name in ("ignore", "attributes") if folder.is_absolute()]
    read = [*usual, *find_named(usual, home=home)]
    if any(path.is_fifo() for path in read):  # git would wait for it
        return {*read, *further}, GitSettings(is_hidden=True)
    origins, listed, safe = dict.fromkeys(usual), dict.fromkeys(further), list[str]()
    is_hidden = False
    for origin, name, value, is_certain in (row for path in usual for row in _read_rows(path, home, origins)):
        is_hidden = is_hidden or not name
        if name == "safe.directory" and is_certain:
            safe.append(value)
        elif name in _NAMES_FILE and (path := _expand(value, home, origin.parent)):
            listed[Path(path)] = None
    files = [path for path in origins if os.path.isfile(path)]
    is_hidden = is_hidden or len(origins) >= MAX_NAMED or any(map(holds_password, files))
    files = [*(() if is_hidden else files), *(further if is_hidden else listed)]
    visible = tuple(dict.fromkeys(path for path in files if os.path.isfile(path) and not holds_password(path)))
    return {*origins, *listed}, GitSettings(visible, is_hidden, tuple(safe))


def _read_rows(file: Path, home: str, origins: dict[Path, None]) -> Iterator[tuple[Path, str, str, bool]]:
    """Yield file, name and value of each setting in a file and in those that it includes, and True if no condition
    decides on it; add the included files to `origins`."""
    for name, value in read_file_settings(file):
        yield file, name, value, True
        named = _expand(value, home, file.parent) if _INCLUDES.fullmatch(name) else ""
        if named and (path := Path(named)) not in origins and len(origins) < MAX_NAMED:
            origins[path] = None
            for origin, inner, inner_value, is_certain in _read_rows(path, home, origins):
                yield origin, inner, inner_value, is_certain and name == "include.path"


def find_named(settings: Iterable[Path], *folders: Path, home: str = "") -> Iterator[Path]:
    """Yield each existing path that is a value in these files of git's settings, or in one that is named there. A
    relative name counts from the file's own folder, and from each of `folders`. Of the values with a `~USER` the first
    `MAX_NAMED` are looked for: each is a search of the user database."""
    queue, remaining_users = list(settings), MAX_NAMED
    for file in queue:  # it grows
        values = dict.fromkeys(value for _, value in read_file_settings(file))
        with_user = [*islice(filter(_has_user, values), remaining_users)]
        remaining_users -= len(with_user)
        few = [*filterfalse(_has_user, values), *with_user]
        for name in (_expand(value, home, folder) for value in few for folder in (file.parent, *folders)):
            if len(queue) >= MAX_NAMED:
                return
            if name and os.path.exists(name) and (path := Path(name)) not in queue:
                queue.append(path)
                yield path


def _has_user(value: str) -> bool:
    """Return True for a value that begins with `~USER`."""
    return re.match(r"(?::\(optional\))?~[^/]", value) is not None


def _expand(value: str, home: str, folder: Path) -> str:
    """Return the path that a setting in a file of `folder` names, "" if it names none."""
    value = value.removeprefix(":(optional)")
    if value.startswith("~/") and os.path.isabs(home):
        return os.path.join(home, value[2:])
    return os.path.join(folder, os.path.expanduser(value)) if value and not value.startswith("%(") else ""
