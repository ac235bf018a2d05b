"""Read documents that are not plain text: the pages of a PDF, the cells of a notebook."""

from __future__ import annotations

import contextlib
import json
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from nexus_cli.core.attachment import image_type
from nexus_cli.core.elide import plural
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.wire import as_table
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.files import ToolError
from nexus_cli.tools.own_worker import find_library, run_worker

PDF_SECONDS = 30.0
_PDF_WORKER = Path(__file__).with_name("pdf_worker.py").read_text(encoding="utf-8")
"""Read once: if nexus is installed in the project, a command may change the file."""
_MAX_VALUES = 1_000_000
"""Most values of a notebook, about: parsing takes memory for each. Images in it are one value each."""
_MAX_TEXT = 400_000
"""Characters of a notebook after which no further cell is shown."""
_OUTPUT_LINES = 20
_OUTPUT_LINE = 200
"""Most lines of a cell's output that are shown, and most characters of each."""
_HEAD = 120
"""Most characters of a cell's line in an outline."""
_PICTURES = ("image/png", "image/jpeg")
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """The pages or cells that were asked for."""

    text: str
    unit: str
    """`pages` or `cells`."""
    first: int
    last: int
    total: int
    images: tuple[tuple[str, bytes], ...]
    """Media type and data of each page that is also a picture, or of a cell's output, in their order."""
    stopped: str = ""
    """What is missing at the end, and why, as a line of `text` says it."""


def read_pdf(
    data: bytes, first: int, limit: int | None, stop: StopFlag, project: Path, pictures: int = 0
) -> DocumentPart:
    """Return pages from `first` on; `limit` 0 gives the first line of each.

    At most `pictures` of them are also pictures: all, or of more than so many the first ones without text. Raises
    `ToolError` if the PDF cannot be read, or if the library for it lies in `project`, where a command may have changed
    it; `ProgramRefused` as `own_interpreter`. Blocks for at most `PDF_SECONDS`: then the pages read so far are
    returned.
    """
    try:
        libraries = find_library("pypdfium2", project)
    except ToolError as error:
        raise ToolError(f"is a PDF that cannot be read: {error}") from None
    job = {"libraries": libraries, "first": first, "limit": limit or None, "outline": limit == 0}
    job["pictures"] = 0 if limit == 0 else pictures
    stdin = json.dumps(job).encode() + b"\n" + data
    outcome = run_worker(_PDF_WORKER, stdin, project=project, stop=stop, seconds=PDF_SECONDS, libraries=libraries)
    rows = [_row(line) for line in outcome.output.split(b"\n") if line.strip()]
    if not rows or "error" in rows[0]:
        late = f"it could not be opened within {PDF_SECONDS:.0f} s" if outcome.timed_out else "it cannot be opened"
        raise ToolError(f"is a PDF that cannot be read: {rows[0]['error'] if rows else late}")
    total, pages = rows[0]["total"], [row for row in rows[1:] if "page" in row]
    if first > max(1, total):
        raise ToolError(f"has only {plural(total, 'page')}")
    last = pages[-1]["page"] if pages else first - 1
    if limit == 0:
        text = "\n".join(f"{page['page']}: {page['text'] or '(no text)'}" for page in pages)
    else:
        text = "\n\n".join(f"[page {page['page']}]\n{page['text'] or '(no text)'}" for page in pages)
    final_page, stopped = min(total, first + limit - 1) if limit else total, ""
    if last < final_page:
        why = (
            "reading took too long or too much memory"
            if outcome.status or outcome.timed_out
            else "the text is too long"
        )
        stopped = f"stopped after page {last}: {why}"
        text += f"\n[{stopped}]"
    drawn = {row["picture"]: b64decode(row["png"]) for row in rows if "picture" in row}
    if job["pictures"]:
        text += _describe_pictures([page["page"] for page in pages if page["page"] not in drawn], list(drawn), pictures)
    images = tuple(("image/png", png) for png in drawn.values())
    return DocumentPart(text, "pages", first, last, total, images, stopped)


def _describe_pictures(without: Sequence[int], drawn: Sequence[int], most: int) -> str:
    """Return lines about the pages that are pictures, and those that are not; `most` can be at once."""
    lines = list[str]()
    if drawn:
        lines.append(f"[image{'s' * (len(drawn) > 1)} of page{'s' * (len(drawn) > 1)} {', '.join(map(str, drawn))}]")
    if without and len(without) + len(drawn) <= most:
        lines.append(
            f"[no image of {'page' if len(without) == 1 else 'pages'} {', '.join(map(str, without))}: not rendered]"
        )
    elif without:
        lines.append(f"[no image of {plural(len(without), 'page')}: read at most {most} pages to see each]")
    return "".join(f"\n{line}" for line in lines)


