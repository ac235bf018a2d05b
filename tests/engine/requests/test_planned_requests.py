"""Only the request that was planned is sent: what was checked, priced and shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from conversation.planned import Conversation
from conversation.test_conversation import Record, measure
from epochs import make_header as EpochHeader
from session.played import Played

from nexus_cli.context import ContextConfig, ContextManager
from nexus_cli.conversation.request_plan import project
from nexus_cli.conversation.tokens.estimate import Estimate
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import local_now
from nexus_cli.core.entry import Kind
from nexus_cli.core.message import Message, Role
from nexus_cli.core.usage import Usage
from nexus_cli.engine.requests.model_call import call_model
from nexus_cli.session.session import Session

CHANGES: dict[str, Callable[[Conversation], object]] = {
    "a message": lambda lane: lane.append(Kind.USER, Message(Role.USER, "two"), "person"),
    "a preamble": lambda lane: lane.attach_preamble("new"),
    "an epoch": lambda lane: lane.rewrite(lane.items, "reload", ()),
    "a header": lambda lane: lane.replace_header(EpochHeader("n")),
}


def begun() -> Conversation:
    lane = Conversation(Record(), local_now, measure, EpochHeader("m", "system text"))
    lane.append(Kind.USER, Message(Role.USER, "one"), "person")
    return lane


@pytest.mark.parametrize("name", CHANGES)
def test_a_plan_of_another_window_is_not_sent(name: str) -> None:
    lane = begun()
    plan = lane.plan()
    CHANGES[name](lane)
    cursor, items, is_recorded = lane.cursor, lane.items, lane.is_recorded
    with pytest.raises(ValueError, match="not that of the present window"):
        lane.freeze_request(plan)
    assert (lane.cursor, lane.items, lane.is_recorded) == (cursor, items, is_recorded)
    lane.freeze_request()


def test_a_plan_of_another_conversation_that_changed_as_often_is_not_sent() -> None:
    one, other = begun(), begun()
    with pytest.raises(ValueError, match="not that of the present window"):
        one.freeze_request(other.plan())
    one.freeze_request()


def test_what_waits_for_the_next_message_is_not_sent_without_it() -> None:
    lane = begun()
    shown = project(lane.epoch, lane.counts(), Estimate.of(), TokenBudget(8_000, 1_000, 0), waiting=1)
    with pytest.raises(ValueError, match="not that of the present window"):
        lane.freeze_request(shown)


def test_a_model_is_not_asked_with_another_request_than_the_planned_one() -> None:
    provider = Played(lambda request: "well", usage=Usage(1_200, 5))
    session = Session(provider, ContextManager(ContextConfig(40_000, 4_000)))

    async def turn() -> list[Any]:
        return [event async for event in session.run("one")]

    asyncio.run(turn())
    side = session.engine.fork("compact", "Sum it up")
    plan, cursor = side.window_request(), side.conversation.cursor
    side.conversation.append(Kind.INSTRUCTION, Message(Role.USER, "and one thing more"), "nexus")
    with pytest.raises(ValueError, match="not that of the present window"):
        asyncio.run(call_model(side, plan, main=False))
    assert (len(provider.seen), side.step, side.conversation.cursor) == (1, 0, cursor)
    asyncio.run(call_model(side, side.window_request(), main=False))
    assert provider.seen[-1][-1] == {"role": "user", "content": "and one thing more"}
