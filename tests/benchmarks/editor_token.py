"""Wall time from a prompt to the first token: of `nexus acp`, driven by the SDK's client, beside the REPL's Enter. The
second prompt of each session, when everything is imported.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from acp import connect_to_agent, schema
from benchmarks.key_to_echo import RATE
from benchmarks.measure import NEXUS, milliseconds
from benchmarks.row import Benchmark, Row
from benchmarks.typed import DELTAS, Typed, seen, typed
from terminal.terminal import ENTER, ctrl

SETTLE = 4.0
"""Seconds until a stopped turn is over."""


class Editor:
    """A client that notes when the first words of an answer came."""

    def __init__(self) -> None:
        self.token = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        if isinstance(update, schema.AgentMessageChunk):
            self.token.set()

    def on_connect(self, conn: Any) -> None:
        pass


async def of_acp(here: Typed) -> tuple[float, float]:
    """Return prompt to first token of the first and the second prompt, in seconds."""
    process = await asyncio.create_subprocess_exec(
        NEXUS,
        "acp",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(here.scene.environment),
        cwd=here.scene.folder,
        limit=1 << 24,
    )
    editor = Editor()
    agent = connect_to_agent(editor, process.stdin, process.stdout)  # type: ignore[arg-type]
    await agent.initialize(1)
    opened = await agent.new_session(str(here.scene.folder), mcp_servers=[])
    taken: list[float] = []
    for _ in range(2):
        editor.token.clear()
        began = time.perf_counter()
        turn = asyncio.ensure_future(agent.prompt(opened.session_id, [schema.TextContentBlock(type="text", text="go")]))
        await asyncio.wait_for(editor.token.wait(), 60)
        taken.append(time.perf_counter() - began)
        await agent.cancel(opened.session_id)
        await turn
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()
    await agent.close()
    return taken[0], taken[1]


def of_repl(here: Typed) -> tuple[float, float]:
    """Return Enter to first token of the first and the second message, in seconds."""
    taken: list[float] = []
    with here.nexus_prompt() as terminal:
        seen(terminal, "\x1b[?2004h")
        for _ in range(2):
            del terminal.raw[:]
            began = time.perf_counter()
            terminal.send("go" + ENTER)
            seen(terminal, "word")
            taken.append(time.perf_counter() - began)
            terminal.send(ctrl("c"))
            time.sleep(SETTLE)
    return taken[0], taken[1]


def rows(times: int) -> Iterator[Row]:
    """A fifth as many sessions of each, in turns."""
    with typed((DELTAS, str(RATE))) as here:
        rounds = [(*asyncio.run(of_acp(here)), *of_repl(here)) for _ in range(max(2, times // 5) + 1)][1:]
        figures = (milliseconds(median(taken)) for taken in zip(*rounds, strict=True))
        first, second, repl_first, repl_second = figures
        yield Row("first prompt to first token, acp", first, "ms", repl_first, "the REPL", 1.5)
        yield Row("second prompt to first token, acp", second, "ms", repl_second, "the REPL", 1.5)


BENCHMARK = Benchmark("from a prompt in an editor to the first token, wall time", rows)
