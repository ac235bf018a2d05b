"""Find the message of the person that supports a fact.

Text from a model or a tool must not become a standing instruction by itself. A fact is therefore kept at once only if
the person typed its quote in this session.
"""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.conversation.user_messages import with_sources
from nexus_cli.core.entry import PERSON, members_of
from nexus_cli.core.typed_text import enclosing_words, typed_text
from nexus_cli.ledger import LaneLog

RECENT = 200
"""Number of newest entries whose tool results and space messages are searched for a quote."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The entry that a quote comes from."""

    actor: str
    """`person`, another source of a user message, members of a space, `tool:NAME`, or `agent` if the quote occurs
    nowhere."""
    entry: int
    words: str = ""
    """The person's whole sentences with the quote: a part of one may mean the opposite."""

    @property
    def is_person(self) -> bool:
        """True if the person typed the quote."""
        return self.actor == PERSON


def find_origin(log: LaneLog, quote: str) -> Origin:
    """Return the newest entry in which the person typed `quote`, else another with it, else the last of the
    conversation."""
    fallback = None
    for entry, typed, source in with_sources(log.memos, log.user_messages(members=False), typed_text):
        if words := enclosing_words(typed, quote):
            if source == PERSON:
                return Origin(PERSON, entry, words)
            fallback = fallback or Origin(source, entry)
    last = log.last_id()
    if fallback is None:
        for recent_entry in reversed(log.read(max(1, last - RECENT + 1), last)):
            if (recent_entry.actor.startswith("tool:") or members_of(recent_entry.actor)) and enclosing_words(
                recent_entry.message.content, quote
            ):
                return Origin(recent_entry.actor, recent_entry.id)
    return fallback or Origin("agent", last)
