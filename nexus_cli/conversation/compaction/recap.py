"""The recap of a run that resumes in a new process: its timeline as text, within a budget. Pure.

Each event is `[time] Name or You: ...`, oldest first: messages of people verbatim, the model's own calls with shortened
arguments and their outcome. Events that arrived while the run waited come last, with `<- RESUME`. Entries of SPACE
HISTORY are copied below its header. Foreign text is quoted, so that it cannot imitate a line of the timeline.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nexus_cli.conversation.compaction.compaction_plan import shares_of
from nexus_cli.conversation.compaction.compactor import Compactor
from nexus_cli.conversation.compaction.own_words import OwnWords, Quote, fit_labelled, missing_line, quote_lines
from nexus_cli.conversation.compaction.pins import left_out_line, list_pins, name_pins, quote_pins
from nexus_cli.conversation.compaction.work_log import CommandRun, find_command
from nexus_cli.conversation.compaction.work_record import fit_record
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.left_out_ranges import SUMMED
from nexus_cli.conversation.user_messages import read_sources, words_before
from nexus_cli.core.attachment import RESUME
from nexus_cli.core.clock import format_stamp
from nexus_cli.core.elide import Count, clip_text, elide_text, one_line, plain_marker
from nexus_cli.core.entry import PERSON, Entry, read_backwards
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import SPACE_HISTORY, TRIGGER
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.run import SPACE_HEADER, TRIGGER_MARK, resume_lines
from nexus_cli.core.typed_text import split_attachments
from nexus_cli.text.untrusted_text import neutralize, neutralize_message, safe_line
from nexus_cli.tools.registry import find_tool

SHARE = 0.25
"""Share of the budget for the whole recap."""
SLACK = 120
"""Tokens of the recap reserved for its frame and for lines about gaps."""
ARGUMENT = 80
"""Most characters shown of a call's argument."""
MESSAGE = 4_000
"""The same of a message that the model itself sent: the answers that follow make sense only with all of it."""
OUTCOME = 120
"""Most characters shown of a call's outcome."""
OWN_TEXT = 400
"""Most tokens shown of a text of the model itself."""
FOREIGN_SHARE = 0.25
"""Share of the room for lines that one message of another party may use."""
TRIGGER_SHARE = 0.25
"""Share of the room for lines reserved for the trigger of the run, which is always shown."""
NAMES = {"client": "Client", "agent": "Manager", "stdin": "Standard input"}
"""Speaker names for user messages that the person did not type, by source of the message."""
_MARK = re.compile(r"(<-|←)\s*(RESUME|TRIGGER)\b")
_SEEN_MARK = "  [SEEN]"
"""State of repeated messages of a space."""
INTRODUCTION = """\
This is a timeline of your run so far; "You" is yourself. The run was suspended while it waited, and now continues in \
a new invocation: nothing is pending, and what is done must not be repeated."""


@dataclass(frozen=True, slots=True)
class RecapLine:
    """One line of the timeline, or the lines of one message."""

    entry: int
    text: str
    space: str = ""
    """Name of the space, for a message in SPACE HISTORY."""


@dataclass(frozen=True, slots=True)
class Recap:
    """The lines that fit, oldest first, and the number of missing ones."""

    lines: tuple[RecapLine, ...]
    missing: int
    """Number of entries and space messages without a line."""

    def text(self, gap: str) -> str:
        """Join the lines, after the line `gap` if earlier ones are missing."""
        lines, space = [gap] if self.missing else [], ""
        for line in self.lines:
            if line.space and line.space != space:
                space = line.space
                lines.append(SPACE_HEADER.format(neutralize_message(space)))
            lines.append(line.text if line.space or not space else f"  {line.text}".replace("\n", "\n  "))
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class OwnForms:
    """The entries whose text was written by nexus itself."""

    history: Mapping[int, JsonObject] = field(default_factory=dict)
    """The memos `HISTORY`, by entry of SPACE HISTORY."""
    trigger: int = 0
    """The entry with the trigger mark that started the run, 0 if there is none."""


