"""SPACE HISTORY: the newest messages of a space as the first entries of the conversation of a run.

The agent's own messages are assistant entries. Messages of others in a row are one user entry. The message that started
the run is the last one, recorded with its turn (`make_trigger`). When a run resumes that waited for a reply, the
messages of the meantime follow (`load_replies`). Each entry has a memo that names its messages, so that loading resumes
after a kill without repeating any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.budget import share_room
from nexus_cli.core.elide import Count
from nexus_cli.core.entry import Cause, Kind
from nexus_cli.core.errors import UsageError
from nexus_cli.core.event import Outcome
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import SPACE_HISTORY
from nexus_cli.core.message import Message, Role
from nexus_cli.core.run import RESUME_MARK, SPACE_HEADER, TRIGGER_MARK, Entity, Run, Space, SpaceMessage
from nexus_cli.core.surrogates import replace_surrogates
from nexus_cli.engine.requests.clip_output import clip_to_cap
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.ledger import Ledger
from nexus_cli.session.session import Session
from nexus_cli.text.untrusted_text import neutralize_message

MOST = 50
"""Most messages that are loaded, including the one that started the run."""
SHARE = 0.25
"""Share of the room beside system and tools that the messages before the trigger may take."""
REPLIES_SHARE = 0.06
"""The same share for the messages before an awaited reply, and for those after it."""
LEAST = 64
"""Fewest tokens that a long message is cut to. Older messages without that much room are only counted."""
COUNTED = 10_000
"""Most older messages that are counted; a space may have a billion."""
LINE_OVERHEAD = 50
"""Approximate tokens of a message's line besides its text."""
LONGEST_COUNTED = 100_000
"""Characters of a message that are counted when room is shared out."""
END = 1 << 62
"""A key after those of all messages."""
FOLD = "    > "
"""Prefix of every line of a message but its first, so that none looks like a line of the timeline."""


async def begin_space_run(session: Session, run: Run) -> Trigger:
    """Record SPACE HISTORY of a run that a message started, and return the trigger of its first turn.

    Resumes after a kill. If the trigger is recorded already, the returned one has no text.
    """
    ledger = session.ledger
    assert run.space is not None and run.message is not None and run.entity is not None
    space, agent = ledger.spaces.get(run.space), ledger.spaces.get_entity(run.entity)
    message = ledger.spaces.message(run.message, space)
    if message is None:
        raise UsageError(f"msg-{run.message}", f"there is no such message in {space.name}")
    triggers: list[Trigger] = []

    async def load(session: Session) -> None:
        await load_history(session.engine, ledger, space, agent, message)
        triggers.append(make_trigger(session.engine.conversation, ledger, space, agent, message, run.trigger))

    async for _ in session.act(load):
        pass
    return triggers[0]


async def end_space_run(session: Session, run: Run, outcome: Outcome) -> None:
    """Record that the agent of a run has seen the messages of its history."""
    if run.entity is None:
        return
    for value in (memo.value for memo in session.conversation.memos(SPACE_HISTORY)):
        session.ledger.spaces.mark_seen(value["space"], run.entity, max(value["messages"], default=0))


async def load_history(engine: Engine, ledger: Ledger, space: Space, agent: Entity, message: SpaceMessage) -> None:
    """Append the messages before `message` that the begun conversation lacks; may raise `NexusError("ledger", ...)`."""
    if message.key not in _recorded(engine.conversation, space):
        messages = ledger.spaces.read(space, limit=MOST - 1, before=message.key)
        await _record(engine, ledger, space, agent, messages)


