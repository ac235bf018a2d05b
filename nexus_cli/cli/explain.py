"""`nexus ask --explain-context`: tells on stderr what each request holds, and why, before it goes.

Plain lines, also in a pipe; the first request of an epoch is told whole, a later one by what it adds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nexus_cli.core.entry import Drop
from nexus_cli.core.event import ContextPlan, Event
from nexus_cli.session.reports.result import drop_value
from nexus_cli.ui.print.progress_lines import Writable
from nexus_cli.ui.reports.plan import brief, plan_lines, told_lines
from nexus_cli.ui.terminal_sanitizer import sanitize

DROPS = 20
"""Drops, the newest of them, that are named."""


class Explain:
    """Writes the plans of requests to a stream."""

    def __init__(self, stream: Writable, drops: Callable[[], Sequence[Drop]]) -> None:
        self._stream = stream
        self._drops = drops
        self._epoch: Any = None

    def feed(self, event: Event) -> None:
        """Tell `event` if it is the plan of a request."""
        if isinstance(event, ContextPlan):
            for line in self._lines(event.plan):
                self._stream.write(" ".join(sanitize(f"context: {line}").split()) + "\n")

    def _lines(self, plan: Mapping[str, Any]) -> list[str]:
        if plan["epoch"] == self._epoch:
            return [brief(plan), *told_lines(plan)]
        self._epoch = plan["epoch"]
        return plan_lines(plan, [drop_value(drop) for drop in self._drops()[-DROPS:]])
