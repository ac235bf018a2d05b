"""State of a lane's next request before it is sent; sending clears the part that was used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nexus_cli.core.entry import Drop, Epoch


@dataclass(frozen=True, eq=False)
class NextEpoch:
    """A draft of the epoch that the next request will begin; not recorded yet."""

    epoch: Epoch
    drops: tuple[Drop, ...] = ()
    """Drops of its system text, without their texts."""
    notices: tuple[str, ...] = ()
    """Lines about skipped contributors and unusual files."""


@dataclass
class Upcoming:
    """State of a lane's next request: the pending epoch, waiting notices, and its event sections."""

    pending: str = ""
    """Cause of the new epoch that the next request must begin (`model`, `reload`), or ""."""
    draft: NextEpoch | None = None
    """The drafted epoch of the next request, if it begins one and the draft was made."""
    notices: list[str] = field(default_factory=list)
    """Lines for the model that wait for the next request."""
    is_narrow: bool = False
    """True if the window had little room left after the last step."""
    jobs: dict[str, str] = field(default_factory=dict)
    """The commands that run in the background, shortened, by id."""
    addresses: dict[str, str] = field(default_factory=dict)
    """Where the person reaches the servers among them, by id."""
    hooks: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """The `text` that hooks of an event added last, and its `source`, by event."""
    away: list[Mapping[str, str]] = field(default_factory=list)
    """Reports on unattended runs that the person was shown, see `Sources.away`."""
    event: Sequence[Mapping[str, Any]] = ()
    """Event sections of the next request, until it is sent (`sections` in `nexus docs json`)."""
    facts: Sequence[Mapping[str, Any]] = ()
    """The remembered facts in them: `id`, `slot` and `text` of each."""
