"""The place of the service behind the tool `plan`. What implements it is above this room."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Plans


class PlanSlot:
    """Implements `Plans` for one session; the service is made at the first call."""

    def __init__(self, make: Callable[[Any], Plans]) -> None:
        self._make = make
        self.session: Any = None
        """The `Session`, set when it is made."""

    def change(self, call_id: str, action: str, words: Mapping[str, str]) -> ToolResult:
        """See `Plans`."""
        return self._make(self.session).change(call_id, action, words)

    def recover(self, call_id: str) -> ToolResult | None:
        """See `Plans`."""
        return self._make(self.session).recover(call_id)
