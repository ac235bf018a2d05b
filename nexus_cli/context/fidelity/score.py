"""How much a sentence sounds like each kind: a linear score over its features, and the decision by its sign.

The weights stand in `weights.tsv`: a feature in each line, a column for each role and kind. They were fitted to
labelled messages by a logistic regression; the threshold of each kind is part of what is added always.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt
from pathlib import Path

from nexus_cli.context.fidelity.commitment import CommitmentKind
from nexus_cli.context.fidelity.features import features, length
from nexus_cli.context.fidelity.prose import Sentence

WEIGHTS = Path(__file__).with_name("weights.tsv")
Odds = Mapping[CommitmentKind, float]
"""By kind how far a sentence is beyond its threshold, in log odds; below it negative."""


@dataclass(frozen=True, slots=True)
class Model:
    """The weights for what one role says."""

    kinds: tuple[CommitmentKind, ...]
    always: tuple[float, ...]
    """What is added for each kind whatever the sentence is like."""
    weights: Mapping[str, tuple[float, ...]]
    """Of a feature, for each kind."""

    def odds(self, present: Sequence[str], length: int) -> Odds:
        """The log odds of each kind for a sentence of `length` words with these features."""
        sums = [0.0] * len(self.kinds)
        for name in present:
            for at, weight in enumerate(self.weights.get(name, ())):
                sums[at] += weight
        root = sqrt(length)
        return {kind: self.always[at] + sums[at] / root for at, kind in enumerate(self.kinds)}


Weights = Mapping[str, Model]
"""By role."""


def scored(role: str, sentences: Sequence[Sentence], weights: Weights | None = None) -> list[Odds]:
    """The log odds of each sentence of a message by `user` or `assistant`; linear in the length of the message."""
    model = (weights or fitted())[role]
    return [
        model.odds(present, length(sentence))
        for sentence, present in zip(sentences, features(sentences), strict=True)
    ]


@cache
def fitted() -> Weights:
    """The weights of the package."""
    return parsed(WEIGHTS.read_text(encoding="utf-8"))


def parsed(text: str) -> Weights:
    """The weights in a table as it is stored: the line without a name is what is added always."""
    head, *lines = text.splitlines()
    columns = [name.split() for name in head.split("\t")[1:]]
    found: dict[str, Model] = {}
    for role in dict.fromkeys(role for role, _ in columns):
        own = [number for number, (other, _) in enumerate(columns) if other == role]
        weights: dict[str, tuple[float, ...]] = {}
        for line in lines:
            feature, *values = line.split("\t")
            if any(values[number] for number in own):
                weights[feature] = tuple(float(values[number] or 0) for number in own)
        kinds = tuple(CommitmentKind(columns[number][1]) for number in own)
        found[role] = Model(kinds, weights.pop("", (0.0,) * len(own)), weights)
    return found
