"""The answer on stdout: in a terminal rendered as it streams, otherwise the last step's text, once, when it is known.

Into a pipe goes the text as the model wrote it, into a terminal only what has passed the door. Progress and notices
are for `remarks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.core.event import Called, Event, StepEnd, Text, TurnEnd
from nexus_cli.ui.print.progress_lines import Writable


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
            elif isinstance(event, Called | StepEnd | TurnEnd):
                self._write(self._markdown.flush())
        elif isinstance(event, TurnEnd) and (text := event.outcome.text.rstrip("\n")):
            self._stream.write(text + "\n")

    def end(self, result: Mapping[str, Any]) -> None:
        """Nothing: the text is already there."""

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(text)
