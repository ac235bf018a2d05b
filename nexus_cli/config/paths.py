"""Find the folders of the person (`NEXUS_HOME` or platformdirs, `nexus docs settings`), a project and the package."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from nexus_cli.config.repository_owner import is_own_repository
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.shared_types import Environ

MAX_SETTINGS = 1 << 20
"""Most bytes of the personal settings, and of the servers beside them."""
PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Places:
    """The person's folders for nexus."""

    config: Path
    data: Path
    cache: Path
    log: Path

    @property
    def ledger(self) -> Path:
        return self.data / "ledger.db"

    @property
    def keys(self) -> Path:
        """Return the folder of stored API keys."""
        return self.data / "keys"

    @property
    def settings(self) -> Path:
        """Return the personal config.toml."""
        return self.config / "config.toml"


_NAMES = ("NEXUS_HOME", "HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
"""Variables that the person's folders depend on."""


def places() -> Places:
    """Return the person's folders, without creating them.

    Raises `NexusError("config", ...)` if the user has no home folder: one without a name, in a container.
    """
    try:
        return _find_places(tuple(map(os.environ.get, _NAMES)))
    except RuntimeError as error:
        home, hint = os.environ.get("NEXUS_HOME"), "Set NEXUS_HOME to the absolute path of a writable folder"
        what = f"NEXUS_HOME {home}" if home else "no home folder"
        why = "the home folder in its path is unknown" if home else f"HOME is not set, and user {os.getuid()} has none"
        raise NexusError("config", what, why, hint) from error


@lru_cache(4)
def _find_places(values: tuple[str | None, ...]) -> Places:
    if values[0]:
        base = Path(values[0]).expanduser().absolute()  # raises where `os.path.expanduser` leaves the name as it is
        return Places(base / "config", base / "data", base / "cache", base / "log")
    import platformdirs  # noqa: PLC0415  (not needed with NEXUS_HOME, and slow on some machines)

    dirs = platformdirs.PlatformDirs("nexus", appauthor=False)
    return Places(dirs.user_config_path, dirs.user_data_path, dirs.user_cache_path, dirs.user_log_path)


def defaults_dir() -> Path:
    """Return the folder of packaged defaults: inside an installed wheel, or at the top level of a checkout."""
    installed = PACKAGE / "_defaults"
    return installed if installed.is_dir() else PACKAGE.parent / "defaults"


def exists(path: Path) -> bool:
    """Return True if `path` exists or cannot be checked, in which case opening it raises the reason."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def private_dir(path: Path) -> Path:
    """Create `path` and its missing parents with mode 0700 and return it; raise `OSError` on failure."""
    missing = takewhile(lambda candidate: not candidate.exists(), (path, *path.parents))
    for folder in reversed([*missing]):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path


def repository_root(folder: Path) -> Path | None:
    """Return the root of the git repository of `folder`, or None. Looks for `.git`; does not run git.

    A folder above counts only if the person owns it (`is_own_repository`): a `.git` that another user put into a shared
    folder must not define the person's project.
    """
    for candidate in (folder, *folder.parents):
        # Not Path.exists, which raises for an inaccessible parent.
        if os.path.exists(os.path.join(candidate, ".git")) and (candidate == folder or is_own_repository(candidate)):
            return candidate
    return None


def project_root(folder: Path) -> Path:
    """Return the root of the git repository, else `folder`. The home folder and `/` count only if they are `folder`."""
    root = repository_root(folder)
    if root is None:
        return folder
    return folder if root != folder and is_home_or_root(os.path.realpath(root)) else root


def home_folder(environ: Environ = os.environ) -> str:
    """Return the person's home folder; a path that does not exist if a user without a name has none."""
    home = environ.get("HOME") or os.path.expanduser("~")
    return home if os.path.isabs(home) else "/nonexistent"


def is_home_or_root(real: str | Path) -> bool:
    """Return True for the real path of the home folder, or of the root: they hold more than one project."""
    return str(real) in (os.sep, os.path.realpath(home_folder()))


def is_below(path: str | Path, *folders: str | Path) -> bool:
    """Return True if a path is one of `folders` or inside one, by their texts."""
    text = str(path)
    return any(text == folder or text.startswith(folder.rstrip("/") + "/") for folder in map(str, folders))


def folders_above(path: str) -> list[str]:
    """Return the folders above an absolute path, outermost first, without the root of all."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]


def with_tilde(path: str | Path) -> str:
    """Return `path` with `~` for the home folder."""
    home, text = os.path.expanduser("~").rstrip("/"), str(path)
    return f"~{text[len(home) :]}" if home and is_below(text, home) else text


def working_folder(directory: str = "", option: str = "--cd") -> Path:
    """Return `directory`, by default the current folder, as an absolute path. Raises `UsageError`, which
    calls the option `option`, if it does not exist."""
    try:
        folder = Path(os.path.expanduser(directory)) if directory else Path.cwd()
        folder = folder if folder.is_absolute() else Path.cwd() / folder
        if not folder.is_dir():
            raise UsageError(f"{option} {directory}", "there is no such folder", "Name an existing folder")
        return Path(os.path.realpath(folder))
    except OSError as error:
        why = error.strerror or "the folder cannot be entered"
        raise UsageError("the working folder", why, "Change to another folder") from error
