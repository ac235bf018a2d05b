"""A progress bar on stderr for work that takes over a second, on a terminal that can draw one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from nexus_cli.core.progress import follow_progress
from nexus_cli.text.cells import cut
from nexus_cli.ui.print.stream import ERASE_LINE, QuietStream, replace_bar
from nexus_cli.ui.render.theme import choose_theme

DELAY_SECONDS = 1.0
"""Seconds before the bar appears."""


@contextmanager
def progress_bar(label: str) -> Iterator[None]:
    """Show the progress that the block reports, and erase it at the end. Shows nothing in a pipe, a dumb terminal or
    with `NO_COLOR`."""
    stream = QuietStream(2)
    if not stream.colour:
        yield
        return
    begun, theme, drawn_text = time.monotonic(), choose_theme("auto", colour=True), ""
    with ExitStack() as stack:

        def follow(share: float) -> None:
            nonlocal drawn_text
            seconds = time.monotonic() - begun
            text = cut(f"{label}  {theme.bar(share)}  {seconds:.0f} s", stream.width - 1)
            if seconds <= DELAY_SECONDS or text == drawn_text:
                return
            if not drawn_text:
                stack.enter_context(replace_bar())
                stack.callback(stream.write, ERASE_LINE)
            drawn_text = text
            stream.write(f"{ERASE_LINE}{text}")

        stack.enter_context(follow_progress(follow))
        yield