def _row(line: bytes) -> JsonObject:
    try:
        parsed = json.loads(line)
    except ValueError:  # a line that was cut at a limit
        return {}
    return as_table(parsed)


def has_too_many_values(data: bytes) -> bool:
    """Return True for JSON that is not parsed in this process, by the number of its signs."""
    return sum(map(data.count, (b"{", b"[", b","))) > _MAX_VALUES


def read_notebook(text: str, first: int, limit: int | None, pictures: int) -> DocumentPart | None:
    """Return cells from `first` on (`limit` 0: first lines) with at most so many `pictures` of their outputs, None if
    it is no notebook or has too many values; `ToolError` beyond its end."""
    if has_too_many_values(text.encode(errors="replace")):
        return None
    try:
        book = json.loads(text)
        cells = book["cells"] if "cells" in book else book["worksheets"][0]["cells"]
        if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
            return None
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    total = len(cells)
    if first > max(1, total):
        raise ToolError(f"has only {plural(total, 'cell')}")
    final_cell = min(total, first + limit - 1) if limit else total
    rows, written, last = list[str](), 0, first - 1
    for last in range(first, final_cell + 1):
        cell = cells[last - 1]
        head = f"{last} {_kind(cell)}: {_source(cell).strip().partition(chr(10))[0][:_HEAD]}"
        rows.append(head if limit == 0 else _show_cell(last, cell))
        written += len(rows[-1])
        if written > _MAX_TEXT:
            break
    text = ("\n" if limit == 0 else "\n\n").join(rows)
    stopped = f"stopped after cell {last}: the text is too long" if last < final_cell else ""
    text += f"\n[{stopped}]" if stopped else ""
    images = tuple(islice(_find_pictures(cells[first - 1 : last]), pictures if limit != 0 else 0))
    return DocumentPart(text, "cells", first, last, total, images, stopped)


def _find_pictures(cells: Iterable[JsonObject]) -> Iterator[tuple[str, bytes]]:
    """Yield media type and data of each picture among the outputs of cells."""
    outputs = (output for cell in cells if isinstance(listed := cell.get("outputs"), list) for output in listed)
    tables = (output.get("data") for output in outputs if isinstance(output, dict))
    values = (table.get(kind, "") for table in tables if isinstance(table, dict) for kind in _PICTURES)
    for value in values:
        with contextlib.suppress(ValueError):
            data = b64decode(_joined(value))
            if kind := image_type(data):
                yield kind, data


def _kind(cell: JsonObject) -> str:
    return str(cell.get("cell_type", "raw"))[:20]


def _source(cell: JsonObject) -> str:
    return _joined(cell.get("source", cell.get("input", "")))


def _joined(value: Any) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value)


def _show_cell(number: int, cell: JsonObject) -> str:
    outputs = cell.get("outputs")
    rendered, written = list[str](), 0
    for output in outputs if isinstance(outputs, list) else ():
        if written > _MAX_TEXT:
            rendered.append("[more output]")
            break
        rendered.append(_show_output(output) if isinstance(output, dict) else "")
        written += len(rendered[-1])
    text = "\n".join(filter(None, rendered))
    return f"[cell {number}, {_kind(cell)}]\n{_source(cell)}" + (f"\n[output]\n{text}" if text else "")


def _show_output(output: JsonObject) -> str:
    """Return an output in a few lines: its text, or the media types that it has instead."""
    if output.get("output_type") in ("error", "pyerr"):
        return _shorten(f"{output.get('ename', '')}: {output.get('evalue', '')}")
    data = output.get("data", output)
    if not isinstance(data, dict):
        return ""
    text = data.get("text/plain", data.get("text"))
    media = sorted(
        media_type for media_type in data if "/" in media_type and media_type not in ("text/plain", "text/html")
    )
    plain = _ESCAPE.sub("", _joined(text)).rstrip("\n") if text is not None else ""
    return "\n".join(filter(None, [_shorten(plain), f"[{', '.join(media)[:_OUTPUT_LINE]}]" if media else ""]))


def _shorten(text: str) -> str:
    lines = text.split("\n", _OUTPUT_LINES)[:_OUTPUT_LINES]
    kept_lines = [line[:_OUTPUT_LINE] + ("..." if len(line) > _OUTPUT_LINE else "") for line in lines]
    omitted = text.count("\n") + 1 - len(kept_lines)
    return "\n".join([*kept_lines, *([f"[{plural(omitted, 'more line', 'more lines')}]"] if omitted else [])])
