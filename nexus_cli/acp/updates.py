"""Translate the events of a session into updates of the Agent Client Protocol. The only file that builds them.

Uses only `acp.schema`, because the SDK has announced the removal of its helper functions.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from acp import schema

from nexus_cli.core import event
from nexus_cli.core.message import Part, ToolCall, ToolResult
from nexus_cli.core.real_files import read_regular, real_path
from nexus_cli.core.tool import Effect, Reads, Tool, describe_subject
from nexus_cli.core.usage import Usage
from nexus_cli.reports.event_texts import describe_event
from nexus_cli.reports.export import fenced
from nexus_cli.session.status import Status
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.tools.registry import ToolRegistry

Update = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AgentPlanUpdate
    | schema.UsageUpdate
)
Content = schema.ContentToolCallContent | schema.FileEditToolCallContent | schema.TerminalToolCallContent
ToolKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
PlanStatus = Literal["pending", "in_progress", "completed"]
_KINDS: Mapping[Effect, ToolKind] = {Effect.EDIT: "edit", Effect.RUN: "execute"}
_STATES: Mapping[str, PlanStatus] = {
    "open": "pending",
    "doing": "in_progress",
    "done": "completed",
    "dropped": "completed",
}
LONGEST = 200_000
"""Most characters of a file or an output in one update."""


class UpdateStream:
    """Translates the events of one session, in order."""

    def __init__(
        self,
        registry: ToolRegistry,
        folder: Path,
        unsaved: Mapping[Path, str] = MappingProxyType({}),
        *,
        replays: bool = False,
        earlier: UpdateStream | None = None,
    ) -> None:
        """`unsaved` are the editor's texts. With `replays` the events are past: files no longer have the content from
        before a call. The editor knows the calls that have begun in the `earlier` stream."""
        self._unsaved = unsaved
        self.registry = registry
        self._folder = folder
        self._replays = replays
        self._output: dict[str, str] = earlier._output if earlier else {}
        """Output so far of the calls that have begun and not ended."""

    def translate(self, session_event: event.Event) -> Iterator[Update]:
        """Yield the updates of an event; most have one, or none."""
        match session_event:
            case event.TurnStart(text) | event.SteeringMessage(text) if text:
                yield schema.UserMessageChunk(content=text_block(text), session_update="user_message_chunk")
            case event.Text(text) if text:
                yield message(text)
            case event.Thinking(text):
                yield schema.AgentThoughtChunk(content=text_block(text), session_update="agent_thought_chunk")
            case event.ToolCallEvent(call, subject):
                self._output[call.id] = ""
                yield self.start_call(call, subject)
            case event.ToolOutput(call_id, text):
                tail = self._output[call_id] = (self._output.get(call_id, "") + text)[-LONGEST:]
                yield progress(call_id, content=[fence_text(tail)])
            case event.ToolResultEvent(call, result):
                if self._output.pop(call.id, None) is None:  # never begun, as behind a cancelled call
                    yield self.start_call(call, describe_subject(self.registry.get(call.name), call))
                yield self.end_call(call, result)
                if (tool := self.registry.get(call.name)) and tool.lists and not result.error:
                    yield plan(call.arguments.get(tool.lists))
            case event.CacheResult() | event.TurnEnd():  # `usage` tells the figures, the end of the turn its error
                pass
            case _:
                if text := describe_event(session_event):
                    yield note(text)

    def start_call(self, call: ToolCall, subject: str) -> schema.ToolCallStart:
        """Return the beginning of a call: its kind, the files it names, and for an edit the diff."""
        tool = self.registry.get(call.name)
        return schema.ToolCallStart(
            tool_call_id=call.id,
            title=call_title(tool, call, subject),
            kind=kind_of(tool),
            status="in_progress",
            locations=self._locations(tool, call),
            content=self.diffs(call) or None,
            raw_input=dict(call.arguments),
            session_update="tool_call",
        )

    def end_call(self, call: ToolCall, result: ToolResult) -> schema.ToolCallProgress:
        """Return the end of a call with its output; an edit keeps the diff that it began with."""
        tool = self.registry.get(call.name)
        failed = bool(result.error) or (result.status or 0) != 0
        text = result.error or result.output
        content: list[Content] | None = [fence_text(text)] if text else None
        if tool is not None and tool.effect is Effect.EDIT and not result.error:
            content = None
        return progress(
            call.id,
            status="failed" if failed else "completed",
            content=content,
            raw_output={"text": text[:LONGEST], "status": result.status, "changed": list(result.changed)},
        )

    def diffs(self, call: ToolCall) -> list[Content]:
        """Return the changes of an edit as its arguments say them: one for each passage, or for the whole file."""
        tool = self.registry.get(call.name)
        if tool is None or tool.effect is not Effect.EDIT:
            return []
        paths = [path for path in tool.find_paths(call.arguments) if isinstance(path, str)]
        edits, content = call.arguments.get("edits"), call.arguments.get("content")
        if len(paths) != 1:
            return []
        path = self._folder / paths[0]
        if isinstance(edits, Sequence) and not isinstance(edits, str):
            pairs = [(edit.get("old"), edit.get("new")) for edit in edits if isinstance(edit, Mapping)]
        elif isinstance(content, str):
            unsaved = self._unsaved.get(real_path(path))
            before = None if self._replays else _read(path) if unsaved is None else unsaved
            pairs = [(before, content)]
        else:
            return []
        return [
            schema.FileEditToolCallContent(
                type="diff", path=str(path), old_text=old or None, new_text=str(new)[:LONGEST]
            )
            for old, new in pairs
            if isinstance(new, str)
        ]

    def _locations(self, tool: Tool | None, call: ToolCall) -> list[schema.ToolCallLocation] | None:
        if tool is None or not tool.paths:
            return None
        line = call.arguments.get("offset")
        return [
            schema.ToolCallLocation(path=str(self._folder / path), line=line if isinstance(line, int) else None)
            for path in tool.find_paths(call.arguments)
            if isinstance(path, str)
        ]


def kind_of(tool: Tool | None) -> ToolKind:
    """Return the kind of a call, for the editor's icon, from the definition of its tool."""
    if tool is None:
        return "other"
    if tool.effect is Effect.READ:
        return "search" if tool.reads in (Reads.SEARCH, Reads.LIST) else "read"
    if tool.reaches:
        return "fetch"
    return "think" if tool.lists else _KINDS.get(tool.effect, "other")


