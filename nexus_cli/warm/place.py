"""Find the socket of the warm process, whether the settings want one, and the identity that it shares with callers.

Imports only what Python itself has loaded, so that the entry point can use it before anything else.
"""

from __future__ import annotations

import binascii
import os
import sys

from nexus_cli import __version__

AUTO = "auto"
"""The value of `warm.minutes` with which `nexus_cli.warm.auto` decides."""
AUTO_MINUTES = 10
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def own_folders() -> tuple[str, str]:
    """Return the path of the personal config.toml and the folder of the socket; nothing is created.

    The same as `config.paths.places`, which costs 20 ms of imports.
    """
    home = os.environ.get("NEXUS_HOME")
    if home:
        base = os.path.abspath(os.path.expanduser(home))
        return os.path.join(base, "config", "config.toml"), os.path.join(base, "cache", "warm")
    if sys.platform == "darwin":
        from nexus_cli.config.paths import places  # noqa: PLC0415  (with NEXUS_HOME or on Linux it is not needed)

        found = places()
        return str(found.settings), str(found.cache / "warm")
    config, cache = _xdg_folder("XDG_CONFIG_HOME", "~/.config"), _xdg_folder("XDG_CACHE_HOME", "~/.cache")
    return os.path.join(config, "nexus", "config.toml"), os.path.join(cache, "nexus", "warm")


def _xdg_folder(name: str, default: str) -> str:
    value = os.environ.get(name, "")
    return value if value.strip() else os.path.expanduser(default)


def socket_name() -> str:
    """Return the name of the socket in its folder. Installations that share the folder have one each.

    So has each import path: processes with two of them would take each other for outdated, and end each other.
    Who binds or connects goes to the folder first: a whole path may be longer than a socket's address.
    """
    parts = [sys.prefix, PACKAGE, *(entry for entry in sys.path if _holds_packages(entry))]
    return f"{binascii.crc32(':'.join(parts).encode('utf-8', 'surrogateescape')):08x}.sock"


def socket_path(folder: str) -> str:
    return os.path.join(folder, socket_name())


def folder_problem(folder: str | int) -> str:
    """Return the reason to distrust a socket in `folder`, a path or a descriptor; "" if there is none.

    `FileNotFoundError` if there is no such folder.
    """
    found = os.stat(folder)
    if found.st_mode & 0o170000 != 0o040000:
        return "its place is not a folder"
    if found.st_uid != os.getuid() or os.getuid() != os.geteuid():
        return "its folder belongs to another user"
    return "others can enter its folder" if found.st_mode & 0o077 else ""


def wanted_minutes(settings: str) -> tuple[int, bool]:
    """Return `warm.minutes` of the personal settings file, and True if it is "auto", as where it is absent.

    Without a warm process, and with a wrong value, 0.
    """
    try:
        with open(settings, "rb") as file:
            text = file.read()
    except OSError:
        text = b""
    if b"warm" not in text:
        return AUTO_MINUTES, True
    import tomllib  # noqa: PLC0415  (most people have no such setting)

    try:
        table = tomllib.loads(text.decode("utf-8-sig")).get("warm")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return 0, False
    minutes = AUTO if table is None else table.get("minutes", AUTO) if isinstance(table, dict) else 0
    if minutes == AUTO:
        return AUTO_MINUTES, True
    return (minutes if type(minutes) is int and minutes > 0 else 0), False


def identity() -> bytes:
    """Return a fingerprint of the installation: the interpreter, every package, every file of nexus.

    A warm process that has another identity is outdated. A package that is installed, upgraded or removed changes the
    time of its site-packages folder.
    """
    parts: list[object] = [__version__, sys.version, sys.prefix, PACKAGE, _stamp(os.path.realpath(sys.executable))]
    for entry in sys.path:
        if _holds_packages(entry):
            parts.append((entry, _stamp(entry)))
    _add_files(PACKAGE, parts)
    return repr(parts).encode("utf-8", "surrogateescape")


def _holds_packages(entry: str) -> bool:
    return entry.endswith(("site-packages", "dist-packages"))


def interpreter_options() -> str:
    """Return the options that this interpreter was started with; `-P` makes no difference to us."""
    names = [name for name in dir(sys.flags) if not name.startswith(("_", "n_", "safe_path")) and name != "index"]
    flags = [(name, getattr(sys.flags, name)) for name in names if name != "count"]
    return repr((flags, sys.warnoptions, sorted(sys._xoptions.items())))


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return found.st_mtime_ns, found.st_ino, found.st_size


def _add_files(folder: str, parts: list[object]) -> None:
    """Add name, time and size of each file of Python below `folder`."""
    folders = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            if entry.name.endswith(".py"):
                found = entry.stat()
                parts.append((entry.name, found.st_mtime_ns, found.st_size))
            elif entry.name != "__pycache__" and entry.is_dir():
                folders.append(entry.path)
    for each in folders:
        _add_files(each, parts)
