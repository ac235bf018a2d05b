"""A service is a protocol and a maker in one list: a session that is offered it has it, and makes it at the first
use."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
from session.played import MODEL, Played

from nexus_cli.commands.status import session_tools
from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.memory import Facts
from nexus_cli.core.message import ToolResult
from nexus_cli.core.run import AGENT, HUMAN
from nexus_cli.core.services import Assembly, Plans, Recall, ServerTools, Spaces, Waits, Workers
from nexus_cli.core.session_services import SessionServices
from nexus_cli.core.tool import Effect, Tool, ToolContext
from nexus_cli.ledger import Ledger
from nexus_cli.service_list import SERVICES
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import OWN_SERVICES, ServiceMaker, ServiceMakers
from nexus_cli.session.session import Session

SETTINGS = Settings(models={MODEL: {"window": 16_000}})


class Clock(Protocol):
    """A service that no room has."""

    def now(self) -> str:
        """The time."""
        ...


class Standing(Clock):
    def now(self) -> str:
        return "noon"


def opened(folder: Path, services: ServiceMakers, **options: Any) -> Session:
    provider = Played(lambda request: "done")
    asked = Options(folder, MODEL, **options)
    return open_session(asked, SETTINGS, approver=None, provider=provider, services=services)


def join() -> None:
    ledger = Ledger.open(places().ledger)
    members = [ledger.spaces.entity("Husam", HUMAN), ledger.spaces.entity("nexus", AGENT)]
    ledger.spaces.create("Project Alpha", "2026-02-18T15:06:55.000Z", members=members)
    ledger.close()


def test_each_service_of_the_list_is_made_once_and_is_what_its_protocol_says(tmp_path: Path) -> None:
    join()
    session = opened(tmp_path, SERVICES)
    found = session.services
    for protocol in (Workers, Plans, Spaces, Recall, Assembly, Facts, Waits):
        assert protocol in found and found.get_existing(protocol) is None, "to look makes nothing"
    there = [one for one in (*SERVICES, *OWN_SERVICES) if one.protocol is not ServerTools]
    assert ServerTools not in found, "nobody has named a server"
    for maker in (one for one in there if one.is_offered is None or one in SERVICES):
        made = found[maker.protocol]
        assert found[maker.protocol] is made is found.get_existing(maker.protocol)
        wanted = [name for name in vars(maker.protocol) if not name.startswith("_")]
        assert all(hasattr(made, name) for name in wanted), (maker.protocol, wanted)
    for maker in (one for one in there if one in SERVICES):
        assert maker.protocol in type(found[maker.protocol]).__mro__, "so that mypy compares them"
    asyncio.run(session.aclose())


@pytest.mark.matrix
def test_a_maker_is_all_that_a_service_takes(tmp_path: Path) -> None:
    made: list[str] = []

    def make(session: Session) -> Clock:
        made.append(session.id)
        return Standing()

    session = opened(tmp_path, (*SERVICES, ServiceMaker(Clock, make)))
    assert Clock in session.dispatcher.services and not made
    assert [session.services[Clock].now() for _ in range(2)] == ["noon", "noon"] and made == [session.id]
    some = ServiceMaker(Clock, make, lambda ledger, options: not options.no_tools)
    without = opened(tmp_path, (some,), no_tools=True)
    assert without.services.find(Clock) is None
    with pytest.raises(KeyError):
        without.services[Clock]
    asyncio.run(session.aclose())
    asyncio.run(without.aclose())


def test_a_service_brings_tools_and_none_under_a_name_that_is_taken(tmp_path: Path) -> None:
    async def run(arguments: Mapping[str, object], context: ToolContext) -> ToolResult:
        return ToolResult(str(context.services[Clock].now()))

    own = Tool("look_at_clock", {"type": "object", "properties": {}}, run, Effect.NONE, "", needs=(Clock,))
    tools = (own, replace(own, name="bash"))
    maker = ServiceMaker(Clock, lambda session: Standing(), lambda ledger, options: options.save, lambda options: tools)
    session = opened(tmp_path, (*SERVICES, maker))
    assert own in session.tools() and tools[1] not in session.tools()
    assert [line for line in session.notices if "bash" in line] == [
        "the tool bash was not added: another tool has this name"
    ]
    unsaved = opened(tmp_path, (maker,), save=False)
    assert own not in unsaved.tools()
    asyncio.run(session.aclose())
    asyncio.run(unsaved.aclose())


def test_a_later_maker_of_one_protocol_wins_and_others_can_be_taken_away() -> None:
    services = SessionServices({Clock: Standing})
    clock = services[Clock]
    more = services.plus(Plans, clock)
    assert more[Clock] is clock and Plans not in services and set(more.without(Clock)) == {Plans}


@pytest.mark.matrix
@pytest.mark.parametrize("member", [False, True])
def test_status_names_the_tools_of_a_session(tmp_path: Path, member: bool) -> None:
    if member:
        join()
    session = opened(tmp_path, SERVICES)
    names = [tool.name for tool in session.tools()]
    assert ("send_message" in names) is member and session_tools() == names
    asyncio.run(session.aclose())
