"""Values that the ledger stores: entries, epochs with their items, drops, request manifests.

The timeline of a lane is its entries in order. Ids count from 1 along a lane and continue in its forks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import ClassVar, Protocol

from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import Message, Role
from nexus_cli.core.wire import canonical

EntryRange = tuple[int, int]
"""First and last entry, both included."""

_MEMBER = re.compile(r"(?:^|; )([^()]+) \((human|agent), (ent-\d+)\)(?=; |$)")
"""Matches `Entity.actor`; names have no parentheses."""


class Kind(StrEnum):
    """The kinds of entries."""

    USER = "user"
    STEER = "steer"
    """A message of the person during a turn, delivered after a complete batch of calls."""
    ASSISTANT = "assistant"
    TOOL = "tool"
    INSTRUCTION = "instruction"
    """An instruction of nexus, appended to a fork: summarize, reflect."""
    MESSAGE = "message"
    """Messages of a space from before the one that started the run."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An event of a session, with its time and actor. It never changes once it has been sent."""

    json_fields: ClassVar = """
        id at actor kind text:message.content calls:message.tool_calls call:message.tool_call_id
        images:message.image_names preamble tokens
    """
    id: int
    at: str
    """ISO 8601, UTC."""
    actor: str
    """`person` (at this session), `agent`, `tool:NAME`, `nexus`, or members of a space: `NAME (human, ent-1)`, joined
    by `; `. Members are never `person`, so that a quote of theirs is no evidence for a fact."""
    kind: Kind
    message: Message
    preamble: str = ""
    """Text attached when it was first sent: before a user message, after a tool result."""
    tokens: int = 0
    """Tokens of message, preamble and overhead, by nexus's own count."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", Kind(self.kind))


PERSON = "person"
"""Actor: the person at this session."""
AGENT_NAME = "nexus"
"""Name in spaces of the agent of the person's own session."""


def members_of(actor: str) -> list[tuple[str, str, str]]:
    """Parse an actor; return name, kind (`human` or `agent`) and id of each member of a space in it."""
    return _MEMBER.findall(actor)


def is_person(actor: str) -> bool:
    """Return True for the person, or for members of a space with a human: a compaction keeps their messages."""
    return actor == PERSON or any(kind == "human" for _, kind, _ in members_of(actor))


AT_ONCE = 200
"""Entries per read of a log from its end."""


def read_backwards(read: Callable[[int, int], Sequence[Entry]], last: int) -> Iterator[Entry]:
    """Yield the entries of a log up to `last`, newest first; `read` reads a range of entries."""
    for end in range(last, 0, -AT_ONCE):
        yield from reversed(read(max(1, end - AT_ONCE + 1), end))


class ItemForm(StrEnum):
    """The form of an entry in the window."""

    FULL = "full"
    ELIDED = "elided"
    STUB = "stub"
    SUMMARY = "summary"
    MARKER = "marker"


@dataclass(frozen=True, slots=True)
class WindowItem:
    """One message of an epoch's head."""

    entry: int
    """The entry shown; for a summary or marker the last entry that it replaces."""
    form: ItemForm
    message: Message
    preamble: str = ""
    tokens: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "form", ItemForm(self.form))

    @classmethod
    def of(cls, entry: Entry) -> WindowItem:
        """Return an item that shows an entry completely."""
        return cls(entry.id, ItemForm.FULL, entry.message, entry.preamble, entry.tokens)

    @property
    def shows_entry(self) -> bool:
        """True if it shows the words of its entry, whole or shortened."""
        return self.form in (ItemForm.FULL, ItemForm.ELIDED)

    @property
    def replaces_others(self) -> bool:
        """True for a summary or a marker, which replaces other messages."""
        return self.form in (ItemForm.SUMMARY, ItemForm.MARKER)

    @property
    def is_request(self) -> bool:
        """True for a user message of the conversation, not a summary or marker of ours."""
        return self.message.role is Role.USER and self.shows_entry


