"""Plan and draft the rewrites of a window that is too full (law 6). Pure, but for the work log, which is read on.

A compaction is `plan`, then `draft` with a summary of the removed messages; a truncation is `cut`. Whoever applies one
begins an epoch with its items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nexus_cli.conversation.compaction import compaction_plan as planning
from nexus_cli.conversation.compaction.compaction_plan import CompactionPlan
from nexus_cli.conversation.compaction.own_words import Quote, fit_labelled
from nexus_cli.conversation.compaction.pinned_marker import PinningTruncator, allow_slack
from nexus_cli.conversation.compaction.pins import (
    MAX_IMMEDIATE_PIN,
    add_pin,
    describe_pinning,
    list_pins,
    name_pins,
    pin_drop,
    remove_pin,
)
from nexus_cli.conversation.compaction.standing_rules import choose_rules, earlier_rules, missed_rules, rules_tokens
from nexus_cli.conversation.compaction.summary_head import Additions, Unquoted, head, quote_rules, split_summary
from nexus_cli.conversation.compaction.work_log import WorkLog
from nexus_cli.conversation.compaction.work_record import FittedRecord, WorkRecord, fit_record
from nexus_cli.conversation.compaction.work_sources import make_record
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.pruning import StaleBatch, find_batches
from nexus_cli.conversation.user_messages import find_foreign_messages, hidden_words, read_refusals
from nexus_cli.conversation.window_truncation import MARKER_ROOM, WindowTruncator
from nexus_cli.core.elide import Count, plural
from nexus_cli.core.entry import Cause, Drop, EntryRange, WindowItem, sum_tokens
from nexus_cli.core.entry_ranges import format_ranges, ranges_of, subtract_ranges
from nexus_cli.core.json_value import JsonObject

RECORD_SLACK = 32
"""Tokens that a check of the files may add to the record, on top of a quarter of its size."""
LEAST = 4000
"""Least budget in tokens of a compaction on command: a smaller window is not worth one."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of the messages that a plan removes."""

    text: str
    """Without its section of rules."""
    source: str
    """What it was made of: `window`, `transcript`, or `originals`, which also has what an earlier summary replaced."""
    why: str
    """The reason for this source."""
    rules: Sequence[str] = ()
    """The quotations below its heading of rules."""
    ends: str = ""
    """The ends cut from the summaries of earlier pieces."""


@dataclass(frozen=True, slots=True)
class DraftedWindow:
    """A window that begins with a summary."""

    items: Sequence[WindowItem]
    drops: Sequence[Drop]
    rules: Sequence[Sequence[object]]
    """The person's rules in force, for the memo of the compaction."""
    figures: JsonObject
    """The number of messages, answers and work items that it keeps, and of those that it omits."""


