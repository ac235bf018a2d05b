"""Check the contract of a turn of `nexus ask` before it begins, and print the price of its first request."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nexus_cli.cli.print_report import print_json
from nexus_cli.cli.run.run_turn import ask_options
from nexus_cli.core.json_value import JsonOf, to_json_value
from nexus_cli.service_list import SERVICES
from nexus_cli.session.rehearsal import Rehearsal
from nexus_cli.ui.print.stream import Stream

if TYPE_CHECKING:
    from nexus_cli.cli.run.ask_options import PreparedTurn


class PriceReport(JsonOf[Rehearsal]):
    """The price of a turn that is not sent."""


def price_turn(run: PreparedTurn, *, prints: bool) -> None:
    """Assemble the first request of `run` in memory; raise `NexusError` if it breaks the contract or a limit."""
    interactive = os.isatty(0) and Stream(2).terminal
    rehearsal = Rehearsal.of(ask_options(run, interactive=interactive), run.settings, run.trigger, SERVICES)
    if prints:
        print_json(to_json_value(rehearsal))
