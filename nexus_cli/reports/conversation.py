"""Read the conversation of a session as the events of its turns: a replay of what a person saw.

Reads the ledger, so that a compacted window hides nothing. Sends nothing and writes nothing. A front end shows these
events as it shows those of a running turn: the end of a resumed session, a transcript, a page, an editor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import unescape
from itertools import chain, groupby
from sys import maxsize
from typing import TYPE_CHECKING

from nexus_cli.core import event
from nexus_cli.core.elide import RECALL
from nexus_cli.core.entry import Cause, Entry, Kind, Memo, read_backwards
from nexus_cli.core.event import Event
from nexus_cli.core.grouping import group_pairs
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import (
    ACT_KINDS,
    CLIPPED_MESSAGE,
    IMPORTED_SESSION,
    RESULT,
    SHOWN_TEXT,
    THINKING,
    TURN_KINDS,
    WAIT,
    WAITING_TEXTS,
)
from nexus_cli.core.message import ToolCall, ToolResult, restore_result
from nexus_cli.core.run import WAITING
from nexus_cli.core.tool import SUBJECT
from nexus_cli.core.typed_text import CONTINUE_MESSAGE, NOT_DONE, split_attachments
from nexus_cli.ledger import LaneLog, Ledger
from nexus_cli.reports.acts import PastEvent, pin_acts, read_acts, session_acts
from nexus_cli.reports.event_texts import describe_event
from nexus_cli.tools.registry import describe_past_subject, past_tools

if TYPE_CHECKING:
    from nexus_cli.session.session import Session

LONGEST = 1_000
"""Most entries of one turn that are shown, the newest ones."""
SHELL_BLOCK = re.compile(r'^<shell command="([^"]*)">\n(.*?)\n</shell>$', re.DOTALL | re.MULTILINE)
"""The attached output of a `!` line."""
CONTINUED = "continued"
"""Text shown to people for a message of ours in a turn."""


def waiting_entry(ledger: Ledger, log: LaneLog) -> int:
    """Return the entry whose result began the current wait of the session's run; 0 if it is not waiting."""
    memos = log.memos(WAIT)
    run = ledger.runs.of_session(log.session_id) if memos else None
    return memos[-1].entry if run is not None and run.state == WAITING else 0


def replay_of(session: Session, *, is_whole: bool = False) -> Replay:
    """Return the replay of an open session."""
    waiting = waiting_entry(session.ledger, session.record)
    return Replay(
        session.record, str(session.dispatcher.cwd), waiting, is_whole=is_whole, read=session.conversation.read
    )


def newest_turns(session: Session) -> Iterator[list[Event]]:
    """Yield the turns, newest first, as their events, a long one's ends alone, without the calls that have no result
    (`last_exchange`); raise `NexusError` on failure."""
    for turn in replay_of(session).newest_turns():
        left_open = open_calls(turn)
        yield [past.event for past in turn if past.event not in left_open]


def describe_unlogged_event(past: PastEvent) -> str:
    """Return the words of an event that is in no entry: its line, or the text and thinking of a reply that was cut off;
    else ""."""
    if past.entry is not None:
        return ""
    match past.event:
        case event.Text(text) | event.Thinking(text):
            return text
        case event.SessionAct(act="job", text=how):
            return f"job {how}"
        case _:
            return describe_event(past.event)


def results_by_call(events: Iterable[PastEvent]) -> dict[str, tuple[PastEvent, event.ToolResultEvent]]:
    """Return the results among events, by the ids of their calls."""
    return {past.event.call.id: (past, past.event) for past in events if isinstance(past.event, event.ToolResultEvent)}


def open_calls(turn: Collection[PastEvent]) -> list[event.ToolCallEvent]:
    """Return the calls of a turn that have no result."""
    ended = results_by_call(turn)
    calls = (past.event for past in turn if isinstance(past.event, event.ToolCallEvent))
    return [call for call in calls if call.call.id not in ended]


