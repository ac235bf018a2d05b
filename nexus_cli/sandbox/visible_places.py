"""The places that a command in the profile `read` sees: the system, the project, and tools of the person.

A list of what the system is, not of what is private: a folder at the top of the file system that is not on it is
hidden whole, so that no path, however it came about, leads to other work of the person.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from nexus_cli.config.paths import PACKAGE, Places, defaults_dir
from nexus_cli.config.protected_places import holds_password, home_folders
from nexus_cli.core.real_files import read_beginning

_SYSTEM = frozenset(
    """
    bin boot dev etc gnu lib lib32 lib64 libx32 nix opt proc sbin snap sys usr Applications Library System private
    """.split()
)
"""Folders at the top of the file system that hold programs and settings of the system."""
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
"""Places in folders of the system that are secret or of persons; root could read all of them."""
_NEEDED = (
    "/run/booted-system",
    "/run/current-system",
    "/run/opengl-driver",
    "/run/wrappers",
    "/var/lib/sss/mc",
    "/home/linuxbrew/.linuxbrew",
)
"""What programs of the system need of folders that are hidden."""
_TOOLS = tuple(
    """
    .asdf .bun/bin .cargo/bin .deno/bin .fnm .goenv .jenv .local/bin .local/lib .local/share/fnm .local/share/mise
    .local/share/uv/python .nodenv .nvm .pyenv .rbenv .rustup .sdkman/candidates .volta anaconda3 bin go/bin
    miniconda3 miniforge3
    """.split()
)
"""Folders of toolchains in a home folder: the programs on the PATH there are links into them."""
_GIT_SETTINGS = (".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes")
_NAMED = re.compile(r"^\s*(?:path|excludesfile|attributesfile)\s*=\s*\"?([^\"\n]+?)\"?\s*$", re.MULTILINE | re.I)
"""What git's settings read in turn."""
_MOST_OF_SETTINGS = 256 * 1024


def closed_places(project: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the real paths that `read` hides besides credentials; not what holds the real path `project`."""
    found = [Path(path) for path in _CLOSED if os.path.lexists(path)]
    with suppress(OSError):
        tops = sorted(entry.path for entry in os.scandir("/") if not entry.is_symlink() and entry.name not in _SYSTEM)
        found += map(Path, tops)
    programs = {Path(f"/{name}") for name in _SYSTEM} | {Path("/usr/bin"), Path("/usr/sbin"), Path("/")}
    found += [home for home in map(_real, home_folders(environ.get("HOME", ""))) if home not in programs]
    return tuple(path for path in dict.fromkeys(found) if not path.is_relative_to(project))


def shown_places(
    project: Path, cwd: Path, git: Path | None, own: Places, environ: Mapping[str, str]
) -> tuple[Path, ...]:
    """Return what of hidden places is read all the same; a link and what it leads to are two of them.

    `project` and `cwd` are real, `git` is the git folder of the repository that a worktree belongs to.
    """
    homes = [_real(home) for home in home_folders(environ.get("HOME", ""))]
    entries = [Path(entry) for entry in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(entry)]
    # A PATH may lead to the home folder itself, or to `/`: that is no folder of programs.
    tools = [path for path in entries if not any(home.is_relative_to(_real(path)) for home in homes)]
    tools += [home / name for home in homes for name in _TOOLS]
    tools += [*map(Path, _NEEDED), Path(sys.prefix), Path(sys.base_prefix), PACKAGE, defaults_dir()]
    skills = own.config / "skills"
    with suppress(OSError):
        tools += [skills, *(Path(entry.path) for entry in os.scandir(skills) if entry.is_symlink())]
    found = [*tools, *(path for path in git_settings(environ) if not holds_password(path))]
    # The link to `nexus` may be made after the profile (`config/child_environment.add_own_program`).
    always = [project, cwd, *([git] if git else []), _real(own.cache) / "bin"]
    return tuple(dict.fromkeys([*always, *_existing(found)]))


def git_settings(environ: Mapping[str, str]) -> list[Path]:
    """Return the person's own settings of git that exist, and the files that they name."""
    homes = home_folders(environ.get("HOME", "")) or [Path("/")]
    found = [homes[0] / name for name in _GIT_SETTINGS]
    base, moved = environ.get("XDG_CONFIG_HOME", ""), environ.get("GIT_CONFIG_GLOBAL", "")
    if os.path.isabs(base):
        found += [Path(base, name.removeprefix(".config/")) for name in _GIT_SETTINGS[1:]]
    if os.path.isabs(moved) and moved != os.devnull:
        found.append(Path(moved))
    found = [path for path in found if path.is_file()]
    for path in list(found):
        with suppress(OSError):
            text = read_beginning(path, _MOST_OF_SETTINGS).decode("utf-8", "replace")
            named = [path.parent / name.replace("~", str(homes[0]), 1) for name in _NAMED.findall(text)]
            found += [path for path in named if path.is_file()]
    return found


def _existing(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield what exists of `paths`: each as it is named in its real folder, and what it leads to."""
    for path in paths:
        if os.path.exists(path):
            yield _real(path.parent) / path.name
            yield _real(path)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
