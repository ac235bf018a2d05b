"""What is remembered: the facts of a project and of its person, what waits for them first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import Fact, MemorySlot
from nexus_cli.ledger import Ledger

HITS = 20


def listing(ledger: Ledger, project: str | None, slots: Collection[MemorySlot] = ()) -> dict[str, Any]:
    """Everything that is remembered in `project` (None: in all of them), the newest first."""
    return value(ledger.facts.listing(project, slots), project=project)


def search(ledger: Ledger, text: str, project: str | None, slots: Collection[MemorySlot] = ()) -> dict[str, Any]:
    """The kept facts that fit `text`, the best first, whole; `NexusError("usage", ...)` where it is empty."""
    if not text.strip():
        raise NexusError("usage", "nothing to search for", "the text is empty", "Name some words")
    return value(ledger.facts.search(text, project, slots, HITS), project=project, text=text, whole=True)


def value(facts: Sequence[Fact], **more: Any) -> dict[str, Any]:
    """Facts as JSON."""
    return {"version": 1, **more, "facts": [asdict(fact) | {"source": fact.source} for fact in facts]}
