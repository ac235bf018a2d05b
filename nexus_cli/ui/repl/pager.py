"""Long text for a person: printed where it fits the terminal, else in their pager."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
from weakref import WeakSet

from nexus_cli.core.message import replace_surrogates
from nexus_cli.ui.repl.view import ReplView
from nexus_cli.ui.terminal_handoff import run_on_terminal
from nexus_cli.ui.terminal_sanitizer import sanitize

SPARE = 4
"""Rows of the terminal that stay free of a text that is printed."""
LARGE = 200_000
"""Characters from which on a text is sanitized in a thread."""
_LEFT = (0, -signal.SIGINT, 128 + signal.SIGINT, -signal.SIGQUIT, -signal.SIGPIPE)
"""How a pager ends that the person has left."""
PAGED: WeakSet[ReplView] = WeakSet()
"""The views on which a text is paged now."""


async def show_in_pager(view: ReplView, text: str, *, at_end: bool = False) -> None:
    """Show all of `text`: by `PAGER` (else `less`) where it is longer than the terminal, else printed.

    With `at_end` the pager opens however short it is, `less` at its last line. Printed as well where the pager fails.
    Nothing while one is open on `view`.
    """
    if view in PAGED:
        return
    shown = (await asyncio.to_thread(sanitize, text) if len(text) > LARGE else sanitize(text)).rstrip("\n") + "\n"
    command = _pager() if at_end or shown.count("\n") > view.height - SPARE else []
    if at_end and command and os.path.basename(command[0]) == "less":
        command = [*command, "+G"]
    if not command:
        view.put(shown)
        return
    PAGED.add(view)
    try:
        status = await view.outside(lambda: run_on_terminal(command, text=replace_surrogates(shown).encode()))
        how = "" if status in _LEFT else f"exit status {status}"
    except (OSError, ValueError) as error:
        how = getattr(error, "strerror", None) or str(error)
    finally:
        PAGED.discard(view)
    if how:
        view.put(f"{shown}nexus: the pager {sanitize(command[0])} failed: {how}. Set PAGER to one that works.\n")


def _pager() -> list[str]:
    """Return the command of the pager, [] where there is none or the terminal cannot be drawn on."""
    if os.environ.get("TERM", "") in ("", "dumb"):
        return []
    try:
        named = shlex.split(os.environ.get("PAGER", ""))
    except ValueError:
        named = []
    less = shutil.which("less")
    return named or ([less] if less else [])
