"""Read piped stdin up to a bound, count the rest, and decode it. The caller uses the text."""

from __future__ import annotations

import math
import os
import select
import stat
import time
from dataclasses import dataclass

from nexus_cli.core.attachment import image_type
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.shared_types import TakeText

SILENT, PAUSED = 3.0, 10.0
"""Seconds after which an input that is open and sends nothing is reported, before its first bytes and after them."""
PDF = b"%PDF-"
"""Beginning of a PDF."""
MAX_INPUT = 64 * 1024 * 1024
"""Most bytes of one input that are kept."""
COUNTED = 1024 * 1024 * 1024
"""Bytes after which an input counts as endless and reading stops."""
_CHUNK = 64 * 1024
"""Bytes per read: the capacity of a pipe; a larger buffer would only be allocated in vain."""
_MAX_WAIT = 2**31 - 1
"""The longest wait of a poll, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input as text."""

    text: str
    uncounted: int
    """Number of bytes beyond `MAX_INPUT`, which are not kept."""
    notice: str
    """Note for the person about the reading, or ""."""


class Reader:
    """Reads a descriptor once; `empty` checks its first bytes without waiting for the rest."""

    def __init__(
        self,
        descriptor: int,
        name: str,
        timeout: float | None = None,
        tell: TakeText | None = None,
        is_optional: bool = False,
    ) -> None:
        """A read raises `NexusError("limit", ...)` as soon as `timeout` seconds have passed from now on. `tell` is
        called once with a line about an input that is open and sends nothing; that names the way to run without an
        `is_optional` input on stdin."""
        self._descriptor = descriptor
        self._name = name
        self._tell = tell
        self._is_optional = is_optional
        self._timeout = math.inf if timeout is None else timeout
        self._ends = time.monotonic() + self._timeout
        self._pieces: list[bytes] = []
        self._ended = False

    def wait(self, seconds: float) -> bool:
        """Return True as soon as there are bytes, an end or an error to read, False after `seconds`
        or the timeout."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        remaining_seconds = max(0, min(seconds, self._ends - time.monotonic()))
        return bool(poll.poll(min(1000 * remaining_seconds, _MAX_WAIT)))

    def report_silence(self) -> None:
        """Wait for bytes, and report a long wait once."""
        if self._tell and not self.wait(PAUSED if self._pieces else SILENT):
            awaited = f"the end of {self._name}" if self._pieces else f"input on {self._name}"
            self._tell(f"nexus: waiting for {awaited}" + "; to run without input, add < /dev/null" * self._is_optional)
            self._tell = None

    def _read(self) -> bytes:
        self.report_silence()
        while not self.wait(math.inf):
            if time.monotonic() >= self._ends:
                why = f"{self._name} was open for {self._timeout:g} s without ending; no request was sent"
                hint = "Raise --timeout" + ", or add < /dev/null to run without input" * self._is_optional
                raise NexusError("limit", "limit timeout reached", why, hint)
        try:
            piece = os.read(self._descriptor, _CHUNK)
        except OSError as error:
            why = "it is a folder" if stat.S_ISDIR(os.fstat(self._descriptor).st_mode) else str(error.strerror)
            raise UsageError(f"{self._name} cannot be read", why, "Use a file or a pipe") from error
        self._ended = not piece
        return piece

    @property
    def empty(self) -> bool:
        """True if the input ends with nothing but white space; waits for the first bytes."""
        while not self._ended and not b"".join(self._pieces[-1:]).strip():
            if sum(map(len, self._pieces)) > _CHUNK:
                return False
            self._pieces.append(self._read())
        return self._ended and not b"".join(self._pieces).strip()

    def read_raw(self, least: int) -> bytes:
        """Return the input up to its end, or as soon as so many bytes of it were read."""
        size = sum(map(len, self._pieces))
        while not self._ended and size < least:
            self._pieces.append(self._read())
            size += len(self._pieces[-1])
        data, self._pieces = b"".join(self._pieces), []
        return data

    def read(self) -> Input:
        """Return at most `MAX_INPUT` bytes of the input as text, with a notice; raise `NexusError` if binary."""
        data = self.read_raw(MAX_INPUT)
        extra, data = max(0, len(data) - MAX_INPUT), data[:MAX_INPUT]
        while not self._ended and len(data) + extra < COUNTED:
            extra += len(self._read())
        text, notice = decode(data, self._name, cut=extra > 0)
        if extra:
            cut_note = f"kept the first {MAX_INPUT:,} bytes and discarded {extra:,} bytes"
            if not self._ended:
                cut_note = f"more than {COUNTED:,} bytes; kept only the first {MAX_INPUT:,}"
            notice = "; ".join(filter(None, (notice, f"{self._name}: {cut_note}")))
        return Input(text, extra, notice)


def decode(data: bytes, name: str, *, cut: bool = False) -> tuple[str, str]:
    """Return `data` as text (see `nexus_cli.tools.files`), and a notice if the encoding is unusual.

    With `cut` it may end in the middle of a character. Raises `UsageError` for binary data.
    """
    from nexus_cli.tools.files import NUL, decode_stream  # noqa: PLC0415  (the tools, only if there is input)

    read = decode_stream(data, cut=cut)
    if read is None:
        is_file = image_type(data) or data.startswith(PDF)
        hint = "Save it as a file and attach that with -f" if is_file else "Convert it first (base64, xxd, strings)"
        raise UsageError(f"{name} is binary", "binary data cannot be sent as text", hint)
    text, remarks = read.plain, [read.encoding_note] if read.encoding_note else []
    if "\0" in text:
        text = text.replace("\0", NUL)
        remarks.append(f"NUL characters are shown as {NUL}")
    return text, f"{name}: {', and '.join(remarks)}" if remarks else ""
