"""Print the answer of `nexus ask` on stdout. Its JSON is `json_renderer`, progress on stderr `progress_lines`.

A pipe gets the model's text unchanged, a terminal only sanitized text.
"""

from __future__ import annotations

from typing import Any

from nexus_cli.core.event import Event, Retry, StepEnd, Text, ToolCallEvent, TurnEnd
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.print.progress_lines import Writable


class PlainRenderer:
    """Shows the answer of one turn; in a terminal as Markdown while it arrives, unless only the `whole` is wanted."""

    def __init__(self, stream: Writable, *, whole: bool = False) -> None:
        self._stream = stream
        self._markdown: Any = None
        if stream.terminal and not whole:
            from nexus_cli.ui.render.markdown import Markdown  # noqa: PLC0415  (on terminals only)

            self._markdown = Markdown(stream.width, colour=stream.colour)

    def feed(self, event: Event) -> None:
        """Show the text of `event`; other events are ignored. Raises as `Stream.write` does."""
        if self._markdown is not None:
            if isinstance(event, Text):
                self._write(self._markdown.feed(event.text))
            elif isinstance(event, ToolCallEvent | Retry | StepEnd | TurnEnd):
                self._write(self._markdown.flush())
        elif isinstance(event, TurnEnd) and (text := event.outcome.text.rstrip("\n")):
            self._stream.write((sanitize(text) if self._stream.terminal else text) + "\n")

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(text)