def recap_text(compactor: Compactor, subjects: Mapping[str, str], came: Sequence[str], drop_id: str) -> str:
    """Return the recap of all messages, which ends in the lines of `came`; `drop_id` is their drop.

    Messages of the person, the record of the work and the pins get the shares of the budget that a compaction gives
    them. `subjects` are the main arguments by tool.
    """
    conversation, count, last = compactor.conversation, compactor.count, compactor.conversation.last
    rooms = shares_of(compactor.budget, compactor.budget)
    recall_hint = f'. The originals: recall("{drop_id}").]' if compactor.recalls else ".]"
    parts = [f"{SUMMED.format(f'1 to {last}')}{recall_hint}\n{INTRODUCTION}\n\n---"]
    ending = "\n".join(resume_lines(came))
    pins = list_pins(conversation)
    fitting = fit_labelled(pins, rooms.pins, count)
    crowded = [pin for pin in pins if pin not in fitting]
    left_out = left_out_line(name_pins(crowded), drop_id, recalls=compactor.recalls) if crowded else ""
    parts += quote_pins(fitting, left_out)
    room = int(compactor.budget * SHARE) - SLACK - count("\n\n".join([*parts, ending]))
    own_forms, words = _own_forms(conversation), OwnWords(count)
    messages, most_said = (
        words_before(conversation, last, {*own_forms.history, own_forms.trigger}),
        min(rooms.words, room),
    )
    quotes = {quote.entry: quote for quote in words.choose_quotes(words.newest(messages, most_said), most_said)}
    room -= sum(quote.tokens for quote in quotes.values()) + 16 * len(quotes)
    record = fit_record(compactor.make_record(), rooms.record, count)
    text = record.text(record.missing(drop_id, compactor.recalls))
    recap = make_recap(_read_named(conversation, last), quotes, max(0, room), count, subjects, own_forms)
    if recap.missing and text:  # otherwise the timeline has every call
        parts.append(text)
        recap = make_recap(
            _read_named(conversation, last), quotes, max(0, room - count(text)), count, subjects, own_forms
        )
    lines = recap.text(missing_line(recap.missing, "earlier event", drop_id, compactor.recalls))
    return "\n\n".join([*parts, "\n".join(filter(None, [lines, ending]))])


def _read_named(conversation: Conversation, last: int) -> Iterator[Entry]:
    """Yield the entries up to `last`, newest first, with the name of the program or agent that sent a message."""
    sources = read_sources(conversation.memos)
    for entry in read_backwards(conversation.read, last):
        name = NAMES.get(sources.get(entry.id, ""), "") if entry.actor == PERSON else ""
        yield replace(entry, actor=name) if name else entry


def _own_forms(conversation: Conversation) -> OwnForms:
    """Return the entries of SPACE HISTORY, and the newest entry with a trigger that started the run."""
    history = {memo.entry: memo.value for memo in conversation.memos(SPACE_HISTORY)}
    facts = [(memo.entry, memo.value.get("facts", {})) for memo in conversation.memos(TRIGGER)]
    return OwnForms(history, max((entry for entry, fact in facts if fact and fact["type"] != RESUME), default=0))


def make_recap(
    entries: Iterable[Entry],
    quotes: Mapping[int, Quote],
    room: int,
    count: Count,
    subjects: Mapping[str, str],
    own_forms: OwnForms,
) -> Recap:
    """Build the timeline of `entries`, which are read newest first until the room is used up.

    The person's messages come from `quotes`, whose tokens are already reserved; other lines get at most `room` tokens.
    `subjects` maps each tool to the name of its main argument.
    """
    recap_lines, results = list[RecapLine](), dict[str, Message]()
    missing, is_full, is_new = 0, False, True
    oldest = min([*quotes, *([own_forms.trigger] if own_forms.trigger else [])], default=1 << 62)
    reserved = int(room * TRIGGER_SHARE) if own_forms.trigger else 0
    room -= reserved
    for entry in entries:
        if is_full and entry.id < oldest:
            missing += entry.id  # older entries are not read
            break
        message, quote, history = entry.message, quotes.get(entry.id), own_forms.history.get(entry.id, {})
        space = str(history.get("name", ""))
        if message.role is Role.TOOL:
            results[message.tool_call_id or ""] = message
            if quote is not None:  # the reason given when the call was refused
                recap_lines.append(
                    RecapLine(entry.id, f"{format_stamp(entry.at)} Refused with {quote_text(quote.text)}")
                )
        elif entry.id == own_forms.trigger:
            text = _trigger_text(entry, history, max(64, reserved), count)
            recap_lines.append(RecapLine(entry.id, text, space))
            room += reserved - count(text) if not is_full else 0
        elif quote is not None:
            recap_lines.append(RecapLine(entry.id, _stamp(entry, _describe_message(quote.text, entry.message))))
        else:
            texts = _history_messages(message.content, history, is_new) if space else [""]
            if not space and not is_full:
                texts = [_describe(entry, results, subjects, count, int(room * FOREIGN_SHARE))]
            for text in reversed(texts):
                cost = count(text) + 1
                if is_full or not text or cost > room:
                    missing += 1
                    is_full = is_full or bool(text)
                    continue
                room -= cost
                recap_lines.append(RecapLine(entry.id, text, space))
        is_new = is_new and bool(space)
    return Recap(tuple(reversed(recap_lines)), missing)


