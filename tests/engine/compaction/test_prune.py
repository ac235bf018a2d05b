"""Stale results in a session: taken out in batches when it pays, with a way back, and never twice."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledger.conftest import on
from session.played import run_turns, the_ledger
from session.prefix_cache import MODEL, PRICES, SETTINGS, Clock, Remembering, lived, opened, results

from nexus_cli.commands.cache import cache_report
from nexus_cli.config.settings import CompactSettings, Settings
from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.compaction.pins import add_pin
from nexus_cli.conversation.rewrite import Rewrite
from nexus_cli.core.entry import Cause, ItemForm
from nexus_cli.core.event import (
    CacheResult,
    CompactionDone,
    CompactionStart,
    ContextDrop,
    Event,
    Notice,
    ToolResultEvent,
)
from nexus_cli.core.memo_kinds import REWRITE
from nexus_cli.engine.compaction.context_fit import draft_due_pruning
from nexus_cli.reports.check_replay import check
from nexus_cli.reports.context import context_report, live_report
from nexus_cli.reports.request_view import prune_notice
from nexus_cli.session import draft
from nexus_cli.session.options import Options

WINDOW = 64_000
SMALL = replace(SETTINGS, models={MODEL: {**PRICES, "window": WINDOW}})


def project(folder: Path) -> None:
    for name in "abc":
        text = "".join(f"{name}{line}: some line of the file {name}, no two alike\n" for line in range(120))
        (folder / f"{name}.py").write_text(text)


def reading(rounds: int, clock: Clock | None = None) -> Remembering:
    """A model that reads three files over and over, each with work between that changes them, then answers; every turn
    anew."""

    def script(request: Any) -> Any:
        since = 0
        for message in reversed(request.messages):
            if message["role"] == "user":
                break
            since += message["role"] == "assistant"
        if since >= rounds:
            return "done"
        if since % 4 == 3:
            grow = "for name in a b c; do echo more >> $name.py; done"
            return [("bash", {"command": f"echo step {len(provider.seen)}; {grow}"})]
        return [("read_file", {"path": f"{'abc'[since % 4]}.py"})]

    provider = Remembering(script, clock=clock or Clock())
    return provider


def live(provider: Remembering, folder: Path, *said: str, settings: Settings = SMALL, again: str = "") -> Any:
    session = opened(provider, folder, again, settings=settings)
    return session, run_turns(session, *said)


def batches(events: list[Event]) -> list[Notice]:
    return [event for event in events if isinstance(event, Notice) and "stale" in event.text]


def pruned(events: list[Event]) -> list[ContextDrop]:
    return [event for event in events if isinstance(event, ContextDrop) and event.drop.cause is Cause.PRUNED]


def test_stale_results_leave_the_window_in_batches_and_can_be_read_back_exactly(tmp_path: Path) -> None:
    project(tmp_path)
    provider = reading(60)
    session, events = live(provider, tmp_path, "look at it")
    assert_whole(provider)
    taken, several = pruned(events), batches(events)
    assert len(several) >= 2 and len(taken) >= 3 * len(several), "in batches, not one by one"
    assert not any(isinstance(event, CompactionDone) for event in events), "nothing had to be summed up"
    told = {event.call.id: event.result.text for event in events if isinstance(event, ToolResultEvent)}
    last = [message["content"] for message in provider.seen[-1] if message["role"] == "tool"]
    with the_ledger() as ledger:
        lane = ledger.session(session.id).main_lane
        for one in taken:
            (entry,) = on(ledger, lane).read(*(one.drop.entries or (0, 0)))
            whole = ledger.log(session.id).original(one.drop.id) or ""
            assert told[entry.message.tool_call_id or ""] == entry.message.content and entry.message.content in whole
        stubs = [text for text in last if text.startswith("[read_file ") and "read again below" in text]
        assert len(stubs) > 5 and all('recall("d' in text and len(text) < 80 for text in stubs)
        assert check(ledger, session.id)["ok"]
        figures = cache_report(ledger, session.id, SMALL)
    rewrites = figures["rewrites"]
    assert len(rewrites) == len(several)
    assert all(one["cause"] == "pruned" and one["pays"] and (one["gain"] or 0) > (one["cost"] or 0) for one in rewrites)
    assert all(one["saved"] > 0.07 * (WINDOW - 16_000) for one in rewrites), "not before as much has become stale"
    blamed = {row["cause"] for row in figures["requests"] if row["missed"]}
    assert blamed <= {"message"} and figures["total"]["not_ours"] == 0
    assert 0.8 < figures["total"]["missed"] / sum(one["cold"] for one in rewrites) < 1.25, "what was foreseen came true"


@pytest.mark.matrix
def test_what_is_taken_out_makes_the_session_cheaper(tmp_path: Path) -> None:
    project(tmp_path)
    sums = []
    for prune in (True, False):
        provider = reading(40)
        settings = replace(SMALL, compact=CompactSettings(prune=prune), models={MODEL: PRICES})
        _, events = live(provider, tmp_path, "look at it", settings=settings)
        told = results(events)
        tokens = [sum(len(json.dumps(message)) // 4 for message in sent) for sent in provider.seen]
        read = sum(one.read for one in told)
        sums.append((read * 0.5 + (sum(tokens) - read) * 2.0) / 1e6)
        assert bool(pruned(events)) == prune
    assert sums[0] < sums[1]


@pytest.mark.matrix
def test_what_would_cost_more_than_it_saves_is_left_alone(tmp_path: Path) -> None:
    project(tmp_path)
    dear = {**PRICES, "window": WINDOW, "cache_read_price": 0.001}
    _, events = live(reading(30), tmp_path, "look at it", settings=Settings(models={MODEL: dear}))
    assert not pruned(events)


@pytest.mark.matrix
def test_an_expired_cache_is_taken_as_the_chance(tmp_path: Path) -> None:
    project(tmp_path)
    clock = Clock()
    provider = reading(12, clock)
    dear = Settings(models={MODEL: {**PRICES, "window": WINDOW, "cache_read_price": 0.001}})
    session, events = live(provider, tmp_path, "look at it", settings=dear)
    assert not pruned(events)
    clock.forward(minutes=20)
    _, events = live(provider, tmp_path, "once more", settings=dear, again=session.id)
    assert not pruned(events), "it may still be there"
    clock.forward(hours=5)
    _, events = live(provider, tmp_path, "and again", settings=dear, again=session.id)
    assert pruned(events) and results(events)[0].missed and "expired" in results(events)[0].why
    with the_ledger() as ledger:
        memo = cache_report(ledger, session.id, dear)["rewrites"][0]
        assert memo["cost"] == 0.0 and memo["cold"] == 0 and "no longer cached" in memo["why"]
        assert check(ledger, session.id)["ok"]


@pytest.mark.matrix
def test_what_will_be_taken_out_is_told_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path)
    clock = Clock()
    provider = reading(12, clock)
    dear = Settings(models={MODEL: {**PRICES, "window": WINDOW, "cache_read_price": 0.001}})
    session, _ = live(provider, tmp_path, "look at it", settings=dear)
    monkeypatch.setattr(draft, "local_now", clock)

    def told(settings: Settings = dear) -> list[str]:
        shown = context_report(Options(tmp_path, MODEL, resume=session.id, save=False), settings, session.id)
        return [line for line in shown["notices"] if "stale" in line]

    assert not told(), "the cache may still hold it"
    clock.forward(hours=6)
    assert not told(replace(dear, compact=CompactSettings(prune=False)))
    [line] = told()
    again = opened(provider, tmp_path, session.id, settings=dear)
    assert line in live_report(again)["notices"]
    asyncio.run(again.aclose())
    _, events = live(provider, tmp_path, "once more", settings=dear, again=session.id)
    [done] = batches(events)
    assert line.startswith("nexus will remove old or stale tool results before the next request (about ")
    said, saved = (int(re.findall(r"([\d,]+) tokens", one)[0].replace(",", "")) for one in (line, done.text))
    assert 0.7 < said / saved <= 1, (line, done)


def test_the_notice_before_a_pruning_is_the_pruning_not_applied(tmp_path: Path) -> None:
    project(tmp_path)
    clock = Clock()
    provider = reading(12, clock)
    dear = Settings(models={MODEL: {**PRICES, "window": WINDOW, "cache_read_price": 0.001}})
    session, _ = live(provider, tmp_path, "look at it", settings=dear)
    clock.forward(hours=6)
    again = opened(provider, tmp_path, session.id, settings=dear)
    state, conversation = again, again.engine.conversation
    assert state.record is not None
    before = state.record.last_drop(), conversation.epoch, conversation.version
    [line] = prune_notice(state)
    assert before == (state.record.last_drop(), conversation.epoch, conversation.version)
    said = int(re.findall(r"([\d,]+) tokens", line)[0].replace(",", ""))
    rewrite = draft_due_pruning(again.engine)
    assert rewrite is not None
    again.engine.begin_epoch(rewrite)
    stubs = sum(item.form is ItemForm.STUB for item in conversation.epoch.head)
    saved = conversation.memos(REWRITE)[-1].value["saved"]
    assert stubs and 0 <= saved - said <= 2 * stubs, "but for the length of the ids"
    asyncio.run(again.aclose())


def test_what_is_pinned_stays_word_for_word(tmp_path: Path) -> None:
    project(tmp_path)
    provider = reading(6)
    session, events = live(provider, tmp_path, "look at it")
    assert not pruned(events)
    again = opened(provider, tmp_path, session.id, settings=SMALL)

    async def turns() -> list[Event]:
        try:
            engine = again.engine
            add_pin(engine.conversation, "3", engine.context.count)
            return await lived(again, *["once more"] * 5)
        finally:
            await again.aclose()

    taken = pruned(asyncio.run(turns()))
    assert taken and all(one.drop.entries != (3, 3) for one in taken)


@pytest.mark.matrix
def test_it_can_be_switched_off_and_needs_the_way_back(tmp_path: Path) -> None:
    project(tmp_path)
    off = replace(SMALL, compact=CompactSettings(prune=False))
    _, events = live(reading(24), tmp_path, "look at it", settings=off)
    assert not pruned(events)
    session = opened(reading(24), tmp_path, settings=SMALL)
    prompt = session.engine.prompt
    draft_epoch = prompt.draft_epoch

    async def without(context: ContextManager, words: str = "") -> Rewrite:
        now = (await draft_epoch(context)).epoch
        tools = tuple(tool for tool in now.tools if tool["function"]["name"] != "recall")
        return Rewrite(replace(now, tools=tools))

    async def turns() -> list[Event]:
        try:
            await lived(session, "hello")
            prompt.draft_epoch = without  # type: ignore[method-assign]
            session.reload()
            return await lived(session, "look at it")
        finally:
            await session.aclose()

    assert not pruned(asyncio.run(turns())), "without recall nothing is taken out"


def assert_whole(provider: Remembering) -> None:
    """Each request has the words of the person, and each call its result."""
    for sent in provider.seen:
        open_calls: list[str] = []
        for message in sent:
            if message["role"] == "tool":
                assert open_calls.pop(0) == message["tool_call_id"]
            else:
                assert not open_calls
                open_calls = [call["id"] for call in message.get("tool_calls", ())]
        assert any("look at it" in str(message["content"]) for message in sent if message["role"] == "user")


@pytest.mark.matrix
def test_a_window_that_stale_results_fill_is_pruned_instead_of_summed_up(tmp_path: Path) -> None:
    """Pruning a warm cache does not pay at these prices; at the mark the choice is between that and a summary."""
    (tmp_path / "small.py").write_text("x = 1\n" * 900)
    lists = [("bash", {"command": f"seq {number}000 {number}500"}) for number in range(10, 28)]
    changed = ("write_file", {"path": "small.py", "content": "x = 2\n"})
    late = [("read_file", {"path": "small.py"}), changed, *[("bash", {"command": f"echo {n}"}) for n in range(9)]]
    work = [*lists, *late, *[("bash", {"command": f"seq {number}00 {number}99"}) for number in range(30, 90)]]

    def script(request: Any) -> Any:
        step = sum(message["role"] == "assistant" for message in request.messages)
        return [work[step]] if step < len(work) else "done"

    small = replace(SETTINGS, models={MODEL: {**PRICES, "window": 40_000, "cache_read_price": 0.001}})
    session, events = live(Remembering(script), tmp_path, "look at it", settings=small)
    first = next(n for n, event in enumerate(events) if isinstance(event, ContextDrop | CompactionStart))
    assert isinstance(events[first], ContextDrop) and pruned(events), "what was changed since"
    steps = [n for n, event in enumerate(events) if isinstance(event, CacheResult)]
    later = [n for n, event in enumerate(events) if isinstance(event, CompactionStart)]
    assert not later or sum(first < n < later[0] for n in steps) >= 2, "not both at once"
    with the_ledger() as ledger:
        assert check(ledger, session.id)["ok"]
