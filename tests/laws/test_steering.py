"""What a person does to a running turn: steering is delivered after the complete batch and never lost, stopping settles
what is open, and both leave a session that goes on with the same bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from laws.world import World, checked, outcome, say
from search import sample

from nexus_cli.core.entry import Kind
from nexus_cli.core.event import Event, Retry, StepStart, Text, ToolCallEvent, ToolResultEvent, TurnEnd
from nexus_cli.core.limits import Limits
from nexus_cli.core.message import Role
from nexus_cli.engine.calls.dispatch import CANCELLED, INTERRUPTED
from nexus_cli.engine.requests.control import STOPPED_BY
from nexus_cli.session.session import Session

THREE = {"calls": [{"name": "bash", "arguments": {"command": f"echo {n}"}} for n in range(3)]}
LONG = {"text": "a long answer " * 40, "pace": 0.005}
SLEEPS = {
    "calls": [
        {"name": "bash", "arguments": {"command": "echo begun; touch begun; sleep 30"}},
        {"name": "bash", "arguments": {"command": "touch never"}},
    ]
}

LONG_ENOUGH = Limits(timeout=3600.0)


def roles(around: World, number: int) -> list[str]:
    """The roles of a received request, without the system text."""
    return [message["role"] for message in around.server.requests[number].body["messages"][1:]]


async def until(holds: Callable[[], object]) -> None:
    """Wait for another process."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def time_out(session: Session, when: Callable[[], object]) -> None:
    """Let the time limit of the running turn be over once something holds."""
    await until(when)
    session._control.stop("timeout")


def at(kind: type[Event], do: Callable[[], None], nth: int = 1) -> Callable[[Event, int], None]:
    """An act: do it at the n-th event of a kind."""
    seen = 0

    def act(event: Event, number: int) -> None:
        nonlocal seen
        seen += isinstance(event, kind)
        if isinstance(event, kind) and seen == nth:
            do()

    return act


@pytest.mark.matrix
@pytest.mark.parametrize("kind", [ToolCallEvent, ToolResultEvent])
async def test_steering_is_delivered_after_the_complete_batch(kind: type[Event], place: Path) -> None:
    async with checked(place, [THREE, "done"]) as (around, session, entries):
        await say(session, "FIRST do it", at(kind, lambda: session.steer("STEER and this too")))
    assert roles(around, 1) == ["user", "assistant", "tool", "tool", "tool", "user"]
    assert around.server.requests[1].body["messages"][-1]["content"].endswith("STEER and this too")
    assert [entry.kind for entry in entries if entry.message.role is Role.USER] == [Kind.USER, Kind.STEER]


@pytest.mark.matrix
async def test_steering_during_the_last_answer_is_answered_in_the_same_turn(place: Path) -> None:
    async with checked(place, [LONG, "and that"]) as (around, session, _entries):
        events = await say(session, "FIRST do it", at(Text, lambda: session.steer("STEER one more"), nth=3))
        assert outcome(events).text == "and that" and outcome(events).steps == 2
    assert roles(around, 1) == ["user", "assistant", "user"]


@pytest.mark.matrix
async def test_several_words_of_steering_keep_their_order(place: Path) -> None:
    async with checked(place, [THREE, "done"]) as (_around, session, entries):

        def steer() -> None:
            for number in range(3):
                session.steer(f"STEER{number} more")

        await say(session, "FIRST do it", at(ToolCallEvent, steer, nth=2))
    steered = [entry.message.content.split()[0] for entry in entries if entry.kind is Kind.STEER]
    assert steered == ["STEER0", "STEER1", "STEER2"]


@pytest.mark.matrix
@pytest.mark.parametrize("end", ["cancel", "failure", "limit"])
async def test_steering_is_kept_when_the_turn_ends_before_it_was_delivered(end: str, place: Path) -> None:
    first = {"failure": {"text": "half " * 30, "fault": {"kind": "reset", "after": 3}}, "limit": THREE}.get(end, LONG)

    cut_again = [first] * (end == "failure")
    async with checked(place, [first, *cut_again, "now done"], limits=Limits(max_steps=1)) as (
        around,
        session,
        entries,
    ):

        def steer() -> None:
            session.steer("STEER not to be lost")
            if end == "cancel":
                session.cancel("person")

        events = await say(session, "FIRST do it", at(ToolCallEvent if end == "limit" else Text, steer))
        assert outcome(events).finish == {"cancel": "aborted", "failure": "network", "limit": "limit"}[end]
        assert outcome(await say(session, "")).ok
    assert [entry.kind for entry in entries if "STEER" in entry.message.content] == [Kind.STEER]
    assert "STEER not to be lost" in str(around.server.requests[-1].body["messages"])


@pytest.mark.matrix
async def test_steering_between_turns_waits_for_the_next_one(place: Path) -> None:
    async with checked(place, ["one", "two"]) as (around, session, _entries):
        await say(session, "FIRST do it")
        session.steer("STEER for later")
        session.steer("   ")
        await say(session, "SECOND go on")
    said = [m["content"] for m in around.server.requests[1].body["messages"] if m["role"] == "user"]
    assert "FIRST" in said[0] and "SECOND" in said[1] and "STEER" in said[2] and len(said) == 3


