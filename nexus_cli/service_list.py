"""The services that the rooms above the session give it: one list, for every front end, every run and every draft.

To add one: write it in its room, put its protocol where its tools find it (`core/services.py`), and add a line here. A
service is named by module and function, because nothing of its room is imported before a session uses it.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from nexus_cli.config.foreign_items import may_have_servers
from nexus_cli.core.entry import AGENT_NAME
from nexus_cli.core.running_workers import RunningWorkers
from nexus_cli.core.services import Plans, ServerTools, Spaces
from nexus_cli.ledger import Ledger
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import ServiceMaker, ServiceMakers

if TYPE_CHECKING:
    from collections.abc import Callable

    from nexus_cli.core.tool import Tool
    from nexus_cli.session.session import Session

S = TypeVar("S")


def _import_when_used(
    protocol: type[S], module: str, name: str, is_offered: Callable[[Ledger, Options], bool] | None = None
) -> ServiceMaker[S]:
    """Return a maker that imports `module` and calls its `name` with the session when the service is first needed."""

    def make(session: Session) -> S:
        service: S = getattr(import_module(module), name)(session)
        return service

    return ServiceMaker(protocol, make, is_offered)


def _is_nexus_member(ledger: Ledger, options: Options) -> bool:
    """True for a person's own session if `nexus` is a member of a space. A session of a program speaks for nobody."""
    return not options.served and ledger.is_member(AGENT_NAME)


def _may_have_servers(ledger: Ledger, options: Options) -> bool:
    """True if there may be servers, or one may be added while the session is open."""
    return options.interactive or may_have_servers(options.cwd)


def _server_tools(options: Options) -> list[Tool]:
    if not options.servers and not may_have_servers(options.cwd):
        return []
    tools: list[Tool] = import_module("nexus_cli.mcp.server_tools").read_tools(options.cwd, options.servers)
    return tools


WORKERS = _import_when_used(RunningWorkers, "nexus_cli.workers.workers", "SessionWorkers")
PLANS = _import_when_used(Plans, "nexus_cli.runs.plan_service", "PlanService")
SPACES = _import_when_used(Spaces, "nexus_cli.spaces.space_service", "nexus_spaces", _is_nexus_member)
SERVERS = replace(
    _import_when_used(ServerTools, "nexus_cli.session.session_servers", "SessionServers", _may_have_servers),
    tools=_server_tools,
)
SERVICES: ServiceMakers = (WORKERS, PLANS, SPACES, SERVERS)
