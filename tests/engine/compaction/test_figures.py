"""The figures of compactions and their undoing: one unit, what the provider's cache still holds, what is back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from session.played import Answer
from session.prefix_cache import MODEL, PRICES, Remembering, lived, opened, results
from session.summed import SUMMARY, asks_for_summary, done, ended, noted

from nexus_cli.commands.cache import cache_report, miss_report
from nexus_cli.commands.forms import find_form
from nexus_cli.commands.pin import pins_report
from nexus_cli.config.settings import CompactSettings, Settings
from nexus_cli.core.event import CompactionStart
from nexus_cli.core.memo_kinds import REWRITE
from nexus_cli.core.request import Request
from nexus_cli.core.services import Assembly
from nexus_cli.reports.event_texts import describe_compaction_end
from nexus_cli.session.acts.compaction import preview, uncompaction
from nexus_cli.session.session import Session

SMALL = Settings(models={MODEL: {**PRICES, "window": 24_000}})
WIDE = Settings(models={MODEL: {**PRICES, "window": 64_000}})
TURNS = tuple(f"TURN{number} make a list" for number in range(6))


def listing(request: Request) -> Answer:
    """A list for words, words for a list."""
    if asks_for_summary(request):
        return SUMMARY
    number = sum(message["role"] == "user" for message in request.messages)
    command = {"command": f"seq {number}000 {number}400"}
    return "listed" if request.messages[-1]["role"] == "tool" else [("bash", command)]


def figures(text: str) -> list[int]:
    return [int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", text)]


async def looked(session: Session) -> Mapping[str, Any]:
    found: list[Mapping[str, Any]] = []
    await done(session, preview("", found.append))
    return found[0]


async def test_compaction_undo_and_preview_count_as_the_status_line_does(tmp_path: Path) -> None:
    """The provider counts otherwise than we do."""

    session = opened(Remembering(listing), tmp_path, settings=WIDE)
    try:
        await lived(session, *TURNS)
        engine = session.engine
        full = session.status().used
        assert abs(full - engine.conversation.counted) > 500
        value = await looked(session)
        assert value["before"] == full
        parts = value["goes"]["tokens"] + value["stays"]["tokens"]
        assert parts == engine.conversation.messages_tokens, "in the unit of drops and pins"
        events = await session.compact()
        start = next(event for event in events if isinstance(event, CompactionStart))
        small = session.status().used
        assert (start.tokens, ended(events).before, ended(events).after) == (full, full, small)
        assert ended(events).cost_usd == 0.25
        assert describe_compaction_end(ended(events)).split(" · ")[0].endswith(" for $0.2500")
        [saved] = [memo.value["saved"] for memo in engine.conversation.memos(REWRITE)]
        assert abs(saved - (full - small)) <= 5, "the report of the request for the summary teaches in between"
        assert value["after"] >= small
        drop = session.drops()[-1]
        listed = session.dispatcher.services[Assembly].contents()["drops"]
        assert value["goes"]["tokens"] == drop.tokens == listed[-1]["tokens"]
        told = noted(await done(session, uncompaction()))
        assert figures(told) == [small, session.status().used] and abs(session.status().used - full) < full // 100
    finally:
        await session.aclose()


@pytest.mark.matrix
async def test_a_window_that_fitted_a_moment_ago_fits_again_also_in_another_process(tmp_path: Path) -> None:
    """It fits by what the provider had reported; by our count and its known error it would not."""
    provider = Remembering(listing)

    session = opened(provider, tmp_path, settings=SMALL)
    try:
        number = 0
        engine = session.engine
        while engine.context.countable(engine.context.room) > engine.conversation.counted:
            number += 1
            engine.settings = replace(engine.settings, compact=CompactSettings(at=2.0, prune=False))
            await lived(session, f"TURN{number} make a list")
            assert number < 60
        assert engine.window_request().fits
        full = session.status().used
        assert ended(await session.compact()).ok
    finally:
        await session.aclose()
    again = opened(provider, tmp_path, session.id, settings=SMALL)
    try:
        await done(again, uncompaction())
        assert abs(again.status().used - full) < full // 100
    finally:
        await again.aclose()


@pytest.mark.matrix
async def test_after_an_undo_the_former_beginning_is_expected_found_and_not_booked_as_cold(tmp_path: Path) -> None:
    provider = Remembering(listing)

    session = opened(provider, tmp_path, settings=WIDE)
    try:
        await lived(session, *TURNS)
        engine = session.engine
        for between in ((), ("between",)):
            assert ended(await session.compact()).ok
            await lived(session, *between)
            await done(session, uncompaction())
            memo = engine.conversation.memos("rewrite")[-1].value
            told = engine.next_request()
            assert memo["cause"] == "undo" and memo["cold"] < (told.tokens // 2 if between else 200)
            assert told.cached > 0.6 * told.tokens > 3000
            first = results(await lived(session, "go on"))[0]
            assert first.expected > 4000 and abs(first.expected - first.read) < 400 and not first.missed
    finally:
        await session.aclose()


@pytest.mark.matrix
async def test_what_was_never_in_a_cache_was_not_missed(tmp_path: Path) -> None:
    provider = Remembering(listing)

    session = opened(provider, tmp_path, settings=WIDE)
    try:
        await lived(session, *TURNS)
        assert ended(await session.compact()).ok
        first = results(await lived(session, "new words " * 1200))[0]
        cold = session.engine.conversation.memos("rewrite")[-1].value["cold"]
        assert first.missed and abs(first.missed - cold) < 600 < 1200
        ledger = session.ledger
        assert ledger is not None
        row = miss_report(ledger, session.id, WIDE, session.engine.step - 1)
        assert abs(row["missed"] - first.missed) <= 5
        assert cache_report(ledger, session.id, WIDE)["total"]["missed"] == row["missed"]
    finally:
        await session.aclose()


@pytest.mark.matrix
async def test_a_preview_says_of_each_of_the_persons_words_what_becomes_of_it_and_which_message_stays(
    tmp_path: Path,
) -> None:
    steps = 0

    def script(request: Request) -> Answer:
        nonlocal steps
        if asks_for_summary(request):
            return SUMMARY
        steps += 1
        return "done" if steps in (1, 2, 14) else [("bash", {"command": f"seq {steps}000 {steps}400"})]

    session = opened(Remembering(script), tmp_path, settings=WIDE)
    try:
        await lived(session, "Never use eval.", "paste " + "some code, " * 3000, "a long run")
        value = await looked(session)
        assert [row["kept"] for row in value["words"]] == ["whole", "part"]
        goes = value["goes"]
        assert goes["without"] == [5] and goes["first"] == 1 < 5 < goes["last"]
        text = find_form("compaction")(value, 100)
        assert "word for word" in text and "in part" in text
        said = f"1 to {goes['last']}; the model can recall them. Kept: 5 (your last request)."
        assert said in " ".join(text.split())
        last = text.rstrip().rsplit("\n\n", 1)[-1]
        assert last.startswith("The cache may still be warm: the summary costs $") and "pays for itself" in last
        assert ended(await session.compact()).ok
        summary = session.context.conversation.items[0].message.content
        assert f"[Messages 1 to {goes['last']} without 5 are summarized here" in summary
    finally:
        await session.aclose()


@pytest.mark.matrix
async def test_the_room_of_the_pins_is_one_figure(tmp_path: Path) -> None:
    session = opened(Remembering(listing), tmp_path, settings=WIDE)
    try:
        await lived(session, *TURNS)
        said = session.engine.compactor.pin("use tabs")[1]
        assert f"of {pins_report(session)['room']:,}" in said
    finally:
        await session.aclose()


@pytest.mark.matrix
async def test_a_lane_of_its_own_begins_without_what_the_main_lane_sent(tmp_path: Path) -> None:
    session = opened(Remembering(listing), tmp_path, settings=WIDE)
    try:
        await lived(session, *TURNS[:2])
        engine = session.engine
        side = engine.separate("goals", engine.model)
        assert engine.conversation.sent.last is not None and engine.conversation.sent.earlier
        sent = side.conversation.sent
        assert sent.last is None and not side.readings.preamble.sections and not sent.earlier
    finally:
        await session.aclose()
