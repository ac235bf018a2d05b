"""Long text for a person: printed where it fits the terminal, else in their pager."""

from __future__ import annotations

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
_LEFT = (0, -signal.SIGINT, 128 + signal.SIGINT, -signal.SIGQUIT, -signal.SIGPIPE)
"""How a pager ends that the person has left."""
_PAGED: WeakSet[ReplView] = WeakSet()
"""The views on which a text is paged now."""


async def show_in_pager(view: ReplView, text: str) -> None:
    """Show all of `text`: by `PAGER` (else `less`) where it is longer than the terminal, else printed.

    Printed as well where the pager fails. Nothing while one is open on `view`.
    """
    if view in _PAGED:
        return
    shown = sanitize(text).rstrip("\n") + "\n"
    command = _pager() if shown.count("\n") > view.height - SPARE else []
    if not command:
        view.put(shown)
        return
    _PAGED.add(view)
    try:
        status = await view.outside(lambda: run_on_terminal(command, text=replace_surrogates(shown).encode()))
        how = "" if status in _LEFT else f"exit status {status}"
    except (OSError, ValueError) as error:
        how = getattr(error, "strerror", None) or str(error)
    finally:
        _PAGED.discard(view)
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