def _history_messages(content: str, history: JsonObject, is_new: bool) -> list[str]:
    """Return the lines of each message in SPACE HISTORY, `[SEEN]` unless `is_new`; an old entry as a whole."""
    parts = history.get("parts", [[0, len(content), len(content)]])
    if is_new:
        return [content[start:end] for start, _, end in parts]
    return [content[start:state] + (_SEEN_MARK if state < end else "") for start, state, end in parts]


def _trigger_text(entry: Entry, history: JsonObject, most: int, count: Count) -> str:
    """Return the lines of the entry that started the run, with its mark."""
    text = entry.message.content.removesuffix(f" {TRIGGER_MARK}")
    if history:
        for start, state, end in history.get("parts", ()):  # the end of a long message, its state, survives clipping
            text = entry.message.content[start : state - end] + _SEEN_MARK
        return f"{elide_text(text, most, count, plain_marker).text} {TRIGGER_MARK}"
    return f"{_stamp(entry, quote_text(elide_text(neutralize(text), most, count, plain_marker).text))} {TRIGGER_MARK}"


def quote_text(text: str) -> str:
    """Quote foreign text after a name: in quotes if it is one line, else as lines with a quote mark each."""
    text = _MARK.sub(r"< - \2", text)
    return f'"{text}"' if "\n" not in text else "\n" + quote_lines(text)


def _stamp(entry: Entry, text: str) -> str:
    name = {"person": "Person", "agent": "You", "nexus": "nexus"}.get(entry.actor, entry.actor)
    return f"{format_stamp(entry.at)} {safe_line(name)}: {text}"


def _describe_message(words: str, message: Message) -> str:
    attached = split_attachments(message.content)[1]
    attachments = [f"{len(attached):,} characters attached"] * bool(attached)
    attachments += [f"image {safe_line(name)}" for name in message.image_names]
    return quote_text(words) + (f" ({', '.join(attachments)})" if attachments else "")


def _describe(
    entry: Entry, results: Mapping[str, Message], subjects: Mapping[str, str], count: Count, most: int
) -> str:
    """Return the lines of an entry that is not in `quotes`; "" if it has no content."""
    message = entry.message
    if message.role is Role.ASSISTANT:
        text = elide_text(neutralize(message.content.strip()), OWN_TEXT, count, plain_marker).text
        lines = [_stamp(entry, quote_text(text))] if text else []
        lines += [_stamp(entry, describe_call(call, results.get(call.id), subjects)) for call in message.tool_calls]
        return "\n".join(lines)
    if entry.actor == "nexus":
        return _stamp(entry, safe_line(message.content))
    words = neutralize(split_attachments(message.content)[0])
    return _stamp(entry, _describe_message(elide_text(words, max(64, most), count, plain_marker).text, message))


def describe_call(call: ToolCall, result: Message | None, subjects: Mapping[str, str]) -> str:
    """Format a call as `called NAME("subject", other: value) -> OUTCOME`."""
    subject = subjects.get(call.name, "")
    most = MESSAGE if call.name == "send_message" else ARGUMENT
    first = [_value(call.arguments[subject], most)] if subject in call.arguments else []
    other_arguments = [
        f"{safe_line(name)}: {_value(value)}" for name, value in call.arguments.items() if name != subject
    ]
    ended = "no result" if result is None else _ended(call, result.content)
    return f"called {safe_line(call.name)}({', '.join([*first, *other_arguments])}) -> {ended}"


def _value(value: Any, most: int = ARGUMENT) -> str:
    text = neutralize(one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))
    short = clip_text(text, most, "...")
    return f'"{short}"' if isinstance(value, str) else short


def _ended(call: ToolCall, result: str) -> str:
    command = find_command(call, find_tool)
    if command and (run := CommandRun.read(command, result)):
        return run.describe_end("did not end")
    line = next((line for line in result.splitlines() if line.strip()), "")
    return clip_text(safe_line(line), OUTCOME, "...")
