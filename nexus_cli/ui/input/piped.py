"""Read piped stdin: up to a bound, counted beyond it, decoded. The use of the text is up to the caller."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from nexus_cli.core.errors import NexusError

KEPT = 64 * 1024 * 1024
"""Bytes of one input that are kept."""
COUNTED = 1024 * 1024 * 1024
"""Bytes after which an input counts as endless and is not read on."""
_CHUNK = 64 * 1024
"""Bytes asked for at once: what a pipe holds; more would be made and thrown away at every read."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input as text."""

    text: str
    uncounted: int = 0
    """Bytes beyond `KEPT`: counted, not kept."""
    notice: str = ""
    """Note for the person on how it was read, or ""."""


class Reader:
    """Reads a descriptor once; `empty` looks at its first bytes without waiting for the rest."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._name = name
        self._pieces: list[bytes] = []
        self._ended = False

    def _read(self) -> bytes:
        try:
            piece = os.read(self._descriptor, _CHUNK)
        except OSError as error:
            why = "it is a folder" if stat.S_ISDIR(os.fstat(self._descriptor).st_mode) else str(error.strerror)
            raise NexusError("usage", f"{self._name} cannot be read", why, "Give it a file or a pipe") from error
        self._ended = not piece
        return piece

    @property
    def empty(self) -> bool:
        """True if it ends before anything but white space; waits for the first bytes."""
        while not self._ended and not b"".join(self._pieces[-1:]).strip():
            if sum(map(len, self._pieces)) > _CHUNK:
                return False
            self._pieces.append(self._read())
        return self._ended and not b"".join(self._pieces).strip()

    def read(self) -> Input:
        """Return all of it as text; `NexusError("usage", ...)` when it is binary."""
        kept = sum(map(len, self._pieces))
        while not self._ended and kept < KEPT:
            self._pieces.append(self._read())
            kept += len(self._pieces[-1])
        data = b"".join(self._pieces)
        self._pieces = []
        extra, data = len(data) - KEPT, data[:KEPT]
        extra = max(0, extra)
        while not self._ended and len(data) + extra < COUNTED:
            extra += len(self._read())
        text, notice = decode(data, self._name, cut=extra > 0)
        if extra:
            rest = f"the {extra:,} bytes after the first {KEPT:,} were counted, not kept"
            if not self._ended:
                rest = f"it did not end within {COUNTED:,} bytes; only the first {KEPT:,} were kept"
            notice = "; ".join(filter(None, (notice, f"{self._name}: {rest}")))
        return Input(text, extra, notice)


def decode(data: bytes, name: str, *, cut: bool = False) -> tuple[str, str]:
    """Return `data` as text (see `nexus_cli.tools.files`), and a notice when that was no matter of course.

    It may end in the middle of a character when `cut`. Binary raises `NexusError("usage", ...)`.
    """
    from nexus_cli.tools.files import NUL, decode_stream  # noqa: PLC0415  (the tools, once there is something to read)

    read = decode_stream(data, cut=cut)
    if read is None:
        raise NexusError(
            "usage", f"{name} is binary", "it cannot be sent as text", "Convert it first (base64, xxd, strings)"
        )
    text, remarks = read.plain, [read.remark] if read.remark else []
    if "\0" in text:
        text = text.replace("\0", NUL)
        remarks.append(f"its NUL characters are shown as {NUL}")
    return text, f"{name}: {', and '.join(remarks)}" if remarks else ""
