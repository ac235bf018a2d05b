"""Reports on a session whose clock was set back: what came first is told by entries, not by times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from session.played import MODEL, context_report, count_definitions, the_ledger
from session.prefix_cache import Clock, lived, opened, working
from session.summed import SUMMARY, asks_for_summary, ended

from nexus_cli.commands.usage import cost_report
from nexus_cli.config.settings import Settings
from nexus_cli.core.event import TurnEnd
from nexus_cli.session.options import Options

BACK = -25.0
"""Hours."""
SETTINGS = Settings(models={MODEL: {"window": 25_000 + count_definitions()}})


def listing(request: Any, step: int) -> Any:
    if asks_for_summary(request):
        return SUMMARY
    return "done" if request.messages[-1]["role"] == "tool" else [("bash", {"command": "seq 1000 1300"})]


@pytest.mark.matrix
async def test_drops_costs_and_limits_stand_with_the_turns_that_they_are_of(tmp_path: Path) -> None:
    clock = Clock()
    provider = working(listing, clock)
    session = opened(provider, tmp_path, settings=SETTINGS)
    results: list[list[str]] = []

    async def turn(words: str) -> None:
        (end,) = [event for event in await lived(session, words) if isinstance(event, TurnEnd)]
        results.append([drop["id"] for drop in session.result(end.outcome)["drops"]])

    try:
        await turn("one " + "word " * 18_000)
        await turn("two")
        clock.forward(hours=BACK)
        await turn("three")
        await turn("four")
        assert ended(await session.compact()).ok
        clock.forward(hours=BACK)
        await turn("five")
    finally:
        await session.aclose()
    assert results == [["d1"], [], [], [], []]
    with the_ledger() as ledger:
        value = cost_report(ledger, session.id)
    assert [turn["requests"] for turn in value["turns"]] == [2, 2, 2, 3, 2], "the summary is asked for in the fourth"
    assert sum(turn["input"] for turn in value["turns"]) == value["total"]["input"]
    asked = Options(tmp_path, MODEL)
    shown = [context_report(asked, SETTINGS, session.id, step) for step in range(1, value["total"]["requests"])]
    assert [[drop["id"] for drop in one["drops"]] for one in shown] == [["d1"]] * 8 + [["d1", "d2"]] * 2
    assert [one["notices"] for one in shown] == [[]] * 10, "the limits of each are on record"
