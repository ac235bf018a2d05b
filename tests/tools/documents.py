"""Make the documents that tests read: PDFs and notebooks."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

SCANNED = b"q 612 0 0 792 0 0 cm BI /W 1 /H 1 /CS /RGB /BPC 8 /F /AHx ID ff8000> EI Q"
"""A page that is one image, as a scanner makes it: all of it has the colour ff8000."""


def make_pdf(pages: Sequence[str | bytes], *, blow_up: int = 0) -> bytes:
    """A PDF with the lines of each page, or bytes that draw it. `blow_up`: the first page's content unpacks to so many
    bytes."""
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for at, page in enumerate(pages):
        content, packed = page if isinstance(page, bytes) else _write_lines(page), b""
        if blow_up and at == 0:
            content, packed = zlib.compress(content + b" " * blow_up, 1), b" /Filter /FlateDecode"
        resources = "/Resources << /Font << /F1 3 0 R >> >> /MediaBox [0 0 612 792]"
        objects.append(f"<< /Type /Page /Parent 2 0 R {resources} /Contents {5 + 2 * at} 0 R >>".encode())
        objects.append(b"<< /Length %d%s >>\nstream\n%s\nendstream" % (len(content), packed, content))
    made, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    tail = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(made))
    return made + head + table + tail


def _write_lines(page: str) -> bytes:
    lines = (f"({line.translate({40: chr(92) + '(', 41: chr(92) + ')'})}) Tj T*" for line in page.split("\n"))
    return ("BT /F1 12 Tf 14 TL 72 720 Td\n" + "\n".join(lines) + "\nET").encode("cp1252")


def make_notebook(cells: Sequence[tuple[str, str, Sequence[dict[str, Any]]]]) -> str:
    """A notebook of cells: kind, source and outputs."""
    made = [
        {"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)}
        | ({"outputs": list(outputs), "execution_count": 1} if kind == "code" else {})
        for kind, source, outputs in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
