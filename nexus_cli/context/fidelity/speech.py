"""What a person or the assistant commits to in prose: constraints, corrections, failed approaches, questions, plans.

`score` decides which sentences hold one; here is which of their words are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nexus_cli.context.fidelity.commitment import CommitmentKind
from nexus_cli.context.fidelity.prose import Sentence
from nexus_cli.context.fidelity.rules import constraints, is_foreign
from nexus_cli.context.fidelity.score import Odds, Weights, scored

Found = tuple[CommitmentKind, str]
Kind = CommitmentKind

_ASKED = re.compile(r"\?[\"')\]*_`!?]*$")
_CURT = 5
"""Words of a correction that leaves it to the next sentence to say what is right."""


def of_person(sentences: list[Sentence], weights: Weights | None = None) -> Iterator[Found]:
    """Corrections, failed approaches, questions and constraints of a person's message."""
    foreign = is_foreign(sentences)
    corrected = ""
    for sentence, odds in zip(sentences, scored("user", sentences, weights), strict=True):
        corrects = odds[Kind.CORRECTION] > 0
        if corrected and (corrects or _leaves_open(corrected, sentence)):
            corrected = f"{corrected} {sentence.text}"
            continue
        if corrected:
            yield Kind.CORRECTION, corrected
        corrected = sentence.text if corrects else ""
        for kind in _decided(sentence, odds):
            if kind is Kind.CONSTRAINT:
                if odds[kind] >= odds[Kind.CORRECTION]:
                    yield from ((kind, clause) for clause in list(constraints(sentence, foreign)) or [sentence.text])
            elif kind is not Kind.CORRECTION:
                yield kind, sentence.text
    if corrected:
        yield Kind.CORRECTION, corrected


def of_assistant(sentences: list[Sentence], weights: Weights | None = None) -> Iterator[Found]:
    """Questions, failed approaches and steps to come of an assistant's message."""
    for sentence, odds in zip(sentences, scored("assistant", sentences, weights), strict=True):
        if sentence.box:
            if sentence.box == " ":
                yield Kind.PLAN, sentence.text
        else:
            yield from ((kind, sentence.text) for kind in _decided(sentence, odds))


def _decided(sentence: Sentence, odds: Odds) -> list[CommitmentKind]:
    """The kinds of a sentence; of one without a word none."""
    if not any(letter.isalpha() for letter in sentence.shown):
        return []
    return [kind for kind, value in odds.items() if value > 0]


def _leaves_open(corrected: str, sentence: Sentence) -> bool:
    """Whether a correction says no more than no, and the sentence behind it what is right."""
    return len(corrected.split()) <= _CURT and not sentence.inside and not _ASKED.search(sentence.text)
