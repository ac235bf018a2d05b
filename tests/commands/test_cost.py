"""What was used: sums that agree with the session's own, and no figure where none is known."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from session.played import MODEL, Played, opened, say, the_ledger
from workers.crew import Crew, crewed, doing, handing, run

from nexus_cli.commands.forms import find_form
from nexus_cli.commands.usage import cost_report, usage_report
from nexus_cli.core.json_value import to_json_value
from nexus_cli.core.request import Delta, FinishDelta, Request, TextDelta, UsageDelta
from nexus_cli.core.usage import Cost, Usage


class Silent(Played):
    """A provider that reports no usage."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        yield TextDelta("answer")
        yield FinishDelta("stop")


class Unpriced(Played):
    """A provider whose price nobody knows."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        yield TextDelta("answer")
        yield UsageDelta(Usage(1000, 20, cache_read=750, cost_usd=None))
        yield FinishDelta("stop")


@pytest.mark.matrix
def test_the_sums_are_those_of_the_session(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "answer"), tmp_path)
    assert say(session, "one")[1].ok
    assert say(opened(Played(lambda request: "answer"), tmp_path, session.id), "two")[1].ok
    with the_ledger() as ledger:
        value = cost_report(ledger, session.id)
        assert value["total"]["cost_usd"] == ledger.session(session.id).cost_usd == 0.5
        fork = ledger.fork_session(session.id, at="2026-01-01T00:00:00.000Z")
        assert cost_report(ledger, fork.id)["total"]["requests"] == 0, "what it shares was paid by its source"
    assert say(opened(Played(lambda request: "answer"), tmp_path, fork.id), "three")[1].ok
    with the_ledger() as ledger:
        assert [(turn["turn"], turn["text"]) for turn in cost_report(ledger, fork.id)["turns"]] == [(3, "three")]
    assert [(turn["turn"], turn["text"], turn["requests"]) for turn in value["turns"]] == [(1, "one", 1), (2, "two", 1)]


@pytest.mark.matrix
def test_workers_count_where_their_session_counts(tmp_path: Path) -> None:
    crew = Crew({"DEEP": doing("deep"), "HIGH": handing("DEEP"), "TWO": doing("2"), "root": handing("HIGH", "TWO")})
    session = crewed(crew, tmp_path)
    run(session, "root", "root again")
    with the_ledger() as ledger:
        value, info, usage = cost_report(ledger, session.id), ledger.session(session.id), usage_report(ledger)
    assert value["total"]["cost_usd"] == info.cost_usd == 0.25 * len(crew.seen)
    kinds = {row["name"]: row["requests"] for row in value["kinds"]}
    assert kinds == {"conversation": 3, "workers": 4} and len(value["series"]) == 7
    assert [turn["requests"] for turn in value["turns"]] == [6, 1]
    total = usage["total"]
    assert (total["sessions"], total["requests"], total["cost_usd"]) == (1, 7, info.cost_usd)


def test_the_parts_of_what_workers_cost_count_where_their_session_counts(tmp_path: Path) -> None:
    crew = Crew({"TWO": doing("2"), "root": handing("TWO")})
    crew.usage = Usage(2000, 10, 1500, 0, 0, 0.25, Cost(input=0.05, cached=0.04, output=0.16, saved=0.11))
    session = crewed(crew, tmp_path)
    _, ended = run(session, "root")
    many = len(crew.seen)
    parts = {"input": round(0.05 * many, 8), "cached": round(0.04 * many, 8), "written": 0.0}
    parts |= {"output": round(0.16 * many, 8)}
    with the_ledger() as ledger:
        value, info, usage = cost_report(ledger, session.id), ledger.session(session.id), usage_report(ledger)
    assert many == 3 and to_json_value(ended.usage)["cost"] == value["total"]["cost"] == usage["total"]["cost"] == parts
    assert info.saved_usd == value["total"]["saved_usd"] == ended.usage.cost.saved == 0.33
    assert "By component: $0.1500 input, $0.1200 cached, $0.4800 output. The cache saved $0.3300." in find_form("cost")(
        value, 200
    )


def test_what_was_not_reported_is_counted_as_an_estimate(tmp_path: Path) -> None:
    session = opened(Silent(lambda request: ""), tmp_path)
    assert say(session, "words")[1].ok
    with the_ledger() as ledger:
        total = cost_report(ledger, session.id)["total"]
    assert total["estimated"] == total["requests"] == 1 and total["input"] > 100 and total["cost_usd"] is None


def test_an_unknown_price_is_unknown_and_never_free(tmp_path: Path) -> None:
    session = opened(Unpriced(lambda request: ""), tmp_path)
    assert say(session, "words")[1].ok
    with the_ledger() as ledger:
        value = cost_report(ledger, session.id)
    for row in (value["total"], *value["models"], *value["kinds"], *value["turns"]):
        assert row["cost_usd"] is None and row["cache_read"] == 750
    assert value["models"][0]["name"] == MODEL and value["kinds"][0]["name"] == "conversation"
