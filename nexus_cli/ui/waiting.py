"""What waits in a REPL: messages for after the running turn, and what the next message takes along."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nexus_cli.core.trigger import Trigger
from nexus_cli.ui.attached import mentions
from nexus_cli.ui.door import through
from nexus_cli.ui.face import Typed


@dataclass(frozen=True, slots=True)
class Attached:
    """A text that the next message takes along."""

    text: str
    what: str
    """How the person sees it until then."""


@dataclass(frozen=True, slots=True)
class Later:
    """A message for after the running turn."""

    typed: Typed
    trigger: Trigger | None = None
    """What it became, where that was worked out already."""


@dataclass
class Waiting:
    """In the order in which it came."""

    later: deque[Later] = field(default_factory=deque)
    attached: list[Attached] = field(default_factory=list)

    def lines(self, steering: Sequence[str]) -> list[str]:
        """One line for each thing that waits, the words for the running turn first."""
        now = [f"steers: {one_line(words)}" for words in steering]
        then = [f"then: {one_line(one.typed.shown)}" for one in self.later]
        return [*now, *then, *(f"with the next message: {one.what}" for one in self.attached)]

    def taken(self) -> list[str]:
        """The messages that waited for later; they do no longer."""
        texts = [one.typed.text for one in self.later]
        self.later.clear()
        return texts

    async def message(self, typed: Typed, folder: Path, tell: Callable[[str], None]) -> Trigger:
        """The words with the files that they mention and what was attached; `tell` gets what is odd about a file.

        What was pasted in one piece mentions none: an `@name` in a log is nobody's wish.
        """
        read = await asyncio.to_thread(mentions, typed.shown, folder)
        for notice in read.notices:
            tell(notice)
        along, self.attached = self.attached, []
        text = "\n\n".join([typed.text, *(one.text for one in along), *read.blocks])
        return Trigger(text, "person", tuple(read.parts), read.uncounted)


def one_line(text: str) -> str:
    """`text` through the door, on one line."""
    return " ".join(through(text).split())
