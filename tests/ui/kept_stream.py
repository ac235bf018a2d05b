"""A stream that keeps what is written to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class KeptStream:
    """See `Stream` of `nexus_cli.ui.print.stream`: no terminal, unless it is made as one."""

    terminal: bool = False
    colour: bool = False
    width: int = 80
    text: str = ""
    """All that was written."""

    def write(self, text: str) -> None:
        """Keep `text`."""
        self.text += text
