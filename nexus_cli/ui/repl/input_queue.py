"""Queued input of a REPL: messages for after the running turn, and attachments of the next message."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from nexus_cli.commands import discover, find, parse
from nexus_cli.commands.command import Command
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.elide import name_first
from nexus_cli.core.errors import NexusError
from nexus_cli.text.cells import one_line
from nexus_cli.ui.input.attached_files import read_mentions
from nexus_cli.ui.input.paste import Attachment, TypedMessage
from nexus_cli.ui.repl.agent_connection import AgentConnection

MAX_NAMED = 5
"""Most mentioned files that are named."""
BRIEF = 500
"""Characters of a message that are used for a line about it."""


@dataclass
class InputQueue:
    """The queue, in the order of typing."""

    later: deque[TypedMessage] = field(default_factory=deque)
    """Messages for after the running turn."""
    postponed: deque[TypedMessage] = field(default_factory=deque)
    """Messages for after a turn that was stopped or failed; they wait for the next turn that succeeds."""
    is_behind: bool = False
    """True if the postponed messages were typed behind a command that opens another session: they are for that one."""
    unused: deque[TypedMessage] = field(default_factory=deque)
    """Messages for a turn that was stopped or failed before it used them; the next turn gets them."""
    taken: str = ""
    """The text of a message that was taken back from behind postponed ones."""
    attached: list[Attachment] = field(default_factory=list)
    sending: TypedMessage | None = None
    """The message of a turn that begins, until the session has it."""
    steering_by_text: dict[str, TypedMessage] = field(default_factory=dict)
    """Messages given to the running turn and not used yet, by their text."""

    def lines(self, steering: Sequence[str]) -> list[str]:
        """Return one line for each queued item, those for the running turn first."""
        now = [f"sending after this step: {brief(self.typed_form(words))}" for words in steering]
        then = [queued_line(message) for message in (*self.unused, *self.postponed, *self.later)]
        return [*now, *then, *(f"attached: {attachment.what}" for attachment in self.attached)]

    def typed_form(self, words: str) -> str:
        """Return the typed form of a text that the turn was given."""
        return self.steering_by_text[words].display if words in self.steering_by_text else words

    def postpone(self, steering: Sequence[str]) -> None:
        """Queue text that the turn was given and did not use, before messages that wait already."""
        self.later.extendleft(reversed([self._take_given(words) for words in steering]))

    def hold(self, steering: Sequence[str]) -> None:
        """Hold the messages for later until `release`, and text that the turn was given and did not use until the next
        turn."""
        self.unused.extend(self._take_given(words) for words in steering)
        self.postponed.extend(self.later)
        self.later.clear()

    def release(self) -> None:
        """Move postponed messages before those for later."""
        self.later.extendleft(reversed(self.postponed))
        self.postponed.clear()
        self.taken = ""

    def release_commands(self) -> None:
        """Release the first postponed commands if they open another session or model, as `/clear` does."""
        commands = []
        while self.postponed and _opens_another(self.postponed[0]):
            commands.append(self.postponed.popleft())
        self.is_behind = any(opens_session(command) for command in commands)
        self.later.extendleft(reversed(commands))

    def list_own(self) -> list[TypedMessage]:
        """Return the messages that wait for the next turn of the open session, not of one that a command opens."""
        return [*self.unused, *(() if self.is_behind else self.postponed)]

    def drop_own(self) -> None:
        """Remove what `list_own` returns."""
        self.unused.clear()
        self.postponed = self.postponed if self.is_behind else deque()
        self.is_behind = False

    def drop_all(self) -> None:
        """Remove all messages but the one that is being sent."""
        for messages in (self.steering_by_text, self.unused, self.postponed, self.later):
            messages.clear()

    def unsent(self, steering: Sequence[str]) -> tuple[list[TypedMessage], list[Attachment]]:
        """Return the messages that the session does not have yet, in the order of sending, and the attachments of the
        next one."""
        steering_messages = (self.steering_by_text[words] for words in steering if words in self.steering_by_text)
        queued = (
            *([self.sending] if self.sending else ()),
            *steering_messages,
            *self.unused,
            *self.postponed,
            *self.later,
        )
        return [*queued], [*self.attached]

    def take_newest(self) -> str:
        """Remove and return the text of the newest message for later, "" if there is none."""
        queue = self.later or self.postponed or self.unused
        text = self._back(queue.pop()) if queue else ""
        self.taken = text if self.postponed else ""
        return text

    def take_back(self, words: str) -> str:
        """Return the typed form of text that the turn was given and has not used; its attachments are queued again."""
        return self._back(self._take_given(words))

    def _take_given(self, words: str) -> TypedMessage:
        return self.steering_by_text.pop(words, None) or TypedMessage(words, words)

    def _back(self, message: TypedMessage) -> str:
        self.attached[:0] = message.attached
        return message.text

    async def build_message(
        self, typed: TypedMessage, agent: AgentConnection, tell: Callable[[str, str], None]
    ) -> TypedMessage:
        """Return the message to `agent` with its trigger, built once from the text, the files that it mentions and the
        attachments. `tell` gets a line about the mentions with its role in the theme. Raises
        `NexusError("refused", ...)` if the session of the agent changes meanwhile.

        Pasted text has no mentions: nobody means an `@name` in a log.
        """
        if typed.trigger is not None:
            return typed
        before = agent.status.session
        read = await asyncio.to_thread(read_mentions, " ".join([typed.display, *typed.files]), agent.folder)
        if (session := agent.status.session) != before:
            raise NexusError("refused", "not sent", f"a client has opened session {session}")
        for notice in read.notices:
            tell(notice, "warn")
        if read.missing:
            where = "" if agent.ends_with_repl else " on this machine"
            tell(f"No file {_join_names(read.missing, ', ')}{where}; sent as text", "dim")
        if read.along:
            tell(f"Attached {_join_names(read.along, '; ')}", "dim")
        typed = replace(typed, attached=(*typed.attached, *self.attached))
        self.attached.clear()
        text = "\n\n".join([typed.text, *(attachment.text for attachment in typed.attached), *read.blocks])
        trigger = Trigger(text, "person", tuple(read.parts), tuple(read.files), read.uncounted, typed.pasted)
        if typed.text.startswith("/") or "$" in typed.display or "@" in typed.display:
            trigger = replace(trigger, expands=True)
        return replace(typed, trigger=trigger)


def take_argument(command: TypedMessage, text: str) -> TypedMessage:
    """Return the message in `text`, the end of a typed `command`; pasted parts stay marked as pasted."""
    start = len(command.text.rstrip()) - len(text)
    if start < 0 or command.text[start:].rstrip() != text:
        return TypedMessage(text, text)
    parsed, pasted = parse(command.display), []
    for paste in command.pasted:
        begin = command.text.find(paste)
        pasted.append(paste[start - begin :] if begin < start < begin + len(paste) else paste)
    return TypedMessage(command.text[start:], parsed[1] if parsed else command.display, tuple(pasted), command.files)


def queued_line(message: TypedMessage) -> str:
    """Return the line that shows a queued message."""
    return f"queued: {brief(message.display)}"


def _opens_another(queued: TypedMessage) -> bool:
    """True for a command that opens another session or model."""
    called = _find_called(queued)
    return called is not None and (called.group == "sessions" or called.name in ("model", "effort"))


def opens_session(queued: TypedMessage) -> bool:
    """True for a command behind which messages are for another session."""
    called = _find_called(queued)
    return called is not None and called.name in ("clear", "resume")


def _find_called(queued: TypedMessage) -> Command | None:
    """Return the command that a message calls, if it calls one."""
    command = parse(queued.text) if queued.trigger is None else None
    with suppress(NexusError):
        return find(command[0], discover()) if command else None
    return None


def _join_names(names: Sequence[str], between: str) -> str:
    return name_first([*map(brief, names)], MAX_NAMED, between)


def brief(text: str) -> str:
    """Return the beginning of `text` sanitized, on one line."""
    return one_line(text[:BRIEF])
