"""The place of the person's ledger: a file, or with `ledger.url` a database on a PostgreSQL server.

Only the personal settings name a server, never a project. Its password is never shown.
"""

from __future__ import annotations

import re
from pathlib import Path

from nexus_cli.config.paths import exists, places

SCHEMES = ("postgresql://", "postgres://")
KEY = "ledger.url"

LedgerPlace = Path | str
"""The path of a file, or the address of a database."""

_ADDRESS = re.compile(r"(postgres(?:ql)?://)(?:([^\s:@/?\"']*)(?::[^\s\"']*)?@)?([^\s?\"']*)(?:\?[^\s\"']*)?")
_NO_PORT = re.compile(r":(?!\d+(?:[/,]|$))[^/,]*")
"""In the place of a port, what may be a password."""


def ledger_place() -> LedgerPlace:
    """Return where the person's ledger is; `NexusError("config", ...)` if the settings cannot be read."""
    found = places()
    try:
        named = b"url" in found.settings.read_bytes()
    except OSError:
        named = False  # it is named wherever settings are read
    if not named:
        return found.ledger
    from nexus_cli.config.settings import read_values  # noqa: PLC0415  (few settings name a server)

    return str(read_values(found.settings).get(KEY) or "") or found.ledger


def ledger_exists(place: LedgerPlace) -> bool:
    """True if there is a ledger to open: on a server always, as looking there is opening it."""
    return isinstance(place, str) or exists(place)


def shown_place(place: LedgerPlace) -> str:
    """Return the place as a person may see it: `postgresql://user@host/db`, without password and options."""
    return hide_password(place) if isinstance(place, str) else str(place)


def hide_password(text: str) -> str:
    """Return `text` with every address of a database in it cut to user, host and name."""
    return _ADDRESS.sub(_shown_address, text)


def _shown_address(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2] + '@' if match[2] else ''}{_NO_PORT.sub('', match[3])}"
