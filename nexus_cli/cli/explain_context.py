"""`nexus ask --explain-context`: print on stderr what each request holds, and why, before it is sent.

Plain lines, also in a pipe. The first request of an epoch is printed whole, a later one by what it adds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nexus_cli.core.entry import Drop
from nexus_cli.core.event import ContextPlan, Event
from nexus_cli.lane.drop_list import drop_value
from nexus_cli.reports.request_plan import brief, plan_lines, told_lines
from nexus_cli.text.cells import one_line
from nexus_cli.ui.print.progress_lines import Writable

MAX_DROPS = 20
"""Newest drops that are listed."""


class ContextExplainer:
    """A writer of request plans to a stream."""

    def __init__(self, stream: Writable, drops: Callable[[], Sequence[Drop]]) -> None:
        self._stream = stream
        self._drops = drops
        self._epoch: Any = None

    def feed(self, event: Event) -> None:
        """Print `event` if it is the plan of a request."""
        if not isinstance(event, ContextPlan):
            return
        plan = event.plan
        if plan["epoch"] == self._epoch:
            lines = [brief(plan), *told_lines(plan)]
        else:
            self._epoch = plan["epoch"]
            lines = plan_lines(plan, [drop_value(drop) for drop in self._drops()[-MAX_DROPS:]])
        for line in lines:
            self._stream.write(one_line(f"context: {line}") + "\n")
