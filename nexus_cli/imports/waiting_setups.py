"""Find the setups of other programs that `nexus import` would still take over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from nexus_cli.config.paths import Places
from nexus_cli.core.elide import name_first
from nexus_cli.core.errors import NexusError
from nexus_cli.imports.other_setups import SETUPS, program_folder
from nexus_cli.imports.personal_changes import MINE, plan_import

MAX_NAMED = 3
"""Most files of a program that are named."""


def find_waiting(places: Places) -> Iterator[tuple[str, str]]:
    """Yield each program whose setup in the home folder has something new for the personal files, and its files.

    Blocks; writes nothing, never raises.
    """
    for program, read in SETUPS.items():
        # A folder is another person's, or the own settings cannot be read, which another check says.
        with suppress(NexusError, ValueError, OSError):
            setup = read(program_folder(program))
            if plan_import(setup, places, lambda subject, answers: MINE).changes:
                yield program, name_first(setup.files, MAX_NAMED)
