"""Long text for a person: printed where it fits the terminal, else in their pager."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil

from nexus_cli.core.message import sound
from nexus_cli.ui.door import through
from nexus_cli.ui.face import Face

SPARE = 4
"""Rows of the terminal that stay free of a text that is printed."""


async def page(face: Face, text: str) -> None:
    """Show all of `text`: by `PAGER` (else `less`) where it is longer than the terminal, else printed."""
    shown = through(text).rstrip("\n") + "\n"
    command = _pager() if shown.count("\n") > face.height - SPARE else []
    if not command:
        face.put(shown)
        return

    async def outside() -> int:
        process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
        await process.communicate(sound(shown).encode())
        return process.returncode or 0

    try:
        await face.outside(outside)
    except OSError:
        face.put(shown)


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
