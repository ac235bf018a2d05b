"""Queued input of a REPL: messages for after the running turn, and attachments of the next message."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from nexus_cli.commands import discover, find, parse
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import NexusError
from nexus_cli.text.cells import one_line
from nexus_cli.ui.input.attached_files import read_mentions
from nexus_cli.ui.input.paste import TypedMessage

TOLD = 5
"""Mentioned files that are told by name."""
BRIEF = 500
"""Characters of a message that a line about it is made of."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text that the next message takes along."""

    text: str
    what: str
    """How the person sees it until then."""


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """A message made of typed words."""

    typed: TypedMessage
    trigger: Trigger
    along: tuple[Attachment, ...] = ()
    """Attachments that it took along."""


@dataclass
class InputQueue:
    """In the order in which it came."""

    later: deque[TypedMessage | QueuedMessage] = field(default_factory=deque)
    """For after the running turn."""
    held: deque[TypedMessage | QueuedMessage] = field(default_factory=deque)
    """Was for after a turn that was stopped or failed: waits for the next turn that ends well."""
    attached: list[Attachment] = field(default_factory=list)
    given: dict[str, QueuedMessage] = field(default_factory=dict)
    """Messages given to the running turn and not taken yet, by their words."""

    def lines(self, steering: Sequence[str]) -> list[str]:
        """Return one line for each thing that waits, the words for the running turn first."""
        now = [f"sending after this step: {brief(self.typed_form(words))}" for words in steering]
        then = [f"queued: {brief(_typed(one).shown)}" for one in (*self.held, *self.later)]
        return [*now, *then, *(f"{one.what} will be sent with your next message" for one in self.attached)]

    def typed_form(self, words: str) -> str:
        """Return what the person typed of the words that the turn was given."""
        return self.given[words].typed.shown if words in self.given else words

    def postpone(self, steering: Sequence[str]) -> None:
        """Words that the turn was given and did not take wait for later, before what waits already."""
        words = [self.given.pop(one) if one in self.given else TypedMessage(one, one) for one in steering]
        self.later.extendleft(reversed(words))

    def hold(self) -> None:
        """Let what is for later wait until `release`."""
        self.held.extend(self.later)
        self.later.clear()

    def release(self) -> None:
        """Let what was held come next, before what is for later already."""
        self.later.extendleft(reversed(self.held))
        self.held.clear()

    def release_commands(self) -> None:
        """Let commands in front of what is held come next that open another session or model, as `/clear` does."""
        commands = []
        while self.held and _opens_another(self.held[0]):
            commands.append(self.held.popleft())
        self.later.extendleft(reversed(commands))

    def take_all(self, steering: Sequence[str]) -> list[str]:
        """Return the texts of `steering`, then of all that waits for later, as they were typed; they wait no longer."""
        texts = [self.take_back(words) for words in steering]
        self.release()
        while self.later:
            texts.append(self._back(self.later.popleft()))
        return texts

    def take_newest(self) -> str:
        """Return the text of what came last for later; it waits no longer."""
        return self._back((self.later or self.held).pop())

    def take_back(self, words: str) -> str:
        """Return what was typed of words that the turn was given and has not taken; what they took along waits
        again."""
        message = self.given.pop(words, None)
        return self._back(message) if message is not None else words

    def _back(self, one: TypedMessage | QueuedMessage) -> str:
        if isinstance(one, QueuedMessage):
            self.attached[:0] = one.along
        return _typed(one).text

    async def build_message(self, typed: TypedMessage, folder: Path, tell: Callable[[str, str], None]) -> QueuedMessage:
        """Return the words with the files that they mention and what was attached; `tell` gets what became of the
        mentions, and in which role of the theme it is shown.

        What was pasted in one piece mentions none: an `@name` in a log is nobody's wish.
        """
        read = await asyncio.to_thread(read_mentions, typed.shown, folder)
        for notice in read.notices:
            tell(notice, "warn")
        if read.missing:
            tell(f"No file {_named(read.missing, ', ')}; sent as text", "dim")
        if read.along:
            tell(f"Attached {_named(read.along, ', ')}", "dim")
        along = tuple(self.attached)
        self.attached.clear()
        text = "\n\n".join([typed.text, *(one.text for one in along), *read.blocks])
        trigger = Trigger(text, "person", tuple(read.parts), read.files, read.uncounted, typed.pasted)
        return QueuedMessage(typed, trigger, along)


def take_argument(command: TypedMessage, text: str) -> TypedMessage:
    """Return the message that `text` is, the end of a typed `command`: what was pasted there stays pasted."""
    start = len(command.text.rstrip()) - len(text)
    if start < 0 or command.text[start:].rstrip() != text:
        return TypedMessage(text, text)
    shown, pasted = parse(command.shown), []
    for one in command.pasted:
        begin = command.text.find(one)
        pasted.append(one[start - begin :] if begin < start < begin + len(one) else one)
    return TypedMessage(command.text[start:], shown[1] if shown else command.shown, tuple(pasted))


def _opens_another(queued: TypedMessage | QueuedMessage) -> bool:
    """True if this is a command that opens another session or model."""
    command = parse(queued.text) if isinstance(queued, TypedMessage) else None
    with suppress(NexusError):
        return command is not None and find(command[0], discover()).group in ("session", "model")
    return False


def _named(names: Sequence[str], between: str) -> str:
    more = [f"and {len(names) - TOLD:,} more"] if len(names) > TOLD else []
    return between.join([*map(brief, names[:TOLD]), *more])


def _typed(one: TypedMessage | QueuedMessage) -> TypedMessage:
    return one.typed if isinstance(one, QueuedMessage) else one


def brief(text: str) -> str:
    """Return the beginning of `text` sanitized, on one line."""
    return one_line(text[:BRIEF])