PLACEHOLDER = "[no result yet: this call has not finished]"
"""The text in place of a result that has not arrived."""


def is_placeholder(item: WindowItem) -> bool:
    """True if an item is the placeholder of a result that has not arrived."""
    return item.form is ItemForm.STUB and item.message.content == PLACEHOLDER


def sum_tokens(items: Iterable[WindowItem]) -> int:
    """Return the tokens of all items."""
    return sum(item.tokens for item in items)


COMPACTED = ("compaction", "overflow")
"""Causes of the epochs that a compaction began."""
UNDO = "undo"
"""Cause of the epoch that undoes a compaction."""
SWITCH = "model"
"""Cause of the epoch that another model begins."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """The frozen beginning of a lane's requests, which is never rewritten."""

    id: int
    """Counts from 0 in a session."""
    parent: int | None
    cause: str
    """`start`, `truncation`, `compaction`, `overflow`, `pruned`, `undo`, `restore`, `model`, `reload`, `clear`,
    `resume`, `refused`."""
    model: str
    system: str
    tools: tuple[JsonObject, ...]
    rules: str
    """Name of the wire rules in force, see `nexus_cli.provider.wire_rules`."""
    head: tuple[WindowItem, ...]
    base: int
    """Id of the last entry that the head covers; later entries follow the head."""
    system_tokens: int = 0
    tools_tokens: int = 0
    tool_choice: str = "auto"
    effort: str = ""
    sections: str = "[]"
    """Sections of the system text: JSON, the `sections` of `nexus docs json`."""

    @property
    def header_tokens(self) -> int:
        """Tokens of system text and schemas, which every request of the epoch contains, by our count."""
        return self.system_tokens + self.tools_tokens

    @property
    def prefix_hash(self) -> str:
        """Hash of what its requests begin with: model, system text and schemas."""
        return sha256(canonical([self.model, self.system, list(self.tools)])).hexdigest()

    def with_header(self, header: Epoch) -> Epoch:
        """Return this epoch with all that comes before the head in the requests of another one."""
        return replace(header, id=self.id, parent=self.parent, cause=self.cause, head=self.head, base=self.base)

    @property
    def section_rows(self) -> tuple[JsonObject, ...]:
        """The rows of `sections`."""
        return _read_sections(self.sections)


@lru_cache(4)
def _read_sections(sections: str) -> tuple[JsonObject, ...]:
    return tuple(json.loads(sections))


class Cause(StrEnum):
    """The cause of a drop (`nexus docs json`)."""

    SECTION_BUDGET = "section_budget"
    TRUNCATION = "truncation"
    COMPACTION = "compaction"
    OUTPUT_CAP = "output_cap"
    INSTRUCTION_CAP = "instruction_cap"
    INPUT_CAP = "input_cap"
    PRUNED = "pruned"
    LIMIT = "limit"
    SERVER = "server"
    REFUSED = "refused"


SECTION = re.compile(r"\A((?:part of )?)section (\S+)(?: \((.*)\))?\Z", re.DOTALL)
"""Matches `Drop.what` of a section, with its id and its source."""
_WRITTEN = frozenset(
    "instructions path_rules identity preferences memory user_memory project_memory own own_event task".split()
)
"""Contributors whose sections have the words of a person."""
_RECORDS = frozenset(("episodic", "footprint", "session_files"))
"""Contributors whose sections list records of nexus's own, of which long lists are always shortened."""


