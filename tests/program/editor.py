"""The client of an editor: the SDK's own, over the real program; it keeps every update and answers as told."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from acp import connect_to_agent, schema
from acp.interfaces import Agent
from program.nursery import launcher
from program.stage import Stage


class Editor:
    """The client: keeps every update, answers questions as told."""

    def __init__(self, answer: str = "once") -> None:
        self.answer = answer
        self.updates: list[Any] = []
        self.moved = asyncio.Event()
        self.questions: list[tuple[schema.ToolCallUpdate, list[str], dict[str, Any]]] = []
        self.hangs = False
        self.has_forms = True
        self.forms: list[str] = []
        self.fs = schema.FileSystemCapabilities()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append(update)
        self.moved.set()

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **kwargs: Any
    ) -> schema.RequestPermissionResponse:
        self.questions.append((tool_call, [one.option_id for one in options], kwargs))
        self.moved.set()
        if self.hangs:
            await asyncio.sleep(3600)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=self.answer)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> Any:
        self.forms.append(message)
        return schema.AcceptElicitationResponse(action="accept", content={"answer_1": "the second one"})

    def on_connect(self, conn: Any) -> None:
        pass

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for an update or a question after which `condition` holds."""
        while not condition():
            self.moved.clear()
            await self.moved.wait()

    def of(self, kind: type) -> list[Any]:
        return [one for one in self.updates if isinstance(one, kind)]

    def said(self, kind: type = schema.AgentMessageChunk) -> str:
        return "".join(one.content.text for one in self.of(kind))


@asynccontextmanager
async def connected(place: Stage, editor: Editor, *options: str) -> AsyncIterator[tuple[Agent, Any]]:
    process = await asyncio.create_subprocess_exec(
        launcher(),
        "acp",
        *options,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=place.env(),
        cwd=place.folder,
        limit=1 << 24,
    )
    assert process.stdin is not None and process.stdout is not None
    agent = connect_to_agent(editor, process.stdin, process.stdout, use_unstable_protocol=True)  # type: ignore[arg-type]
    try:
        forms = schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities())
        offered = schema.ClientCapabilities(elicitation=forms if editor.has_forms else None, fs=editor.fs)
        begun = await agent.initialize(1, offered)
        assert begun.protocol_version == 1 and begun.agent_info is not None and begun.agent_info.name == "nexus"
        yield agent, process
    finally:
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), 120) == 0, (await process.stderr.read()).decode()  # type: ignore[union-attr]
        await agent.close()


def text(words: str) -> schema.TextContentBlock:
    return schema.TextContentBlock(type="text", text=words)


def live(work: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(work(), 240))
