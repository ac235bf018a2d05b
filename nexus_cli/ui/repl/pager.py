"""Show long text: printed if it fits the terminal, else in a pager."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol
from weakref import WeakSet

from nexus_cli.config.programs import find_named_program, find_program
from nexus_cli.core.errors import reason_of
from nexus_cli.core.message import replace_surrogates
from nexus_cli.reports.text.blocks import Wrapped
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.terminal_handoff import run_on_terminal

SPARE_ROWS = 4
"""Rows of the terminal that a printed text leaves free."""
LARGE = 20_000
"""Least characters of a text that is wrapped in a thread."""
_NORMAL_STATUSES = (0, -signal.SIGINT, 128 + signal.SIGINT, -signal.SIGQUIT, -signal.SIGPIPE)
"""Exit statuses of a pager that the person has left."""


class PagerView(Protocol):
    """The terminal, as far as a pager takes it over."""

    @property
    def height(self) -> int:
        """Rows."""

    @property
    def width(self) -> int:
        """Columns."""

    def put(self, text: str) -> None:
        """Print `text`."""

    async def outside(self, work: Callable[[], Awaitable[int]]) -> int:
        """Run `work` while it has the terminal."""


PAGED: WeakSet[PagerView] = WeakSet()
"""The views on which a text is paged now."""


async def show_in_pager(view: PagerView, text: str, *, at_end: bool = False) -> None:
    """Show all of `text`, wrapped between words: by `PAGER` (else `less`) where it is longer than the terminal, else
    printed.

    With `at_end` the pager opens even for a short text, `less` at its last line. If the pager fails, the text is
    printed. Does nothing while a pager is open on `view`.
    """
    if view in PAGED:
        return
    wrap = partial(Wrapped(text).lines, view.width)
    wrapped = "\n".join(await asyncio.to_thread(wrap) if len(text) > LARGE else wrap()).rstrip("\n") + "\n"
    try:
        command = _pager() if at_end or wrapped.count("\n") > view.height - SPARE_ROWS else []
    except OSError as error:
        view.put(f"{wrapped}nexus: {_describe_failure(os.environ['PAGER'], error)}\n")
        return
    if at_end and command and os.path.basename(command[0]) == "less":
        command = [*command, "+G"]
    if not command:
        view.put(wrapped)
        return
    PAGED.add(view)
    try:
        status = await view.outside(lambda: run_on_terminal(command, text=replace_surrogates(wrapped).encode()))
        problem = "" if status in _NORMAL_STATUSES else _describe_failure(command[0], f"exit status {status}")
    except (OSError, ValueError) as error:
        problem = _describe_failure(command[0], error)
    finally:
        PAGED.discard(view)
    if problem:
        view.put(f"{wrapped}nexus: {problem}\n")


def _describe_failure(name: str, error: object) -> str:
    why = reason_of(error)
    return sanitize(f"the pager {name} failed: {why}. Set PAGER to another program.")


def _pager() -> list[str]:
    """Return the pager's command, [] if none can be used; raise `OSError` if `PAGER` names no program."""
    if os.environ.get("TERM", "") in ("", "dumb"):
        return []
    try:
        argv = shlex.split(os.environ.get("PAGER", ""))
    except ValueError:
        argv = []
    if argv:
        return [find_named_program(argv[0]), *argv[1:]]
    less = find_program("less")
    return [less] if less else []
