"""Open the ledger of a shell command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nexus_cli.commands.verb import Mode
from nexus_cli.config.ledger_place import ledger_exists, ledger_place
from nexus_cli.ui.print.stream import write_stderr_line

if TYPE_CHECKING:
    from nexus_cli.ledger import Ledger


def open_ledger(mode: Mode = "read") -> Ledger:
    """Open the ledger. Open an empty one in memory with the mode `nothing`, and if the ledger does not exist, except
    with the mode `create`. May raise `NexusError`."""
    from nexus_cli.ledger import Ledger  # noqa: PLC0415  (many commands need none)

    place = None if mode == "nothing" else ledger_place()
    if place is None or not (mode == "create" or ledger_exists(place)):
        return Ledger.open(None)
    ledger = Ledger.open_for_reading(place) if mode == "read" else Ledger.open(place)
    for notice in ledger.notices:
        write_stderr_line(f"nexus: {notice}")
    return ledger


def open_unchanged_ledger() -> Ledger:
    """Open the ledger file for completing a word, without changing the file. Without a file, and for a server, which
    may be slow, open an empty ledger in memory. May raise `NexusError`."""
    from nexus_cli.ledger import Ledger  # noqa: PLC0415  (many commands need none)

    place = ledger_place()
    return Ledger.open_unchanged(place) if isinstance(place, Path) and place.is_file() else Ledger.open(None)
