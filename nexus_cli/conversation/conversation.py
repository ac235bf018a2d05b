"""A conversation: its log, its epoch, the window of its next request and the cursor (`nexus docs context`).

The log is append-only and read by range: no message in it ever changes. A `Log` stores it, in a ledger or in memory.

The window is the epoch's head and every item appended since. Only `begin_epoch` rewrites what was sent; everything else
appends. Within an epoch each message is rendered once (`Wire`). A preamble may also be added to a message in a head,
until the first request of its epoch settles it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import count
from typing import Self

from nexus_cli.conversation.groups import (
    Group,
    Measure,
    NextStep,
    arrange,
    flatten,
    group_tool_calls,
    next_step,
    run_requests,
)
from nexus_cli.conversation.render import Wire
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.conversation.sent_requests import SentRequests
from nexus_cli.conversation.tokens.content_kinds import ItemCounts, WindowCounts
from nexus_cli.conversation.tokens.estimate import Anchor
from nexus_cli.core.clock import Clock, format_utc
from nexus_cli.core.entry import (
    COMPACTED,
    UNDO,
    Cause,
    Drop,
    Entry,
    EntryRange,
    Epoch,
    ItemForm,
    Kind,
    Memo,
    Note,
    Notes,
    WindowItem,
    is_placeholder,
    sum_tokens,
)
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import Message, Role
from nexus_cli.core.services import FixedValues, Log
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import WireRules

VERSIONS = count(1)
"""Numbers of windows."""


@dataclass(frozen=True, slots=True)
class FrozenRequest:
    """A rendered request, to be recorded before its first byte is sent."""

    wire: Wire
    fixed: tuple[FixedValues, ...]
    head_lines: tuple[bytes, ...]
    previous_end: int
    changed_head: tuple[FixedValues, ...]
    """Slots of the head whose preamble was added or removed since the epoch was recorded."""


class Conversation:
    """The entries of one conversation, and the window of its next request. All changes to the window are made here."""

    def __init__(self, log: Log, clock: Clock, measure: Measure, header: Epoch | None = None) -> None:
        """Begin a conversation, whose first epoch has the `header` of another one."""
        self.log = log
        self.clock = clock
        self._measure = measure
        first = Epoch(0, None, "start", "", "", (), WireRules().dumps(), (), self.last)
        self.epoch = first.with_header(header) if header else first
        self.tail: list[WindowItem] = []
        self._entries: dict[int, Entry] = {}
        """By id the known entries of window and run; one that was sent does not change."""
        self.cursor = 0
        """Id of the last entry that was sent to the model."""
        self.run = 0
        """Id of the first entry of the current run; later messages of the person are steering."""
        self._wire: Wire | None = None
        self.is_recorded = False
        """True once the epoch is recorded."""
        self._head_sent = False
        self._head_open = False
        self._stored_lines: tuple[Sequence[bytes], Mapping[int, bytes]] = (), {}
        self._changed_preambles: set[int] = set()
        self._sent_messages = 0
        self.sent = SentRequests()
        """What was sent, and may still be cached."""
        self.anchor: Anchor | None = None
        """The provider's last report on a request of this epoch."""
        self._counts = ItemCounts()
        self.messages_tokens = 0
        """Our count of the messages alone."""
        self.version = next(VERSIONS)
        """Number of the present window, unique in this process: while it is the same, the next request is too."""

    @classmethod
    def load(
        cls,
        log: Log,
        clock: Clock,
        measure: Measure,
        epoch: Epoch,
        cursor: int,
        head: Sequence[bytes],
        rows: Sequence[tuple[Entry, bytes | None]] = (),
    ) -> Self:
        """Restore a conversation from its log; only the window is read. `head` has the stored hashes of the lines of
        the head's items (none: no request has settled the head yet), `rows` the entries after it, each with that of
        its line if it was sent."""
        conversation = cls(log, clock, measure)
        conversation._head_open = not head
        conversation._entries = {entry.id: entry for entry, _ in rows}
        conversation._stored_lines = head, {entry.id: line for entry, line in rows if line is not None}
        conversation.epoch, conversation.cursor, conversation.is_recorded = epoch, cursor, True
        conversation.tail = [WindowItem.of(entry) for entry in conversation.read(epoch.base + 1, conversation.last)]
        conversation._head_sent = cursor > 0 and cursor >= epoch.base
        conversation.run = conversation._newest_run()
        conversation.messages_tokens = sum_tokens(conversation.items)
        return conversation

    def fork(self, log: Log) -> Self:
        """Return a conversation that begins with this one's lines; `log` continues after this one's last entry."""
        self._head_open = False  # the fork may send it
        forked = copy(self)
        forked.log, forked.tail, forked.sent = log, list(self.tail), copy(self.sent)
        forked._entries = dict(self._entries)
        forked._changed_preambles = set(self._changed_preambles)
        forked._wire = self._wire.fork() if self._wire else None
        return forked

    # -- the log -------------------------------------------------------------------------------------------------

    @property
    def last(self) -> int:
        """Id of the newest entry, 0 if there is none."""
        return self.log.last_id()

    def read(self, first: int, last: int) -> Sequence[Entry]:
        """Return the entries from `first` to `last`, both included; the log is asked for those that are not known."""
        entries, read, numbers = self._entries, dict[int, Entry](), range(first, last + 1)
        if missing := [number for number in numbers if number not in entries]:
            read = {entry.id: entry for entry in self.log.read(missing[0], missing[-1])}
            for entry in self._in_use(read.values()):
                entries.setdefault(entry.id, entry)
        return [known_entry for number in numbers if (known_entry := entries.get(number) or read.get(number))]

    def _in_use(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return those of `entries` that the window shows or that belong to the run: the text of any other is read
        when it is asked for."""
        visible = {item.entry for item in self.epoch.head if item.shows_entry}
        first = min(self.run or self.epoch.base + 1, self.epoch.base + 1)
        return [entry for entry in entries if entry.id >= first or entry.id in visible]

    def count_entries(self, last: int) -> Sequence[tuple[Kind, str, int]]:
        """Count the entries up to `last` by kind and actor, without reading them; see `Log`."""
        entries = [self._entries[number] for number in range(1, last + 1) if number in self._entries]
        return (
            [(entry.kind, entry.actor, 1) for entry in entries]
            if len(entries) == last
            else self.log.count_entries(last)
        )

    def memo(self, kind: str, value: JsonObject, entry: int | None = None) -> None:
        """Record a note about the conversation at `entry`, by default its newest one, see `Memo`."""
        self.log.record_memo(Memo(kind, self.now(), self.last if entry is None else entry, value))

    def memos(self, kind: str) -> Sequence[Memo]:
        """Return all memos of one kind, oldest first."""
        return self.log.memos(kind)

    def record_drop(
        self, what: str, tokens: int, cause: Cause, text: str | None = None, entries: EntryRange | None = None
    ) -> Drop:
        """Record a drop of `text`, or of `entries`, and return it."""
        drop = Drop(self.log.next_drop(), what, tokens, cause, self.now(), entries, text)
        self.log.record_drop(drop)
        return drop

    def newest_memo(self, *kinds: str) -> JsonObject:
        """Return the value of the newest memo of these kinds, {} if there is none."""
        memos = [memo for kind in kinds for memo in self.memos(kind)[-1:]]
        return sorted(memos, key=lambda memo: memo.at)[-1].value if memos else {}

    def now(self) -> str:
        """Return the current time in the form that the ledger stores."""
        return format_utc(self.clock())

    # -- the window ----------------------------------------------------------------------------------------------

    @property
    def last_sent(self) -> int:
        """Id of the last entry in a request of this epoch; -1 before its first one."""
        return self.cursor if self._head_sent else -1

    @property
    def items(self) -> list[WindowItem]:
        """The items of the window in the order in which they happened."""
        return [*self.epoch.head, *self.tail]

    @property
    def counted(self) -> int:
        """Our count of the whole window: system, tools, messages, preambles."""
        return self.epoch.header_tokens + self.messages_tokens

    def counts(self, epoch: Epoch | None = None, items: Sequence[WindowItem] | None = None) -> WindowCounts:
        """Return the counts of the next request, or of the first one of an `epoch` that may begin: of `items`, by
        default those of the window."""
        if items is not None:
            return WindowCounts.of(epoch or self.epoch, tuple(items))
        counts = self._counts.count(tuple(self.items))
        if epoch is not None:
            return replace(counts, fixed=epoch.header_tokens)
        return replace(counts, fixed=self.epoch.header_tokens, sent=self.last_sent, version=self.version)

    def groups(self, items: Sequence[WindowItem] | None = None) -> list[Group]:
        """Return `items`, by default those of the window, as atomic groups, repaired."""
        return group_tool_calls(self.items if items is None else items, self._measure)

    @property
    def arranged(self) -> list[WindowItem]:
        """The window in the order in which it is sent, repaired."""
        return flatten(self.groups())

    def current_requests(self) -> list[Group]:
        """Return the groups of the current request and its steering, repaired."""
        groups = self.groups()
        return [groups[index] for index in run_requests(groups, self.run)]

    def compaction_in_force(self) -> Epoch | None:
        """Return the epoch of the newest compaction that no undo has reverted, or None."""
        epoch, undone = self.epoch, 0
        while epoch.parent is not None:
            if epoch.cause == UNDO:
                undone += 1
            elif epoch.cause in COMPACTED:
                if not undone:
                    return epoch
                undone -= 1
            epoch = self.log.epoch(epoch.parent)
        return None

    def restored_head(self, old: Epoch) -> tuple[WindowItem, ...]:
        """Return the head of an epoch with the cause `undo`: that of `old` and all items since, or as the window has
        them."""
        visible = {item.entry: item for item in self.items if item.form is ItemForm.FULL and not is_placeholder(item)}
        since = self.read(old.base + 1, self.last)
        return (*old.head, *(visible.get(entry.id) or WindowItem.of(entry) for entry in since))

    def next_step(self) -> NextStep:
        """Return the loop's next step."""
        return next_step(self.items)

    def newest_words(self) -> str:
        """Return the last request in the window, "" if there is none; messages of nexus within a turn do not count."""
        for item in reversed(self.items):
            if item.is_request and not any(
                entry.kind is Kind.STEER and entry.actor == "nexus" for entry in self.read(item.entry, item.entry)
            ):
                return item.message.content
        return ""

    def append(
        self,
        kind: Kind,
        message: Message,
        actor: str,
        notes: Notes | None = None,
        outcome: tuple[int, Usage, str, bool, str] | None = None,
    ) -> Entry:
        """Record an entry at the end of log and window; `notes` are its memos by kind. A reply comes with the `outcome`
        of its request, see `Log.record_reply`."""
        entry = Entry(self.last + 1, self.now(), actor, kind, message, tokens=self._measure(message, ""))
        if outcome is not None:
            self.log.record_reply(entry, *outcome)
        else:
            self.log.append(entry, [Memo(name, entry.at, entry.id, value) for name, value in (notes or {}).items()])
        self._entries[entry.id] = entry
        self.tail.append(WindowItem.of(entry))
        self.messages_tokens += entry.tokens
        self.version = next(VERSIONS)
        if kind is Kind.USER:
            self.run = entry.id
        return entry

    def attach_preamble(self, preamble: str) -> bool:
        """Add `preamble` to the message of `_preamble_slot`; False if there is none. What this epoch has sent is never
        changed.
        """
        item = self._preamble_slot()
        if item is None:
            return False
        self._set_preamble(item, f"{item.preamble}\n{preamble}" if item.preamble else preamble)
        return True

    @property
    def adds_to_result(self) -> bool:
        """True if the next preamble is appended to a tool result."""
        item = self._preamble_slot()
        return item is not None and item.message.role is Role.TOOL

    def detach_preamble(self) -> None:
        """Remove the preamble of the message that `attach_preamble` would use, if it is in a head: the epoch began
        after it was added, and sends it again."""
        item = self._preamble_slot()
        if item is not None and item.preamble and item not in self.tail:
            self._set_preamble(item, "")

    def _preamble_slot(self) -> WindowItem | None:
        """Return the message for the next preamble: the newest unsent user message, else the newest unsent result; if
        nothing is unsent, the same of the head while no request has settled it."""
        head = [item for item in self.epoch.head if item.shows_entry] if self._head_open else []
        unsent = [*(item for item in head if item.entry > self.cursor), *self.items[self._sent_size() :]]
        orders = ((items, role) for items in (unsent, head) for role in (Role.USER, Role.TOOL))
        return next((item for items, role in orders for item in reversed(items) if item.message.role is role), None)

    def _set_preamble(self, item: WindowItem, preamble: str) -> None:
        changed = replace(item, preamble=preamble, tokens=self._measure(item.message, preamble))
        self.messages_tokens += changed.tokens - item.tokens
        self.version = next(VERSIONS)
        if item in self.tail:
            self.tail[self.tail.index(item)] = changed
            entry = self._entries[item.entry]
            self._entries[item.entry] = replace(entry, preamble=preamble, tokens=changed.tokens)
            return
        self._changed_preambles.add(item.entry)
        self.epoch = replace(
            self.epoch, head=tuple(changed if window_item is item else window_item for window_item in self.epoch.head)
        )

    def is_preamble_due(self) -> bool:
        """True if an unsent user message has no preamble yet."""
        return any(item.message.role is Role.USER and not item.preamble for item in self.items[self._sent_size() :])

    def freeze_request(self, plan: RequestPlan) -> FrozenRequest:
        """Render the new items of `plan` and move the cursor of this object, before the request is recorded: the caller
        records it, and has it saved before it sends. Raises `ValueError` unless `plan` is that of the present window,
        so that only what was checked, priced and shown is sent."""
        if plan.waiting or plan.window.version != self.version:
            raise ValueError("the plan is not that of the present window")
        if not self.is_recorded:
            self.begin()
        head_lines: tuple[bytes, ...] = ()
        changed_head: tuple[FixedValues, ...] = ()
        size = self._sent_size()
        if self._wire is None:
            self._wire, lines, _ = self._render(self.items[:size])
            # Also if it was sent before: a resumed conversation does not know if that was under this epoch.
            head_lines = tuple(lines)
            changed_head = tuple(
                FixedValues(item.entry, item.preamble, item.tokens, line)
                for item, line in zip(arrange(self.epoch.head), lines, strict=True)
                if item.entry in self._changed_preambles and item.shows_entry
            )
            self._sent_messages = len(self._wire.messages) if self._head_sent else 0
        fresh = arrange(self.items[size:])
        fixed = tuple(
            FixedValues(item.entry, item.preamble, item.tokens, line)
            for item, line in zip(fresh, self._wire.extend(fresh), strict=True)
        )
        previous, self._sent_messages = self._sent_messages, len(self._wire.messages)
        self.cursor, self._head_sent = self.last, True
        self.version = next(VERSIONS)
        self._head_open, self._changed_preambles = False, set()
        return FrozenRequest(self._wire, fixed, head_lines, previous, changed_head)

    def renders_as_sent(self) -> bool:
        """True if the sent items of a restored conversation render to the lines that were sent."""
        _, lines, entries = self._render(self.items[: self._sent_size()])
        head, sent_lines = self._stored_lines
        return (not head or list(head) == lines) and all(sent_lines.get(entry, line) == line for entry, line in entries)

    def _render(self, items: Sequence[WindowItem]) -> tuple[Wire, list[bytes], list[tuple[int, bytes]]]:
        """Return the wire of the first items of the window, and the hashes of the head's items and of the entries after
        it."""
        wire, size = Wire(self.epoch), len(self.epoch.head)
        head = wire.extend(arrange(items[:size]))
        entry_items = arrange(items[size:])
        return (
            wire,
            head,
            [(item.entry, line) for item, line in zip(entry_items, wire.extend(entry_items), strict=True)],
        )

    def _sent_size(self) -> int:
        """Return the number of items in the head and in the tail up to the cursor."""
        size = len(self.tail)
        while size and self.tail[size - 1].entry > self.cursor:
            size -= 1
        return len(self.epoch.head) + size

    def make_epoch(self, head: Iterable[WindowItem], cause: str, header: Epoch | None = None) -> Epoch:
        """Return the epoch that would begin now with this head, under the present header or that of another
        epoch. Changes nothing."""
        kept_items = tuple(item for item in head if not is_placeholder(item))
        parent = self.epoch.id if self.is_recorded else None
        header, number = header or self.epoch, self.log.next_epoch()
        return replace(header, id=number, parent=parent, cause=cause, head=kept_items, base=self.last)

    def begin_epoch(self, epoch: Epoch, drops: Sequence[Drop] = (), notes: Iterable[Note] = ()) -> None:
        """Begin an epoch of `make_epoch`; the only way in which sent lines change. Its drops and notes are recorded
        with it. If the log raises, the conversation is unchanged."""
        self._record(epoch, drops, notes)
        self.tail, self._wire = [], None
        self._head_sent, self._sent_messages = False, 0
        self._head_open, self._changed_preambles = True, set()
        self._stored_lines = (), {}
        self._entries = {entry.id: entry for entry in self._in_use(tuple(self._entries.values()))}
        self.messages_tokens = sum_tokens(self.items)
        self.anchor = None

    def rewrite(
        self, head: Iterable[WindowItem], cause: str, drops: Sequence[Drop], header: Epoch | None = None
    ) -> Epoch:
        """Make an epoch and begin it, for a conversation without a session."""
        self.begin_epoch(self.make_epoch(head, cause, header), drops)
        return self.epoch

    def replace_header(self, header: Epoch) -> None:
        """Take the header of another epoch for the present one, which was neither recorded nor sent."""
        self.epoch = self.epoch.with_header(header)
        self.version = next(VERSIONS)

    def begin(self, drops: Sequence[Drop] = (), notes: Iterable[Note] = ()) -> None:
        """Record the first epoch of a new conversation with the drops of its system text."""
        self._record(replace(self.epoch, id=self.log.next_epoch()), drops, notes)

    def _record(self, epoch: Epoch, drops: Sequence[Drop], notes: Iterable[Note]) -> None:
        now, last = self.now(), self.last
        self.log.begin_epoch(epoch, drops, [Memo(kind, now, last, value) for kind, value in notes])
        self.epoch, self.is_recorded = epoch, True
        self.version = next(VERSIONS)

    def _newest_run(self) -> int:
        """Return the newest entry of the window that began a run: only the log tells a request from steering."""
        for item in reversed(self.items):
            if item.is_request:
                entry = next(iter(self.read(item.entry, item.entry)), None)
                if entry is not None and entry.kind is Kind.USER:
                    return entry.id
        return 0
