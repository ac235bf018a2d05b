"""Extract the text of a PDF's pages and draw some of them, as a program: a line of JSON and the PDF on stdin, lines of
JSON on stdout.

It is a process because a hostile PDF takes any time and memory, and its thread could not be stopped. Each page is
written as soon as it is read, so that what was read before a limit is kept; pictures come last. Imports the standard
library and, from the folder in the job, the library that reads and draws.
"""

from __future__ import annotations

import base64
import json
import math
import resource
import struct
import sys
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

MAX_MEMORY = 1 << 30
"""Most bytes of address space, where the system can bound it."""
MAX_TEXT = 400_000
"""Characters after which no further page is read."""
LONGEST_HEADING = 100
MAX_SCALE = 4.0
"""Pixels per point (1/72 inch) in the picture of a small page."""
MAX_SIDE = 1_568
MAX_PIXELS = 1_150_000
"""Most pixels of a picture's side, and of a picture: larger ones are made smaller at Anthropic. The PNG of so many
pixels fits `image_check.MAX_BYTES`, whatever they show."""


def main() -> None:
    """Write the number of pages, then the text of each page that the job asks for, then pictures."""
    job = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read()
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    sys.path.extend(job["libraries"])
    from pypdfium2 import PdfDocument  # noqa: PLC0415  (found in a folder of the job)

    try:
        document = PdfDocument(data)
        document.init_forms()
        total = len(document)
    except Exception as error:  # whatever the library raises for a damaged file
        is_encrypted = "password" in str(error)
        _write({"error": "it is encrypted" if is_encrypted else f"it is broken: {str(error).rstrip('.')}"})
        return
    _write({"total": total})
    written, blank = 0, list[int]()
    last = total if job["limit"] is None else min(total, job["first"] + job["limit"] - 1)
    for number in range(job["first"], last + 1):
        try:
            text = document[number - 1].get_textpage().get_text_range().replace("\r\n", "\n")
            text = text.replace("\ufffe", "-\n").strip()  # a hyphen at the end of a line
        except Exception as error:  # as above: the other pages may be sound
            text = f"[this page cannot be read: {type(error).__name__}]"
        if job["outline"]:
            text = text.partition("\n")[0].strip()[:LONGEST_HEADING]
        _write({"page": number, "text": text})
        written += len(text)
        if not text:
            blank.append(number)
        if written > MAX_TEXT:
            return
    pages = range(job["first"], last + 1)
    chosen = pages if len(pages) <= job["pictures"] else blank[: job["pictures"]]
    if chosen:
        _draw_pages(document, chosen)


def _draw_pages(document: Any, numbers: Sequence[int]) -> None:
    """Write the picture of each page that can be drawn."""
    for number in numbers:
        with suppress(Exception):  # whatever a damaged page raises: the others may be sound
            page = document[number - 1]
            width, height = page.get_size()
            scale = min(MAX_SCALE, MAX_SIDE / max(width, height), math.sqrt(MAX_PIXELS / (width * height)))
            drawn = page.render(scale=scale, rev_byteorder=True, prefer_bgrx=False)
            picture = _make_png(bytes(drawn.buffer), drawn.width, drawn.height, drawn.stride)
            _write({"picture": number, "png": base64.b64encode(picture).decode("ascii")})


def _make_png(pixels: bytes, width: int, height: int, stride: int) -> bytes:
    """Return the PNG of rows of red, green and blue: one of grey, which is a third as long, if there is no colour."""
    rows = [pixels[offset : offset + 3 * width] for offset in range(0, stride * height, stride)]
    is_grey = all(row[::3] == row[1::3] == row[2::3] for row in rows)
    raw = b"".join(b"\0" + (row[::3] if is_grey else row) for row in rows)
    head = struct.pack(">IIBBBBB", width, height, 8, 0 if is_grey else 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    packed = (
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def _write(row: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
