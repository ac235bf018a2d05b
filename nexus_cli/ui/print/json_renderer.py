"""Print one result object (`--json`) or an event per line (`--stream-json`) for `nexus ask` on stdout.

Shapes are those of `nexus docs json`; on a terminal everything beyond ASCII is escaped.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from nexus_cli.core.clock import local_now
from nexus_cli.core.event import Event, ToolQueue, without_worker
from nexus_cli.core.event_json import EventNumbers
from nexus_cli.core.json_value import JsonObject, to_json_value
from nexus_cli.core.wire import json_text
from nexus_cli.ui.print.stream import Writable


class JsonRenderer:
    """Prints only the result."""

    def __init__(self, stream: Writable) -> None:
        self._stream = stream

    def feed(self, event: Event) -> None:
        """Do nothing: the result contains everything."""

    def end(self, result: JsonObject) -> None:
        """Print the result on one line."""
        self._print(result)

    def _print(self, value: JsonObject) -> None:
        self._stream.write(json_text(to_json_value(value), escaped=self._stream.terminal) + "\n")


class JsonLinesRenderer(JsonRenderer):
    """Prints every event as it arrives."""

    def __init__(self, stream: Writable, clock: Callable[[], datetime] = local_now) -> None:
        super().__init__(stream)
        self._numbers = EventNumbers(clock)

    def feed(self, event: Event) -> None:
        """Print `event` on one line, but for calls that wait: each follows as `tool.call`."""
        if not isinstance(without_worker(event), ToolQueue):
            self._print(self._numbers.event_line(event))

    def end(self, result: JsonObject) -> None:
        """Print the result, always last."""
        self._print(self._numbers.line("result", result))
