"""What the tool `context` shows the model is what the report shows the person: the same figures, the same drops."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from session.played import Answer, Played
from session.summed import Summariser, done, ended, living, turn

from nexus_cli.config.settings import CompactSettings
from nexus_cli.core.event import Event, ToolResultEvent
from nexus_cli.core.request import Delta, Request, UsageDelta
from nexus_cli.core.services import Assembly
from nexus_cli.core.usage import Usage
from nexus_cli.reports.context import live_report
from nexus_cli.session.acts.compaction import uncompaction
from nexus_cli.session.session import Session

TURNS = tuple(f"TURN{number} make a list" for number in range(5))


class Dear(Played):
    """Its provider counts more tokens than we do."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply."""
        async for delta in super().stream(request):
            sent = len(json.dumps([*request.messages, *request.tools]))
            yield UsageDelta(Usage(sent // 2, 10)) if isinstance(delta, UsageDelta) else delta


def held(session: Session) -> Mapping[str, Any]:
    service: Assembly = session.dispatcher.services[Assembly]
    return service.contents()


def looked(events: list[Event]) -> str:
    """What the tool answered."""
    return next(one.result.text for one in events if isinstance(one, ToolResultEvent) and one.call.name == "context")


def work(request: Request) -> Answer:
    last = request.messages[-1]
    if last["role"] == "tool":
        return "seen"
    return [("context", {})] if "LOOK" in str(last["content"]) else [("bash", {"command": "seq 9000 9300"})]


@pytest.mark.matrix
async def test_what_an_undo_brought_back_is_not_told_as_left_out(tmp_path: Path) -> None:
    kept = CompactSettings(prune=False)  # else the old results that come back are taken out of the window at once
    async with living(tmp_path, Summariser(work=work), *TURNS, window=40_000, compact=kept) as session:
        assert ended(await session.compact()).ok
        before = looked(await turn(session, "LOOK"))
        await done(session, uncompaction())
        after = looked(await turn(session, "LOOK again"))
    assert "left out, 0 of 1 asked for again" in before and "\n  d1: messages" in before
    assert after.endswith("left out: nothing")


async def test_its_figures_are_those_of_the_report(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_text("Do this before that.\n" * 9000)

    async with living(tmp_path, None, "one", "two", window=60_000, provider=Dear(Summariser(work=work))) as session:
        own = held(session)
        report = live_report(session)
    assert report["scale"] > 1.2
    assert own["budget"] == report["budget"]
    figures = {one["id"]: one["tokens"] for one in own["sections"]}
    assert figures.items() >= {one["id"]: one["tokens"] for one in (*report["sections"], *report["told"])}.items()
    assert {"contract", "instructions.project", "clock.date"} <= figures.keys() and report["told"]
    assert own["drops"] == report["drops"] != []
