"""Check the contract of a turn of `nexus ask` before it begins, and print the price of its first request."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from nexus_cli.cli.print_report import print_json
from nexus_cli.cli.run.run_turn import ask_options
from nexus_cli.core.budget import UsedTokens
from nexus_cli.core.json_value import JsonOf, VersionedReport
from nexus_cli.sections.planner import SectionObject
from nexus_cli.service_list import SERVICES
from nexus_cli.session.rehearsal import rehearse
from nexus_cli.ui.print.stream import Stream

if TYPE_CHECKING:
    from nexus_cli.cli.command_options import PreparedTurn


class PriceReport(VersionedReport):
    """The price of a turn that is not sent."""

    session: str | None
    """The session that the turn would resume."""
    model: str
    input: int
    """Input tokens of the turn's first request."""
    cached: int
    """Tokens that should be in the provider's cache."""
    cost_usd: float | None
    """Price of the input, without the answer; null if a price is unknown."""
    cold: bool
    """True if nothing of it should be in the cache."""
    compacts: bool
    """True if the session would be compacted first: the request is shown as it is before that."""
    used: JsonOf[UsedTokens]
    sections: list[SectionObject]


def price_turn(run: PreparedTurn, *, prints: bool) -> None:
    """Assemble the first request of `run` in memory; raise `NexusError` if it breaks the contract or a limit."""
    interactive = os.isatty(0) and Stream(2).terminal
    rehearsal = rehearse(ask_options(run, interactive=interactive), run.settings, run.trigger, SERVICES)
    report: PriceReport = {
        "version": 1,
        "session": rehearsal.session or None,
        "model": rehearsal.model,
        "input": rehearsal.price.input,
        "cached": rehearsal.price.cache_read,
        "cost_usd": rehearsal.price.cost_usd,
        "cold": not rehearsal.price.cache_read,
        "compacts": rehearsal.compacts,
        "used": rehearsal.request.budget.used.to_json(),
        "sections": cast("list[SectionObject]", list(rehearsal.request.sections)),
    }
    if prints:
        print_json(report)
