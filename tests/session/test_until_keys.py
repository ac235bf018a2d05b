"""What the person types and presses while the command of `--until` runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from session.played import Played, opened

from nexus_cli.core.attachment import Trigger
from nexus_cli.core.event import Event, Notice, ToolCallEvent, TurnEnd
from nexus_cli.session.session import Session

WAITS = "until [ -e go ]; do sleep 0.05; done"


async def until(session: Session, command: str, act: Any) -> list[Event]:
    """Work until `command` exits 0, call `act` when it runs, then make the file `go`."""
    events = []
    async for event in session.run(Trigger("build it", until=command)):
        events.append(event)
        if isinstance(event, ToolCallEvent):
            await asyncio.sleep(0.5)
            act()
            await asyncio.sleep(0.2)
            (session.dispatcher.cwd / "go").touch()
    await session.aclose()
    return events


@pytest.mark.matrix
@pytest.mark.parametrize("ends", ["true", "test -e again || { touch again; exit 1; }"])
def test_words_typed_while_the_command_runs_are_answered(tmp_path: Path, ends: str) -> None:
    provider = Played(lambda request: "Built.")
    session = opened(provider, tmp_path, front="chat")
    events = asyncio.run(until(session, f"{WAITS}; {ends}", lambda: session.steer("also rename it")))
    assert isinstance(events[-1], TurnEnd) and events[-1].outcome.ok
    assert "also rename it" in str(provider.seen[1][-1]) and len(provider.seen) >= 2


@pytest.mark.matrix
def test_the_command_is_not_sent_to_the_background(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "Built."), tmp_path, front="chat")
    control = session.engine.control
    events = asyncio.run(until(session, f"{WAITS}; echo over", control.release_commands))
    assert isinstance(events[-1], TurnEnd) and events[-1].outcome.ok, events[-1]
    assert any("exited 0 after 1 round" in event.text for event in events if isinstance(event, Notice))
