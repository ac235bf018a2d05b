"""Turns and acts of one session that are asked for at the same time: one after another, in order, each as if alone."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from laws.world import checked, outcome, say
from search import sample

from nexus_cli.core.entry import Entry, Kind
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Event, StepStart, ToolCallEvent, TurnEnd
from nexus_cli.session.acts.compaction import compaction, uncompaction
from nexus_cli.session.acts.memory import reflection
from nexus_cli.session.session import Session

CALL = {"calls": [{"name": "bash", "arguments": {"command": "sleep 0.3; echo finished"}}]}
SLEEPS = {"calls": [{"name": "bash", "arguments": {"command": "sleep 30"}}]}


async def began(session: Session, words: str, kind: type[Event]) -> asyncio.Task[list[Event]]:
    """A turn that has come to its first event of a kind."""
    there = asyncio.Event()
    turn = asyncio.create_task(say(session, words, lambda event, _: there.set() if isinstance(event, kind) else None))
    await there.wait()
    return turn


def said(entries: list[Entry]) -> list[tuple[Kind, str]]:
    return [(entry.kind, entry.message.content) for entry in entries]


@pytest.mark.matrix
async def test_turns_at_once_are_done_one_after_another_in_order(place: Path) -> None:
    async with checked(place, [CALL, "a", "b", "c"]) as (_around, session, entries):
        turns = await asyncio.gather(*(say(session, words) for words in ("FIRST", "SECOND", "THIRD")))
        ends = [outcome(events) for events in turns]
        assert [(end.ok, end.text, end.steps) for end in ends] == [(True, "a", 2), (True, "b", 1), (True, "c", 1)]
        assert not session.busy
    kinds = [Kind.USER, Kind.ASSISTANT, Kind.TOOL, Kind.ASSISTANT, *[Kind.USER, Kind.ASSISTANT] * 2]
    assert [entry.kind for entry in entries] == kinds
    assert "finished" in entries[2].message.content
    assert [entry.message.content for entry in entries if entry.kind is Kind.USER] == ["FIRST", "SECOND", "THIRD"]


@pytest.mark.matrix
@pytest.mark.parametrize("act", sample([compaction(""), uncompaction(), reflection(lambda words: None)], 3))
async def test_an_act_during_a_turn_waits_for_its_end(place: Path, act: Any) -> None:
    async with checked(place, [CALL, "a", "b", "c"]) as (_around, session, entries):
        turn = await began(session, "FIRST", ToolCallEvent)
        ended: list[str] = []
        try:
            async for _ in session.act(act):
                ended.append(session.context.messages[-1].content)
        except NexusError as error:
            assert error.kind != "internal"
        assert all("finished" not in text and text for text in ended)
        end = outcome(await turn)
        assert (end.ok, end.text, end.steps) == (True, "a", 2)
    assert [entry.kind for entry in entries] == [Kind.USER, Kind.ASSISTANT, Kind.TOOL, Kind.ASSISTANT]
    assert "finished" in entries[2].message.content


@pytest.mark.matrix
async def test_steering_and_stopping_reach_the_turn_that_runs_and_the_next_one_begins_then(place: Path) -> None:
    async with checked(place, [SLEEPS, "b"]) as (_around, session, entries):
        first = await began(session, "FIRST", ToolCallEvent)
        second = asyncio.create_task(say(session, "SECOND"))
        await asyncio.sleep(0)
        session.steer("and this")
        session.cancel("person")
        assert outcome(await first).finish == "aborted"
        assert outcome(await second).ok
    words = [text for kind, text in said(entries) if kind in (Kind.USER, Kind.STEER)]
    assert words == ["FIRST", "and this", "SECOND"]


@pytest.mark.matrix
async def test_a_turn_that_is_left_while_it_waits_leaves_no_trace_and_holds_nobody_up(place: Path) -> None:
    async with checked(place, [CALL, "a", "b"]) as (_around, session, entries):
        first = await began(session, "FIRST", StepStart)
        second = asyncio.create_task(say(session, "SECOND"))
        third = asyncio.create_task(say(session, "THIRD"))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert outcome(await first).text == "a" and outcome(await third).text == "b"
    assert [text for _, text in said(entries)][-2:] == ["THIRD", "b"]


async def test_closing_a_session_stops_what_runs_and_what_waits(place: Path) -> None:
    async with checked(place, [SLEEPS]) as (_around, session, entries):
        first = await began(session, "FIRST", ToolCallEvent)
        second = asyncio.create_task(say(session, "SECOND"))
        await asyncio.sleep(0)
        await session.aclose()
        for turn in (first, second):
            ended = outcome(await turn)
            assert ended.finish == "aborted"
        assert (ended.text, ended.steps) == ("", 0)
    assert [entry.kind for entry in entries] == [Kind.USER, Kind.ASSISTANT, Kind.TOOL]


@pytest.mark.matrix
async def test_a_turn_asked_for_by_who_reads_another_one_is_no_deadlock(place: Path) -> None:
    async with checked(place, ["a", "b"]) as (_around, session, entries), aclosing(session.run("FIRST")) as events:
        async for event in events:
            if isinstance(event, StepStart):
                assert outcome(await say(session, "SECOND")).text == "b"
            if isinstance(event, TurnEnd):
                assert event.outcome.text == "a"
    assert [text for _, text in said(entries)] == ["FIRST", "a", "SECOND", "b"]


@pytest.mark.matrix
async def test_each_turn_keeps_its_own_drops(place: Path) -> None:
    async with checked(place, ["a", "b"]) as (_around, session, _entries):
        turns = await asyncio.gather(say(session, "FIRST " + "word " * 40_000), say(session, "SECOND"))
        first, second = (session.result(outcome(events))["drops"] for events in turns)
        assert [drop["cause"] for drop in first] == ["input_cap"] and second == []
