"""Everything that was left out of a session's requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nexus_cli.core.entry import Drop
from nexus_cli.ledger import Ledger
from nexus_cli.session.reports.result import drop_value


def listing(session: str, drops: Sequence[Drop]) -> dict[str, Any]:
    """The drops of a session, oldest first, and how many were asked for again."""
    return {
        "version": 1,
        "session": session,
        "drops": [drop_value(drop) for drop in drops],
        "recalled": sum(1 for drop in drops if drop.recalls),
    }


def text(ledger: Ledger, session: str, drop_id: str) -> str | None:
    """The whole original of a drop, or None when the session has no such drop."""
    return ledger.drop_text(session, drop_id)
