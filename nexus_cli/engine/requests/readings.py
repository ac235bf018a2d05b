"""Texts that were read for the next request of a conversation, or wait for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from nexus_cli.conversation.rewrite import Rewrite
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.section_rows import SectionRows


@dataclass(frozen=True, slots=True)
class Preamble:
    """Text to add to the next request."""

    text: str = ""
    settle: Callable[[], None] = lambda: None
    """Call this once the text is in the window, so that it is not sent again."""
    sections: SectionRows = ()
    """The event sections in it."""
    facts: Sequence[JsonObject] = ()
    """The remembered facts in them: `id`, `slot` and `text` of each."""
    arrived: Sequence[str] = ()
    """The sections of the system text that have finished loading since the epoch began."""


@dataclass
class Readings:
    """Texts that contributors and others have read for the next request."""

    epoch_cause: str = ""
    """Cause of the new epoch that the next request must begin (`model`, `reload`), or ""."""
    drafted: Rewrite | None = None
    """The newest draft of the next request's epoch, for its size; `Engine.next_epoch` is the draft that still holds."""
    away: list[Mapping[str, str]] = field(default_factory=list)
    """Reports on unattended runs that the person was shown, see `Sources.away`."""
    preamble: Preamble = Preamble()
    """The text that was added to the next request, until it is sent."""
