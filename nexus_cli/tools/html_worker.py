"""Convert HTML to Markdown, as a program: a line of JSON and the HTML on stdin, the text on stdout.

It is a process because hostile HTML takes quadratic time and its thread could not be stopped. Imports the standard
library and, from the folders in the job, the two libraries that convert.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
from contextlib import suppress
from typing import Any

MAX_MEMORY = 1 << 30
"""Most bytes of address space, where the system can bound it."""
MANY_CELLS = 2_000
"""Cells of a page above which its tables are written as plain rows: Markdown takes several times as long."""
_HIDDEN_TAGS = ("script", "style", "noscript", "template", "svg", "iframe")
_CELLS = ("td", "th")
_PARTS = ("thead", "tbody", "tfoot", "tr", *_CELLS)


def to_markdown(body: bytes, charset: str, ends: float) -> str:
    """Return the title, and the main part of a page as Markdown; its plain text if that is nested too deeply, or not
    converted at the time `ends` (monotonic)."""
    from bs4 import BeautifulSoup  # noqa: PLC0415  (found in a folder of the job)
    from markdownify import MarkdownConverter  # noqa: PLC0415

    soup = BeautifulSoup(body, "html.parser", from_encoding=charset or None)
    for tag in soup(_HIDDEN_TAGS):
        tag.decompose()
    main_part = soup.find("main") or soup.body or soup
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    if len(main_part(_CELLS)) > MANY_CELLS:
        for table in main_part("table"):
            _write_rows(soup, table)
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, max(0.001, ends - time.monotonic()))
    try:
        text = str(MarkdownConverter(heading_style="ATX", strip=["img"]).convert_soup(main_part))
        signal.setitimer(signal.ITIMER_REAL, 0)
    except (RecursionError, TimeoutError):
        signal.setitimer(signal.ITIMER_REAL, 0)
        text = main_part.get_text("\n")
    lines = [line.rstrip() for line in text.splitlines()]
    kept_lines = [line for place, line in enumerate(lines) if line or (place and lines[place - 1])]
    return "\n".join([*([f"Title: {title}", ""] if title else []), *kept_lines]).strip()


def _write_rows(soup: Any, table: Any) -> None:
    """Replace a table by its rows, one on each line; one that contains others, which lay out a page, by its cells."""
    if table.find("table"):
        for tag in [tag for tag in table(_PARTS) if tag.find_parent("table") is table]:
            tag.name = "div"
        table.name = "div"
        return
    cells = ([cell.get_text(" ", strip=True) for cell in row(_CELLS)] for row in table("tr"))
    rows = soup.new_tag("pre")
    rows.string = "\n".join(f"| {' | '.join(row)} |" for row in cells if row)
    table.replace_with(rows)


def _stop(number: int, frame: object) -> None:
    raise TimeoutError


def main() -> None:
    """Convert the page on stdin."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    job = json.loads(sys.stdin.buffer.readline())
    ends = time.monotonic() + job["seconds"]
    sys.path.extend(job["libraries"])
    text = to_markdown(sys.stdin.buffer.read(), job["charset"], ends)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