@pytest.mark.matrix
async def test_stopping_inside_a_tool_settles_every_open_call(place: Path) -> None:
    async with checked(place, [SLEEPS, "done"]) as (around, session, entries):

        async def stop() -> None:
            await until((around.folder / "begun").exists)
            session.cancel("person")
            session.cancel("person")

        watching = asyncio.create_task(stop())
        assert outcome(await say(session, "FIRST do it")).exit == 130
        await watching
        session.cancel("person")
        assert outcome(await say(session, "SECOND go on")).ok
    results = [entry.message.content for entry in entries if entry.kind is Kind.TOOL]
    assert results == [line.format(who=STOPPED_BY["person"]) for line in ("begun\n" + INTERRUPTED, CANCELLED)]
    assert not (around.folder / "never").exists()
    assert len(around.server.requests) == 2


async def test_a_turn_stopped_before_its_first_step_ends(place: Path) -> None:
    async with checked(place, ["done"]) as (around, session, _entries):
        assert outcome(await say(session, "FIRST do it")).ok
        running = session.run("SECOND and this")
        first = asyncio.ensure_future(anext(aiter(running)))
        await asyncio.sleep(0)
        session.cancel("person")
        events = [await first, *[event async for event in running]]
        assert outcome(events).finish == "aborted"
    assert len(around.server.requests) == 1


@pytest.mark.matrix
@pytest.mark.parametrize("kind", sample([StepStart, Text, ToolCallEvent], 3))
async def test_stopping_twice_ends_the_turn_once(kind: type[Event], place: Path) -> None:
    long = {**LONG, **THREE} if kind is ToolCallEvent else LONG
    async with checked(place, [long, "done"]) as (_around, session, entries):

        def stop() -> None:
            session.cancel("person")
            session.cancel("person")

        events = await say(session, "FIRST do it", at(kind, stop))
        assert [type(event) for event in events].count(TurnEnd) == 1
        assert outcome(events).finish == "aborted"
        assert outcome(await say(session, "SECOND go on")).ok
    assert entries[-1].kind is Kind.ASSISTANT


@pytest.mark.matrix
async def test_what_was_said_before_an_interrupt_stays_and_the_model_sees_the_mark(place: Path) -> None:
    async with checked(place, [LONG, "done"]) as (around, session, _entries):
        await say(session, "FIRST do it", at(Text, lambda: session.cancel("person"), nth=3))
        await say(session, "SECOND go on")
    partial = around.server.requests[1].body["messages"][2]
    assert partial["role"] == "assistant"
    assert partial["content"].startswith("a long answer") and partial["content"].endswith("[interrupted]")


@pytest.mark.matrix
async def test_stopping_while_a_retry_waits_sends_nothing_more(place: Path) -> None:
    async with checked(place, [{"fault": {"status": 429, "retry_after": 30}}, "done"]) as (around, session, _entries):
        events = await say(session, "FIRST do it", at(Retry, lambda: session.cancel("person")))
        assert outcome(events).finish == "aborted"
        assert len(around.server.requests) == 1
        assert outcome(await say(session, "SECOND go on")).ok


@pytest.mark.matrix
async def test_leaving_a_turn_half_way_settles_it(place: Path) -> None:
    async with checked(place, [SLEEPS, "done"]) as (_around, session, entries):
        running = session.run("FIRST do it")
        async for event in running:
            if isinstance(event, ToolCallEvent):
                break
        await running.aclose()
        assert outcome(await say(session, "SECOND go on")).ok
    assert sum(entry.kind is Kind.TOOL for entry in entries) == 2


@pytest.mark.matrix
@pytest.mark.parametrize("where", ["provider", "tool"])
async def test_a_time_limit_ends_the_turn_and_keeps_what_was_done(where: str, place: Path) -> None:
    slow = {"text": "late", "fault": {"kind": "stall_before_head", "seconds": 30}} if where == "provider" else SLEEPS

    async with checked(place, [slow, "done"], limits=LONG_ENOUGH) as (around, session, entries):
        asked, begun = around.server.requests, around.folder / "begun"
        watching = asyncio.create_task(time_out(session, begun.exists if where == "tool" else lambda: asked))
        ended = outcome(await say(session, "FIRST do it"))
        await watching
        assert (ended.finish, ended.exit) == ("limit", 3)
        assert ended.error is not None and "timeout" in ended.error["message"]
        assert outcome(await say(session, "SECOND go on")).ok
    results = [entry.message.content for entry in entries if entry.kind is Kind.TOOL]
    told = [line.format(who=STOPPED_BY["timeout"]) for line in ("begun\n" + INTERRUPTED, CANCELLED)]
    assert results == (told if where == "tool" else []), "it is not told as the person's act"
