"""Reads a text file of unknown encoding: instruction files, `mcp.json`, `config.toml`, recipes.

Bounded in memory, never waits for a FIFO or a device. What the text means is the caller's business.
"""

from __future__ import annotations

import codecs
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import sound

LIMIT = 64 * 1024 * 1024
"""Bytes of one file that are read (design law 5)."""
SAMPLE = 32 * 1024
"""Bytes on each side of the first byte that is not UTF-8, from which the encoding is guessed."""
FEW = 8
"""Below so many bytes outside ASCII a guess is worth nothing."""
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
COMMON = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "iso8859_2", "koi8_r"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
)
"""What people really save text in; without this bound a short text is taken for the strangest things."""
CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\f\r\b\x1a\x1b")) + b"\x7f"


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text of one file."""

    text: str
    """Without byte-order mark and without NUL; line ends as they are in the file."""
    encoding: str
    """The Python name of the encoding it was read in."""
    notice: str = ""
    """One line for the person when the text is not simply the file as UTF-8; else ""."""


def read_text(path: Path, limit: int = LIMIT) -> Decoded | None:
    """The text of the file at `path`, of which at most `limit` bytes are read.

    Tried in order: byte-order mark, UTF-8, a guess, Windows-1252, Latin-1. None when nothing readable as a file is
    there: no file, a dangling link, a folder, a FIFO, a socket, a device. `NexusError("config", ...)` when the file
    is there and cannot be read, or is binary.
    """
    try:
        data = _bytes(path, limit)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        why = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise NexusError("config", sound(str(path)), why, "Make it readable or move it away") from error
    if data is None:
        return None
    cut = len(data) > limit
    decoded = decode(data[:limit], sound(str(path)), cut=cut)
    if not cut:
        return decoded
    notice = f"{sound(str(path))}: only the first {limit:,} bytes are read"
    return Decoded(decoded.text, decoded.encoding, f"{notice}; {decoded.notice}" if decoded.notice else notice)


def decode(data: bytes, name: str, *, cut: bool = False) -> Decoded:
    """`data` as text; `name` is what messages call it, `cut` says that a character may be torn at the end.

    Raises `NexusError("config", ...)` when it is binary: a NUL, or many control characters.
    """
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return _marked(data[len(mark) :], encoding, name, cut=cut)
    if (position := data.find(0)) >= 0:
        raise _binary(name, f"a NUL at byte {position:,}")
    try:
        text = codecs.getincrementaldecoder("utf-8")("strict").decode(data, final=not cut)
    except UnicodeDecodeError as error:
        return _guessed(data, error.start, name)
    return Decoded(text, "utf-8")


def _bytes(path: Path, limit: int) -> bytes | None:
    """At most `limit` + 1 bytes of a regular file, or None for anything else."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        return None
    # Between the two looks a FIFO may have taken the place of the file: it must not block us either.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        return file.read(limit + 1) if stat.S_ISREG(os.fstat(handle).st_mode) else None


def _marked(body: bytes, encoding: str, name: str, *, cut: bool) -> Decoded:
    if cut and encoding != "utf-8":
        body = body[: len(body) // 4 * 4]
    try:
        text = codecs.getincrementaldecoder(encoding)("strict").decode(body, final=not cut)
        notice = ""
    except UnicodeDecodeError as error:
        text = body.decode(encoding, "replace")
        notice = f"{name}: is not sound {encoding}, first at byte {error.start:,}; read with replacements"
    if (position := text.find("\0")) >= 0:
        raise _binary(name, f"a NUL at character {position:,}")
    return Decoded(text, encoding, notice)


def _guessed(data: bytes, start: int, name: str) -> Decoded:
    sample = data[max(0, start - SAMPLE) : start + SAMPLE]
    if len(sample) - len(sample.translate(None, CONTROLS)) > len(sample) // 20:
        raise _binary(name, "many control characters")
    for encoding in (_guess(sample), "cp1252"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return Decoded(text, encoding, f"{name}: is not UTF-8; read as {encoding}")
    return Decoded(data.decode("latin-1"), "latin-1", f"{name}: is not UTF-8; read as latin-1")


def _guess(sample: bytes) -> str:
    """The likeliest encoding. A Latin alphabet counts as Windows-1252 unless a language speaks for another table."""
    if len(sample) - len(sample.translate(None, bytes(range(128, 256)))) < FEW:
        return "cp1252"
    from charset_normalizer import from_bytes  # noqa: PLC0415  (24 ms, and nearly every file is UTF-8)

    best = from_bytes(sample, cp_isolation=list(COMMON), enable_fallback=False).best()
    if best is None or "cp1252" in best.could_be_from_charset:
        return "cp1252"
    latin = all(ord(char) < 0x250 or 0x2000 <= ord(char) < 0x2100 for char in str(best))
    return "cp1252" if latin and not best.coherence else best.encoding


def _binary(name: str, why: str) -> NexusError:
    return NexusError("config", name, f"is not a text file ({why})", "Save it as UTF-8 text or move it away")