@dataclass(frozen=True, slots=True)
class Compactor:
    """Makes smaller windows of a conversation, within tokens by our count."""

    conversation: Conversation
    work: WorkLog
    """Gets what the log has new; nothing else is changed."""
    count: Count
    truncator: WindowTruncator
    """Cuts by the strategy of the settings, and has the measure of messages."""
    budget: int
    """Maximum tokens of a request."""
    window: int
    """Tokens of the model's whole window."""
    recalls: bool
    """True if the model can read drops; otherwise none is named to it."""

    @property
    def pins_room(self) -> int:
        """Maximum tokens of all pins together."""
        return planning.shares_of(self.budget, self.budget).pins

    def pin(self, target: str) -> tuple[str, str]:
        """Pin a message by its number, or a text; return the pin's id and a sentence about it. The model is told a
        short text with its next request. Raises as `add_pin`.

        A pin that alone exceeds the room for pins is refused. If all pins together exceed it, the sentence names those
        without room.
        """
        room, count = self.pins_room, self.count
        before, added = list_pins(self.conversation), add_pin(self.conversation, target, count, room)
        pins = list_pins(self.conversation)
        tokens, used = added.labelled_tokens(count), sum(quote.labelled_tokens(count) for quote in pins)
        sentence = (
            f"{'already ' * (added in before)}{describe_pinning(added)}: {plural(tokens, 'token')}; "
            f"all pins use {used:,} of {room:,}"
        )
        fitting = fit_labelled(pins, room, count)
        if crowded := [quote for quote in pins if quote not in fitting]:
            sentence += f"; a summary will have no room for {name_pins(crowded)}, which can be recalled later"
        if not added.entry and len(added.text) > MAX_IMMEDIATE_PIN:
            sentence += "; too long to send now: the model gets the full text with the next summary"
        return added.pin, sentence

    def unpin(self, target: str) -> tuple[str, str]:
        """Remove a pin; return its id and a sentence about it. Raises as `remove_pin`."""
        removed_id = remove_pin(self.conversation, target).pin
        return removed_id, f"unpinned {removed_id}; its text remains in the window until the next compaction"

    def make_record(self) -> WorkRecord:
        """Return the record of the work from the ledger, without a look at its files."""
        return make_record(self.conversation, self.work)

    def stale_batches(self) -> Iterator[StaleBatch]:
        """Return the batches of stale results that are not pinned, see `find_batches`."""
        pinned = {pin.entry for pin in list_pins(self.conversation)}
        return find_batches(self.conversation, self.work.find_tool, pinned, self.truncator.measure)

    def plan(self, share: float, *, on_command: bool = False) -> CompactionPlan | None:
        """Plan to compact the conversation to `share` of the budget; None if too little would be removed.

        On command the budget is at most the present window's size, and only kept content may exceed the share, not the
        newest groups.
        """
        conversation, count = self.conversation, self.count
        available = min(self.budget, max(LEAST, conversation.counted)) if on_command else self.budget
        pins, fixed = list_pins(conversation), conversation.epoch.header_tokens
        target = int(share * available) - fixed - rules_tokens(conversation, count)
        for _ in self.work.read(conversation):
            pass
        beyond = planning.shares_of(self.budget, self.budget - fixed, newest=not on_command)
        text = fit_record(self.make_record(), beyond.record, count).text()
        if on_command:  # pins do not yield to the low target
            target += min(beyond.pins, sum(pin.labelled_tokens(count) for pin in pins))
        return planning.plan(
            conversation.groups(),
            available=available,
            target=target,
            count=count,
            run=conversation.run,
            earlier=hidden_words(conversation),
            answers=self.work.read_answers(conversation),
            record=count(text) * 5 // 4 + RECORD_SLACK if text else 0,
            pins=pins,
            beyond=beyond,
            spoken=frozenset(self.work.words),
            least=planning.SUMMARY_LEAST if self.window >= planning.LARGE_WINDOW else planning.SUMMARY_FLOOR,
        )

    def missed_rules(self, plan: CompactionPlan, quoted: Sequence[str]) -> list[Quote]:
        """Return the sentences for which the summarizer of `plan` is asked, as `standing_rules.missed_rules` does."""
        return missed_rules(self.conversation, plan, quoted)

    def split_summary(self, plan: CompactionPlan, text: str) -> tuple[str, str]:
        """Split a summary into the part that fits the cap of `plan`, and the rest."""
        return split_summary(text, plan.summary_cap, self.count)

    def draft(
        self, plan: CompactionPlan, summary: Summary, record: WorkRecord, next_drop: Callable[[], str]
    ) -> DraftedWindow:
        """Return the window of `plan` with a summary and the `record` of the work. `next_drop` returns the ids of its
        drops."""
        conversation, count, now = self.conversation, self.count, self.conversation.now()
        free = max(0, plan.summary_cap - count(summary.text))
        rules, quoted_rules = choose_rules(conversation, plan, summary.rules, count, budget=self.budget, free=free)
        text, end = split_summary(summary.text, plan.summary_most, count)
        cut = "\n\n".join(filter(None, (summary.ends, end)))
        drop_id = next_drop()
        pins_drop = next_drop() if plan.crowded else ""
        fitted = fit_record(record, plan.record_room, count)
        record_drop = next_drop() if fitted.left else ""
        cut_drop = next_drop() if cut else ""
        unseen = () if summary.source == "originals" else plan.unseen
        messages = sorted({*self.work.words, *(refusal.entry for refusal in read_refusals(conversation.memos))})
        additions = Additions(
            fitted.text(fitted.missing(record_drop, self.recalls)),
            [(name_pins(plan.crowded), pins_drop)] if plan.crowded else (),
            self.recalls,
            unseen,
            _unquoted(plan, plan.quotes, messages),
            _unquoted(plan, plan.answers, self.work.answers),
            find_foreign_messages(conversation, [quote.entry for quote in plan.quotes]),
            quoted_rules,
            cut_drop,
        )
        items = head(plan, text, drop_id, clock=conversation.clock, measure=self.truncator.measure, more=additions)
        drops = [_drop(plan, drop_id, now, unseen)]
        if fitted.left:
            drops.append(fitted.drop(record_drop, Cause.COMPACTION, now, count))
        if cut:
            what = "the end of a summary that did not fit the window"
            drops.append(Drop(cut_drop, what, count(cut), Cause.COMPACTION, now, text=cut))
        if plan.crowded:
            drops.append(pin_drop(plan.crowded, pins_drop, Cause.COMPACTION, now, count))
        kept_records = {
            **_kept_figures(messages, self.work.answers, plan, fitted),
            "rules": len(rules),
            "source": summary.source,
            "source_why": summary.why,
            "summary": count(text),
            "drops": [drop.id for drop in drops],
        }
        return DraftedWindow(items, drops, [[rule.entry, rule.text] for rule in rules], kept_records)

    def cut(self, record: WorkRecord, reserved: int) -> tuple[Sequence[WindowItem], Sequence[Drop]]:
        """Return the window truncated to the low-water mark, with `reserved` tokens left free, and its drops. Changes
        nothing but takes the ids of these.

        The marker contains pins, the person's own words, their rules and the `record` of the work.
        """
        conversation, room = self.conversation, planning.shares_of(self.budget, self.budget)
        pinning = PinningTruncator(
            **{**vars(self.truncator), "recalls": self.recalls},
            pins=list_pins(conversation),
            pins_room=room.pins,
            words_room=room.words,
            rules=quote_rules(earlier_rules(conversation)),
            record=fit_record(record, room.record, self.count),
        )
        available = self.budget - pinning.count_reserved(conversation) - reserved
        pinning.strategy = allow_slack(
            self.truncator.strategy, available - conversation.epoch.header_tokens - MARKER_ROOM
        )
        return pinning.cut(conversation, available)


