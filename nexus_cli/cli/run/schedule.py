"""`nexus schedule run`: run a schedule now. The other verbs are in `commands/schedule.py`."""

from __future__ import annotations

from typing import Annotated

from nexus_cli.cli.serve.serve_once import ServeOnceReport, run_plan
from nexus_cli.commands.schedule import Name
from nexus_cli.commands.verb import Authority, Source, Verb


def run(source: Source, name: Name) -> Annotated[int, ServeOnceReport]:
    """Run a schedule now, in this terminal, and print the result.

    Exit status 1 if it failed, 3 if a limit stopped it. In a session, /schedule run queues the run for nexus serve.
    """
    return run_plan(source.ledger, source.ledger.plans.find(name), json=source.is_json)


VERBS = (Verb(run, "run", Authority.OPERATES, "write"),)
