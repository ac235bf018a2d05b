"""The one gate for images: whether every provider takes an image. An image that a provider refuses would be refused
again with every request of the session.

Reads only headers and decodes nothing.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from nexus_cli.core.attachment import IMAGE_NAMES, IMAGE_TOKENS, Part, image_type
from nexus_cli.core.price import request_cost
from nexus_cli.core.usage import dollars

if TYPE_CHECKING:
    from nexus_cli.core.request import ModelInfo

MAX_BYTES = 3_900_000
"""Most bytes of an image: Anthropic refuses more than 5 MiB of base64."""
MAX_SIDE = 8_000
"""Most pixels of one side, at Anthropic."""
MAX_IMAGES = 10
"""Most images of one result."""
MAX_PAGES = 5
"""Most pages of documents that one result shows as pictures."""
NO_IMAGES = "this model does not accept images"
Sides = tuple[int, int]


def describe_bad_image(data: bytes, size: int = 0) -> str:
    """Return the reason that an image cannot be sent, "" if it can. `size` is that of the file if more than
    `MAX_BYTES` of it were not read."""
    kind, length = image_type(data), size or len(data)
    if kind and length > MAX_BYTES:
        return f"it has {length:,} bytes; at most {MAX_BYTES:,} can be sent"
    sides = _SIZES[kind](data) if kind else None
    if sides is None:
        return f"it is not a complete {IMAGE_NAMES.get(kind) or 'PNG, JPEG, GIF or WebP'} image"
    if not (min(sides) > 0 and max(sides) <= MAX_SIDE):
        return f"it has {sides[0]:,} x {sides[1]:,} pixels; 1 to {MAX_SIDE:,} per side can be sent"
    return ""


def decode_image(text: str, name: str) -> Part:
    """Return an image that was sent as base64; raise `ValueError` with the reason if it cannot be sent."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        data = b""
    if why := describe_bad_image(data):
        raise ValueError(why)
    return Part(image_type(data), data, name)


def choose_images(
    images: Sequence[tuple[str, bytes]],
    info: ModelInfo | None,
    above: Mapping[bytes, str] | None = None,
    origin: str = "",
) -> tuple[list[Part], list[str], str]:
    """Return the images that the model gets, a line for each (what it is, and its price or why it is not sent), and for
    the person those that are not sent, each reason once.

    `info` is the model; None if the images only go on record. `above` names the images that the window has: they are
    not sent again. `origin` is what they are part of.
    """
    price = _describe_price(info) if info else ""
    parts: list[Part] = []
    lines: list[str] = []
    refused: dict[str, list[str]] = {}
    for place, (kind, data) in enumerate(images, 1):
        detected = image_type(data[:12])
        label = f"{detected or kind}, {len(data):,} bytes"
        if info and info.images and above and data in above:
            lines.append(
                f"[{label}: unchanged; see {above[data]} above. If the image is no longer there, repeat the call.]"
            )
            continue
        why = ""
        if info and not info.images:
            why = NO_IMAGES
        elif bad := describe_bad_image(data):
            why = bad
        elif len(parts) >= MAX_IMAGES:
            why = f"more than {MAX_IMAGES} images"
        if why:
            refused.setdefault(why, []).append(
                f"image {place} of {len(images)} ({label})" if len(images) > 1 else label
            )
        else:
            parts.append(Part(detected, data, f"image {len(parts) + 1}", origin))
        lines.append(f"[{label}: {f'not shown, {why}' if why else f'attached{price}'}]")
    return parts, lines, "; ".join(f"{', '.join(names)}: not shown, {why}" for why, names in refused.items())


def _describe_price(info: ModelInfo) -> str:
    """Return the tokens of an image, and their cost if it is known, as the end of a line."""
    cost = request_cost(info, cached=0, fresh=IMAGE_TOKENS)
    return f", about {IMAGE_TOKENS:,} tokens{'' if cost is None else f', {dollars(cost)}'}"


def _png_size(data: bytes) -> Sides | None:
    """Return width and height if every chunk is whole."""
    offset, names = 8, list[bytes]()
    while names[-1:] != [b"IEND"]:
        length = int.from_bytes(data[offset : offset + 4])
        end = offset + 8 + length
        if end + 4 > len(data) or zlib.crc32(data[offset + 4 : end]) != int.from_bytes(data[end : end + 4]):
            return None
        names.append(data[offset + 4 : offset + 8])
        offset = end + 4
    if names[0] != b"IHDR" or b"IDAT" not in names:
        return None
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield marker, start and end of each segment before the pixels, which come last."""
    offset = 2
    while data[offset : offset + 1] == b"\xff" and offset + 4 <= len(data):
        marker, end = data[offset + 1], offset + 2 + int.from_bytes(data[offset + 2 : offset + 4])
        if marker == 0xFF:  # padding
            offset += 1
            continue
        yield marker, offset + 4, end
        if marker == 0xDA:
            return
        offset = end


def _jpeg_size(data: bytes) -> Sides | None:
    size = None
    for marker, start, end in _jpeg_segments(data):
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            size = int.from_bytes(data[start + 3 : start + 5]), int.from_bytes(data[start + 1 : start + 3])
        if marker == 0xDA:
            return size if data.find(b"\xff\xd9", end) >= 0 else None
    return None


def _gif_size(data: bytes) -> Sides | None:
    ends = data.rstrip(b"\0\r\n").endswith(b";") and len(data) > 13
    return (int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")) if ends else None


def _webp_size(data: bytes) -> Sides | None:
    if int.from_bytes(data[4:8], "little") + 8 > len(data) or len(data) < 30:
        return None
    match data[12:16]:
        case b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
        case _:
            return None


_SIZES = {"image/png": _png_size, "image/jpeg": _jpeg_size, "image/gif": _gif_size, "image/webp": _webp_size}
