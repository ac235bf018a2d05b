"""The real session with a model that answers at once: a program for a child process, `stepping.py SESSION STEPS`.

Resumes SESSION in the working folder and lets it read one file after the other. Prints a JSON object: `cpu` and `wall`,
seconds of this process and of the clock at each request, and `memory`, bytes resident at the last. litellm is never
imported.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from nexus_cli.config.load_settings import load_settings
from nexus_cli.config.paths import places
from nexus_cli.core.event import Outcome, TurnEnd
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import CallDelta, Delta, FinishDelta, Request, TextDelta, UsageDelta
from nexus_cli.core.usage import Usage
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

MODEL = "openai/scripted"


def resident() -> int:
    """Bytes of this process in memory. Linux."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Answers:
    """Takes the place of the backend's requests: asks for one file after the other, then has done."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.cpu: list[float] = []
        self.wall: list[float] = []
        self.memory = 0

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply."""
        self.cpu.append(time.process_time())
        self.wall.append(time.perf_counter())
        self.memory = resident()
        number = len(self.cpu)
        if number <= self.steps:
            yield CallDelta(0, f"call_{number}", "read_file", json.dumps({"path": f"f{number}.txt"}))
            yield FinishDelta("tool_calls")
        else:
            yield TextDelta("done")
            yield FinishDelta("stop")
        yield UsageDelta(Usage(1000, 10))


async def step_through(session_id: str, answers: Answers) -> None:
    """One turn of the resumed session."""
    options = Options(cwd=Path.cwd(), model=MODEL, resume=session_id, allow="all", limits=Limits(max_steps=10_000))
    settings = load_settings(places()).settings
    session = open_session(options, settings, approver=None)
    outcome: Outcome | None = None
    async for event in session.run("go on"):
        if isinstance(event, TurnEnd):
            outcome = event.outcome
    await session.aclose()
    if outcome is None or not outcome.ok or len(answers.cpu) != answers.steps + 1:
        raise SystemExit(f"the turn failed after {len(answers.cpu)} requests: {outcome and outcome.error}")


def main(session_id: str, steps: int) -> None:
    """Put the answers in place, run, print what was noted."""
    answers = Answers(steps)
    setattr(LitellmBackend, "stream", lambda backend, request: answers.stream(request))  # noqa: B010  (a method)
    setattr(LitellmBackend, "prepare", lambda backend: None)  # noqa: B010
    asyncio.run(step_through(session_id, answers))
    if "litellm" in sys.modules:
        raise SystemExit("litellm was imported: its cost would be measured too")
    print(json.dumps({"cpu": answers.cpu, "wall": answers.wall, "memory": answers.memory}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
