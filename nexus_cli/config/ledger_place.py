"""Find the person's ledger: a file, or with `ledger.url` a database on a PostgreSQL server.

Only the personal settings can name a server, never a project.
"""

from __future__ import annotations

import os
from pathlib import Path

from nexus_cli.config.paths import MAX_SETTINGS, exists, places
from nexus_cli.core.errors import NexusError
from nexus_cli.core.real_files import read_beginning

LedgerPlace = Path | str
"""The path of a file, or the URL of a database."""

HIDDEN_DATA = "NEXUS_HIDDEN_DATA"
"""The variable that names nexus's data folder to commands in the sandbox, where that folder is empty or absent."""


def ledger_place() -> LedgerPlace:
    """Return the place of the person's ledger.

    Raises `NexusError("config", ...)` if the settings cannot be read, and `NexusError("ledger", ...)` in a sandboxed
    command: to it, a ledger with years of work looks like none.
    """
    folders = places()
    if os.environ.get(HIDDEN_DATA) == str(folders.data):
        why = "sandboxed commands cannot access your conversations"
        raise NexusError(
            "ledger", "the ledger is not accessible in the sandbox", why, "Run this command outside the sandbox"
        )
    try:
        data = read_beginning(folders.settings, MAX_SETTINGS + 1)
        if b"url" not in data and len(data) <= MAX_SETTINGS:
            return folders.ledger
    except (FileNotFoundError, IsADirectoryError):
        return folders.ledger
    except OSError:
        pass  # said below: a ledger on a server would look like none
    from nexus_cli.config.load_settings import read_values  # noqa: PLC0415
    from nexus_cli.config.setting_tables import LEDGER_URL  # noqa: PLC0415  (few settings name a server)

    return str(read_values(folders.settings).get(LEDGER_URL) or "") or folders.ledger


def ledger_exists(place: LedgerPlace) -> bool:
    """Return True if there is a ledger to open; always for a server, where a check would open it."""
    return isinstance(place, str) or exists(place)


def is_server(text: str) -> bool:
    return text.startswith(("postgresql://", "postgres://"))


def shown_place(place: LedgerPlace) -> str:
    """Return the place for a message: a URL as `postgresql://user@host/db`, without password and options."""
    from nexus_cli.config.database_url import hide_password  # noqa: PLC0415  (few settings name a server)

    return hide_password(place) if isinstance(place, str) else str(place)
