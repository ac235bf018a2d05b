"""Repeat pins and the person's words in the marker of a truncation that removes them (law 6)."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, field, replace

from nexus_cli.conversation.compaction.own_words import OwnWords, Quote, fit_labelled, quote_lines
from nexus_cli.conversation.compaction.pins import are_left_out, left_out_line, name_pins, pin_drop, quote_pins
from nexus_cli.conversation.compaction.summary_head import quote_words
from nexus_cli.conversation.compaction.work_record import RECORD, FittedRecord
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.groups import flatten
from nexus_cli.conversation.strategies import Strategy
from nexus_cli.conversation.truncation import Truncation
from nexus_cli.conversation.user_messages import find_foreign_messages, words_before
from nexus_cli.conversation.window_truncation import WindowTruncator
from nexus_cli.core.entry import Cause, Drop, ItemForm, WindowItem

PIN_OVERHEAD = 64
"""Tokens for the title of the pins, and for the line that names those without room."""
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
        fitting = fit_labelled(self.pins, self.pins_room, self.count)
        pins = PIN_OVERHEAD + sum(pin.labelled_tokens(self.count) for pin in fitting) if self.pins else 0
        words, room = OwnWords(self.count), self.words_room
        words_tokens = sum(
            words.cost(text) for _, text in words.newest(words_before(conversation, conversation.last), room)
        )
        beside = sum(self.count(text) + 2 for text in (self.rules, self.record.text()))
        return pins + min(room, words_tokens) + beside

    def _head(self, conversation: Conversation, result: Truncation, drops: list[Drop]) -> list[WindowItem]:
        head = super()._head(conversation, result, drops)
        place = next((index for index, item in enumerate(head) if item.form is ItemForm.MARKER), None)
        if place is None:  # only single messages were cut
            return head
        kept_items, texts = flatten(result.groups), [item.message.content for item in head]
        full_entries = {item.entry for item in kept_items if item.form is ItemForm.FULL}
        hidden_pins = [
            pin
            for pin in self.pins
            if pin.entry not in full_entries and not any(pin.labelled in text for text in texts)
        ]
        fitting = fit_labelled(hidden_pins, self.pins_room, self.count)
        summary = head[place].message.content.partition(f"\n\n{RECORD}")[0]  # the new record follows
        rules = self.rules if not any(self.rules in text for text in texts) else ""
        words = self._words(conversation, kept_items, texts, {pin.entry for pin in fitting})
        crowded = [pin for pin in hidden_pins if pin not in fitting]
        pins = quote_pins(fitting, self._describe_omitted_pins(conversation, crowded, texts, drops))
        is_recorded = any(self.record.text() in text for text in texts[:place])  # a summary that was kept
        record = "" if is_recorded else self._record_text(conversation, drops)
        parts = [summary, rules, words, *pins, record]
        message = replace(head[place].message, content="\n\n".join(filter(None, parts)))
        head[place] = replace(head[place], message=message, tokens=self.measure(message, ""))
        return head

    def _describe_omitted_pins(
        self, conversation: Conversation, pins: Sequence[Quote], texts: Sequence[str], drops: list[Drop]
    ) -> str:
        """Return the line for pins without room, which become a drop; "" if one of the `texts` has it."""
        if not pins or are_left_out(pins, texts):
            return ""
        drop_id = conversation.log.next_drop()
        drops.append(pin_drop(pins, drop_id, Cause.TRUNCATION, conversation.now(), self.count))
        return left_out_line(name_pins(pins), drop_id, recalls=self.recalls)

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
        visible = {item.entry for item in kept_items if item.shows_entry} | set(pinned)
        words = OwnWords(self.count)
        every = words_before(conversation, conversation.last, visible)
        unquoted = (pair for pair in every if not any(quote_lines(pair[1]) in text for text in texts))
        chosen = words.choose_quotes(words.newest(unquoted, self.words_room), self.words_room)
        return quote_words(chosen, find_foreign_messages(conversation, [quote.entry for quote in chosen])).strip()


def allow_slack(strategy: Strategy, most: int) -> Strategy:
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
