"""CPU of putting one request together, beside `json.dumps` of the messages that it has; no model, no socket.

The window has 2,000 entries and about twenty sections stand in the request. Each time the person has said something
new: all contributors of the event layer are read, what changed is planned, room is looked for, the request is sealed
and recorded.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.coding import Model, code, prose, write_project
from benchmarks.measure import milliseconds
from benchmarks.row import Benchmark, Row

from nexus_cli.commands.memory import keep_fact
from nexus_cli.config.paths import places, project_root
from nexus_cli.config.settings import Settings
from nexus_cli.core.entry import Kind
from nexus_cli.core.limits import Limits
from nexus_cli.core.memory import MemorySlot
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.turn import describe_request, prepare_request
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session
from nexus_cli.session.start_conversation import start_conversation

ENTRIES = 2000
DEPTH = 5
"""Folders above the working folder with instructions of their own."""
NAME = "openai/measured"


def furnish(folder: Path) -> None:
    """Files for the contributors that read files."""
    for place in (folder, *reversed(list(folder.parents)[:DEPTH])):
        (place / "NEXUS.md").write_text(f"# {place.name}\n\nRun the tests before you say that it works.\n" * 20)
    (folder.parents[DEPTH - 1] / ".git").mkdir()
    config = places().config
    config.mkdir(parents=True, exist_ok=True)
    for name in ("NEXUS.md", "SOUL.md", "IDENTITY.md", "PREFERENCES.md"):
        (config / name).write_text(f"# {name}\n\nBe brief and plain.\n")
    for name in ("review", "release", "deploy"):
        (config / "skills" / name).mkdir(parents=True, exist_ok=True)
        (config / "skills" / name / "SKILL.md").write_text(f"# {name}\n\nHow to {name} here.\n")


def fill(engine: Engine) -> None:
    """`ENTRIES` entries: turns of reads."""
    dice = random.Random("assembly")
    lane = engine.conversation
    for number in range(ENTRIES // 20):
        lane.append(Kind.USER, Message(Role.USER, prose(dice, 40)), "person")
        for step in range(9):
            call = ToolCall(f"c{number}x{step}", "read_file", {"path": f"src/part_{step:02}.py"}, "")
            lane.append(Kind.ASSISTANT, Message(Role.ASSISTANT, prose(dice, 20), (call,)), "agent")
            result = Message(Role.TOOL, code(dice, 20), tool_call_id=call.id)
            lane.append(Kind.TOOL, result, "tool:read_file")
        lane.append(Kind.ASSISTANT, Message(Role.ASSISTANT, prose(dice, 60)), "agent")


async def measured(session: Session, times: int) -> Iterator[tuple[float, float]]:
    """Seconds of CPU: of one request put together, and of `json.dumps` of its messages."""
    engine = session.engine
    await start_conversation(session)
    fill(engine)
    found = []
    for number in range(times + 1):
        words = Message(Role.USER, f"Look at the parser once more, part {number}, and say what the window keeps.")
        engine.conversation.append(Kind.USER, words, "person")
        began = time.process_time()
        plan = await prepare_request(engine)
        describe_request(engine, plan, session.dispatcher.in_force(engine)[0])
        sealed = engine.conversation.freeze_request(plan)
        done = time.process_time()
        json.dumps(list(sealed.wire.messages))
        ended = time.process_time()
        if number:  # the first renders the whole window and counts it
            found.append((done - began, ended - done))
        reply = Message(Role.ASSISTANT, f"It keeps {number}.")
        engine.conversation.append(Kind.ASSISTANT, reply, "agent")
    return iter(found)


def rows(times: int) -> Iterator[Row]:
    """One row, and how many sections and entries stood in the request."""
    with tempfile.TemporaryDirectory() as place:
        before = os.environ.get("NEXUS_HOME")
        os.environ["NEXUS_HOME"] = str(Path(place, "home"))
        try:
            folder = Path(place, "project", "one", "two", "three", "four", "five")
            folder.mkdir(parents=True)
            write_project(folder, 1)
            furnish(folder)
            settings = Settings(models={NAME: {"window": 4_000_000}})
            options = Options(folder, NAME, recipe="chat", allow="all", limits=Limits(max_steps=500))
            session = open_session(options, settings, approver=None, provider=Model(1, folder))
            assert session.ledger is not None
            for slot in MemorySlot:
                for text in ("The parser of {} keeps the window in one piece", "The window says what {} parsers keep"):
                    keep_fact(
                        session.ledger, slot, text.format(slot), str(project_root(folder)), "2026-01-13T08:30:00Z"
                    )
            found = list(asyncio.run(measured(session, times)))
            engine = session.engine
            told = {name for memo in engine.conversation.memos("plan") for name in memo.value["told"]}
            sections = len(json.loads(engine.conversation.epoch.sections)) + len(told)
            entries = len(engine.conversation.items)
            asyncio.run(session.aclose())
        finally:
            if before is None:
                del os.environ["NEXUS_HOME"]
            else:
                os.environ["NEXUS_HOME"] = before
    value, base = (statistics.median(pair[place] for pair in found) for place in (0, 1))
    about = f"a request, {sections} sections, {entries:,} entries"
    yield Row(about, milliseconds(value), "ms", milliseconds(base), "json.dumps of its messages", 3.0)


BENCHMARK = Benchmark("CPU of putting a request together", rows)
