"""Print for `nexus ask` on stdout: the answer, one result object (`--json`), or an event per line (`--stream-json`).

Into a pipe goes the text as the model wrote it, into a terminal only sanitized text. Shapes of JSON are those of
interface.md sections 6 and 7; on a terminal everything beyond ASCII is escaped. Progress goes to stderr
(`progress_lines`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Any, Protocol

from nexus_cli.core.approval import Allow, Defer, Deny
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import AgentEvent, ContextDrop, Event, StepEnd, Text, ToolCallEvent, ToolQueue, TurnEnd
from nexus_cli.core.message import ToolResult
from nexus_cli.core.wire import json_text
from nexus_cli.session.drop_list import drop_value
from nexus_cli.ui.print.progress_lines import Writable


class Renderer(Protocol):
    """Shows one turn on stdout. `Gone` from any method: the reader has left."""

    def feed(self, event: Event) -> None:
        """Show `event`, or keep what it says for the end."""

    def end(self, result: Mapping[str, Any]) -> None:
        """End the turn; `result` is the object of interface.md section 6."""


class PlainRenderer:
    """Shows the answer of one turn."""

    def __init__(self, stream: Writable) -> None:
        self._stream = stream
        self._markdown: Any = None
        if stream.terminal:
            from nexus_cli.ui.render.markdown import Markdown  # noqa: PLC0415  (rich is for terminals only)

            self._markdown = Markdown(stream.width, colour=stream.colour)

    def feed(self, event: Event) -> None:
        """Show the text of `event` (only text is shown here)."""
        if self._markdown is not None:
            if isinstance(event, Text):
                self._write(self._markdown.feed(event.text))
            elif isinstance(event, ToolCallEvent | StepEnd | TurnEnd):
                self._write(self._markdown.flush())
        elif isinstance(event, TurnEnd) and (text := event.outcome.text.rstrip("\n")):
            self._stream.write(text + "\n")

    def end(self, result: Mapping[str, Any]) -> None:
        """Do nothing: the text is already printed."""

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(text)


_ANSWERS = {Allow: "allow", Deny: "deny", Defer: "defer"}


def to_json_value(value: Any) -> Any:
    """Return `value` as JSON values: records become objects. A result's whole output is left out, it may be 64 MiB."""
    if is_dataclass(value) and not isinstance(value, type):
        made = {f.name: to_json_value(getattr(value, f.name)) for f in fields(value)}
        if isinstance(value, ToolResult):
            del made["full"]
        if type(value) in _ANSWERS:
            made = {"answer": _ANSWERS[type(value)], **made}
        return made
    if isinstance(value, Mapping):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json_value(item) for item in value]
    return str(value) if isinstance(value, PurePath | datetime) else value


def failure_result(error: NexusError) -> dict[str, Any]:
    """Return the result object of a run that ended before there was a session."""
    return {
        "type": "result",
        "version": 1,
        "ok": False,
        "exit": error.exit_status,
        "text": "",
        "data": None,
        "finish": "",
        "session": None,
        "model": None,
        "steps": 0,
        "seconds": 0.0,
        "usage": {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0, "reasoning": 0, "cost_usd": 0.0},
        "context": None,
        "drops": [],
        "denied": [],
        "files_changed": [],
        "error": {"kind": error.kind, "message": error.message, "hint": error.hint},
    }


class JsonRenderer:
    """Prints only the result."""

    def __init__(self, stream: Writable) -> None:
        self._stream = stream

    def feed(self, event: Event) -> None:
        """Do nothing: the result has it all."""

    def end(self, result: Mapping[str, Any]) -> None:
        """Print the result on one line."""
        self._print(result)

    def _print(self, value: Mapping[str, Any]) -> None:
        self._stream.write(json_text(to_json_value(value), escaped=self._stream.terminal) + "\n")


class JsonLinesRenderer(JsonRenderer):
    """Prints every event as it comes."""

    def __init__(self, stream: Writable, clock: Callable[[], datetime] = local_now) -> None:
        super().__init__(stream)
        self._clock = clock
        self._next = 0

    def feed(self, event: Event) -> None:
        """Print `event` on one line, if interface.md section 7 has its type: a queued call follows as `tool.call`."""
        mark = {}
        if isinstance(event, AgentEvent):
            mark, event = {"agent": event.agent, "lane": event.lane}, event.event
        if isinstance(event, ToolQueue):
            return
        same = drop_value(event.drop) if isinstance(event, ContextDrop) else {}
        self._numbered(event.kind, {**mark, **same, **to_json_value(event)})

    def end(self, result: Mapping[str, Any]) -> None:
        """Print the result, always last."""
        self._numbered("result", result)

    def _numbered(self, kind: str, value: Mapping[str, Any]) -> None:
        head = {"v": 1, "seq": self._next, "at": format_utc(self._clock()), "type": kind}
        self._next += 1
        self._print({**head, **{key: item for key, item in value.items() if key not in head}})
