"""The seam between an engine's events and what stands on stdout: one renderer per way of using it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from nexus_cli.core.event import Event


class Renderer(Protocol):
    """Shows one turn on stdout. `Gone` from any method: the reader has left."""

    def feed(self, event: Event) -> None:
        """Show `event`, or keep what it says for the end."""

    def end(self, result: Mapping[str, Any]) -> None:
        """The turn is over; `result` is the object of interface.md section 6."""
