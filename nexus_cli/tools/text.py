"""What the bytes of a file mean to the tools: text that can be read and edited, or binary.

The decoding itself is in `nexus_cli.core.decode`, reading the bytes in `files`, changing the text in `substitution`.
"""

from __future__ import annotations

from nexus_cli.core import decode as decoding


def decode(data: bytes) -> decoding.Text | None:
    """The text of `data`, which encodes back to exactly these bytes, or None when it is binary.

    Binary is a NUL near the beginning without a mark, a mark with unsound text behind it, and what is neither mostly
    UTF-8 nor anything else and has stray bytes for more than a tenth of it.
    """
    read = decoding.decode(data)
    if read is None or read.errors == "replace" or (not read.bom and b"\0" in data[: decoding.HEAD]):
        return None
    return None if read.stray * 10 > len(read.text) and not _mostly_utf_8(read) else read


def _mostly_utf_8(read: decoding.Text) -> bool:
    """As many characters in UTF-8 as bytes that are not."""
    return read.stray * 2 <= len(read.text) - len(read.text.encode("ascii", "ignore"))
