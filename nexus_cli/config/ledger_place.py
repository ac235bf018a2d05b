"""Find the person's ledger: a file, or with `ledger.url` a database on a PostgreSQL server.

Only the personal settings can name a server, never a project.
"""

from __future__ import annotations

from pathlib import Path

from nexus_cli.config.paths import exists, places

LedgerPlace = Path | str
"""The path of a file, or the URL of a database."""


def ledger_place() -> LedgerPlace:
    """Return the place of the person's ledger; raise `NexusError("config", ...)` if the settings cannot be read."""
    found = places()
    try:
        named = b"url" in found.settings.read_bytes()
    except OSError:
        named = False  # reported when the settings are loaded
    if not named:
        return found.ledger
    from nexus_cli.config.setting_rules import LEDGER_URL  # noqa: PLC0415  (few settings name a server)
    from nexus_cli.config.settings import read_values  # noqa: PLC0415

    return str(read_values(found.settings).get(LEDGER_URL) or "") or found.ledger


def ledger_exists(place: LedgerPlace) -> bool:
    """Return True if there is a ledger to open; always for a server, where a check would open it."""
    return isinstance(place, str) or exists(place)


def is_server(text: str) -> bool:
    return text.startswith(("postgresql://", "postgres://"))


def shown_place(place: LedgerPlace) -> str:
    """Return the place for a message: a URL as `postgresql://user@host/db`, without password and options."""
    from nexus_cli.config.database_url import hide_password  # noqa: PLC0415  (few settings name a server)

    return hide_password(place) if isinstance(place, str) else str(place)
