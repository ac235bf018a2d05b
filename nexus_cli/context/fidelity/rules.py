"""Which clauses of what a person says hold from here on: their constraints."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nexus_cli.context.fidelity.cues import asides, conventions, demands
from nexus_cli.context.fidelity.prose import Sentence, fold, masked, shown

_CLAUSES = re.compile(
    r"\s*[;:]\s+(?!\d|[\"“'`])|\s+[—–-]+\s+|(?<!obody)(?<!othing)(?<!o one)(?<!nything)(?<!verything),?\s+(?:and|but|"
    r"so|because|since|und|aber)\s+(?!\d|\w+ly\b)"
    r"|,\s+(?=(?:please|don't|dont|do not|never|always|only|nothing|make sure|keep|use|also|it must|it should|they "
    r"must)\b)",
    re.IGNORECASE,
)
_REASON = re.compile(r",?\s+(?:because|since)\s+$", re.IGNORECASE)
_QUOTE = re.compile(r"[\"“](?P<said>[^\"“”\n]{8,500})[\"”]")
_ALONE = re.compile(r"(?:and |just )?(?:nothing|nobody|no one) else[.!]*")
_STATES = re.compile(r"\b(?:has|have|had|is|was|are|were|got|gives|gave|shows|showed|prints|said|says|returns|"
r"returned|does|did)\b")
_FEWEST = 2
"""Words of a constraint."""


def is_foreign(sentences: list[Sentence]) -> bool:
    """Whether a message is in another language than English."""
    told = [word for sentence in sentences for word in sentence.shown.split()]
    return sum(word in demands.ENGLISH for word in told) < max(2, len(told) // 12)


def constraints(sentence: Sentence, foreign: bool) -> Iterator[str]:
    """The clauses of a sentence that hold a constraint, each with what follows it."""
    said = sentence.shown
    if sentence.inside and conventions.RULES.search(sentence.lead):
        yield sentence.text
        return
    if asides.LONE.search(said):
        yield sentence.text
        return
    if asides.AUTHORITY.search(said) and not asides.DISMISSED.search(sentence.follows):
        for quote in _QUOTE.finditer(sentence.text):
            if _constrains(shown(quote["said"]), foreign):
                yield quote["said"]
    if asides.DESCRIBED.search(said) or asides.WRY.search(said) or asides.JOKES.search(sentence.follows):
        return
    veiled = masked(sentence.text)
    starts = [0, *(cut.end() for cut in _CLAUSES.finditer(veiled) if not _REASON.search(cut[0]))]
    ends = [*(cut.start() for cut in _CLAUSES.finditer(veiled) if not _REASON.search(cut[0])), len(veiled)]
    cited = _cited(veiled, sentence.follows)
    wide = bool(asides.WIDE.search(said)) and not asides.ONE_OFF.search(said)
    held: tuple[int, int] | None = None
    before = ""
    for start, end in zip(starts, ends, strict=True):
        clause = fold(veiled[start:end])
        told = start < cited or (_ALONE.fullmatch(clause) and _STATES.search(before))
        if not told and (_constrains(clause, foreign) or (wide and _is_wide(clause))):
            if held:
                yield sentence.text[held[0] : held[1]]
            held = (start, end)
        elif held:
            held = (held[0], end)
        before = clause
    if held:
        yield sentence.text[held[0] : held[1]]


def _cited(veiled: str, follows: str) -> int:
    """Where the rule of somebody else ends that the person waves aside; 0 without one."""
    low = veiled.lower()
    cited = asides.CITED.search(low)
    if not cited or len(low) != len(veiled):
        return 0
    dismissed = asides.DISMISSED.search(low, cited.end())
    if dismissed:
        return dismissed.start()
    return len(veiled) if asides.DISMISSED.search(follows) else 0


def _is_wide(clause: str) -> bool:
    return bool(asides.WIDE.search(clause)) and len(clause.split()) >= _FEWEST


def _constrains(clause: str, foreign: bool) -> bool:
    if len(clause.split()) < _FEWEST or clause.endswith(":") or demands.SELF.search(clause):
        return False
    if foreign and demands.FOREIGN.search(clause):
        return True
    if asides.EMPTY.search(clause):
        return False
    if demands.PROHIBITED.search(clause) or demands.REQUIRED.search(clause):
        return True
    return bool(conventions.STANDING.search(clause)) and not asides.TOLD.search(clause)
