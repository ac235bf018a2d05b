"""A look at what a compaction would do: figures that hold, no request, nothing changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from search import sample
from session.played import MODEL
from session.summed import SUMMARY, Summariser, done, ended, living, summary_of, turn, window_hash

from nexus_cli.core.price import request_cost
from nexus_cli.reports.event_texts import describe_kept
from nexus_cli.reports.forms import find_form
from nexus_cli.session.acts.compaction import pin, preview
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


@pytest.mark.matrix
def test_a_preview_sends_nothing_and_changes_nothing(tmp_path: Path) -> None:
    script = Summariser()

    async def live() -> None:
        async with living(tmp_path, script, *TURNS) as session:
            before = window_hash(session), session.state.drops(), session.context.conversation.last
            value = await looked(session, "keep names")
            assert value["possible"] and value["instructions"] == "keep names"
            assert before == (window_hash(session), session.state.drops(), session.context.conversation.last)
            assert not script.asked

    asyncio.run(live())


@pytest.mark.matrix
def test_what_it_says_goes_and_stays_is_what_goes_and_stays(tmp_path: Path) -> None:
    async def live() -> None:
        async with living(tmp_path, Summariser(), *TURNS) as session:
            await done(session, pin("1"))
            await done(session, pin("use tabs"))
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
            drop = session.state.drops()[-1]
            assert drop.entries == (goes["first"], goes["last"]) and drop.tokens == goes["tokens"]
            assert len(lane.items) == stays["messages"] + 1
            assert session.engine.context.estimate.expected(lane.counted, lane.contents()) <= value["after"]

    asyncio.run(live())


@pytest.mark.matrix
def test_prices_are_those_of_the_model_and_a_cold_cache_costs_more(tmp_path: Path) -> None:
    async def live() -> None:
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

    asyncio.run(live())


@pytest.mark.matrix
def test_unknown_prices_are_unknown_and_not_nothing(tmp_path: Path) -> None:
    async def live() -> None:
        async with living(tmp_path, Summariser(), *TURNS) as session:
            value = await looked(session)
            assert value["cost"]["now"]["warm"] is None and value["cost"]["next"][0]["with"]["cold"] is None
            text = " ".join(find_form("compaction")(value, 80).split())
            assert "Cost unknown" in text and "?" not in text and "cost:" not in text and "$" not in text

    asyncio.run(live())


def test_where_nothing_would_go_it_says_so_and_still_lists_the_pins(tmp_path: Path) -> None:
    async def live() -> None:
        async with living(tmp_path, lambda request: "ok", "hello") as session:
            await done(session, pin("use tabs"))
            value = await looked(session)
            assert not value["possible"] and value["pins"][0]["where"] == "window"
            text = find_form("compaction")(value, 60)
            assert "Nothing to compact" in text and "use tabs" in text

    asyncio.run(live())


@pytest.mark.matrix
@pytest.mark.parametrize("width", sample([20, 40, 80, 200], 3))
def test_the_text_keeps_to_its_width_and_shows_what_counts(width: int, tmp_path: Path) -> None:
    async def live() -> Mapping[str, Any]:
        said = ("first 日本 \x1b[31m words", *TURNS)
        async with living(tmp_path, Summariser(), *said, models={MODEL: PRICES}) as session:
            await done(session, pin("1"))
            return await looked(session)

    value = asyncio.run(live())
    text = find_form("compaction")(value, width)
    assert all(cells(line) <= width for line in text.split("\n"))
    if width >= 80:
        for part in ("would become at most", "summarized", "kept", "summary", "with it ", "p1", "warm"):
            assert part in text


@pytest.mark.matrix
def test_a_second_preview_tells_that_the_originals_are_read(tmp_path: Path) -> None:
    async def live() -> None:
        async with living(tmp_path, Summariser(SUMMARY), *TURNS, window=60_000) as session:
            assert ended(await session.compact()).ok
            for words in TURNS:
                await turn(session, words)
            value = await looked(session)
            assert value["summary"]["source"] == "originals" and value["goes"]["first"] == 1
            assert "summary" in value["goes"]["by_kind"]
            assert "SUMMARY" in summary_of(session)

    asyncio.run(live())


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
    assert told == "your 12 messages word for word · 8 files, 14 commands (3 failing) from the record · summary 1,900"
    left = " · ".join(describe_kept({**kept, "words_left": 15, "record_left": 30, "drops": ["d5", "d6"]}))
    assert "word for word, 15 earlier: recall(d5)" in left and "record, 30 earlier: recall(d6)" in left
    part = " · ".join(describe_kept({**kept, "words_left": 3, "words_part": 1}))
    assert "word for word, 2 earlier, 1 in part: recall(d5)" in part
    only = " · ".join(describe_kept({**kept, "words_left": 1, "words_part": 1}))
    assert "word for word, 1 in part: recall(d5)" in only
    bare = describe_kept({**kept, "words": 1, "files": 0, "commands": 0, "failing": 0})
    assert bare == ["your 1 message word for word", "summary 1,900"]
