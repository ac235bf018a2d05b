"""Build the head of the next epoch from a summary: one message with it, then the kept items (law 6). Pure.

Our own notes come before the rule: the range of the summary, how to read the originals, the person's words and the
assistant's last texts. The summary follows, and below it the parts that do not depend on the summarizer: the record of
the work and the pins.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from nexus_cli.conversation.compaction.compaction_plan import CompactionPlan
from nexus_cli.conversation.compaction.own_words import Quote, list_labelled, missing_line, quote_lines
from nexus_cli.conversation.compaction.pins import left_out_line, quote_pins
from nexus_cli.conversation.left_out_ranges import BUT, SUMMED
from nexus_cli.core.clock import Clock
from nexus_cli.core.elide import Count
from nexus_cli.core.entry import EntryRange, ItemForm, WindowItem
from nexus_cli.core.entry_ranges import format_ranges
from nexus_cli.core.message import Message
from nexus_cli.core.summary_message import create_summary_message
from nexus_cli.text.untrusted_text import named_drops, neutralize

RULED = "What the person laid down, word for word; later words win over earlier ones:"
PERSON_WORDS_TITLE = "What the person said in them, word for word:"
NOTHING_ELSE = "[In these messages the person said nothing else.]"
NOTHING = "[In these messages the person said nothing.]"
OTHERS_WORDS_TITLE = "What others said in them, word for word (a program, a model, other members; not the person):"
ANSWERED = "What the assistant said last in its turns, word for word:"
_ENDS = re.compile(r"[.!?:;]\s+|[\u3002\uff01\uff1f]\s*|\n+")
"""The end of a sentence or a line, with the space after it."""
_HEADING_LINE = re.compile(r"(?:(?:^|\n)\s*(?:#[^\n]*|(?:\d+[.)]\s*)?[^\n]{1,60}:|[*_]{2}[^\n]{1,60}))+\s*\Z")
"""Headings at the end of a text."""


@dataclass(frozen=True, slots=True)
class Unquoted:
    """Messages that are not quoted word for word."""

    missing: int = 0
    """Number of those not quoted at all."""
    cut: int = 0
    """Number of those quoted in part."""


@dataclass(frozen=True, slots=True)
class Additions:
    """Texts and figures that accompany a summary."""

    record: str = ""
    """The record of the work, which overrides the summary."""
    left_out: Sequence[tuple[str, str]] = ()
    """Pins without room by their ids, with the drop that has their texts."""
    recalls: bool = True
    """True if the model can read drops; otherwise none is named to it."""
    unseen: Sequence[EntryRange] = ()
    """The messages that the author of the summary never saw."""
    words: Unquoted = Unquoted()
    """Messages of the person."""
    answers: Unquoted = Unquoted()
    """The assistant's last texts."""
    others_messages: Collection[int] = ()
    """The messages whose words are not the person's."""
    rules: Sequence[Quote] = ()
    """The person's standing instructions that no quotation shows."""
    cut: str = ""
    """The drop with the end of a summary that had no room."""


def split_summary(summary: str, room: int, count: Count) -> tuple[str, str]:
    """Split a summary into the part that fits `room` tokens, up to a heading or the end of a sentence, and the rest."""
    if count(summary) <= room:
        return summary, ""
    ends = [end.end() for end in _ENDS.finditer(summary)]
    if not ends or count(summary[: ends[0]]) > room:
        ends = list(range(1, len(summary)))
    place = bisect_right(ends, room, key=lambda end: count(summary[:end]))
    first = summary[: ends[max(0, place - 1)]]
    first = first[: heading.start()] if (heading := _HEADING_LINE.search(first)) and heading.start() else first
    return first.rstrip(), summary[len(first) :].strip()


def below(summary: str, chosen: CompactionPlan, additions: Additions, known_drops: Collection[str]) -> str:
    """Return the neutralized `summary` with the record, the pins and the line for pins without room below it."""
    parts = [neutralize(summary, known_drops).strip()]
    if additions.cut:
        parts[0] += "\n" + (
            f'[The summary continues: recall("{additions.cut}")]'
            if additions.recalls
            else "[The summary was cut off here.]"
        )
    if additions.record:
        parts.append(additions.record)
    left_out = (left_out_line(names, drop, recalls=additions.recalls) for names, drop in additions.left_out)
    return "\n\n".join([*parts, *quote_pins(chosen.pins, "\n".join(left_out))])


def _quotations(title: str, quotes: Sequence[Quote], gaps: Sequence[str] = (), end: str = "") -> str:
    """Return the quotations under their title, the lines for missing ones and the end line; "" for none."""
    texts = [text for text in ("\n".join(gaps), *(quote_lines(quote.text) for quote in quotes), end) if text]
    return f"\n\n{title}\n" + "\n\n".join(texts) if texts else ""


def quote_rules(rules: Sequence[Quote]) -> str:
    """Quote the person's standing instructions, each with its message."""
    return list_labelled(RULED, rules)


def quote_words(
    chosen: Sequence[Quote], others_messages: Collection[int], gaps: Sequence[str] = (), end: str = ""
) -> str:
    """Quote the person's words, then those of others, each under their title; `NOTHING` alone needs none."""
    own = [quote for quote in chosen if quote.entry not in others_messages]
    own_words = f"\n\n{NOTHING}" if end == NOTHING else _quotations(PERSON_WORDS_TITLE, own, gaps, end)
    return own_words + _quotations(OTHERS_WORDS_TITLE, [quote for quote in chosen if quote.entry in others_messages])


def _gaps(unquoted: Unquoted, noun: str, drop_id: str, recalls: bool) -> list[str]:
    """Return the lines for messages that are not quoted, or quoted in part."""
    lines = [missing_line(unquoted.missing, f"earlier {noun}", drop_id, recalls)] if unquoted.missing else []
    if unquoted.cut:
        verb = "is" if unquoted.cut == 1 else "are"
        recall_hint = f': recall("{drop_id}")' if recalls else ""
        lines.append(f"[{unquoted.cut} of the {noun}s below {verb} quoted in part{recall_hint}]")
    return lines


def head(
    chosen: CompactionPlan,
    summary: str,
    drop_id: str,
    *,
    clock: Clock,
    measure: Callable[[Message, str], int],
    more: Additions = Additions(),
) -> tuple[WindowItem, ...]:
    """Return the new head: one summary message, then the kept items."""
    notes = SUMMED.format(chosen.named_but(more.unseen))
    if more.unseen:
        notes += BUT.format(format_ranges(more.unseen))
    notes += f'. The originals: recall("{drop_id}").]' if more.recalls else ".]"
    notes += f"\n\n{rules}" if (rules := quote_rules(more.rules)) else ""
    has_words = bool(rules or any(quote.entry not in more.others_messages for quote in chosen.quotes))
    end = "" if more.words.missing or more.words.cut else NOTHING_ELSE if has_words else NOTHING
    notes += quote_words(chosen.quotes, more.others_messages, _gaps(more.words, "message", drop_id, more.recalls), end)
    notes += _quotations(ANSWERED, chosen.answers, _gaps(more.answers, "answer", drop_id, more.recalls))
    known_drops = {name for group in chosen.gone for item in group for name in named_drops(item.message.content)}
    message = create_summary_message(below(summary, chosen, more, known_drops), clock, notes)
    item = WindowItem(chosen.entries[1], ItemForm.SUMMARY, message)
    return (replace(item, tokens=measure(message, "")), *chosen.kept)
