"""Runs the command line over a stand-in for the engine: `python fake_engine.py SCENARIO ARGUMENTS...`.

The real entry point, options, renderers and signals; only `open_session` gives back a scripted session.
"""

from __future__ import annotations

import asyncio
import os
import sys
import types
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nexus_cli.core import event as e
from nexus_cli.core.approval import Allow, Question
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.entry import Cause, Drop
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.usage import Usage

MARKDOWN = "# Title\n\nSome **bold** text.\n\n- one\n- two\n"
CALL = ToolCall("c1", "bash", {"command": "ls"})


@dataclass(frozen=True)
class Options:
    cwd: Path
    model: str
    effort: str = ""
    recipe: str = "ask"
    resume: str = ""
    newest: bool = False
    allow: str | None = None
    no_tools: bool = False
    save: bool = True
    require_save: bool = False
    limits: Limits = Limits()  # noqa: RUF009
    interactive: bool = False


def outcome(text: str = "", kind: str = "", status: int = 0, **more: Any) -> e.TurnEnd:
    error = {"kind": kind, "message": f"it went wrong: {kind}", "hint": "Do better"} if kind else None
    return e.TurnEnd(e.Outcome(not kind, status, text, "stop", error, 1, Usage(10, 5), 0.1, **more))


def ready() -> None:
    os.write(2, b"READY\n")


class FakeSession:
    notices: tuple[str, ...] = ("a notice from the session",)
    id = "01FAKE"
    workers = None
    ledger = None
    conversation = types.SimpleNamespace(last="a message")

    def __init__(self, options: Options, approver: Any) -> None:
        self.options = options
        self.model = options.model
        self.approver = approver
        self.saved = options.save
        self.cancelled = asyncio.Event()

    def cancel(self, by: str) -> None:
        self.cancelled.set()

    def passed_limit(self) -> None:
        """No limit passes here."""

    async def run(self, trigger: Trigger) -> AsyncIterator[e.Event]:
        yield e.SessionStart(self.id, self.model, self.options.recipe, False)
        yield e.TurnStart(trigger.text)
        async for made in getattr(self, sys.argv[1])(trigger):
            yield made

    async def aclose(self) -> None:
        """Nothing is kept."""

    def result(self, ended: e.Outcome) -> dict[str, Any]:
        return {"type": "result", "version": 1, "ok": ended.ok, "exit": ended.exit, "text": ended.text}

    def failed_result(self, error: NexusError) -> dict[str, Any]:
        return {**self.result(e.Outcome().with_error(error)), "session": self.id, "error": {"kind": error.kind}}

    async def answer(self, trigger: Trigger) -> AsyncIterator[e.Event]:
        yield e.StepStart(1)
        for start in range(0, len(MARKDOWN), 3):
            yield e.Text(MARKDOWN[start : start + 3])
        yield e.StepEnd(1, "stop", Usage(10, 5))
        yield outcome(MARKDOWN)

    async def echo(self, trigger: Trigger) -> AsyncIterator[e.Event]:
        kinds = " ".join(f"{part.media_type} {len(part.data)} {part.name}" for part in trigger.parts)
        yield outcome(f"{trigger.source}|{trigger.uncounted}|{kinds}|{trigger.text}")

    async def said(self, trigger: Trigger) -> AsyncIterator[e.Event]:
        yield outcome(repr(self.options))

    async def escapes(self, trigger: Trigger) -> AsyncIterator[e.Event]:
        text = "plain \x1b[31mred\x1b[0m \u202etxt"
        yield e.ToolCallEvent(CALL, "ls \x1b[2J")
        yield e.Text(text)
        yield outcome(text)

    async def tools(self, trigger: Trigger) -> AsyncIterator[e.Event]:
        yield e.ToolCallEvent(CALL, "ls")
        yield e.ToolResultEvent(CALL, ToolResult("out", full="x" * 1000), 12, 1.5)
        yield e.ToolCallEvent(CALL, "ls -x")
        yield e.ToolResultEvent(CALL, ToolResult(error="no such option\nmore"), 12, 0.1)
        yield e.ContextDrop(Drop("d3", "tool result of c1 (bash)", 18000, Cause.OUTPUT_CAP, "2026-01-01T00:00:00Z"))
        yield e.CompactionDone(False, 10, 10, "the summary was empty")
        denied = ({"id": "c1", "tool": "bash", "subject": "rm x", "why": "not allowed"},)
        yield outcome("done", denied=denied)

    async def length(self, trigger: Trigger) -> AsyncIterator[e.Event]:
        yield outcome("half an answ", "length", 3)

    async def lost(self, trigger: Trigger) -> AsyncIterator[e.Event]:
        yield outcome("half an answ", "network", 1)

    async def slow(self, trigger: Trigger) -> AsyncIterator[e.Event]:
        ready()
        await self.cancelled.wait()
        yield outcome("", "aborted", 130)

    async def silent(self, trigger: Trigger) -> AsyncIterator[e.Event]:
        yield e.StepStart(1)
        await asyncio.sleep(2.2)
        yield outcome("done")

    async def stubborn(self, trigger: Trigger) -> AsyncIterator[e.Event]:
        ready()
        await self.cancelled.wait()
        os.write(2, b"CANCELLED\n")
        await asyncio.sleep(60)
        yield outcome("")

    async def crash(self, trigger: Trigger) -> AsyncIterator[e.Event]:
        yield e.StepStart(1)
        raise RuntimeError("a bug")

    async def fail(self, trigger: Trigger) -> AsyncIterator[e.Event]:
        yield e.StepStart(1)
        raise NexusError("ledger", "the ledger failed", "disk full", "Free some space")

    async def approval(self, trigger: Trigger) -> AsyncIterator[e.Event]:
        if self.approver is None:
            yield e.Text("nobody can be asked")
            yield outcome("nobody can be asked")
            return
        question = Question(CALL, "run: ls", "a command", "ls -la \x1b[31m")
        yield e.ApprovalRequest(question)
        asking = asyncio.ensure_future(self.approver.ask(question))
        stopping = asyncio.ensure_future(self.cancelled.wait())
        await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            asking.cancel()
            yield outcome("", "aborted", 130)
            return
        answer = asking.result()
        yield e.ApprovalAnswer("c1", answer)
        always = " always" if isinstance(answer, Allow) and answer.always else ""
        text = f"answer {type(answer).__name__}{always} {getattr(answer, 'why', '')}"
        yield e.Text(text)
        yield outcome(text)


def open_session(options: Options, settings: object, *, approver: Any, **services: object) -> FakeSession:
    if sys.argv[1] == "refuse":
        raise NexusError("ledger", "the session cannot be opened", "it is held", "Wait")
    return FakeSession(options, approver)


def main() -> None:
    session = types.ModuleType("nexus_cli.session.session")
    session.Session = FakeSession  # type: ignore[attr-defined]
    factory = types.ModuleType("nexus_cli.session.factory")
    factory.Options = Options  # type: ignore[attr-defined]
    factory.open_session = open_session  # type: ignore[attr-defined]
    sys.modules |= {session.__name__: session, factory.__name__: factory}
    sys.argv[0] = "nexus"
    scenario = sys.argv[1]
    arguments = sys.argv[2:]
    from nexus_cli.cli import app, process

    if scenario == "silent":
        from nexus_cli.ui.print import turn_progress

        turn_progress.SILENCE_SECONDS = 1.0
    process.exit_on_signals()
    process.reopen_descriptors()
    sys.argv[1:] = [scenario]
    process.exit_process(app.run(arguments))


main()
