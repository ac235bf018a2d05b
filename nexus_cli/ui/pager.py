"""Long text for a person: printed where it fits the terminal, else in their pager."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from weakref import WeakSet

from nexus_cli.core.message import replace_surrogates
from nexus_cli.ui.door import through
from nexus_cli.ui.face import Face
from nexus_cli.ui.foreground import lend

SPARE = 4
"""Rows of the terminal that stay free of a text that is printed."""
_LEFT = (0, -signal.SIGINT, 128 + signal.SIGINT, -signal.SIGQUIT, -signal.SIGPIPE)
"""How a pager ends that the person has left."""
_PAGED: WeakSet[Face] = WeakSet()
"""The faces on which a text is paged now."""


async def page(face: Face, text: str) -> None:
    """Show all of `text`: by `PAGER` (else `less`) where it is longer than the terminal, else printed.

    Printed as well where the pager fails. Nothing while one is open on `face`.
    """
    if face in _PAGED:
        return
    shown = through(text).rstrip("\n") + "\n"
    command = _pager() if shown.count("\n") > face.height - SPARE else []
    if not command:
        face.put(shown)
        return
    _PAGED.add(face)
    try:
        status = await face.outside(lambda: lend(command, text=replace_surrogates(shown).encode()))
        how = "" if status in _LEFT else f"exit status {status}"
    except (OSError, ValueError) as error:
        how = getattr(error, "strerror", None) or str(error)
    finally:
        _PAGED.discard(face)
    if how:
        face.put(f"{shown}nexus: the pager {through(command[0])} failed: {how}. Set PAGER to one that works.\n")


def _pager() -> list[str]:
    """The command of the pager, [] where there is none or the terminal cannot be drawn on."""
    if os.environ.get("TERM", "") in ("", "dumb"):
        return []
    try:
        named = shlex.split(os.environ.get("PAGER", ""))
    except ValueError:
        named = []
    less = shutil.which("less")
    return named or ([less] if less else [])