async def load_replies(
    engine: Engine, ledger: Ledger, space: Space, agent: Entity, question: int, reply: int | None
) -> None:
    """Append the messages of `space` after the newest one in the conversation, else after the question (key
    `question`). Messages that the conversation already has are skipped. `reply`, which the run waited for, is
    marked."""
    after = max(_recorded(engine.conversation, space), default=0) or question
    ends = [after, *([reply] if reply and reply > after else []), END]
    for first, last in pairwise(ends):
        messages = ledger.spaces.read(space, limit=MOST // 2, before=last + 1, after=first)
        await _record(engine, ledger, space, agent, messages, first, question, reply)


async def _record(
    engine: Engine,
    ledger: Ledger,
    space: Space,
    agent: Entity,
    messages: Sequence[SpaceMessage],
    after: int = 0,
    question: int = 0,
    resolved: int | None = None,
) -> None:
    """Append the messages after `after` that the conversation lacks; its calls posted its own ones up to `question`."""
    recorded = _recorded(engine.conversation, space)
    unrecorded = [message for message in messages if message.sender.key != agent.key or message.key > question]
    if not unrecorded:
        return
    before = ledger.spaces.count(space, after=after, before=messages[0].key, most=COUNTED)
    history = await _History.of(engine, ledger, space, agent, unrecorded, before, SHARE if not after else REPLIES_SHARE)
    head = [*([] if recorded else [_header(space)]), *(history.older if after or not recorded else [])]
    for is_own, part in _parts([message for message in history.messages if message.key not in recorded], agent):
        if is_own and head:  # a conversation cannot begin with the assistant
            _append(engine.conversation, Role.USER, head, "nexus", space, ())
            head = []
        lines = await history.lines(part, resolved)
        actor = "agent" if is_own else "; ".join(dict.fromkeys(message.sender.actor for message in part))
        _append(engine.conversation, Role.ASSISTANT if is_own else Role.USER, [*head, *lines], actor, space, part)
        head = []


def make_trigger(
    conversation: Conversation,
    ledger: Ledger,
    space: Space,
    agent: Entity,
    message: SpaceMessage,
    facts: JsonObject,
) -> Trigger:
    """Return the trigger of the turn that `message` starts, the last entry of SPACE HISTORY. It has no text if the
    conversation has the message already."""
    recorded = _recorded(conversation, space)
    if message.key in recorded:
        return Trigger()
    line = TimelineLines.of(ledger, space, agent, message.key).format(message, neutral_text(message.text), TRIGGER_MARK)
    text, parts = _join([*([] if recorded else [_header(space)]), _group(message), line])
    return Trigger(
        text,
        "space",
        actor=message.sender.actor,
        facts=facts,
        display_text=f"{message.sender.name}: {message.text}",
        notes={SPACE_HISTORY: _note(space, [message], parts)},
    )


def neutral_text(text: str) -> str:
    """Return the text of a message with plain line ends, so that no part of it can pose as ours."""
    return neutralize_message("\n".join(replace_surrogates(text).splitlines()))


def _recorded(conversation: Conversation, space: Space) -> set[int]:
    """Return the keys of the messages in the conversation; 0 is the header."""
    memos = [memo.value for memo in conversation.memos(SPACE_HISTORY)]
    return {key for value in memos if value["space"] == space.key for key in value["messages"] or (0,)}


def _append(
    conversation: Conversation,
    role: Role,
    lines: Sequence[HistoryLine],
    actor: str,
    space: Space,
    messages: Sequence[SpaceMessage],
) -> None:
    text, parts = _join(lines)
    conversation.append(Kind.MESSAGE, Message(role, text), actor, {SPACE_HISTORY: _note(space, messages, parts)})


def _note(space: Space, messages: Sequence[SpaceMessage], parts: Sequence[Sequence[int]]) -> JsonObject:
    return {"space": space.key, "name": space.name, "messages": [message.key for message in messages], "parts": parts}


def _join(lines: Sequence[HistoryLine]) -> tuple[str, list[list[int]]]:
    """Return the text of an entry, and the offsets of its messages as the memo `SPACE_HISTORY` has them."""
    text, parts = "", list[list[int]]()
    for line in lines:
        text += "\n" if text else ""
        if not line.is_frame:
            state = len(text) + len(line.text)
            parts.append([len(text), state, state + len(line.ending)])
        text += f"{line}"
    return text, parts


def _parts(messages: Sequence[SpaceMessage], agent: Entity) -> list[tuple[bool, list[SpaceMessage]]]:
    """Group messages into entries: each own message alone, and messages of others that follow each other."""
    rows = [(is_own, list(row)) for is_own, row in groupby(messages, lambda message: message.sender.key == agent.key)]
    return [(is_own, part) for is_own, row in rows for part in ([[message] for message in row] if is_own else [row])]


def _header(space: Space) -> HistoryLine:
    return HistoryLine(SPACE_HEADER.format(neutralize_message(space.name)), is_frame=True)


def _group(message: SpaceMessage) -> HistoryLine:
    """Return the header line for consecutive messages of one member."""
    return HistoryLine(f"[{neutralize_message(message.sender.name)} ({message.sender.kind})]", is_frame=True)


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """The lines of one message, or another line of SPACE HISTORY."""

    text: str
    ending: str = ""
    """State and mark of a message: `  [NEW] <- RESUME`."""
    is_frame: bool = False
    """True for the header and for names above messages, which a recap leaves out."""

    def __str__(self) -> str:
        return self.text + self.ending


@dataclass(frozen=True, slots=True)
class TimelineLines:
    """Formats messages as lines of the timeline."""

    agent: Entity
    last_seen: int
    """Key of the last message that an earlier run of the agent dealt with, or another one that is open has."""
    spaces: frozenset[str]
    """Names of the spaces that the agent is in."""

    @classmethod
    def of(cls, ledger: Ledger, space: Space, agent: Entity, before: int = END) -> TimelineLines:
        """Return the formatter of the lines that `agent` sees; what an open run of it has that a message older than
        `before` (key) started is seen too."""
        names = frozenset(known_space.name for known_space in ledger.spaces.list_spaces(agent))
        last_seen = max(ledger.spaces.seen(space, agent), ledger.spaces.newest_begun(space, agent, before))
        return cls(agent, last_seen, names)

    def format(self, message: SpaceMessage, text: str, mark: str = "") -> HistoryLine:
        """Return ` [msg:12] [2026-02-18T14:50:00Z] Husam (human, id:ent-1): "text" [SEEN]`, and `mark` at its end.

        The line of a carried message has its origin: the person who asked for it and, if the agent is a member there,
        the space.
        """
        is_own = message.sender.key == self.agent.key
        sender = f"{neutralize_message(message.sender.name)} ({message.sender.kind}, id:{message.sender.id})"
        reply = f" in reply to msg:{message.reply_to}" if message.reply_to else ""
        state = "SEEN" if is_own or message.key <= self.last_seen else "NEW"
        quoted = '"' + text.replace("\n", f"\n{FOLD}") + '"'
        if message.origin:
            quoted = f"{self._origin(message)}\n  {quoted}"
            sender = "You" if is_own else sender
        stamp = f"{message.at[:19]}Z"
        return HistoryLine(f"  [msg:{message.key}] [{stamp}] {sender}{reply}: {quoted}", f"  [{state}] {mark}".rstrip())

    def _origin(self, message: SpaceMessage) -> str:
        origin = {key: neutral_text(str(message.origin.get(key, ""))) for key in ("who", "text", "space")}
        if message.origin.get("space") not in self.spaces:
            return f"[sent because {origin['who']} asked in another space]"
        request_text = origin["text"].replace("\n", " ")
        return f'[sent because {origin["who"]} asked "{request_text}" in "{origin["space"]}"]'


@dataclass(frozen=True, slots=True)
class _History:
    """The messages before a trigger that fit, and a line about the others."""

    engine: Engine
    older: list[HistoryLine]
    messages: Sequence[SpaceMessage]
    caps: Mapping[int, int]
    """Token cap of a message's text, by message key."""
    line: TimelineLines

    @classmethod
    async def of(
        cls,
        engine: Engine,
        ledger: Ledger,
        space: Space,
        agent: Entity,
        messages: Sequence[SpaceMessage],
        before: int,
        part: float,
    ) -> _History:
        """Return the history of `messages`, preceded by `before` more messages, in `part` of the room beside system and
        tools. Short messages stay whole; long ones share the rest."""
        fixed = engine.conversation.epoch.header_tokens
        room = int(max(0, engine.context.countable(engine.context.budget.available) - fixed) * part)
        sizes = await asyncio.to_thread(_sizes, messages, engine.context.count)
        first = _first_with_room(sizes, room)
        recent = messages[first:]
        caps = share_room(sizes[first:], room - LINE_OVERHEAD * len(recent))
        older = before + first
        older_note = f"{older:,}{' or more' if before == COUNTED else ''}"
        older_note += " older message is not here" if older == 1 else " older messages are not here"
        gap_lines = [HistoryLine(f'  [{older_note}: read_messages(before: "{recent[0].id}")]')] if older else []
        by_key = {recent_message.key: max(LEAST, cap) for recent_message, cap in zip(recent, caps, strict=True)}
        line = TimelineLines.of(ledger, space, agent, messages[-1].key + 1)
        return cls(engine, gap_lines, recent, by_key, line)

    async def lines(self, part: Sequence[SpaceMessage], resolved: int | None) -> list[HistoryLine]:
        """Return the lines of one entry. Messages of others begin with a line that names their author. The message with
        the key `resolved` is marked as the awaited one."""
        history_lines: list[HistoryLine] = []
        before = self.line.agent.key
        for message in part:
            if message.sender.key != before:
                history_lines.append(_group(message))
            before = message.sender.key
            label = f"part of {message.id} of {message.sender.name}"
            text = neutral_text(message.text)
            cap, control = self.caps[message.key], self.engine.control
            short = await clip_to_cap(self.engine.context, control, text, cap, label, Cause.INPUT_CAP)
            history_lines.append(self.line.format(message, short.text, RESUME_MARK if message.key == resolved else ""))
        return history_lines


def _first_with_room(sizes: Sequence[int], room: int) -> int:
    """Return the index of the first message from which all messages fit, long ones cut. The newest one always fits."""
    for index in reversed(range(len(sizes))):
        room -= min(sizes[index], LEAST) + LINE_OVERHEAD
        if room < 0:
            return min(index + 1, len(sizes) - 1)
    return 0


def _sizes(messages: Sequence[SpaceMessage], count: Count) -> list[int]:
    return [count(message.text[:LONGEST_COUNTED]) for message in messages]
