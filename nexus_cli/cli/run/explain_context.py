"""`nexus ask --explain-context`: print the contents of each request on stderr before it is sent.

Prints plain lines. The first request of an epoch is described in full, a later one by its additions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nexus_cli.core.entry import Drop
from nexus_cli.core.event import ContextPlan, Event
from nexus_cli.core.json_value import JsonObject
from nexus_cli.reports.text.lines import limit, name_basis, name_cause, number, plural, share
from nexus_cli.text.cells import one_line
from nexus_cli.ui.print.stream import Writable

LAYERS = ("system", "tools", "history", "event")
MAX_DROPS = 20
"""Most drops listed, the newest ones."""


class ContextExplainer:
    """Writes the plan of each request to a stream."""

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
            event_sections = (section for section in plan["sections"] if section["layer"] == "event")
            lines = [brief(plan), *map(_section, event_sections)]
        else:
            self._epoch = plan["epoch"]
            drops = [
                f"left out: {drop.id} {drop.what}, {number(drop.tokens)} tokens ({name_cause(drop.cause)})"
                for drop in self._drops()[-MAX_DROPS:]
            ]
            limits = "; ".join(f"{name} {limit(value)}" for name, value in plan["limits"].items() if name != "allow")
            lines = [brief(plan), *map(_section, plan["sections"])]
            lines += [*(drops or ["left out: nothing"]), f"limits: {limits or 'none'}"]
        for line in lines:
            self._stream.write(one_line(f"context: {line}") + "\n")


def brief(plan: JsonObject) -> str:
    """Describe a request in one line."""
    budget = plan["budget"]
    used, available = budget["used"]["total"], max(1, budget["available"])
    layers = ", ".join(f"{layer} {number(budget['used'][layer])}" for layer in LAYERS)
    entries = plural(plan.get("entries", 0), "entry", "entries")
    return (
        f"request {plan.get('step', '')}: {number(used)} of {number(available)} tokens "
        f"({share(used, available)}: {layers}), {entries}, {name_basis(plan['basis'])}"
    )


def _section(section: JsonObject) -> str:
    label = "text read" if section.get("unread_bytes") else "full text"
    drop = f" ({label}: {section['drop']})" if section.get("drop") else ""
    return f"{section['layer']} {section['id']}: {section.get('reason') or section['form']}{drop}"
