"""A look at what a compaction would do: figures that hold, no request, nothing changed."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from search import sample
from session.played import MODEL, Answer, the_ledger
from session.summed import SUMMARY, Summariser, done, ended, living, summary_of, turn, window_hash

from nexus_cli.commands.forms import find_form
from nexus_cli.conversation.compaction.compactor import Summary
from nexus_cli.conversation.groups import flatten
from nexus_cli.core.price import request_cost
from nexus_cli.core.request import Request
from nexus_cli.engine.compaction.compact import draft_compaction
from nexus_cli.engine.compaction.summarise import SummaryError
from nexus_cli.reports.event_texts import describe_kept
from nexus_cli.session.acts.compaction import preview
from nexus_cli.session.session import Session
from nexus_cli.text.cells import cells

TURNS = tuple(f"TURN{number} make a list" for number in range(8))
PRICES: dict[str, float | int | bool] = {
    "window": 24_000,
    "input_price": 3.0,
    "output_price": 15.0,
    "cache_read_price": 0.3,
    "cache_write_price": 3.75,
}


async def looked(session: Session, instructions: str = "") -> Mapping[str, Any]:
    found: list[Mapping[str, Any]] = []
    await done(session, preview(instructions, found.append))
    return found[0]


TABLES = ("entries", "fixes", "epochs", "slots", "requests", "drops", "memos", "started", "lanes")


def held(session: Session) -> dict[str, object]:
    """All that a rewrite would change: the ledger, its counters, the window, and what waits for the next request."""
    engine, record = session.engine, session.record
    with the_ledger() as ledger:
        rows = {name: sorted(map(repr, ledger.db.all(f"SELECT * FROM {name}"))) for name in TABLES}
    counters = record.last_drop(), record.next_epoch(), engine.conversation.last, engine.conversation.version
    waiting = list(engine.notices.waiting), engine.readings.drafted, engine.readings.preamble
    return {**rows, "counters": counters, "waiting": waiting, "window": window_hash(session)}


def summary_of_size(tokens: int, count: Callable[[str], int]) -> str:
    """A summary in its form, of so many tokens."""
    text = "Goal: as said. Next: go on. SUMMARY:"
    text += " word" * (tokens - count(text))
    assert count(text) == tokens
    return text


@pytest.mark.matrix
@pytest.mark.parametrize("seed", sample(range(16), 16))
def test_a_preview_is_the_compaction_not_applied(seed: int, tmp_path: Path) -> None:
    """For random windows: a preview changes nothing; a compaction with a summary at its cap takes at most the tokens
    that it names; what the same function drafts for that summary is the epoch that begins, with its drops."""
    chance = random.Random(seed)
    now = datetime(2026, 1, 13, 9, 30, tzinfo=UTC)
    lines, listed = chance.choice([300, 600]), 0

    def work(request: Request) -> Answer:
        nonlocal listed
        if request.messages[-1]["role"] == "tool" and chance.random() < 0.6:
            return "It is done. " * chance.randrange(1, 200)
        listed += 1
        path = tmp_path / f"file{chance.randrange(4)}.py"
        path.write_text(f"def name_{listed}(): ...\n" * chance.randrange(1, 200))
        call = ("read_file", {"path": path.name}), ("bash", {"command": f"seq {listed}000 {listed}{lines}; false"})
        return [chance.choice(call)]

    words = ("make a list", "Never use eval, and go on. ", "a paste " + "some code, " * 2000, "a wish " * 90)
    turns = [TURNS[0], *(f"TURN{number} {chance.choice(words)}" for number in range(chance.randrange(5, 10)))]
    script = Summariser(SUMMARY, work)

    async def live() -> None:
        async with living(tmp_path, script, *turns, window=chance.choice([16_000, 24_000, 60_000])) as session:
            engine = session.engine
            engine.conversation.clock = lambda: now
            if chance.random() < 0.5:
                session.engine.compactor.pin("1")
                session.engine.compactor.pin("a pin " * chance.choice([5, 200]))
            if chance.random() < 0.4:
                await session.compact()
                await turn(session, "and on " * 300)
                await turn(session, "make a list")
            script.work = lambda request: "done"
            asked, before = len(script.asked), held(session)
            value = await looked(session)
            assert (len(script.asked), held(session)) == (asked, before)
            if not value["possible"]:
                assert not ended(await session.compact()).ok
                return
            text = summary_of_size(value["summary"]["most"], engine.context.count)
            plan = engine.compactor.plan(engine.settings.compact.to, on_command=True)
            assert plan is not None
            summary = Summary(text, value["summary"]["source"], value["summary"]["why"])
            rewrite, kept = await draft_compaction(engine.drafting(), plan, summary, "command")
            assert held(session) == before
            script.summary = text
            made = ended(await session.compact())
            assert made.ok and made.after <= value["after"]
            if made.kept and made.kept["source"] == summary.source:
                begun = replace(engine.conversation.epoch, id=rewrite.epoch.id)  # a request for a summary may take one
                assert (made.kept, begun) == (kept, rewrite.epoch)
                recorded = {drop.id: drop for drop in session.drops()}
                for drop in rewrite.drops:
                    assert replace(recorded[drop.id], after=0) == replace(drop, text=None)

    asyncio.run(live())


@pytest.mark.matrix
async def test_what_it_says_goes_and_stays_is_what_goes_and_stays(tmp_path: Path) -> None:
    async with living(tmp_path, Summariser(), *TURNS) as session:
        session.engine.compactor.pin("1")
        session.engine.compactor.pin("use tabs")
        lane = session.context.conversation
        value = await looked(session)
        goes, stays = value["goes"], value["stays"]
        assert goes["messages"] + stays["messages"] == len(lane.items)
        assert goes["turns"] + stays["turns"] == len(TURNS)
        assert goes["tokens"] + stays["tokens"] == lane.messages_tokens
        assert goes["tokens"] == sum(goes["by_kind"].values()) and set(goes["by_kind"]) == {
            "user",
            "assistant",
            "tool",
        }
        assert [row["where"] for row in value["pins"]] == ["summary", "summary"]
        assert ended(await session.compact()).ok
        drop = session.drops()[-1]
        assert drop.entries == (goes["first"], goes["last"]) and drop.tokens == goes["tokens"]
        assert len(lane.items) == stays["messages"] + 1
        assert session.engine.context.estimate.expected(lane.counted, lane.counts()) <= value["after"]


@pytest.mark.matrix
async def test_prices_are_those_of_the_model_and_a_cold_cache_costs_more(tmp_path: Path) -> None:
    async with living(tmp_path, Summariser(), *TURNS, models={MODEL: PRICES}) as session:
        value = await looked(session)
        cost, info = value["cost"], session.engine.model.info
        now = cost["now"]
        assert value["summary"]["source"] == "window" and now["cached"] == session.status().used
        expected = request_cost(info, cached=now["cached"], fresh=now["fresh"], output=value["summary"]["most"])
        assert now["warm"] == expected and now["warm"] < now["cold"]
        one, ten = cost["next"]
        assert one["without"]["warm"] < one["with"]["warm"], "the next request pays for the rewrite"
        assert ten["with"]["cold"] < ten["without"]["cold"]
        assert ten["without"]["warm"] == pytest.approx(10 * one["without"]["warm"])


@pytest.mark.matrix
async def test_unknown_prices_are_unknown_and_not_nothing(tmp_path: Path) -> None:
    async with living(tmp_path, Summariser(), *TURNS) as session:
        value = await looked(session)
        assert value["cost"]["now"]["warm"] is None and value["cost"]["next"][0]["with"]["cold"] is None
        text = " ".join(find_form("compaction")(value, 80).split())
        assert "Cost unknown" in text and "?" not in text and "cost:" not in text and "$" not in text


async def test_where_nothing_would_go_it_says_so_and_still_lists_the_pins(tmp_path: Path) -> None:
    async with living(tmp_path, lambda request: "ok", "hello") as session:
        session.engine.compactor.pin("use tabs")
        value = await looked(session)
        assert not value["possible"] and value["pins"][0]["where"] == "window"
        text = find_form("compaction")(value, 60)
        assert "Nothing to compact" in text and "use tabs" in text


async def test_where_only_a_long_summary_would_be_refused_it_does_not_deny_that_a_short_one_helps(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, Summariser(), *TURNS[:4]) as session:
        (tmp_path / "NEXUS.md").write_text("Rule: be brief.\n" * 600)
        value = await looked(session)
        assert not value["possible"] and re.search(
            r"not free tokens \(.+\), with a summary of up to 1,\d{3} tokens$", value["why"]
        )
        assert "nexus might refuse a compaction: " in find_form("compaction")(value, 80)
        assert ended(await session.compact()).ok


@pytest.mark.matrix
async def test_a_shorter_system_text_does_not_excuse_a_summary_longer_than_what_it_replaces(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text("Rule: be brief.\n" * 600)

    async with living(tmp_path, Summariser(), *TURNS[:4]) as session:
        engine = session.engine
        plan = engine.compactor.plan(engine.settings.compact.to, on_command=True)
        assert plan is not None
        size = sum(item.tokens for item in flatten(plan.gone)) + 50
        summary = Summary(summary_of_size(size, engine.context.count), "window", "")
        (tmp_path / "NEXUS.md").write_text("Be brief.\n")
        with pytest.raises(SummaryError, match="not free tokens"):
            await draft_compaction(engine.drafting(), replace(plan, summary_most=size), summary, "command")


@pytest.mark.matrix
@pytest.mark.parametrize("width", sample([20, 40, 80, 200], 3))
async def test_the_text_keeps_to_its_width_and_shows_what_counts(width: int, tmp_path: Path) -> None:
    said = ("first 日本 \x1b[31m words", *TURNS)
    async with living(tmp_path, Summariser(), *said, models={MODEL: PRICES}) as session:
        session.engine.compactor.pin("1")
        value = await looked(session)
    text = find_form("compaction")(value, width)
    assert all(cells(line) <= width for line in text.split("\n"))
    if width >= 80:
        for part in ("A compaction would reduce", "summarized", "kept", "summary", "with compaction", "p1", "warm"):
            assert part in text
        gained = find_form("compaction")({**value, "after": value["before"]}, width)
        assert "would shrink" not in gained and "might not free any of the" in gained


@pytest.mark.matrix
async def test_a_second_preview_tells_that_the_originals_are_read(tmp_path: Path) -> None:
    async with living(tmp_path, Summariser(SUMMARY), *TURNS, window=60_000) as session:
        assert ended(await session.compact()).ok
        for words in TURNS:
            await turn(session, words)
        value = await looked(session)
        assert value["summary"]["source"] == "originals" and value["goes"]["first"] == 1
        assert "summary" in value["goes"]["by_kind"]
        assert "SUMMARY" in summary_of(session)


def test_the_report_of_a_compaction_is_one_short_line() -> None:
    kept = {
        "words": 12,
        "words_left": 0,
        "words_part": 0,
        "answers": 3,
        "answers_left": 2,
        "answers_part": 0,
        "files": 8,
        "commands": 14,
        "failing": 3,
        "record_left": 0,
        "summary": 1900,
        "drops": ["d5"],
    }
    told = " · ".join(describe_kept(kept))
    assert told == "your 12 messages verbatim · record: 8 files, 14 commands (3 failing) · summary 1,900"
    left = " · ".join(describe_kept({**kept, "words_left": 15, "record_left": 30, "drops": ["d5", "d6"]}))
    assert "verbatim, 15 earlier: recall(d5)" in left and "(3 failing), 30 earlier: recall(d6)" in left
    part = " · ".join(describe_kept({**kept, "words_left": 3, "words_part": 1}))
    assert "verbatim, 2 earlier, 1 in part: recall(d5)" in part
    only = " · ".join(describe_kept({**kept, "words_left": 1, "words_part": 1}))
    assert "verbatim, 1 in part: recall(d5)" in only
    bare = describe_kept({**kept, "words": 1, "files": 0, "commands": 0, "failing": 0})
    assert bare == ["your 1 message verbatim", "summary 1,900"]
