"""What waits in a REPL: messages for after the running turn, and what the next message takes along."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nexus_cli.core.attachment import Trigger
from nexus_cli.ui.attached import mentions
from nexus_cli.ui.door import through
from nexus_cli.ui.face import Typed

TOLD = 5
"""Mentioned files that are told by name."""
BRIEF = 500
"""Characters of a message that a line about it is made of."""


@dataclass(frozen=True, slots=True)
class Attached:
    """A text that the next message takes along."""

    text: str
    what: str
    """How the person sees it until then."""


@dataclass(frozen=True, slots=True)
class Message:
    """What typed words became."""

    typed: Typed
    trigger: Trigger
    along: tuple[Attached, ...] = ()
    """What it took along."""


@dataclass
class Waiting:
    """In the order in which it came."""

    later: deque[Typed | Message] = field(default_factory=deque)
    """For after the running turn."""
    attached: list[Attached] = field(default_factory=list)
    given: dict[str, Message] = field(default_factory=dict)
    """What the running turn was given and has not taken yet, by the words that it was given."""

    def lines(self, steering: Sequence[str]) -> list[str]:
        """One line for each thing that waits, the words for the running turn first."""
        now = [f"steers: {brief(self.shown(words))}" for words in steering]
        then = [f"then: {brief(_typed(one).shown)}" for one in self.later]
        return [*now, *then, *(f"with the next message: {one.what}" for one in self.attached)]

    def shown(self, words: str) -> str:
        """What the person typed of the words that the turn was given."""
        return self.given[words].typed.shown if words in self.given else words

    def hold_back(self, steering: Sequence[str]) -> None:
        """Words that the turn was given and did not take wait for later, before what waits already."""
        words = [self.given.pop(one) if one in self.given else Typed(one, one) for one in steering]
        self.later.extendleft(reversed(words))

    def taken(self, steering: Sequence[str]) -> list[str]:
        """The texts of `steering`, then of all that waits for later, as they were typed; they wait no longer."""
        texts = [self.back(words) for words in steering]
        while self.later:
            texts.append(self._back(self.later.popleft()))
        return texts

    def newest(self) -> str:
        """The text of what came last for later; it waits no longer."""
        return self._back(self.later.pop())

    def back(self, words: str) -> str:
        """What was typed of words that the turn was given and has not taken; what they took along waits again."""
        message = self.given.pop(words, None)
        return self._back(message) if message is not None else words

    def _back(self, one: Typed | Message) -> str:
        if isinstance(one, Message):
            self.attached[:0] = one.along
        return _typed(one).text

    async def message(self, typed: Typed, folder: Path, tell: Callable[[str, str], None]) -> Message:
        """The words with the files that they mention and what was attached; `tell` gets what became of the mentions,
        and in which role of the theme it is shown.

        What was pasted in one piece mentions none: an `@name` in a log is nobody's wish.
        """
        read = await asyncio.to_thread(mentions, typed.shown, folder)
        for notice in read.notices:
            tell(notice, "warn")
        if read.missing:
            goes = "it goes as plain words" if len(read.missing) == 1 else "they go as plain words"
            tell(f"no file {_named(read.missing, ', ')}: {goes}", "dim")
        if read.along:
            tell(f"with it: {_named(read.along, '; ')}", "dim")
        along = tuple(self.attached)
        self.attached.clear()
        text = "\n\n".join([typed.text, *(one.text for one in along), *read.blocks])
        return Message(typed, Trigger(text, "person", tuple(read.parts), read.uncounted), along)


def _named(names: Sequence[str], between: str) -> str:
    more = [f"and {len(names) - TOLD:,} more"] if len(names) > TOLD else []
    return between.join([*map(brief, names[:TOLD]), *more])


def _typed(one: Typed | Message) -> Typed:
    return one.typed if isinstance(one, Message) else one


def brief(text: str) -> str:
    """The beginning of `text` through the door, on one line."""
    return one_line(text[:BRIEF])


def one_line(text: str) -> str:
    """`text` through the door, on one line."""
    return " ".join(through(text).split())
