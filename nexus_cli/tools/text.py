"""What the bytes of a file mean to the tools: text that can be read and edited, or binary.

The decoding itself is in `nexus_cli.core.decode`, reading the bytes in `files`, changing the text in `substitution`.
"""

from __future__ import annotations

import contextlib

from nexus_cli.core import decode as decoding

_SAMPLE = 64 * 1024
"""Bytes of a stream by which it is judged."""
_LEAST = 16
"""Bytes from which on UTF-16 is looked for without a mark."""
_CONTROLS = bytes(set(range(1, 32)) - set(b"\t\n\v\f\r\b\a\x1a\x1b\x1c\x1d\x1e\x1f"))
"""Control characters that no text has many of. The separators are those of data that is text."""
NUL = "\u2400"
"""Stands for a NUL in a text that is shown or sent."""


def decode_file(data: bytes) -> decoding.DecodedText | None:
    """The text of `data`, which encodes back to exactly these bytes, or None when it is binary.

    Binary is a NUL near the beginning without a mark, a mark with unsound text behind it, and what is neither mostly
    UTF-8 nor anything else and has stray bytes for more than a tenth of it.
    """
    read = decoding.decode(data)
    if read is None or read.errors == "replace" or (not read.bom and b"\0" in data[: decoding.HEAD]):
        return None
    return None if _is_noise(read) else read


def decode_stream(data: bytes, *, cut: bool = False) -> decoding.DecodedText | None:
    """The text of what is piped, or None when it is binary. With `cut` its end may be torn.

    Unlike in a file some NULs are no sign of binary (`find -print0`), and UTF-16 needs no mark (programs for Windows).
    """
    return _utf_16(data) or decoding.decode(data, cut=cut)


def decode_output(data: bytes, *, cut: bool = False) -> decoding.DecodedText | None:
    """The same of a command, whose output nobody chose to be text: much noise and many controls are binary too."""
    read = decode_stream(data, cut=cut)
    if read is None or _is_noise(read):
        return None
    head = data[:_SAMPLE]
    controls = len(head) - len(head.translate(None, _CONTROLS))
    narrow = not read.encoding.startswith("utf-16")
    return None if narrow and (head.count(0) * 3 > len(head) or controls * 20 > len(head)) else read


def _utf_16(data: bytes) -> decoding.DecodedText | None:
    """The text of UTF-16 without a mark: nearly every second byte is NUL, and none between them."""
    head = data[:_SAMPLE]
    if len(data) < _LEAST or len(data) % 2 or data.startswith(tuple(bom for bom, _ in decoding.MARKS)):
        return None
    for encoding, at in (("utf-16-le", 1), ("utf-16-be", 0)):
        if not head[1 - at :: 2].count(0) and head[at::2].count(0) * 10 >= len(head[at::2]) * 9:
            with contextlib.suppress(UnicodeDecodeError):
                return decoding.DecodedText(data.decode(encoding), encoding)
    return None


def _is_noise(read: decoding.DecodedText) -> bool:
    """True if more than a tenth are stray bytes, and the rest does not make up for it."""
    return read.stray * 10 > len(read.text) and not _mostly_utf_8(read)


def _mostly_utf_8(read: decoding.DecodedText) -> bool:
    """As many characters in UTF-8 as bytes that are not."""
    return read.stray * 2 <= len(read.text) - len(read.text.encode("ascii", "ignore"))
