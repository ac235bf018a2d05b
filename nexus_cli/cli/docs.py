"""`nexus docs`: print a page of the documentation, or list the pages. Offline, as Markdown."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from nexus_cli.cli.doc_pages import TOPICS, page_text
from nexus_cli.cli.print_report import print_text
from nexus_cli.core.errors import NexusError
from nexus_cli.ui.print.stream import Stream

T = TypeVar("T")

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("docs")
def docs(
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help=f"One of {', '.join(TOPICS)}.")] = None,
) -> int:
    """Print a page of the documentation. Without TOPIC the pages are listed."""
    if topic is None:
        size = max(map(len, TOPICS)) + 2
        print_text("\n".join(f"{name:<{size}}{about}" for name, about in TOPICS.items()))
        return 0
    if topic not in TOPICS:
        raise NexusError("usage", f"no page {topic[:40]!r}", f"the pages are {', '.join(TOPICS)}")
    text = page_text(topic)
    if Stream(1).terminal:
        from nexus_cli.ui.repl.pager import show_in_pager  # noqa: PLC0415  (not for a pipe)

        asyncio.run(show_in_pager(_Terminal(), text))
    else:
        print_text(text)
    return 0


class _Terminal:
    """The terminal at stdout, as the pager's view."""

    @property
    def height(self) -> int:
        """Rows of the terminal."""
        return os.get_terminal_size(1).lines

    def put(self, text: str) -> None:
        Stream(1).write(text)

    async def outside(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run `work`, which draws on the terminal itself."""
        return await work()
