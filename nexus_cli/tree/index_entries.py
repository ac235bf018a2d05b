"""Read the entries of a git index, which may contain any bytes: a command or a stranger may have written it."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

_STAT = struct.Struct(">10I")
"""ctime (s, ns), mtime (s, ns), dev, inode, mode, uid, gid and size of an entry; all cut to 32 bits."""
_EXTENDED, _ASSUMED, _STAGE, _NAME = 0x4000, 0x8000, 0x3000, 0xFFF
_MAX_DIGITS = 5
"""Most bytes of a number: no name is longer."""
_KIND = 0o170000


class IndexEntry(NamedTuple):
    """The entry of a path in the index."""

    oid: str
    about: tuple[int, ...]
    """The fields of `_STAT`."""
    flags: bytes
    """Its marks, as they are in the index."""

    @property
    def is_overlooked(self) -> bool:
        """True if git does not compare the file, or it is in a conflict."""
        return bool(int.from_bytes(self.flags[:2], "big") & (_EXTENDED | _ASSUMED | _STAGE))

    @property
    def mode(self) -> int:
        return self.about[6]

    @property
    def kind(self) -> int:
        """The kind of its mode: 0o100000 for a file, 0o160000 for another repository."""
        return self.mode & _KIND


def read_index(data: bytes, length: int, *, may_be_split: bool = False) -> Iterator[tuple[str, IndexEntry]]:
    """Yield path and entry of all that is in an index of version 2 to 4, whose object names have `length` bytes.

    Raises `ValueError` if it is damaged, or split between two files. If it `may_be_split`, the entries of this file are
    all: those that another file names have the path "".
    """
    version, count = struct.unpack_from(">II", data, 4) if data[:4] == b"DIRC" and len(data) > 12 else (0, 0)
    if version not in (2, 3, 4):
        raise ValueError("not an index of a known version")
    offset, name = 12, b""
    for _ in range(count):
        try:
            fields = _STAT.unpack_from(data, offset)
            oid = data[offset + 40 : offset + 40 + length]
            (flags,) = struct.unpack_from(">H", data, offset + 40 + length)
        except struct.error as error:
            raise ValueError("the index is truncated") from error
        begin = offset + 42 + length + (2 if flags & _EXTENDED else 0)
        marks, cut = data[offset + 40 + length : begin], 0
        if version == 4:
            cut, begin = _read_number(data, begin)
        end = data.find(b"\0", begin)
        if end < 0 or cut > len(name):
            raise ValueError("the index is damaged")
        name = name[: len(name) - cut] + data[begin:end] if version == 4 else data[begin:end]
        if min(len(name), _NAME) != flags & _NAME:
            raise ValueError("the index is damaged")
        offset = end + 1 if version == 4 else offset + (end - offset + 8) // 8 * 8
        yield os.fsdecode(name), IndexEntry(oid.hex(), fields, marks)
    if offset > len(data) - length:
        raise ValueError("the index is truncated")
    if data[offset : offset + 4] == b"link" and not may_be_split:
        raise ValueError("the index is split")


def _read_number(data: bytes, offset: int) -> tuple[int, int]:
    """Return a number of variable length, as git writes it, and the place after it. Raises `ValueError`."""
    value = -1
    for place, byte in enumerate(data[offset : offset + _MAX_DIGITS], offset + 1):
        value = ((value + 1) << 7) | (byte & 0x7F)
        if not byte & 0x80:
            return value, place
    raise ValueError("the index is damaged")
