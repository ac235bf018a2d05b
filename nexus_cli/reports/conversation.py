"""The turns of a session as the events that a person saw, newest turn first. A resumed session shows them again.

Reads the ledger, so that a compacted window hides nothing. Sends nothing and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from nexus_cli.core import event
from nexus_cli.core.entry import Entry, Kind, Memo
from nexus_cli.core.event import Event
from nexus_cli.core.memo_kinds import CUT_ANSWER, RESULT, SHOWN_TEXT
from nexus_cli.core.message import ToolCall, restore_result
from nexus_cli.core.typed_text import split_attachments
from nexus_cli.engine.calls.waiting import waiting_entry
from nexus_cli.engine.requests.user_messages import read_backwards
from nexus_cli.ledger import LaneLog
from nexus_cli.session.session import Session

PERSON = "person"
LONGEST = 200
"""Most entries of one turn that are shown, the newest ones."""
CONTINUED = "continued"
"""Text shown to people for the request to continue an answer that broke off."""


def shown_text(record: LaneLog, entry: Entry) -> str:
    """Return the text that people are shown for a user message: the typed text, else the attachments; for our own
    messages the command."""
    memos = record.memos(SHOWN_TEXT, first=entry.id)
    if memos and memos[0].entry == entry.id:
        return str(memos[0].value["text"])
    typed, attached = split_attachments(entry.message.content)
    return typed or attached


def newest_turns(session: Session) -> Iterator[list[Event]]:
    """Yield the turns, newest first, as their events, a long one's ends alone; raise `NexusError` on failure."""
    record = session.record
    if record is None:
        return
    subjects = {tool.name: tool.subject for tool in session.tools()}
    waiting = waiting_entry(session.ledger, record) if session.ledger is not None else 0
    turn: list[Entry] = []
    for entry in read_backwards(record.read, record.last_id()):
        if len(turn) < LONGEST or entry.kind is Kind.USER:
            turn.append(entry)
        if entry.kind is Kind.USER or entry.id == 1:
            first = turn[-2].id if len(turn) > 1 else entry.id
            results = {memo.entry: memo.value for memo in record.memos(RESULT, first=first)}
            words = shown_text(record, entry)
            cuts = [memo for memo in record.memos(CUT_ANSWER, first=entry.id) if memo.entry <= turn[0].id]
            yield list(_events(in_call_order(turn[::-1]), results, subjects, words, waiting, cuts))
            turn = []


def in_call_order(entries: Sequence[Entry]) -> list[Entry]:
    """Sort the results of calls that ran together into call order; they were recorded as they ended."""
    calls = [call.id for entry in entries for call in entry.message.tool_calls]
    places: dict[str | None, int] = {call: place for place, call in enumerate(calls)}
    ordered: list[Entry] = []
    for kind, run in groupby(entries, lambda entry: entry.kind):
        found = list(run)
        if kind is Kind.TOOL:
            found.sort(key=lambda entry: places.get(entry.message.tool_call_id, -1))
        ordered += found
    return ordered


def _events(
    turn: Sequence[Entry],
    results: Mapping[int, Mapping[str, Any]],
    subjects: Mapping[str, str],
    words: str,
    waiting: int,
    cuts: Sequence[Memo],
) -> Iterator[Event]:
    """Yield the events of a turn that began with `words`. The result of the entry `waiting` is still pending. `cuts`
    are answers that broke off and were requested again after their entry."""
    calls: dict[str | None, ToolCall] = {}
    answer = ""
    for entry in turn:
        message = entry.message
        match entry.kind:
            case Kind.USER:
                yield event.TurnStart(words)
            case Kind.STEER if entry.actor == PERSON:
                yield event.SteeringMessage(split_attachments(message.content)[0])
            case Kind.STEER:
                yield event.Notice(CONTINUED, warning=False)
            case Kind.ASSISTANT:
                answer = message.content or answer
                yield event.Text(message.content)
                calls |= {call.id: call for call in message.tool_calls}
            case Kind.TOOL if call := calls.get(message.tool_call_id):
                result, seconds = restore_result(message.content, results.get(entry.id, {}))
                result = result if entry.id == waiting else replace(result, waits=None)
                subject = " ".join(str(call.arguments.get(subjects.get(call.name, ""), "")).split())[:200]
                yield event.ToolCallEvent(call, subject)
                yield event.ToolResultEvent(call, result, entry.tokens, seconds)
            case _:
                pass
        for cut in (one for one in cuts if one.entry == entry.id):
            yield event.Text(str(cut.value["text"]))
            yield event.Retry(1, 0.0, str(cut.value["why"]), cut=True)
    yield event.TurnEnd(event.Outcome(text=answer))
