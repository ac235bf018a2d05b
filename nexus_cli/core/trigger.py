"""Why a run starts: seed C's trigger."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.attachment import Part


@dataclass(frozen=True, slots=True)
class Trigger:
    """What starts a turn. Without text the turn goes on from where the window ends (resume)."""

    text: str = ""
    source: str = "person"
    """`person`, `stdin`, or later `plan`, `service`."""
    parts: tuple[Part, ...] = ()
    uncounted: int = 0
    """Bytes of input beyond the hard limit: counted, not kept."""
