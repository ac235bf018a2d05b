"""What kind of content the tokens of a request are: prose, code, data or wide script, and who wrote them.

Tokenizers differ by kind: what is one token in our table may be two in the provider's for JSON, and one for prose. A
profile splits our count of a slot over these kinds, system text and schemas being kinds of their own; how far each is
off is learned in `nexus_cli.context.factors`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum

from nexus_cli.context.tokens.counter import OVERHEAD_PER_MESSAGE, compact
from nexus_cli.core.entry import Slot
from nexus_cli.core.message import Role


class Kind(IntEnum):
    """Places in a profile. The first four share out the tokens of a text; `TOOL`, `ASSISTANT` and `LENGTH` count some
    of them again."""

    PROSE = 0
    CODE = 1
    DATA = 2
    WIDE = 3
    """Scripts without spaces between words."""
    TOOL = 4
    """Tokens of tool results."""
    ASSISTANT = 5
    """Tokens of replies and of the arguments of calls."""
    MESSAGE = 6
    """Overhead of messages."""
    LENGTH = 7
    """A quarter of the bytes: tokenizers with longer or shorter pieces go by length more than by our count."""
    SYSTEM = 8
    """Tokens of the system text: it stands whole in every request of an epoch, so that one factor says it all."""
    TOOLS = 9
    """Tokens of the schemas, which every provider words in its own way."""


Profile = Sequence[float]
NOTHING: Profile = (0.0,) * len(Kind)

LOOK = 2000
"""Characters at the beginning of a text that tell its kind."""
_SIGNS = re.compile(r"[{}()\[\];=_<>/]")
_WIDE = re.compile(r"[\u2e80-\U0010ffff]")
_WIDE_LENGTH, _LENGTH = 1.3, 4.0
"""Characters to the token, roughly: only to share a slot's tokens out over its texts."""


def kind_of(text: str) -> Kind:
    """The kind of a text, by a look at its beginning."""
    head = text[:LOOK].strip()
    if not head:
        return Kind.PROSE
    if len(_WIDE.findall(head)) * 3 > len(head):
        return Kind.WIDE
    if head[0] in "{[":
        return Kind.DATA
    return Kind.CODE if len(_SIGNS.findall(head)) * 12 > len(head) else Kind.PROSE


def profile(slot: Slot) -> Profile:
    """The tokens of a slot by kind; those of its texts add up to its count."""
    message = slot.message
    texts = [text for text in (slot.preamble, message.content) if text]
    texts += [f"{call.name}{compact(call.arguments)}" for call in message.tool_calls]
    kinds = [kind_of(text) for text in texts]
    weights = [
        max(1.0, len(text) / (_WIDE_LENGTH if kind is Kind.WIDE else _LENGTH))
        for text, kind in zip(texts, kinds, strict=True)
    ]
    found = [0.0] * len(Kind)
    tokens = max(0, slot.tokens - OVERHEAD_PER_MESSAGE)
    for kind, weight in zip(kinds, weights, strict=True):
        found[kind] += tokens * weight / sum(weights)
    found[Kind.TOOL] = tokens if message.role is Role.TOOL else 0
    found[Kind.ASSISTANT] = tokens if message.role is Role.ASSISTANT else 0
    found[Kind.MESSAGE] = OVERHEAD_PER_MESSAGE
    found[Kind.LENGTH] = sum(len(text.encode("utf-8", "replace")) for text in texts) / 4
    return tuple(found)


def fixed(system: int, tools: int) -> Profile:
    """The profile of a system text and schemas of so many tokens."""
    found = list(NOTHING)
    found[Kind.SYSTEM], found[Kind.TOOLS] = system, tools
    return tuple(found)


PLAIN: Profile = (100.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 110.0, 0.0, 0.0)
"""A hundred tokens of ordinary prose: what is assumed of messages before there are any."""


class Profiles:
    """Profiles that were made once: a slot is asked for several times a step, and never changes."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Slot, Profile]] = {}

    def total(self, slots: Iterable[Slot]) -> Profile:
        """The profile of several slots together."""
        found = list(NOTHING)
        made: dict[int, tuple[Slot, Profile]] = {}
        for slot in slots:
            known = self._made.get(slot.entry)
            if known is None or known[0] is not slot:
                known = (slot, profile(slot))
            made[slot.entry] = known
            for place, tokens_ in enumerate(known[1]):
                found[place] += tokens_
        if 2 * len(made) >= len(self._made):  # what is gone from the window is forgotten
            self._made = made
        else:  # a shorter look (after a report) does not throw the longer one's away
            self._made.update(made)
        return tuple(found)


def total(slots: Iterable[Slot]) -> Profile:
    """The profile of several slots together, made for once."""
    return Profiles().total(slots)


def tokens(profile_: Profile) -> float:
    """Our count of what a profile stands for."""
    return sum(profile_[: Kind.TOOL]) + sum(profile_[place] for place in (Kind.MESSAGE, Kind.SYSTEM, Kind.TOOLS))