def call_title(tool: Tool | None, call: ToolCall, subject: str) -> str:
    """Return the line of a call: the command itself, or the tool and its main argument."""
    is_command = tool is not None and tool.effect is Effect.RUN and not tool.server and subject
    return sanitize(subject if is_command else f"{call.name} {subject}".strip())


def plan(rows: Any) -> schema.AgentPlanUpdate:
    """Return a todo list as the editor's plan."""
    entries = [
        schema.PlanEntry(
            content=str(row.get("text", "")), priority="medium", status=_STATES.get(str(row.get("state")), "pending")
        )
        for row in (rows if isinstance(rows, Sequence) else ())
        if isinstance(row, Mapping)
    ]
    return schema.AgentPlanUpdate(entries=entries, session_update="plan")


def usage_update(status: Status) -> schema.UsageUpdate:
    """Return the fill of the window and the dollars of the session."""
    cost = None if status.cost_usd is None else schema.Cost(amount=round(status.cost_usd, 6), currency="USD")
    return schema.UsageUpdate(used=status.used, size=status.budget, cost=cost, session_update="usage_update")


def turn_usage(usage: Usage) -> schema.Usage:
    """Return the tokens of a turn."""
    return schema.Usage(
        total_tokens=usage.tokens,
        input_tokens=usage.input,
        output_tokens=usage.output,
        cached_read_tokens=usage.cache_read,
        cached_write_tokens=usage.cache_write,
        thought_tokens=usage.reasoning,
    )


def message(text: str) -> schema.AgentMessageChunk:
    return schema.AgentMessageChunk(content=text_block(text), session_update="agent_message_chunk")


def image(part: Part) -> schema.UserMessageChunk:
    """Return an image of the person."""
    data = base64.b64encode(part.data).decode()
    block = schema.ImageContentBlock(type="image", mime_type=part.media_type, data=data)
    return schema.UserMessageChunk(content=block, session_update="user_message_chunk")


def note(text: str) -> schema.AgentThoughtChunk:
    """Return a notice of nexus: not a part of the answer, so it goes where thoughts are shown."""
    return schema.AgentThoughtChunk(
        content=text_block(f"[nexus] {sanitize(text)}\n"),
        session_update="agent_thought_chunk",
        field_meta={"nexus": {"notice": True}},
    )


def text_block(text: str) -> schema.TextContentBlock:
    return schema.TextContentBlock(type="text", text=text)


def fence_text(text: str) -> schema.ContentToolCallContent:
    """Return output as a block that Markdown does not change, without control sequences."""
    plain = fenced(sanitize(text[-LONGEST:]).rstrip())
    return schema.ContentToolCallContent(type="content", content=text_block(plain))


def progress(
    call_id: str,
    *,
    status: Literal["completed", "failed"] | None = None,
    content: list[Content] | None = None,
    raw_output: Any = None,
) -> schema.ToolCallProgress:
    return schema.ToolCallProgress(
        tool_call_id=call_id,
        status=status,
        content=content,
        raw_output=raw_output,
        session_update="tool_call_update",
    )


def _read(path: Path) -> str | None:
    """Return the text of a file before it is replaced; None if it does not exist, is large or is not text."""
    try:
        return read_regular(os.path.realpath(path), LONGEST).decode()
    except (OSError, ValueError):
        return None
