"""What a compaction and a replay read from disk is bounded in time, and what hangs there holds up nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from session.played import Played, opened, say, the_ledger

from nexus_cli.config.settings import Settings
from nexus_cli.context.plan import Plan
from nexus_cli.core.request import Request
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.provider.litellm_env import http_library
from nexus_cli.session import reattach, replay_wire

Stuck = Callable[[], None]


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    """Blocks whoever calls it until the test is over; whether somebody had to be freed before fails the test."""
    free, late = threading.Event(), threading.Event()

    def freed() -> None:
        late.set()
        free.set()

    rescue = threading.Timer(30, freed)
    rescue.start()
    yield free.wait  # type: ignore[misc]
    free.set()
    rescue.cancel()
    assert not late.is_set(), "the end of the loop waited for what hung"


def session_with_files(folder: Path) -> Any:
    for name in ("a.py", "b.py"):
        (folder / name).write_text(f"def {name[0]}() -> None: ...\n")

    def script(request: Request) -> Any:
        if request.messages[-1]["role"] == "tool":
            return "done"
        return [("read_file", {"path": "a.py"}), ("read_file", {"path": "b.py"})]

    return opened(Played(script), folder)


def told(folder: Path) -> str:
    session = session_with_files(folder)

    async def live() -> str:
        try:
            _ = [event async for event in session.run("look")]
            engine = session._parts.engine
            plan = cast(Plan, SimpleNamespace(entries=(1, engine.lane.timeline.last)))
            return await reattach.reattached(engine, plan, 1000)
        finally:
            await session.aclose()

    return asyncio.run(live())


@pytest.mark.parametrize("files", [reattach.MOST_FILES, reattach.MOST_FILES + 5])
def test_files_that_are_not_listed_are_counted(tmp_path: Path, files: int) -> None:
    names = [f"module_{number}.py" for number in range(files)]
    for name in names:
        (tmp_path / name).write_text("x = 1\n")
    calls = [("read_file", {"path": name}) for name in names]
    session = opened(Played(lambda request: "done" if request.messages[-1]["role"] == "tool" else calls), tmp_path)

    async def reread(room: int) -> list[str]:
        engine = session._parts.engine
        plan = cast(Plan, SimpleNamespace(entries=(1, engine.lane.timeline.last)))
        return (await reattach.reattached(engine, plan, room)).splitlines()[1:]

    async def live() -> tuple[list[str], list[str]]:
        try:
            _ = [event async for event in session.run("look")]
            return await reread(2000), await reread(120)
        finally:
            await session.aclose()

    for lines in asyncio.run(live()):
        shown = [line for line in lines if "module_" in line]
        hidden = files - len(shown)
        assert lines[len(shown) :] == ([f"- {hidden} more, not listed here"] if hidden else [])
        assert shown


def test_a_read_that_hangs_costs_its_time_and_what_was_read_before_stays(
    tmp_path: Path, stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = told(tmp_path)
    assert "a.py" in whole and "b.py" in whole and "sha256" in whole
    real, read = reattach._read, []

    def reading(path: str) -> Any:
        read.append(path)
        if len(read) == 2:
            stuck()
        return real(path)

    monkeypatch.setattr(reattach, "_read", reading)
    monkeypatch.setattr(reattach, "SECONDS", 0.2)
    part = told(tmp_path)
    assert len(read) == 2 and part.count("sha256") == 1 and part.startswith("Files of that part")


def test_a_model_library_that_hangs_when_it_is_loaded_is_named_and_let_go(
    tmp_path: Path, stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened(Played(lambda request: "hi"), tmp_path)
    assert say(session, "go")[1].ok
    monkeypatch.setattr(LitellmBackend, "prepare", lambda self: stuck())
    monkeypatch.setattr(replay_wire, "SECONDS", 0.2)
    with the_ledger() as ledger:
        lane = ledger.session(session.id).main_lane
        with ledger._db.write():
            ledger._db.run("UPDATE requests SET sent = ? WHERE lane = ?", f"{http_library()} {'0' * 64}", lane)
        found = asyncio.run(replay_wire.check_wire(ledger, session.id, Settings()))
    assert found["skipped"] == {"litellm could not be loaded here in time": [1]} and not found["differ"]
