"""Compactions that come to nothing: what is paid for them, and how long until the next one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from search import sample
from session.played import MODEL, Answer, Played, the_ledger
from session.summed import SUMMARY, Summariser, ended, living, noted, turn

from nexus_cli.config.settings import CompactSettings, Settings
from nexus_cli.core.entry import ItemForm, Memo
from nexus_cli.core.event import CompactionStart, Event
from nexus_cli.core.memo_kinds import COMPACTION
from nexus_cli.core.request import Request
from nexus_cli.engine.requests.backoff import Backoff
from nexus_cli.reports.check_replay import check

EARLY = CompactSettings(at=0.25)
"""Long before the window is full."""
LARGE = "some words " * 6000


def talk(request: Request) -> Answer:
    return "so it is"


def tried(events: Sequence[Event], first: int = 1) -> list[int]:
    """At which turn, from 1, a compaction began."""
    found, number = [], first - 1
    for event in events:
        number += event.kind == "turn.start"
        if isinstance(event, CompactionStart):
            found.append(number)
    return found


@pytest.mark.matrix
async def test_after_each_failure_in_a_row_twice_as_many_steps_pass_also_over_a_restart(tmp_path: Path) -> None:
    script = Summariser("", talk)

    events: list[Event] = []
    async with living(tmp_path, script, LARGE, window=40_000, compact=EARLY) as session:
        for number in range(24):
            events += await turn(session, f"go on {number}")
    async with living(tmp_path, script, again=session.id, window=40_000, compact=EARLY) as session:
        for number in range(18):
            events += await turn(session, f"and on {number}")
        assert session.engine.window_request().fits
    with the_ledger() as ledger:
        assert check(ledger, session.id)["ok"]
    at = tried(events)
    assert [later - earlier for earlier, later in pairwise(at)] == [10, 20], at
    assert len(script.asked) == 2 * len(at), "two requests each"


def noted_rows(rows: Sequence[dict[str, object]]) -> Callable[[str], Sequence[Memo]]:
    """The memos of a conversation with these compactions."""
    return lambda kind: [Memo(COMPACTION, "2026-01-13T09:30:00Z", 1, row) for row in rows]


def failed(step: int, over: bool = False, paid: bool = True) -> dict[str, object]:
    return {"step": step, "epoch": None, "why": "no", "paid": paid, "over": over}


@pytest.mark.parametrize(
    ("rows", "fits", "overflows"),
    [
        ([], 0, 0),
        ([failed(100)], 110, 110),
        ([failed(100), failed(110)], 130, 120),
        ([failed(100), failed(110), failed(130)], 170, 140),
        ([failed(100), failed(110, over=True)], 130, 120),
        ([failed(100, over=True), failed(110, over=True)], 130, 130),
        ([failed(100), failed(105, paid=False)], 110, 110),
        ([failed(90), failed(100), {"step": 101, "epoch": 3, "why": "window"}], 111, 0),
        ([failed(90), failed(100), {"step": 101, "epoch": 3, "why": "undo"}], 120, 110),
        ([{"step": 100, "epoch": None, "why": "of an older version", "paid": True}], 110, 110),
    ],
)
def test_how_long_is_waited_with_room_and_without(rows: list[dict[str, object]], fits: int, overflows: int) -> None:
    last = max((int(str(row["step"])) for row in rows), default=0)
    for room, first in ((True, fits), (False, overflows)):
        memos = noted_rows(rows)
        may = [step for step in range(last + 1, last + 200) if Backoff(memos, step).may_compact(fits=room)]
        assert may[0] == max(first, last + 1) and may == list(range(may[0], last + 200)), "and from then on"


@pytest.mark.matrix
async def test_an_attempt_from_the_originals_is_paid_for_twice_at_most_and_says_what_it_came_from(
    tmp_path: Path,
) -> None:
    script = Summariser(SUMMARY, talk)

    said = [f"message {number} " + "and more words " * 150 for number in range(12)]
    async with living(tmp_path, script, *said, window=60_000) as session:
        assert ended(await session.compact()).ok
        for number in range(6):
            await turn(session, f"more {number} " + "and more words " * 150)
        script.asked.clear()
        script.summary = ""
        assert not ended(await session.compact()).ok
        assert len(script.asked) == 2
        script.asked.clear()
        script.summary = lambda request: SUMMARY if len(script.asked) > 1 else ""
        made = ended(await session.compact())
        assert made.ok and made.kept is not None
        assert made.kept["source"] == "window" and "that source failed" in made.kept["source_why"]


@pytest.mark.matrix
async def test_of_messages_that_were_cut_off_before_a_summary_claims_nothing(tmp_path: Path) -> None:
    provider = Played(Summariser("", lambda request: "answer " * 900))

    async with living(tmp_path, None, window=24_000, provider=provider) as session:
        number = 0
        while not any(item.form is ItemForm.MARKER for item in session.context.conversation.items):
            number += 1
            await turn(session, f"TURN{number} says so")
        marker = next(s for s in session.context.conversation.items if s.form is ItemForm.MARKER)
        assert marker.message.content.startswith(f"[Left out here to fit the window: messages 1 to {marker.entry}.")
        provider.script = Summariser(SUMMARY, talk)
        for _ in range(3):
            await turn(session, "and on " * 300)
        assert ended(await session.compact()).ok
        text = session.context.conversation.items[0].message.content
        drop = [one for one in session.drops() if one.cause == "compaction"][-1]
        claim = f"[Messages {marker.entry + 1} to {drop.entries[1]} are summarized here; "  # type: ignore[index]
        assert claim + f"messages 1 to {marker.entry} are not, they were left out before. " in text
        assert f'The originals: recall("{drop.id}").]' in text
        assert drop.entries is not None and drop.entries[0] == 1
        assert f"; and 1 to {marker.entry}, left out before" in drop.what
        record = session.record
        assert record is not None and "TURN1 says so" in (record.original(drop.id) or "")
        session.engine.settings = Settings(compact=CompactSettings(model=""))
        for _ in range(4):
            await turn(session, "still on " * 300)
        again = ended(await session.compact())
        assert again.ok and again.kept is not None
        text = session.context.conversation.items[0].message.content
        told = f"messages 1 to {marker.entry} are not, they were left out before" in text
        assert told == (again.kept["source"] != "originals"), "whoever read the originals has seen them"


@pytest.mark.matrix
@pytest.mark.parametrize("priced", sample([True, False], 2))
async def test_on_command_a_refused_summary_is_requested_again_with_a_word_on_its_price(
    tmp_path: Path, priced: bool
) -> None:
    prices: dict[str, float | int | bool] = {"input_price": 3.0, "output_price": 15.0} if priced else {}
    script = Summariser("all is done")

    models = {MODEL: {"window": 24_000, **prices}}
    async with living(tmp_path, script, *(f"TURN{n} make a list" for n in range(6)), models=models) as session:
        first = await session.compact()
        assert not ended(first).ok and "refused" not in noted(first), "there was none before"
        await turn(session, "and one more list")
        paid, script.summary = len(script.asked), SUMMARY
        events = await session.compact()
        assert ended(events).ok and len(script.asked) == paid + 1
        told = noted(events)
        assert "a summary failed 2 steps ago: the summary has fewer than 2" in told
        assert re.search(r"attempt costs up to \$0\.\d{4}$" if priced else "price of another attempt is unknown$", told)
        assert "refused" not in noted(await session.compact()), "one was made since"
