"""Keep the person's standing rules across compactions: those quoted by a summary and confirmed by the ledger.

The memo of each compaction lists the rules in force, so a later summary that omits one does not remove it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice

from nexus_cli.conversation.compaction.compaction_plan import RULES_SHARE
from nexus_cli.conversation.compaction.own_words import OwnWords, Quote
from nexus_cli.conversation.compaction.standing_rules import find_rules, fit_rules
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.memo_kinds import COMPACTION, RULES_ASKED
from nexus_cli.core.typed_text import QuotedText
from nexus_cli.engine.requests.user_messages import typed_messages

MOST_ASKED = 30
"""Most sentences of one such request."""
LONGEST_ASKED = 300
"""Most characters of one of them."""
_STANDING = re.compile(r"\b(?:never|always|only)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StandingRules:
    """The rules in force (`kept`), and those that the window must quote (`shown`)."""

    kept: Sequence[Quote] = ()
    shown: Sequence[Quote] = ()

    def to_json(self) -> list[list[object]]:
        """Return the rules in force for the memo of a compaction."""
        return [[rule.entry, rule.text] for rule in self.kept]


def earlier_rules(conversation: Conversation) -> list[Quote]:
    """Return the rules of the newest compaction that has any."""
    memos = (memo.value["rules"] for memo in reversed(conversation.memos(COMPACTION)) if memo.value.get("rules"))
    return [Quote(int(entry), str(text)) for entry, text in next(memos, ())]


def missed_rules(
    conversation: Conversation, quoted: Sequence[str], last: int, *, shown: Collection[int]
) -> list[Quote]:
    """Return the sentences with never, always or only that the person typed up to entry `last`, as far as no summarizer
    was asked for them and they are not in the entries `shown`; [] if a summary `quoted` a rule of the person."""
    said = list(typed_messages(conversation))
    hidden = ((entry, text) for entry, text in said if entry <= last and entry not in shown)
    every = (Quote(entry, one) for entry, text in hidden for one in QuotedText(text).sentences)
    found = [rule for rule in every if _STANDING.search(rule.text)]
    if not found or find_rules(quoted, said):
        return []
    memos, known = conversation.memos(RULES_ASKED), "\n".join(rule.text for rule in earlier_rules(conversation))
    first = int(memos[-1].value["last"]) if memos else 0
    new = (Quote(one.entry, one.text[:LONGEST_ASKED]) for one in found if one.entry > first and one.text not in known)
    return list(islice(new, MOST_ASKED))


def rules_tokens(conversation: Conversation, words: OwnWords) -> int:
    """Return the tokens of the earlier rules in the window, by our count."""
    return sum(words.cost(rule.text) + words.count(f"[message {rule.entry}]") for rule in earlier_rules(conversation))


def choose_rules(
    conversation: Conversation,
    quoted: Sequence[str],
    words: OwnWords,
    *,
    budget: int,
    free: int,
    shown: Collection[int],
) -> StandingRules:
    """Choose the rules of a new window from the earlier ones and those that a summary `quoted` and the person typed.
    `free` is the unused part of the summary's tokens; `shown` are the entries that the window shows verbatim."""
    earlier, most = earlier_rules(conversation), int(budget * RULES_SHARE)
    every = {(rule.entry, rule.text): rule for rule in (*earlier, *find_rules(quoted, typed_messages(conversation)))}
    kept = fit_rules(sorted(every.values(), key=lambda rule: rule.entry), most, words)
    room = min(most, free + rules_tokens(conversation, words))
    return StandingRules(kept, fit_rules([rule for rule in kept if rule.entry not in shown], room, words))
