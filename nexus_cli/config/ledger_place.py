"""The place of the person's ledger: a file, or with `ledger.url` a database on a PostgreSQL server.

Only the personal settings name a server, never a project.
"""

from __future__ import annotations

from pathlib import Path

from nexus_cli.config.paths import exists, places

LedgerPlace = Path | str
"""The path of a file, or the address of a database."""


def ledger_place() -> LedgerPlace:
    """Return where the person's ledger is; `NexusError("config", ...)` if the settings cannot be read."""
    found = places()
    try:
        named = b"url" in found.settings.read_bytes()
    except OSError:
        named = False  # whoever needs the settings says why they cannot be read
    if not named:
        return found.ledger
    from nexus_cli.config.setting_rules import LEDGER_URL  # noqa: PLC0415  (few settings name a server)
    from nexus_cli.config.settings import read_values  # noqa: PLC0415

    return str(read_values(found.settings).get(LEDGER_URL) or "") or found.ledger


def ledger_exists(place: LedgerPlace) -> bool:
    """True if there is a ledger to open: on a server always, as looking there is opening it."""
    return isinstance(place, str) or exists(place)


def is_server(text: str) -> bool:
    """True for the address of a database."""
    return text.startswith(("postgresql://", "postgres://"))


def shown_place(place: LedgerPlace) -> str:
    """Return the place as a person may see it: `postgresql://user@host/db`, without password and options."""
    from nexus_cli.config.database_url import hide_password  # noqa: PLC0415  (few settings name a server)

    return hide_password(place) if isinstance(place, str) else str(place)
