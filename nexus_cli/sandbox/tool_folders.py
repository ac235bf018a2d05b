"""Find the person's programs that the profile `read` shows: folders of the PATH and of toolchains, and targets of links
in them. Settings files in them with passwords of package registries stay hidden.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

from nexus_cli.config.paths import is_below
from nexus_cli.config.protected_places import home_folders
from nexus_cli.core.shared_types import Environ, Paths
from nexus_cli.core.version_memo import read_version

_TOOLS = tuple(
    """
    .asdf .bun/bin .cargo/bin .deno/bin .dotnet/tools .fnm .goenv .jenv .local/bin .local/lib .local/pipx
    .local/share/fnm .local/share/mise .local/share/pipx .local/share/pnpm .local/share/uv/python
    .local/share/uv/tools .nodenv .nvm .pyenv .rbenv .rustup .sdkman/candidates .volta Library/pnpm anaconda3 bin
    go/bin miniconda3 miniforge3
    """.split()
)
"""Folders of toolchains in a home folder. Programs on the PATH are often links into them."""
_PROGRAMS = frozenset({"bin", ".bin", "sbin", "shims", "Scripts"})
"""Names of folders with programs only. Another folder on the PATH may contain the person's work."""
_OF_SYSTEM = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin"})
"""System folders: links in them lead into the system."""
_MAX_LINKS = 300
"""Most links followed, in the order of the PATH; under bubblewrap each needs a mount."""
_SETTINGS = re.compile(
    r"\.?(?:npmrc|yarnrc|yarnrc\.yml|condarc|condarc\.d|pip\.(?:conf|ini)|pypirc|gemrc|netrc|git-credentials|tokens?"
    r"|credentials(?:\.(?:json|toml|ya?ml|ini|xml|db))?|auth\.json)|\.env(?:\..+)?|uv\.toml|\.m2|bunfig\.toml"
)
"""Files in toolchains that may hold passwords."""
_DEEPEST = 5
"""Levels below a toolchain that are searched for them: `.volta/tools/image/node/VERSION/etc/npmrc`."""
_PLAIN = frozenset(
    """
    bin cache conda-meta doc docs include lib lib32 lib64 libexec locale man node_modules pkgs share site-packages src
    test tests .git
    """.split()
)
"""Folders below a toolchain that have no such settings."""
_MAX_FOLDERS = 1000
"""Most folders of one toolchain that are searched, those near its top first."""


def tool_folders(environ: Environ) -> list[Path]:
    """Return the folders of the PATH and of toolchains, unresolved, and the links in them to programs elsewhere."""
    homes = home_folders(environ.get("HOME", ""))
    real = [os.path.realpath(home) for home in homes]
    chains = [home / name for home in homes for name in _TOOLS if os.path.isdir(home / name)]
    chains = [path for path in chains if path.name not in _PROGRAMS or _holds_programs(os.path.realpath(path), ())]
    chain_folders = [os.path.realpath(path) for path in chains]
    entries = [entry for entry in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(entry)]
    on_path = []
    for entry in dict.fromkeys(map(os.path.normpath, entries)):
        place = os.path.realpath(entry)
        # A PATH entry may be the home folder itself, or `/`, which must not be shown.
        if place in _OF_SYSTEM or not os.path.isdir(place) or any(map(is_below, real, [place] * len(real))):
            continue
        is_own = any(is_below(path, *real, *homes) for path in (entry, place))
        if not is_own or _holds_programs(place, chain_folders):
            on_path.append(Path(entry))
    folders = dict.fromkeys([*map(os.path.realpath, on_path), *chain_folders])
    programs = (folder for folder in folders if os.path.basename(folder) in _PROGRAMS)
    links = (path for folder in programs for path in _read_links(folder, read_version(folder)))
    return [*on_path, *chains, *islice(links, _MAX_LINKS)]


def _holds_programs(real: str, chains: Sequence[str]) -> bool:
    return os.path.basename(real) in _PROGRAMS or is_below(real, *chains)


@lru_cache(64)
def _read_links(folder: str, _version: tuple[int, ...]) -> Paths:
    """Return the links in a folder of programs whose targets are programs elsewhere."""
    try:
        with os.scandir(folder) as entries:
            links = sorted(entry.path for entry in entries if entry.is_symlink())
    except OSError:
        return ()
    targets = ((path, os.path.realpath(path)) for path in links)
    elsewhere = ((path, place) for path, place in targets if not is_below(place, folder))
    return tuple(Path(path) for path, place in elsewhere if os.path.isfile(place) and os.access(place, os.X_OK))


_scanned: dict[str, tuple[dict[str, tuple[int, ...]], Paths]] = {}
"""By toolchain: the searched folders with their versions, and the settings found."""


def hidden_settings(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the settings files below the real paths `folders` that may have passwords."""
    searched: list[str] = []
    for folder in sorted(map(str, folders)):
        if is_below(folder, *searched):
            continue
        searched.append(folder)
        scan = _scanned.get(folder)
        if scan is None or any(read_version(file) != version for file, version in scan[0].items()):
            scan = _scanned[folder] = _scan(folder)
        yield from scan[1]


def _scan(folder: str) -> tuple[dict[str, tuple[int, ...]], Paths]:
    versions: dict[str, tuple[int, ...]] = {}
    paths: list[Path] = []
    waiting = [(folder, 0)]
    for place, level in islice(waiting, _MAX_FOLDERS):  # it grows
        versions[place] = read_version(place)
        with suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                if _SETTINGS.fullmatch(entry.name):
                    paths.append(Path(entry.path))
                elif level < _DEEPEST and entry.name not in _PLAIN and entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, level + 1))
    return versions, tuple(paths)
