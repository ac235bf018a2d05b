"""Print for `nexus ask` on stdout: the answer, one result object (`--json`), or an event per line (`--stream-json`).

Into a pipe goes the text as the model wrote it, into a terminal only sanitized text. Shapes of JSON are those of
interface.md sections 6 and 7; on a terminal everything beyond ASCII is escaped. Progress goes to stderr
(`progress_lines`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from nexus_cli.core.clock import local_now
from nexus_cli.core.event import Event, StepEnd, Text, ToolCallEvent, TurnEnd
from nexus_cli.core.wire import json_text
from nexus_cli.session.event_json import EventNumbers, to_json_value
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
        self._numbers = EventNumbers(clock)

    def feed(self, event: Event) -> None:
        """Print `event` on one line, if interface.md section 7 has its type: a queued call follows as `tool.call`."""
        if (value := self._numbers.event_line(event)) is not None:
            self._print(value)

    def end(self, result: Mapping[str, Any]) -> None:
        """Print the result, always last."""
        self._print(self._numbers.line("result", result))
