"""Reports on requests of a session, of the next one or of one that was sent."""

from __future__ import annotations

from contextlib import closing

from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.config.settings import Settings
from nexus_cli.ledger import Ledger
from nexus_cli.reports.context import ContextReport, context_report, sent_request_report
from nexus_cli.session.options import Options


def show_request(options: Options, settings: Settings, session: str | None, step: int | None = None) -> ContextReport:
    """Return the report on request `step`; None: on the next one, with `options`."""
    if session is None or step is None:
        return context_report(options, settings, session)
    with closing(Ledger.open_for_reading(ledger_place())) as ledger:
        return sent_request_report(ledger, session, settings, step)
