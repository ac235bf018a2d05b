"""Values that the ledger stores: entries, epochs with their items, drops, request manifests.

The timeline of a lane is its entries in order. Ids count up from 1 along a lane and go on in its forks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nexus_cli.core.message import Message
from nexus_cli.core.wire import canonical

_MEMBER = re.compile(r"(?:^|; )([^()]+) \((human|agent), (ent-\d+)\)(?=; |$)")
"""What `Entity.actor` says. No name holds a bracket, and no name of a tool."""


class Kind(StrEnum):
    """The kinds of entries."""

    USER = "user"
    STEER = "steer"
    """The person's words during a turn, delivered after a complete batch."""
    ASSISTANT = "assistant"
    TOOL = "tool"
    INSTRUCTION = "instruction"
    """Ours, appended to a fork: summarise, reflect."""
    MESSAGE = "message"
    """Messages of a space from before what started the run."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened, with its time and its actor. Never changes once it was sent."""

    id: int
    at: str
    """ISO 8601, UTC."""
    actor: str
    """`person` (who is at this session), `agent`, `tool:NAME`, `nexus`, or members of a space: `NAME (human, ent-1)`,
    with `; ` between several. These are never `person`: what they say is a fact of nobody."""
    kind: Kind
    message: Message
    preamble: str = ""
    """Text added when it was first built: before that of a user message, after that of a tool result."""
    tokens: int = 0
    """Message, preamble and overhead, by our counter."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", Kind(self.kind))
        _check_message(self.message)


PERSON = "person"
"""The actor who is at this session."""
AGENT_NAME = "nexus"
"""Name in spaces of the agent that a person's own session speaks for."""


def members_of(actor: str) -> list[tuple[str, str, str]]:
    """Return name, kind (`human` or `agent`) and id of each member of a space that an actor names."""
    return _MEMBER.findall(actor)


def is_person(actor: str) -> bool:
    """True if an actor is the person, or there is a person among the members of a space that it names: a compaction
    keeps their words."""
    return actor == PERSON or any(kind == "human" for _, kind, _ in members_of(actor))


class ItemForm(StrEnum):
    """The forms in which an item shows its entry."""

    FULL = "full"
    ELIDED = "elided"
    STUB = "stub"
    SUMMARY = "summary"
    MARKER = "marker"


@dataclass(frozen=True, slots=True)
class WindowItem:
    """One message of an epoch's head."""

    entry: int
    """The entry it shows; for a summary or marker the last entry it replaces."""
    form: ItemForm
    message: Message
    preamble: str = ""
    tokens: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "form", ItemForm(self.form))
        _check_message(self.message)


def _check_message(message: object) -> None:
    if not isinstance(message, Message):
        raise TypeError(f"message has to be a Message, not {type(message).__name__}")


@dataclass(frozen=True, slots=True)
class Epoch:
    """A frozen beginning of a lane's requests: what was sent under it is never rewritten."""

    id: int
    """Counts from 0 in a session."""
    parent: int | None
    cause: str
    """`start`, `truncation`, `compaction`, `overflow`, `pruned`, `undo`, `restore`, `model`, `reload`, `clear`,
    `resume`."""
    model: str
    system: str
    tools: tuple[Mapping[str, Any], ...]
    rules: str
    """Name of the wire rules in force, see `nexus_cli.provider.wire_rules`."""
    head: tuple[WindowItem, ...]
    base: int
    """Id of the last entry that the head accounts for; later entries follow the head."""
    system_tokens: int = 0
    tools_tokens: int = 0
    tool_choice: str = "auto"
    effort: str = ""
    sections: str = "[]"
    """Sections of the system text: JSON, the `sections` of `nexus docs json`."""


class Cause(StrEnum):
    """The reason why something was left out of a request (`nexus docs json`)."""

    SECTION_BUDGET = "section_budget"
    TRUNCATION = "truncation"
    COMPACTION = "compaction"
    OUTPUT_CAP = "output_cap"
    INSTRUCTION_CAP = "instruction_cap"
    INPUT_CAP = "input_cap"
    PRUNED = "pruned"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True)
class Drop:
    """Something left out of a request, with the way back to it."""

    id: str
    """`d1`, `d2`, ... in a session."""
    what: str
    tokens: int
    """Tokens left out, by our counter."""
    cause: Cause
    at: str
    entries: tuple[int, int] | None = None
    """First and last entry left out, both included; or None when `text` holds it."""
    text: str | None = None
    """The whole original. None in listings: read it with `Recall`."""
    uncounted: int = 0
    """Bytes beyond the hard limit: counted, not kept."""
    recalls: int = 0
    """How often it was asked for again."""
    after: int = 0
    """The newest entry of its lane when it was recorded; 0 before that."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "cause", Cause(self.cause))


@dataclass(frozen=True, slots=True)
class Memo:
    """Something about a lane that is no entry: a pin, a goal, the plan of a request, the price of a rewrite.

    Only added to, never changed: what was taken back is a later memo. Forks know the memos of before the fork.
    """

    kind: str
    """Its reader: `pin`, `goal`, `plan`, `rewrite`, `stale`."""
    at: str
    entry: int
    """The newest entry when it was written."""
    value: Mapping[str, Any]
    """Plain JSON data."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One request as sent: enough to rebuild every line of it from the ledger."""

    step: int
    """Counts the requests of a lane from 1."""
    epoch: int
    last: int
    """Id of the last entry in it."""
    arguments: Mapping[str, Any]
    """Everything else that the provider was given: model, output cap, effort, cache key."""
    sha256: str
    """Of all lines, each ended by a newline."""
    estimate: int
    """Tokens expected by our count."""
    at: str
    cached: int = 0
    """Tokens of its beginning that the provider's cache was expected to hold."""

    def is_newer_than(self, entry: int, at: str) -> bool:
        """Return True if what was recorded at this time, when `entry` was the newest one, was there before it was sent.
        Entries show it as far as they can: clocks are set back."""
        return entry < self.last or (entry == self.last and at <= self.at)


def format_transcript(entries: Sequence[Entry]) -> str:
    """Return `entries` one after the other, a blank line between: `[ID] ROLE`, the content, its images and calls by
    name."""
    return "\n\n".join(_format_entry(entry) for entry in entries)


def _format_entry(entry: Entry) -> str:
    message = entry.message
    lines = [f"[{entry.id}] {message.role}"]
    if message.content:
        lines.append(message.content)
    lines += [f"[image {part.name or 'without name'}: {part.media_type}]" for part in message.parts]
    for call in message.tool_calls:
        arguments = call.raw or canonical(call.arguments).decode()
        lines.append(f"-> {call.name}({arguments}) {call.id}")
    return "\n".join(lines)