@dataclass(frozen=True, slots=True)
class Drop:
    """A drop in the ledger: content left out of a request, which can be recalled by its id."""

    id: str
    """`d1`, `d2`, ... in a session, for `nexus drops show` and the tool `recall`."""
    what: str
    tokens: int
    """Tokens left out, by nexus's own count."""
    cause: Cause
    at: str
    entries: EntryRange | None = None
    """First and last entry left out; null if `text` has the original."""
    text: str | None = None
    """The whole original; null in listings, `recall` reads it."""
    uncounted: int = 0
    """Bytes beyond the hard limit, which were counted but not kept."""
    recalls: int = 0
    """Number of recalls."""
    after: int = 0
    """The newest entry at the time of the drop; 0 before the drop is recorded."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "cause", Cause(self.cause))

    @property
    def is_missed(self) -> bool:
        """True if a person typed, attached or wrote it, or could miss it: sections of nexus's own and outputs of tools
        are left out all the time."""
        if contributor := self._contributor:
            return contributor in _WRITTEN
        return self.cause not in (Cause.OUTPUT_CAP, Cause.PRUNED)

    @property
    def is_record(self) -> bool:
        """True for a part of a list that nexus made of its own records, such as earlier sessions."""
        return self._contributor in _RECORDS

    @property
    def _contributor(self) -> str:
        """The contributor of a section that was left out for space; "" for other drops."""
        section = SECTION.match(self.what) if self.cause is Cause.SECTION_BUDGET else None
        return section[2].partition(".")[0] if section else ""


@dataclass(frozen=True, slots=True)
class DropObject:
    """Content left out of a request."""

    json_fields: ClassVar = """
        id:drop.id what:drop.what tokens:drop.tokens cause:drop.cause recall:drop.id at:drop.at
        uncounted_bytes:drop.uncounted recalls:drop.recalls
    """
    drop: Drop


@dataclass(frozen=True, slots=True)
class Memo:
    """A record about a lane that is not an entry: a pin, a goal, the plan of a request, the price of a rewrite.

    Memos are only appended: a removal is a later memo. Forks inherit the memos from before the fork.
    """

    kind: str
    """Such as `pin`, `goal`, `plan`, `rewrite`, `stale`."""
    at: str
    entry: int
    """The newest entry when it was written."""
    value: JsonObject
    """Plain JSON data."""


Note = tuple[str, JsonObject]
"""A memo to record beside something else: its kind and value."""


PendingDrop = tuple[Drop, Note]
"""A drop that is not recorded yet, and the memo beside it."""


Notes = Mapping[str, JsonObject]
"""The values of memos by kind, to record with an entry."""


class MemoSource(Protocol):
    """A conversation, or its log in the ledger."""

    def memos(self, kind: str) -> Sequence[Memo]:
        """Return all memos of one kind, oldest first."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One request as sent: enough to rebuild every line of it from the ledger."""

    step: int
    """Counts the requests of a lane from 1."""
    epoch: int
    last: int
    """Id of the last entry in it."""
    arguments: JsonObject
    """The other arguments of the request: model, output cap, effort, cache key."""
    sha256: str
    """Hash of all lines, each ended by a newline."""
    estimate: int
    """Estimated tokens."""
    at: str
    cached: int = 0
    """Tokens of its beginning expected in the provider's cache."""

    def is_newer_than(self, entry: int, at: str) -> bool:
        """Return True if this was sent after a record at `at` behind `entry`; clocks can be set back, entries not."""
        return entry < self.last or (entry == self.last and at <= self.at)

    def newest_of(self, memos: Iterable[Memo]) -> JsonObject | None:
        """Return the newest of these memos that was valid for the request, None if there was none yet."""
        valid = [memo.value for memo in memos if self.is_newer_than(memo.entry, memo.at)]
        return valid[-1] if valid else None


def format_transcript(entries: Sequence[Entry]) -> str:
    """Format entries, separated by blank lines: `[ID] ROLE`, the content, images and calls."""
    return "\n\n".join(map(_format_entry, entries))


def _format_entry(entry: Entry) -> str:
    message = entry.message
    lines = [f"[{entry.id}] {message.role}"]
    if message.content:
        lines.append(message.content)
    lines += [f"[image {part.name or 'without name'}: {part.media_type}]" for part in message.parts]
    for call in message.tool_calls:
        arguments = call.raw or call.arguments_text
        lines.append(f"-> {call.name}({arguments}) {call.id}")
    return "\n".join(lines)
