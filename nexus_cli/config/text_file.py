"""Read a text file of unknown encoding: instruction files, `mcp.json`, `config.toml`, recipes.

Bounded in memory, never waits for a FIFO or a device. The caller interprets the text.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.config.unasked_files import UnaskedFile, UnaskedFiles
from nexus_cli.core import decode as decoding
from nexus_cli.core.errors import NexusError, reason_of
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.real_files import read_beginning

LIMIT = 64 * 1024 * 1024
"""Bytes of one file that are read (law 5)."""
CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\b\x1a\x1b")) + b"\x7f"


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of one file."""

    text: str
    """The text without byte-order mark and NUL, with the file's line endings."""
    encoding: str
    """The Python name of its encoding."""
    notice: str = ""
    """One line for the person if the text is not simply the file as UTF-8; else ""."""
    beyond: int = 0
    """Bytes of the file that were not read."""


def read_text(path: Path, limit: int = LIMIT) -> FileText | None:
    """Return the text of the file at `path`, of which at most `limit` bytes are read.

    Decoded by `nexus_cli.core.decode`. None if the path is not a regular file: missing, a dangling link, a folder, a
    FIFO, a socket, a device. Raises `NexusError("config", ...)` if the file cannot be read, or is binary.
    """
    return _decode_file(path, lambda: _read(path, limit))


def read_unasked(gate: UnaskedFiles, path: Path, limit: int = LIMIT, *, by_name: bool = False) -> FileText | None:
    """Return the text of a file of a project as `read_text`, through the gate for what is sent unasked; raise
    `FileRefused` too."""
    return _decode_file(path, lambda: gate.read(path, limit, by_name=by_name))


def _decode_file(path: Path, read: Callable[[], UnaskedFile | None]) -> FileText | None:
    name = replace_surrogates(str(path))
    try:
        file = read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        why = f"cannot be read: {reason_of(error)}"
        raise NexusError("config", name, why, "Make it readable or move it away") from error
    return decode_head(file.data, name, file.limit, file.size) if file else None


def describe_special_file(path: Path) -> str:
    """Describe in one line a `path` that is not a regular file: a dangling link, a folder, a pipe, a device; ""
    for a file or a missing path. Opens nothing."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        dangling = os.path.islink(path)
        return (
            f"{replace_surrogates(str(path))} links to {_target(path)}, which does not exist or cannot be read; skipped"
            if dangling
            else ""
        )
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    kind = kinds.get(stat.S_IFMT(mode), "a device")
    return "" if stat.S_ISREG(mode) else f"{replace_surrogates(str(path))} is {kind}, not a file; skipped"


def _target(path: Path) -> str:
    try:
        return replace_surrogates(os.readlink(path))
    except OSError:
        return "an inaccessible path"


def decode_head(data: bytes, name: str, limit: int, size: int = 0) -> FileText:
    """Decode the first `limit` bytes of a file that was read already, with a notice if there are more. `size` is the
    size of the file if `data` is only a part of it."""
    beyond = max(size, len(data)) - limit if len(data) > limit else 0
    decoded = decode(data[:limit], name, cut=beyond > 0)
    if not beyond:
        return decoded
    notice = f"{name}: only the first {limit:,} bytes were read"
    notice += f"; {decoded.notice}" if decoded.notice else ""
    return FileText(decoded.text, decoded.encoding, notice, beyond)


def decode(data: bytes, name: str, *, cut: bool = False) -> FileText:
    """Return `data` as text; `name` is its name in messages, `cut` allows an incomplete character at the end.

    Raises `NexusError("config", ...)` if it is binary: with a NUL, or not UTF-8 and with many control characters.
    """
    read = decoding.decode(data, cut=cut)
    if read is None:
        raise _binary(name, f"a NUL at byte {data.find(0):,}")
    if (position := read.text.find("\0")) >= 0:
        raise _binary(name, f"a NUL at character {position:,}")
    if not read.bom and read.encoding_note and len(data) - len(data.translate(None, CONTROLS)) > len(data) // 20:
        raise _binary(name, "many control characters")
    return FileText(read.plain, read.encoding, f"{name}: {read.encoding_note}" if read.encoding_note else "")


def _read(path: Path, limit: int) -> UnaskedFile | None:
    """Return the beginning of a regular file; None for anything else."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        return None
    return UnaskedFile(read_beginning(path, limit + 1), status.st_size, limit)


def _binary(name: str, why: str) -> NexusError:
    return NexusError("config", name, f"is not a text file ({why})", "Save it as UTF-8 text or move it away")