def _kept_figures(
    messages: Sequence[int], answers: Sequence[int], plan: CompactionPlan, record: FittedRecord
) -> dict[str, int]:
    """Count the messages, answers and work items that the window keeps under `plan`, and those that it omits."""
    commands = [item for item in record.items if item.kind == "command"]
    figures = {}
    for name, entries, quotes in (("words", messages, plan.quotes), ("answers", answers, plan.answers)):
        full_entries, part = plan.shown_entries(quotes)
        omitted = [entry for entry in entries if entry <= plan.entries[1] and entry not in full_entries]
        figures[name] = sum(entry in full_entries for entry in entries)
        figures[f"{name}_left"], figures[f"{name}_part"] = len(omitted), sum(entry in part for entry in omitted)
    return figures | {
        "files": sum(item.kind == "file" for item in record.items),
        "commands": len(commands),
        "failing": sum(item.failing for item in commands),
        "record_left": len(record.left),
    }


def _unquoted(plan: CompactionPlan, quotes: Sequence[Quote], entries: Sequence[int]) -> Unquoted:
    """Count the removed `entries` without a quote, and those quoted in part."""
    full_entries, part = plan.shown_entries(quotes)
    quoted = {quote.entry for quote in quotes}
    missing = sum(entry <= plan.entries[1] and entry not in full_entries and entry not in part for entry in entries)
    return Unquoted(missing, sum(entry in quoted and entry not in full_entries for entry in entries))


def _drop(plan: CompactionPlan, drop_id: str, at: str, unseen: Sequence[EntryRange]) -> Drop:
    """Make the drop of the messages that leave the window. Recalling it returns everything that the new summary
    replaces, because the window names no older drop of them any more."""
    leaving, first = plan.leaving, plan.entries[0]
    tokens = sum_tokens(leaving or plan.removed)
    names = format_ranges(ranges_of(item.entry for item in leaving)) if leaving else plan.named_but(unseen)
    what = f"messages {names} of the conversation, summarized"
    what += f"; and {format_ranges(unseen)}, left out before" if unseen else ""
    before = subtract_ranges(first, min(item.entry for item in leaving) - 1, unseen) if leaving else ()
    what += f"; includes {format_ranges(before)}, summarized before" if before else ""
    return Drop(drop_id, what, tokens, Cause.COMPACTION, at, plan.entries)
