"""Repeat pins and the person's words in the marker of a truncation that removes them (law 6)."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, field, replace

from nexus_cli.conversation.compaction.own_words import OwnWords, Quote, quote_lines
from nexus_cli.conversation.compaction.pins import (
    PINNED,
    crowded_line,
    named_ways,
    pin_drop,
    pin_texts,
    split_fitting_pins,
)
from nexus_cli.conversation.compaction.summary_head import quote_words
from nexus_cli.conversation.compaction.work_record import RECORD, FittedRecord
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.groups import flatten
from nexus_cli.conversation.strategies import Strategy
from nexus_cli.conversation.truncation import Truncation
from nexus_cli.conversation.user_messages import find_others, words_before
from nexus_cli.conversation.window_truncation import WindowTruncator
from nexus_cli.core.entry import Cause, Drop, ItemForm, WindowItem
from nexus_cli.core.message import Message, Role

SHORTENED = "[Pinned messages were cut short here to fit the window. They follow below, as far as there is room.]"
NEAR = 0.9
"""Share of the mark that is enough: a cut that went below it keeps one more message if the result stays near the mark.
"""
ABOVE = (1.15, 1.3)
"""Factors by which a cut may stay above the mark, tried in order."""


@dataclass(kw_only=True)
class PinningTruncator(WindowTruncator):
    """A truncator that adds the removed pins and words to its first marker, as far as there is room."""

    pins: Sequence[Quote] = ()
    pins_room: int = 0
    """Tokens for the pins."""
    words_room: int = 0
    """Tokens for the words of the person's messages that the cut removes."""
    rules: str = ""
    """The person's standing instructions, as a text."""
    record: FittedRecord = field(default_factory=FittedRecord)
    """The record of the work."""

    def count_reserved(self, conversation: Conversation) -> int:
        """Return the tokens to reserve for pins, words, rules and record."""
        fitting, crowded = self._split_pins(self.pins)
        pins = sum((pin.labelled_tokens(self.count) for pin in fitting), self._around_pins(crowded))
        words, room = OwnWords(self.count), self.words_room
        words_tokens = sum(
            words.cost(text) for _, text in words.newest(words_before(conversation, conversation.last), room)
        )
        beside = sum(self.count(text) + 2 for text in (self.rules, self.record.text()))
        return (pins if self.pins else 0) + min(room, words_tokens) + beside

    def _around_pins(self, crowded: Sequence[Quote]) -> int:
        """Return the tokens of the title of the pins, and of the line that names those without room."""
        line = crowded_line([(pin.pin, "d9999") for pin in crowded], self.recalls)
        return self.count(PINNED) + 2 + (self.count(line) + 2 if crowded else 0)

    def _split_pins(self, pins: Sequence[Quote]) -> tuple[tuple[Quote, ...], tuple[Quote, ...]]:
        """Return the pins that fit and the others, both in their order. The line that names the others needs room
        too."""
        crowded: tuple[Quote, ...] = ()
        for _ in range(2):
            room = self.pins_room - self._around_pins(crowded)
            fitting, crowded = split_fitting_pins(pins, room, self.count)
        return fitting, crowded

    def _head(self, conversation: Conversation, result: Truncation, drops: list[Drop]) -> list[WindowItem]:
        head = super()._head(conversation, result, drops)
        kept_items = flatten(result.groups)
        texts = [item.message.content for item in head]
        place = next((index for index, item in enumerate(head) if item.form is ItemForm.MARKER), None)
        there = {item.entry for item in kept_items if item.form is ItemForm.FULL}
        gone = [p for p in self.pins if p.entry not in there and not any(p.labelled in text for text in texts)]
        before = [item.message.content for item in conversation.items if item.replaces_others]
        if place is None:  # only single messages were cut, or a summary with the pins below it
            cut = {item.entry for item in kept_items} - there
            gone = [pin for pin in gone if pin.entry in cut or any(pin.labelled in text for text in before)]
            if not gone:
                return head
            place = sum(1 for item in head[:1] if item.form is ItemForm.SUMMARY)
            entry = head[place - 1].entry if place else 0
            head.insert(place, WindowItem(entry, ItemForm.MARKER, Message(Role.USER, SHORTENED)))
            words = ""
        else:
            words = self._words(conversation, kept_items, texts, {pin.entry for pin in self._split_pins(gone)[0]})
        summary = head[place].message.content.partition(f"\n\n{RECORD}")[0]  # the new record follows
        rules = self.rules if not any(self.rules in text for text in texts) else ""
        parts = [text for text in (summary, rules, words) if text]
        parts += self._pin_texts(conversation, gone, (texts, before), drops)
        if record := self._record_text(conversation, drops):
            parts.append(record)
        message = replace(head[place].message, content="\n\n".join(parts))
        head[place] = replace(head[place], message=message, tokens=self.measure(message, ""))
        return head

    def _pin_texts(
        self,
        conversation: Conversation,
        gone: Sequence[Quote],
        texts: tuple[Sequence[str], Sequence[str]],
        drops: list[Drop],
    ) -> list[str]:
        """Return the quotations of the `gone` pins that fit, and a line with the drop of each other one."""
        fitting, crowded = self._split_pins(gone)
        cited, drop_ids = map(named_ways, texts)
        ways = []
        for pin in (pin for pin in crowded if pin.pin not in cited):
            if pin.pin not in drop_ids:
                drop_ids[pin.pin] = conversation.log.next_drop()
                drops.append(pin_drop(pin, drop_ids[pin.pin], Cause.TRUNCATION, conversation.now(), self.count))
            ways.append((pin.pin, drop_ids[pin.pin]))
        return pin_texts(fitting, ways, self.recalls)

    def _record_text(self, conversation: Conversation, drops: list[Drop]) -> str:
        """Return the record; items without room become a drop."""
        if not self.record.left:
            return self.record.text()
        name = conversation.log.next_drop()
        drops.append(self.record.drop(name, Cause.TRUNCATION, conversation.now(), self.count))
        return self.record.text(self.record.missing(name, self.recalls))

    def _words(
        self,
        conversation: Conversation,
        kept_items: Sequence[WindowItem],
        texts: Sequence[str],
        pinned: Collection[int],
    ) -> str:
        """Return the person's words that are nowhere else in the window, oldest first; "" if there are none."""
        shown = {item.entry for item in kept_items if item.shows_entry} | set(pinned)
        words = OwnWords(self.count)
        every = words_before(conversation, conversation.last, shown)
        unquoted = (pair for pair in every if not any(quote_lines(pair[1]) in text for text in texts))
        chosen = words.choose_quotes(words.newest(unquoted, self.words_room), self.words_room)
        return quote_words(chosen, find_others(conversation, [quote.entry for quote in chosen])).strip()


def near(strategy: Strategy, most: int) -> Strategy:
    """Return `strategy` for a cut to a mark that may stay a little above it, up to `most` tokens, if one large message
    would take it far below."""

    def choose(sizes: Sequence[int], budget: int, required: Set[int]) -> set[int]:
        chosen = strategy(sizes, budget, required)
        for share in ABOVE:
            if sum(sizes[index] for index in chosen) >= NEAR * budget:
                break
            chosen = strategy(sizes, min(most, int(budget * share)), required)
        return chosen

    return choose
