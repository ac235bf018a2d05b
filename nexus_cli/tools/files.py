"""Files as a tool meets them: where a written path leads, and the bytes of a regular file within the hard limit.

What may be touched is decided in `permission`; what bytes mean is in `text`.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.core.file_names import resolve_spelling, suggestion

HARD_LIMIT = 64 * 1024 * 1024
"""Bytes of one file or one output that are kept (design law 5); what lies beyond is counted."""

_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class Refused(Exception):
    """A call that cannot be carried out; its text is for the model."""


def resolve_path(path: str, cwd: Path) -> Path:
    """Where `path`, as the model wrote it, leads: `~` expanded, relative to `cwd`, every link and `..` resolved.

    Also for files that do not exist yet, unless one differs only in its spelling (`core/file_names`): then that one.
    Raises `Refused` for what is no path.
    """
    if not path.strip() or "\0" in path:
        raise Refused("a path must not be empty or hold a NUL")
    return Path(os.path.realpath(resolve_spelling(str(cwd), path)))


def project_relative(path: Path, project: Path) -> str:
    """`path` relative to the project where it lies in it, else absolute; with `/`."""
    root = Path(os.path.realpath(project))
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def describe_problem(path: str, error: OSError | ValueError | Refused, cwd: Path) -> str:
    """One line for the model about a path that could not be used, with the nearest one where there is none."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    return f"{path}: {why}{suggestion(str(cwd), path) if missing else ''}"


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file."""

    data: bytes
    beyond: int = 0
    """Bytes after the hard limit that were not read."""

    @property
    def digest(self) -> str:
        """SHA-256 in hex; of the whole file only where nothing lies beyond."""
        return sha256_hex(self.data)


def sha256_hex(data: bytes) -> str:
    """SHA-256 in hex, the form that `Seen` keeps."""
    return hashlib.sha256(data).hexdigest()


def read_regular_file(path: Path, limit: int = HARD_LIMIT) -> Content:
    """At most `limit` bytes of a regular file.

    Raises `Refused` for a FIFO, socket or device (never opened, so nothing can block), `IsADirectoryError` for a
    folder, and the `OSError` of what else failed.
    """
    _check_regular(os.stat(path).st_mode)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(descriptor, "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        _check_regular(status.st_mode)
        parts: list[bytes] = []
        left = limit
        while left > 0 and (part := file.read(min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        more = 0
        if left == 0:
            more = max(status.st_size - limit, len(file.read(1)))
    return Content(b"".join(parts), more)


def _check_regular(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "is a folder")
    for test, name in _KINDS:
        if test(mode):
            raise Refused(f"is {name}, not a regular file")
