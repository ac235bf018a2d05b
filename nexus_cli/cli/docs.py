"""`nexus docs`: print a page of the documentation, list the pages, or search them. Offline, as Markdown."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Annotated

from nexus_cli.cli.doc_pages import TOPICS, page_text, search_pages
from nexus_cli.commands.verb import Noun, Source, Text, Verb, report_text
from nexus_cli.core.elide import clip_text
from nexus_cli.core.errors import UsageError, nearest_name
from nexus_cli.core.option import Argument
from nexus_cli.core.shared_types import T
from nexus_cli.ui.print.stream import Stream


def docs(
    source: Source,
    words: Annotated[
        list[str] | None,
        Argument("[TOPIC | WORDS]...", f"One of {', '.join(TOPICS)}, or words to search for."),
    ] = None,
) -> Text:
    """Print a page of the documentation, or search all pages for words. Without arguments, list the pages."""
    topic = " ".join(words or ())
    if not topic:
        size = max(map(len, TOPICS)) + 2
        return report_text("", "".join(f"{name:<{size}}{description}\n" for name, description in TOPICS.items()))
    text = page_text(topic) if topic in TOPICS else _found_text(topic)
    if source.is_piped or source.is_json:
        return report_text(topic, text.rstrip("\n") + "\n")
    from nexus_cli.ui.repl.pager import show_in_pager  # noqa: PLC0415  (not for a pipe)

    asyncio.run(show_in_pager(_Terminal(), text))
    return report_text(topic, "")._replace(form="")


def _found_text(words: str) -> str:
    """Return the lines of a search, or raise `UsageError` if there are none."""
    pages = search_pages(words.split())
    if not pages:
        near = nearest_name(words, TOPICS)
        hint = f"Did you mean `nexus docs {near}`? " if near else "Try other words; "
        why = "there is no such page, and no section contains all these words"
        raise UsageError(f"page {words[:40]!r}", why, f"{hint}`nexus docs` lists the pages")
    size = max(len(topic) for topic, _, _ in pages) + 2
    lines = [f"{topic:<{size}}{heading}: {clip_text(line, 100)}" for topic, heading, line in pages]
    return "\n".join([*lines, "", "Each line begins with the name of its page; `nexus docs PAGE` prints the page."])


class _Terminal:
    """The terminal at stdout, as the pager's view."""

    @property
    def height(self) -> int:
        """Rows of the terminal."""
        return os.get_terminal_size(1).lines

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return Stream(1).width

    def put(self, text: str) -> None:
        Stream(1).write(text)

    async def outside(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run `work`, which draws on the terminal itself."""
        return await work()


NOUN = Noun("docs", "run", (Verb(docs, opens="nothing"),))
