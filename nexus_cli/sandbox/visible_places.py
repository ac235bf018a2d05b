"""The places that a command in the profile `read` sees: the system, the project, and the person's tools.

An allowlist: a folder at the root of the file system that is not on it is hidden as a whole, so that no path leads to
other work of the person.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from nexus_cli.config.paths import PACKAGE, Places, defaults_dir, is_below
from nexus_cli.config.protected_places import home_folders
from nexus_cli.core.real_files import follow_links, real_path
from nexus_cli.core.shared_types import Environ, Paths
from nexus_cli.sandbox.git_settings import read_git_settings
from nexus_cli.sandbox.tool_folders import hidden_settings, tool_folders

_SYSTEM = frozenset(
    """
    bin boot dev etc gnu lib lib32 lib64 libx32 nix opt proc sbin snap sys usr Applications Library System private
    """.split()
)
"""Folders at the root of the file system with programs and settings of the system."""
_CLOSED = (
    *(
        f"/etc/{name}"
        for name in tuple(
            """
        shadow shadow- gshadow gshadow- master.passwd security/opasswd sudoers sudoers.d ssh ssl/private
        pki/tls/private letsencrypt krb5.keytab wireguard openvpn ipsec.secrets ppp
        NetworkManager/system-connections docker kubernetes rancher cups fstab.d crypttab
        """.split()
        )
    ),
    *(f"/private/var/{name}" for name in ("folders", "log", "mail", "root", "spool", "tmp", "at", "backups")),
    "/private/tmp",
    "/usr/home",
)
"""Secret or personal places inside system folders, hidden because root could read them."""
_NEEDED = (
    "/run/booted-system",
    "/run/current-system",
    "/run/opengl-driver",
    "/run/wrappers",
    "/var/lib/sss/mc",
    "/home/linuxbrew/.linuxbrew",
)
"""Places in hidden folders that programs of the system need."""


def closed_places(project: Path, environ: Environ) -> Paths:
    """Return the real paths that `read` hides besides credentials, but none inside the real path `project`."""
    paths = [Path(path) for path in _CLOSED if os.path.lexists(path)]
    with suppress(OSError):
        tops = sorted(entry.path for entry in os.scandir("/") if not entry.is_symlink() and entry.name not in _SYSTEM)
        paths += map(Path, tops)
    programs = {Path(f"/{name}") for name in _SYSTEM} | {Path("/usr/bin"), Path("/usr/sbin"), Path("/")}
    paths += [home for home in map(real_path, home_folders(environ.get("HOME", ""))) if home not in programs]
    return tuple(path for path in dict.fromkeys(paths) if not path.is_relative_to(project))


def shown_places(project: Path, cwd: Path, git: Path | None, folders: Places, environ: Environ) -> Paths:
    """Return the readable paths inside hidden places, links as well as their targets.

    `project` and `cwd` are real paths, `git` is the git folder of the repository that a worktree belongs to.
    """
    tools = [*tool_folders(environ), *map(Path, _NEEDED), Path(sys.prefix), Path(sys.base_prefix), PACKAGE]
    skills = folders.config / "skills"
    with suppress(OSError):
        tools += [skills, *(Path(entry.path) for entry in os.scandir(skills) if entry.is_symlink())]
    paths = [*tools, defaults_dir(), *read_git_settings(environ).visible]
    # The link to `nexus` may be made after the profile (`config/host_environment.add_own_program`).
    always = [project, cwd, *([git] if git else []), real_path(folders.cache) / "bin"]
    chains = (follow_links(str(path)) for path in paths if os.path.exists(path))
    return tuple(dict.fromkeys([*always, *(Path(link) for chain in chains for link in chain)]))


def hidden_in_tools(folders: Iterable[Path], always: Iterable[Path]) -> Paths:
    """Return the settings files with passwords in `folders`, leaving out those in `always` and in nexus."""
    always_shown = (*always, PACKAGE)
    tools = (path for path in folders if not os.path.islink(path) and os.path.isdir(path))
    paths = hidden_settings(path for path in tools if not is_below(path, *always_shown))
    return tuple(path for path in paths if not is_below(path, *always_shown))
