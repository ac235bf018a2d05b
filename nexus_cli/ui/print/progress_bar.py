"""A progress bar on stderr for work that takes over a second, on a terminal that can draw one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from nexus_cli.core.progress import follow_progress
from nexus_cli.ui.print.stream import Stream, replace_bar

if TYPE_CHECKING:
    from rich.progress import Progress

SOON = 1.0
"""Seconds without a bar."""


@contextmanager
def progress_bar(what: str) -> Iterator[None]:
    """Show the progress that the block reports, and erase it at the end. Shows nothing in a pipe, a dumb terminal or
    with `NO_COLOR`."""
    if not Stream(2).colour:
        yield
        return
    begun = time.monotonic()
    shown: list[Progress] = []
    with ExitStack() as stack:

        def follow(share: float) -> None:
            if not shown and time.monotonic() - begun > SOON:
                shown.append(stack.enter_context(_begin(what)))
                stack.enter_context(replace_bar())
            if shown:
                shown[0].update(shown[0].task_ids[0], completed=share)

        stack.enter_context(follow_progress(follow))
        yield


def _begin(what: str) -> Progress:
    from rich.console import Console  # noqa: PLC0415  (takes 0.1 s)
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    made = Progress(*columns, console=Console(stderr=True), transient=True)
    made.add_task(what, total=1.0)
    return made
