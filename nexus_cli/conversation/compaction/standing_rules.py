"""Keep the person's standing instructions across compactions: those that a summary quotes and the log confirms. Pure.

The summarizer quotes them under a heading (`engine/compaction/summary_headings.py`). Each quotation is looked up in the
person's messages and replaced by the complete sentences around it; a quotation that is not found is left out. The memo
of each compaction lists the rules in force, so a later summary that omits one does not remove it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from nexus_cli.conversation.compaction.compaction_plan import CompactionPlan
from nexus_cli.conversation.compaction.own_words import Quote, fit_labelled
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.user_messages import typed_messages
from nexus_cli.core.elide import Count
from nexus_cli.core.memo_kinds import COMPACTION, RULES_ASKED
from nexus_cli.core.typed_text import QuotedText

RULES_SHARE = 0.05
"""Share of the budget for these sentences, besides the person's newest words."""
MAX_ASKED = 30
"""Most sentences of one such request."""
LONGEST_ASKED = 300
"""Most characters of one of them."""
_STANDING = re.compile(r"\b(?:never|always|only)\b", re.IGNORECASE)


def find_rules(quotes: Sequence[str], messages: Iterable[tuple[int, str]]) -> list[Quote]:
    """Return the sentences that contain these quotations, each once, in the order of the messages; `messages` are entry
    and text of those typed, newest first."""
    unmatched, sentences = list(quotes), dict[tuple[int, str], None]()
    for entry, text in messages:
        if not unmatched:
            break
        looked = QuotedText(text)
        matches = [(quote, looked.find(quote)) for quote in unmatched]
        sentences |= {(entry, words): None for _, words in matches if words}
        unmatched = [quote for quote, words in matches if not words]
    return [Quote(entry, words) for entry, words in sorted(sentences, key=lambda pair: pair[0])]


def earlier_rules(conversation: Conversation) -> list[Quote]:
    """Return the rules of the newest compaction that has any."""
    memos = (memo.value["rules"] for memo in reversed(conversation.memos(COMPACTION)) if memo.value.get("rules"))
    return [Quote(int(entry), str(text)) for entry, text in next(memos, ())]


def missed_rules(conversation: Conversation, plan: CompactionPlan, quoted: Sequence[str]) -> list[Quote]:
    """Return the sentences with "never", "always" or "only" in the person's messages that `plan` summarizes, unless a
    summarizer was asked for them or the window shows them; [] if a summary `quoted` a rule of the person."""
    messages, full_entries = list(typed_messages(conversation)), plan.shown_entries(plan.quotes)[0]
    hidden = ((entry, text) for entry, text in messages if entry <= plan.entries[1] and entry not in full_entries)
    every = (Quote(entry, sentence) for entry, text in hidden for sentence in QuotedText(text).sentences)
    quotes = [rule for rule in every if _STANDING.search(rule.text)]
    if not quotes or find_rules(quoted, messages):
        return []
    earlier_text = "\n".join(rule.text for rule in earlier_rules(conversation))
    first = int(conversation.newest_memo(RULES_ASKED).get("last", 0))
    new = (
        Quote(quote.entry, quote.text[:LONGEST_ASKED])
        for quote in quotes
        if quote.entry > first and quote.text not in earlier_text
    )
    return list(islice(new, MAX_ASKED))


def rules_tokens(conversation: Conversation, count: Count) -> int:
    """Return the tokens of the earlier rules in the window, by our count."""
    return sum(rule.labelled_tokens(count) for rule in earlier_rules(conversation))


def choose_rules(
    conversation: Conversation,
    plan: CompactionPlan,
    quoted: Sequence[str],
    count: Count,
    *,
    budget: int,
    free: int,
) -> tuple[list[Quote], list[Quote]]:
    """Return the rules in force under `plan`, from the earlier ones and those that a summary `quoted` and the person
    typed; then those of them that the window must quote. `free` is the unused part of the summary's tokens."""
    earlier, most_rules = earlier_rules(conversation), int(budget * RULES_SHARE)
    full_entries = plan.shown_entries(plan.quotes)[0]
    every = {(rule.entry, rule.text): rule for rule in (*earlier, *find_rules(quoted, typed_messages(conversation)))}
    in_force = fit_labelled(sorted(every.values(), key=lambda rule: rule.entry), most_rules, count)
    room = min(most_rules, free + rules_tokens(conversation, count))
    return in_force, fit_labelled([rule for rule in in_force if rule.entry not in full_entries], room, count)
