"""What is known of the next request of a lane before it is sent: it empties as requests go out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nexus_cli.core.entry import Drop, Epoch
from nexus_cli.lane.next_request import NextRequest


@dataclass(frozen=True, eq=False)
class NextEpoch:
    """The epoch that the next request begins, put together before it is sent, and not recorded."""

    epoch: Epoch
    drops: tuple[Drop, ...] = ()
    """Drops of its system text, without the texts."""
    notices: tuple[str, ...] = ()
    """Lines on contributors that were skipped, and on odd files."""


@dataclass
class Upcoming:
    """The memo of a lane's next request: why it begins an epoch, what waits for it, and the request as it was made
    last."""

    pending: str = ""
    """Why the next request has to begin a new epoch (`model`, `reload`), or ""."""
    draft: NextEpoch | None = None
    """The epoch that the next request begins, where it begins one and that was looked up."""
    window_request: tuple[tuple[object, ...], NextRequest] | None = None
    """The request that the window makes, with what it was made of; see `current_request.window_request`."""
    next_request: tuple[tuple[object, ...], NextRequest] | None = None
    """The same with what waits, and under the epoch that is drafted."""
    notices: list[str] = field(default_factory=list)
    """Lines for the model that wait for the next request."""
    event: Sequence[Mapping[str, Any]] = ()
    """The event sections of the next request, until it is sent: the `sections` of `nexus docs json`."""
    facts: Sequence[Mapping[str, Any]] = ()
    """The remembered facts among them: `id`, `slot` and `text` of each."""
