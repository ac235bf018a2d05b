"""Find the person's words that support a fact.

Text from a model or a tool must not become a standing instruction by itself. So a fact counts at once only if its quote
occurs word for word in what the person typed in this session.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nexus_cli.core.entry import members_of
from nexus_cli.core.typed_text import typed_text
from nexus_cli.ledger import LaneLog
from nexus_cli.ledger.relevance import UNSPACED
from nexus_cli.session.user_input import PASTED, TRIGGER

PERSON = "person"
RECENT = 200
"""Newest entries whose tool results and messages of a space are searched for a quote."""

_LETTER = rf"[^\W{UNSPACED}]"
"""A letter or digit of a script that puts spaces between words."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The entry that a quote comes from."""

    actor: str
    """`person`, another source of a user message, members of a space, `tool:NAME`, or `agent` if the quote occurs
    nowhere."""
    entry: int

    @property
    def is_person(self) -> bool:
        """True if the person typed the quote."""
        return self.actor == PERSON


def find_origin(log: LaneLog, quote: str) -> Origin:
    """Return the newest entry in which the person typed `quote`, else one that holds it, else the last of the lane."""
    other = None
    sources = {memo.entry: str(memo.value.get("source")) for memo in log.memos(TRIGGER)}
    pasted = {memo.entry: memo.value.get("ranges", ()) for memo in log.memos(PASTED)}
    for entry, message in log.user_messages(members=False):
        if has_quote(typed_text(_without(message, pasted.get(entry, ()))), quote):
            source = sources.get(entry, PERSON)
            if source == PERSON:
                return Origin(PERSON, entry)
            other = other or Origin(source, entry)
    last = log.last_id()
    if other is None:
        for one in reversed(log.read(max(1, last - RECENT + 1), last)):
            if (one.actor.startswith("tool:") or members_of(one.actor)) and has_quote(one.message.content, quote):
                return Origin(one.actor, one.id)
    return other or Origin("agent", last)


def _without(message: str, ranges: Sequence[Sequence[int]]) -> str:
    """Return a message without what was pasted into it; a sentence mark keeps the words around it apart."""
    for start, end in sorted(map(tuple, ranges), reverse=True):
        message = f"{message[:start]} \u2026 {message[end:]}"
    return message


def has_quote(text: str, quote: str) -> bool:
    """True if `quote` occurs word for word in `text`, white space and case apart.

    Never for a quote without a letter or digit.
    """
    wanted, there = (" ".join(one.split()).casefold() for one in (quote, text))
    if not any(map(str.isalnum, wanted)):
        return False
    before = f"(?<!{_LETTER})" if wanted[0].isalnum() else ""
    after = f"(?!{_LETTER})" if wanted[-1].isalnum() else ""
    return re.search(f"{before}{re.escape(wanted)}{after}", there) is not None
