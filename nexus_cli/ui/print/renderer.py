"""Print the answer of `nexus ask` on stdout, whole at its end. Its JSON is `json_renderer`.

A pipe gets the model's text unchanged, a terminal only sanitized text.
"""

from __future__ import annotations

from nexus_cli.core.event import Event, TurnEnd
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.print.stream import Writable


class PlainRenderer:
    """Prints the answer of each turn."""

    def __init__(self, stream: Writable) -> None:
        self._stream = stream

    def feed(self, event: Event) -> None:
        """Print the answer at the end of a turn. Raises as `Stream.write` does."""
        if isinstance(event, TurnEnd) and (text := event.outcome.text.rstrip("\n")):
            self._stream.write((sanitize(text) if self._stream.terminal else text) + "\n")
