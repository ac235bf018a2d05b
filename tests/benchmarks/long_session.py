"""A session with much history behind a small window, written through the session's own logger.

Hidden entries lie before an epoch whose head is a summary; the window after it is the same for every length, so that
two sessions differ in what is hidden and in nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nexus_cli.conversation.groups import flatten, group_tool_calls
from nexus_cli.conversation.render import Wire
from nexus_cli.core.entry import Entry, Epoch, ItemForm, Kind, Manifest, WindowItem
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.services import FixedValues
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import WireRules
from nexus_cli.ledger import LaneLog, Ledger

AT = "2026-01-13T14:30:00.000Z"
VISIBLE = 40
"""Entries in the window after the summary."""


def entry(number: int) -> Entry:
    """Entry `number`: a person's message once in forty, else calls and results in turn."""
    place = number % 40
    if place == 1:
        return Entry(number, AT, "person", Kind.USER, Message(Role.USER, f"Question {number}: go on."), tokens=12)
    if place == 0:
        return Entry(number, AT, "agent", Kind.ASSISTANT, Message(Role.ASSISTANT, f"Answer {number}."), tokens=10)
    if place % 2 == 0:
        call = ToolCall(f"c{number}", "read_file", {"path": f"f{number}.txt"})
        return Entry(number, AT, "agent", Kind.ASSISTANT, Message(Role.ASSISTANT, "", (call,)), tokens=20)
    message = Message(Role.TOOL, f"line {number}\n" * 20, tool_call_id=f"c{number - 1}")
    return Entry(number, AT, "tool:read_file", Kind.TOOL, message, tokens=80)


def write(ledger: Ledger, folder: Path, model: str, hidden: int, visible: int = VISIBLE) -> str:
    """The id of a new session of `folder`: `hidden` entries before a summary, `visible` after it (both in forties)."""
    made = ledger.create_session(folder=str(folder), project=str(folder), model=model, recipe="ask", at=AT)
    log = ledger.log(made.id)
    start = Epoch(0, None, "start", model, "You are a coding agent.", (), WireRules().dumps(), (), 0, system_tokens=9)
    log.begin_epoch(start, ())
    if not hidden:
        _talk(log, start, 1, visible)
        return made.id
    _talk(log, start, 1, hidden)
    summary = WindowItem(
        hidden, ItemForm.SUMMARY, Message(Role.USER, "[CONTEXT SUMMARY]\n---\nMuch was done."), tokens=15
    )
    after = replace(start, id=1, parent=0, cause="compaction", head=(summary,), base=hidden)
    log.begin_epoch(after, ())
    _talk(log, after, hidden + 1, hidden + visible)
    return made.id


def _talk(log: LaneLog, epoch: Epoch, first: int, last: int) -> None:
    """Append the entries from `first` to `last`, with a request before each of the assistant's."""
    step, wire, unsent, sent = log.step(), Wire(epoch), list[Entry](), epoch.header_tokens
    heads = wire.extend(flatten(group_tool_calls(epoch.head)))
    for number in range(first, last + 1):
        made = entry(number)
        if made.kind is Kind.ASSISTANT:
            step += 1
            items = flatten(group_tool_calls(map(WindowItem.of, unsent)))
            lines = zip(items, wire.extend(items), strict=True)
            fixed = [FixedValues(item.entry, "", item.tokens, line) for item, line in lines]
            log.record_request(Manifest(step, epoch.id, number - 1, {}, wire.sha256, 100, AT), fixed, heads)
            sent += sum(item.tokens for item in items)
            log.record_reply(None, step, Usage(sent, 10), "tool_calls" if made.message.tool_calls else "stop", True)
            unsent, heads = [], []
        log.append(made)
        unsent.append(made)
