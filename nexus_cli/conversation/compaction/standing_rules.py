"""Take the person's standing instructions out of a summary, and keep only those that the person really gave. Pure.

The summarizer quotes them under a heading. Each quotation is looked up in the person's messages and replaced by the
complete sentences around it; a quotation that is not found is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

from nexus_cli.conversation.compaction.own_words import OwnWords, Quote
from nexus_cli.core.typed_text import QuotedText

HEADING = "Rules"
"""The heading of the standing instructions in a summary."""
MOST_RULES = 60
"""Most quotations of a summary that are looked up."""
LEAST_WORDS = 2
"""Least words of a quotation: a single word is in nearly every message."""
_BULLET = re.compile(r"^\s*(?:[-*+>\u2022]\s+|\d{1,3}[.)]\s+|\[[^\]\n]{1,40}\]:?\s*)*")
_MARKS = "\"'`*_\u201c\u201d\u201e\u00ab\u00bb\u2018\u2019 \t"
_QUOTED = re.compile(r"[\"\u201c\u201e\u00ab]([^\"\u201c\u201d\u201e\u00ab\u00bb]+)[\"\u201d\u00bb]")


def take_rules(summary: str, find_headings: Callable[[str], Collection[str]]) -> tuple[str, list[str]]:
    """Return the summary without the lines below its heading of rules, and the quotations in these lines."""
    kept, lines, inside = list[str](), list[str](), False
    for line in summary.split("\n"):
        bare = _BULLET.sub("", line)
        named = () if bare[:1] and bare[0] in _MARKS else find_headings(line)
        if named:
            inside = HEADING in named
        if not inside:
            kept.append(line)
            continue
        lines.append(re.sub(rf"^\W*\d*\W*{HEADING}\W*", "", line, flags=re.IGNORECASE) if named else bare)
    return "\n".join(kept).strip(), [quote for line in lines for quote in _quotes_of(line)][:MOST_RULES]


def with_rules(summary: str, answer: str, find_headings: Callable[[str], Collection[str]]) -> str:
    """Return the summary with the rules that a later `answer` quotes, under a heading or not."""
    rules = take_rules(f"# {HEADING}\n{answer}", find_headings)[1]
    return "\n".join([summary, f"# {HEADING}", *(f'"{rule}"' for rule in rules)])


def _quotes_of(line: str) -> list[str]:
    """Return the possible quotations of a line: all of it, and the parts in double quotes."""
    found = dict.fromkeys((line, *_QUOTED.findall(line)))
    return [text for text in (one.strip(_MARKS) for one in found) if len(text.split()) >= LEAST_WORDS or len(text) > 9]


def find_rules(quotes: Sequence[str], said: Iterable[tuple[int, str]]) -> list[Quote]:
    """Return the sentences that contain these quotations, each once, in the order of the messages; `said` has entry and
    text of the typed messages, newest first."""
    left, found = list(quotes), dict[tuple[int, str], None]()
    for entry, text in said:
        if not left:
            break
        looked = QuotedText(text)
        there = [(quote, looked.find(quote)) for quote in left]
        found |= {(entry, words): None for _, words in there if words}
        left = [quote for quote, words in there if not words]
    return [Quote(entry, words) for entry, words in sorted(found, key=lambda one: one[0])]


def fit_rules(rules: Sequence[Quote], room: int, words: OwnWords) -> list[Quote]:
    """Return the rules that fit `room` tokens, those of the newest messages first, in their order."""
    kept = []
    for rule in sorted(rules, key=lambda one: -one.entry):
        cost = words.cost(rule.text) + words.count(f"[message {rule.entry}]")
        if cost <= room:
            room -= cost
            kept.append(rule)
    return sorted(kept, key=lambda one: one.entry)
