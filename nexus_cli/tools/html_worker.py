"""Convert HTML to Markdown, as a program: a line of JSON and the HTML on stdin, the text on stdout.

It is a process because hostile HTML takes quadratic time and its thread could not be stopped. Imports the standard
library and, from the folders in the job, the two libraries that convert.
"""

from __future__ import annotations

import json
import resource
import sys
from contextlib import suppress

MOST_MEMORY = 1 << 30
"""Most bytes of address space, where the system can bound it."""
_UNSHOWN = ("script", "style", "noscript", "template", "svg", "iframe")


def to_markdown(body: bytes, charset: str) -> str:
    """Return the title, and the main part of a page as Markdown; its plain text if that is nested too deeply."""
    from bs4 import BeautifulSoup  # noqa: PLC0415  (found in a folder of the job)
    from markdownify import MarkdownConverter  # noqa: PLC0415

    soup = BeautifulSoup(body, "html.parser", from_encoding=charset or None)
    for tag in soup(_UNSHOWN):
        tag.decompose()
    shown = soup.find("main") or soup.body or soup
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    try:
        text = str(MarkdownConverter(heading_style="ATX", strip=["img"]).convert_soup(shown))
    except RecursionError:
        text = soup.get_text("\n")
    lines = [line.rstrip() for line in text.splitlines()]
    kept = [line for place, line in enumerate(lines) if line or (place and lines[place - 1])]
    return "\n".join([*([f"Title: {title}", ""] if title else []), *kept]).strip()


def main() -> None:
    """Convert the page on stdin."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    job = json.loads(sys.stdin.buffer.readline())
    sys.path.extend(job["libraries"])
    text = to_markdown(sys.stdin.buffer.read(), job["charset"])
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
