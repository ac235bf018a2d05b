"""The services that the rooms above the session give it: one list, for every front end, every run and every draft.

To add one: write it in its room, put its protocol where its tools find it (`core/services.py`), and add a line here. A
service is named by module and function, because nothing of its room is imported before a session uses it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from nexus_cli.core.entry import AGENT_NAME
from nexus_cli.core.services import Plans, Spaces
from nexus_cli.lane.options import Options
from nexus_cli.ledger import Ledger
from nexus_cli.session.running_workers import RunningWorkers
from nexus_cli.session.service_makers import ServiceMaker, ServiceMakers

if TYPE_CHECKING:
    from collections.abc import Callable

    from nexus_cli.session.session import Session

S = TypeVar("S")


def _late(
    protocol: type[S], module: str, name: str, is_offered: Callable[[Ledger, Options], bool] | None = None
) -> ServiceMaker[S]:
    """Return a maker that imports `module` and calls its `name` with the session when the service is first needed."""

    def make(session: Session) -> S:
        made: S = getattr(import_module(module), name)(session)
        return made

    return ServiceMaker(protocol, make, is_offered)


def _speaks_as_nexus(ledger: Ledger, options: Options) -> bool:
    """True for a person's own session if `nexus` takes part in a space. What a program begins speaks for nobody."""
    return not options.served and ledger.is_member(AGENT_NAME)


WORKERS = _late(RunningWorkers, "nexus_cli.workers.workers", "SessionWorkers")
PLANS = _late(Plans, "nexus_cli.runs.plan_service", "PlanService")
SPACES = _late(Spaces, "nexus_cli.spaces.space_service", "nexus_spaces", _speaks_as_nexus)
SERVICES: ServiceMakers = (WORKERS, PLANS, SPACES)