def in_call_order(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield each entry alone, but the results of a step together: recorded as they ended, sorted into call order."""
    calls = [call.id for entry in entries for call in entry.message.tool_calls]
    places: dict[str | None, int] = {call: place for place, call in enumerate(calls)}
    for _, run in groupby(entries, lambda entry: 0 if entry.kind is Kind.TOOL else entry.id):
        yield sorted(run, key=lambda entry: places.get(entry.message.tool_call_id, -1))


class Replay:
    """Reads a main conversation of the ledger as events."""

    def __init__(
        self,
        record: LaneLog,
        folder: str = "",
        waiting: int = 0,
        *,
        is_whole: bool = False,
        first: int = 0,
        read: Callable[[int, int], Sequence[Entry]] | None = None,
    ) -> None:
        """`folder` is the one in which commands ran; the result of the entry `waiting` is still pending.

        With `is_whole` long turns are whole, as are texts of which the model was given a part, and messages have what
        was attached to them. Memos before the entry `first` are not read. `read` reads a range of entries, by default
        from the ledger.
        """
        self.record, self._folder, self._waiting, self._is_whole = record, folder, waiting, is_whole
        self._read = read or record.read
        self._foreign = past_tools().foreign
        self._reads_all = is_whole
        self._first = first
        """The first entry of which memos are read."""
        self._memos: dict[tuple[str, ...], tuple[int, dict[tuple[str, int], list[Memo]]]] = {}

    def messages(self) -> Iterator[tuple[Entry, str]]:
        """Yield the messages that began a turn, newest first, with the text that people are shown."""
        for entry in read_backwards(self._read, self.record.last_id()):
            if entry.kind is Kind.USER:
                yield entry, self.shown_text(entry)

    def events(self) -> Iterator[PastEvent]:
        """Yield all events, oldest first."""
        self._reads_all = True
        for turn in reversed(list(self.newest_turns())):
            yield from turn

    def newest_turns(self) -> Iterator[list[PastEvent]]:
        """Yield the turns, newest first; the oldest one may have no message."""
        turn: list[Entry] = []
        longest = maxsize if self._reads_all else LONGEST
        later = self._unsent_lines()
        for entry in read_backwards(self._read_entries, self.record.last_id()):
            if len(turn) < longest or entry.kind is Kind.USER:
                turn.append(entry)
            if entry.kind is Kind.USER or entry.id == 1:
                yield [*self._turn(turn[::-1]), *later]
                turn, later = [], self._shell_lines(entry)
        if later:  # before the first message
            yield later

    def _read_entries(self, first: int, last: int) -> Sequence[Entry]:
        """Read entries, and from now on also the memos since the first of them."""
        self._first = 0 if self._reads_all else first
        return self._read(first, last)

    def _turn(self, entries: Sequence[Entry]) -> Iterator[PastEvent]:
        """Yield the events of a turn."""
        has_ended = False
        for past in self._recorded(entries):
            if has_ended and past.entry:  # the turn was resumed
                yield PastEvent(event.TurnStart(""), past.at)
            has_ended = isinstance(past.event, event.TurnEnd) or (has_ended and not past.entry)
            yield past
        if not has_ended:
            answers = [entry.message.content for entry in entries if entry.kind is Kind.ASSISTANT]
            answer = next(filter(None, reversed(answers)), "")
            yield PastEvent(event.TurnEnd(event.Outcome(text=answer)), entries[-1].at)

    def _recorded(self, entries: Sequence[Entry]) -> Iterator[PastEvent]:
        """Yield the events of a turn that the ledger holds."""
        calls: dict[str | None, ToolCall] = {}
        answer = ""
        for run in in_call_order(entries):
            newest = max(recorded.id for recorded in run)
            for entry in run:  # what workers reported during the calls comes before their first result
                if entry.id != newest:
                    yield from (past for past in self.between(entry.id) if isinstance(past.event, event.AgentEvent))
            for entry in run:
                if entry.kind is Kind.ASSISTANT:
                    answer = entry.message.content or answer
                yield from self._events_of(entry, calls)
                for past in self.between(entry.id):
                    if entry.id == newest or not isinstance(past.event, event.AgentEvent):
                        yield from self._expand_unlogged_event(past, answer)

    def _expand_unlogged_event(self, past: PastEvent, answer: str) -> Iterator[PastEvent]:
        """Yield an event that no entry holds: the end of a turn with its `answer`; a `!` command only if no message has
        its output."""
        match past.event:
            case event.TurnEnd(outcome) if answer:
                yield replace(past, event=event.TurnEnd(replace(outcome, text=answer)))
            case event.SessionAct(act="command", text=text) if not self._is_whole and text.startswith("!"):
                pass
            case _:
                yield past

    def between(self, entry: int) -> list[PastEvent]:
        """Return the events after an entry that are in none, in their order; the end of a turn without its answer."""
        acts = [act for kind in (THINKING, *ACT_KINDS) for memo in self.notes(kind, entry) for act in read_acts(memo)]
        events = (*self._drops_and_pins.get(entry, ()), *acts, *self._session_acts.get(entry, ()))
        return sorted(events, key=lambda past: past.at)

    def _events_of(self, entry: Entry, calls: dict[str | None, ToolCall]) -> Iterator[PastEvent]:
        """Yield the events that an entry holds; `calls` are those of the turn so far."""
        entry_events: list[Event] = []
        match entry.kind:
            case Kind.USER:
                entry_events.append(event.TurnStart(self.shown_text(entry)))
            case Kind.STEER if entry.actor == "nexus":
                text = _describe_own(entry.message.content)
                entry_events += [event.Notice(text, warning=False)] if text else []
            case Kind.STEER | Kind.MESSAGE if entry.kind is Kind.STEER or self._is_whole:
                yield from self._shell_lines(entry)
                entry_events.append(event.SteeringMessage(self.shown_text(entry)))
            case Kind.ASSISTANT:
                events = self.calls_of(entry)
                entry_events += self.thinking_of(entry)
                calls |= {tool_call_event.call.id: tool_call_event.call for tool_call_event in events}
                if entry.message.content:
                    entry_events.append(event.Text(entry.message.content))
                entry_events += events
            case Kind.TOOL:
                call_id = str(entry.message.tool_call_id)
                call = calls.get(call_id)
                if call is None and self._is_whole:
                    call = ToolCall(call_id, entry.actor.removeprefix("tool:"))
                entry_events += self._events_of_call(call, entry) if call else ()
        yield from (PastEvent(replayed, entry.at, entry) for replayed in entry_events)

    def _shell_lines(self, entry: Entry) -> list[PastEvent]:
        """Return the `!` commands of the person whose output a message has attached, unless that is shown with it."""
        attached = "" if self._is_whole else split_attachments(entry.message.content)[1]
        return _read_shell_lines(attached, entry.at, entry.id)

    def _unsent_lines(self) -> list[PastEvent]:
        """Return the `!` commands whose output waits for the next message."""
        memos = [memo for memo in self.record.memos(WAITING_TEXTS) if memo.value["session"] == self.record.session_id]
        if not memos or not memos[-1].value["texts"]:
            return []
        at, after, value = memos[-1].at, memos[-1].entry, memos[-1].value
        sent = "".join(entry.message.content for entry in self._read(after + 1, self.record.last_id()))
        texts = "\n".join(text["text"] for text in value["texts"] if text["text"] not in sent)
        return _read_shell_lines(texts, at, after)

    def thinking_of(self, entry: Entry) -> Iterator[event.Thinking]:
        """Yield the thinking of a reply that its entry or memo keeps."""
        opaque, notes = entry.message.opaque, self.notes(THINKING, entry.id)
        note = next((memo.value for memo in notes if "alone" not in memo.value), {})
        if text := note.get("text") or (opaque.thinking if opaque else ""):
            yield event.Thinking(text, note.get("seconds", 0.0))

    def _events_of_call(self, call: ToolCall, entry: Entry) -> Iterator[Event]:
        result, seconds = self.result_of(entry)
        if call.name == RECALL and result.ran and not result.error:
            yield event.ContextRecall(str(call.arguments.get("id", "")), entry.tokens)
        yield event.ToolResultEvent(call, result, entry.tokens, seconds)

    @cached_property
    def acts(self) -> Sequence[PastEvent]:
        """All events of the session that no entry holds; the ends of turns without their answers."""
        acts = chain(*map(read_acts, self.record.memos(*ACT_KINDS)))
        return [*chain(*self._drops_and_pins.values()), *acts, *chain(*self._session_acts.values())]

    def has_no_end(self, newest: Entry | None) -> bool:
        """Return True if the turn with this newest entry had more to do, and has no recorded end: it runs, or its
        process was killed."""
        if newest is None:
            return False
        is_open = newest.kind in (Kind.USER, Kind.STEER, Kind.TOOL) or bool(newest.message.tool_calls)
        return is_open and newest.id > self._imported and newest.id not in self._ended

    @cached_property
    def _ended(self) -> Collection[int]:
        """The entries at which turns have ended."""
        return {past.after for past in self.acts if isinstance(past.event, event.TurnEnd)}

    @cached_property
    def _imported(self) -> int:
        """The newest entry of another program, whose turns have no recorded ends."""
        return max((memo.entry for memo in self.record.memos(IMPORTED_SESSION)), default=0)

    @cached_property
    def _session_acts(self) -> Mapping[int, Sequence[PastEvent]]:
        """The events that memos hold together, by the entry after which they were recorded."""
        return group_pairs((act.after, act) for act in session_acts(self.record))

    @cached_property
    def _drops_and_pins(self) -> Mapping[int, Sequence[PastEvent]]:
        """All drops and pins by the entry after which they were recorded; a drop of a message is recorded before its
        entry."""
        pairs: list[tuple[int, PastEvent]] = []
        for drop in self.record.drops():
            place = drop.after + (drop.cause is Cause.INPUT_CAP or not drop.after)
            pairs.append((place, PastEvent(event.ContextDrop(drop), drop.at, None, drop.after)))
        return group_pairs((*pairs, *((pin.after, pin) for pin in pin_acts(self.record))))

    def notes(self, kind: str, entry: int) -> list[Memo]:
        """Return the memos of one kind at an entry."""
        kinds = TURN_KINDS if kind in TURN_KINDS else (kind,)
        first, memos = self._memos.get(kinds, (maxsize, {}))
        if first > self._first:
            read = self.record.memos(*kinds, first=self._first)
            memos = group_pairs(((memo.kind, memo.entry), memo) for memo in read)
            self._memos[kinds] = self._first, memos
        return memos.get((kind, entry), [])

    def note(self, kind: str, entry: int) -> JsonObject:
        """Return the newest memo of one kind at an entry, empty if there is none."""
        notes = self.notes(kind, entry)
        return notes[-1].value if notes else {}

    def result_of(self, entry: Entry) -> tuple[ToolResult, float]:
        """Return the result in an entry, and its seconds. Only the result after which the run waits is pending."""
        result, seconds = restore_result(self._text(entry), self.note(RESULT, entry.id))
        return (result if entry.id == self._waiting else replace(result, waits=None)), seconds

    def shown_text(self, entry: Entry) -> str:
        """Return the text that people are shown for a message: the typed text, else the attachments; whole with both.
        For our own messages it is the command."""
        if memo := self.note(SHOWN_TEXT, entry.id):
            return str(memo["text"])
        typed, attached = split_attachments(entry.message.content)
        return self._text(entry) if self._is_whole else typed or attached

    def _text(self, entry: Entry) -> str:
        """Return the text of an entry, if whole with the originals of what was clipped when it was recorded."""
        text = entry.message.content
        clipped = self.note(CLIPPED_MESSAGE, entry.id) if self._is_whole else {}
        if "drop" in clipped:
            return self.record.original(clipped["drop"]) or text
        for start, end, drop in reversed(clipped.get("parts", ())):
            text = text[:start] + (self.record.original(str(drop)) or text[start:end]) + text[end:]
        return text

    def calls_of(self, entry: Entry) -> list[event.ToolCallEvent]:
        """Return the calls of a message as they ran: those under names of other programs as calls of our tools."""
        translated = (self._foreign.translate(call, self._folder) for call in entry.message.tool_calls)
        most = maxsize if self._is_whole else SUBJECT
        return [event.ToolCallEvent(call, describe_past_subject(call, most)) for call in translated]


def _describe_own(text: str) -> str:
    """Return the text that people see for a message of ours in a turn: how the command of `--until` ended, or that an
    unfinished reply goes on; "" for another one, whose reason has an event of its own."""
    first = text.partition("\n")[0]
    if first.startswith(NOT_DONE):
        return first.removeprefix(NOT_DONE).rpartition(". ")[0]
    return CONTINUED if first == CONTINUE_MESSAGE else ""


def _read_shell_lines(text: str, at: str, after: int) -> list[PastEvent]:
    """Return the `!` commands whose outputs a text has."""
    lines = ((f"!{unescape(match[1])}", match[2]) for match in SHELL_BLOCK.finditer(text))
    acts = (event.SessionAct("command", line, "person", line, output=output) for line, output in lines)
    return [PastEvent(act, at, None, after) for act in acts]
