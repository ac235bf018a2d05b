"""Decode the output of commands for the model: text of any encoding, a note in place of binary output."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress

from nexus_cli.core.attachment import IMAGE_NAMES, image_type
from nexus_cli.tools.files import NUL, decode_output

LATIN = "nexus-latin"
STYLE = re.compile("\x1b\\[[0-9;:]*[mK]")
"""SGR (colours) and EL (erase to the end of the line) of ECMA-48."""
_PIECE = 1 << 20


def _latin(error: UnicodeError) -> tuple[str, int]:
    """Decode bytes that are not UTF-8 as Windows-1252."""
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error(LATIN, _latin)


def decode_text(output: bytes, uncounted: int = 0) -> str:
    """Decode `output` and end it with a newline unless it is empty; replace binary output by a note."""
    read = None
    if b"\0" not in output:
        # In pieces: one call would block all other threads until everything is decoded.
        pieces = (output[start : start + _PIECE] for start in range(0, len(output), _PIECE))
        with suppress(UnicodeDecodeError):
            read = "".join(codecs.iterdecode(pieces, "utf-8"))
    if read is None:
        decoded = decode_output(output, cut=uncounted > 0)
        if decoded is None:
            kind = image_type(output)
            note = f" (a {IMAGE_NAMES[kind]} image)" if kind else ""
            size = len(output) + uncounted
            return f"[binary output{note}, {size:,} bytes: not shown; write it to a file, or look with xxd]\n"
        read = decoded.plain.replace("\0", NUL)
    return read if read.endswith("\n") or not read else f"{read}\n"
