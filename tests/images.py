"""Small images for tests, whole and of any size that their headers claim."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 1, height: int = 1, extra: int = 0) -> bytes:
    """A PNG that says it has these sides, with so many more bytes."""
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"tEXt", b"x" * extra),
        (b"IDAT", zlib.compress(b"\0\0\0\0")),
        (b"IEND", b""),
    )
    made = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(made)


def first_row(data: bytes) -> tuple[int, int, bytes]:
    """Width, height and the first row of pixels of a PNG whose rows have no filter."""
    at, packed = data.index(b"IDAT"), int.from_bytes(data[data.index(b"IDAT") - 4 : data.index(b"IDAT")])
    width, height = struct.unpack(">II", data[16:24])
    row = zlib.decompress(data[at + 4 : at + 4 + packed])[: 1 + width * (3 if data[25] == 2 else 1)]
    return width, height, row[1:]


def jpeg(width: int, height: int, *, thumbnail: bytes = b"") -> bytes:
    """A JPEG with these sides in its header, and a thumbnail in front of them."""
    segments = b"".join(
        b"\xff" + kind + struct.pack(">H", len(data) + 2) + data
        for kind, data in (
            (b"\xe1", b"Exif\0\0" + thumbnail),
            (b"\xc4", bytes(19)),
            (b"\xc2", struct.pack(">BHHB", 8, height, width, 3) + bytes(9)),
            (b"\xda", bytes(10)),
        )
    )
    return b"\xff\xd8" + segments + b"pixels\xff\xd9"


def gif(width: int, height: int) -> bytes:
    """A GIF with these sides in its header."""
    return b"GIF89a" + struct.pack("<HH", width, height) + bytes(8) + b";"


def webp(width: int, height: int, form: bytes) -> bytes:
    """A WebP with these sides in the header of its form: `VP8X`, `VP8L` or `VP8 `."""
    sides = {
        b"VP8X": bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"),
        b"VP8L": b"/" + (width - 1 | (height - 1) << 14).to_bytes(4, "little") + bytes(5),
        b"VP8 ": b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height),
    }[form]
    body = b"WEBP" + form + struct.pack("<I", len(sides)) + sides + bytes(8)
    return b"RIFF" + struct.pack("<I", len(body)) + body
