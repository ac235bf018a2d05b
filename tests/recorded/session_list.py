"""The recorded sessions, by class. Each is a function of a `Person`; its docstring is the title of its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from recorded.person import Person
from recorded.sessions import files, providers, resumed, talk, terminal, unattended, windows

Play = Callable[[Person], None]

CLASSES: Mapping[str, tuple[Play, ...]] = {
    "one turn": talk.SESSIONS,
    "files and facts": files.SESSIONS,
    "resumed": resumed.SESSIONS,
    "windows": windows.SESSIONS,
    "terminal": terminal.SESSIONS,
    "unattended": unattended.SESSIONS,
    "providers": providers.SESSIONS,
}
"""The first of each class is played in every run of the tests."""
SESSIONS: Mapping[str, Play] = {play.__name__: play for plays in CLASSES.values() for play in plays}
