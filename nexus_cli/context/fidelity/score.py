"""How much a sentence sounds like each kind: a linear score over its features, beside the cues.

The weights are log odds in `weights.tsv`: a feature in each line, a column for each role and kind. They were fitted to
labelled messages. Cues know wordings, the score knows the shape of a sentence; `Scored` says how they are weighed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import fsum
from pathlib import Path

from nexus_cli.context.fidelity.commitment import CommitmentKind
from nexus_cli.context.fidelity.features import features
from nexus_cli.context.fidelity.prose import Sentence

CUE = 2.0
"""Log odds that a cue adds: how much likelier it is where the kind is meant than elsewhere, in messages that the cues
were not made with."""
SILENCE = 0.6
"""Log odds that it takes where no cue is found."""
WEIGHTS = Path(__file__).with_name("weights.tsv")

Weights = Mapping[str, Mapping[CommitmentKind, Mapping[str, float]]]
"""By role and kind, of each feature; of "" the one that is added always."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The log odds of each kind for one sentence, from its shape alone."""

    odds: Mapping[CommitmentKind, float]

    def confirms(self, kind: CommitmentKind) -> bool:
        """Whether a cue of this kind is to be believed."""
        return self.odds[kind] + CUE > 0

    def proposes(self) -> CommitmentKind | None:
        """The kind that the sentence has without a cue of any."""
        kind = max(self.odds, key=lambda kind: self.odds[kind])
        return kind if self.odds[kind] - SILENCE > 0 else None


def scored(role: str, sentences: Sequence[Sentence], number: int, weights: Weights | None = None) -> Scored:
    """The score of one sentence of a message by `user` or `assistant`; linear in its length."""
    present = features(sentences, number)
    table = (weights or fitted())[role]
    # An exact sum, for the order of a set is not the same in every process.
    return Scored({kind: fsum(own.get(name, 0.0) for name in ("", *present)) for kind, own in table.items()})


@cache
def fitted() -> Weights:
    """The weights of the package."""
    return parsed(WEIGHTS.read_text(encoding="utf-8"))


def parsed(text: str) -> Weights:
    """The weights in a table as it is stored."""
    head, *lines = text.splitlines()
    columns = [(name.split()[0], CommitmentKind(name.split()[1])) for name in head.split("\t")[1:]]
    found: dict[str, dict[CommitmentKind, dict[str, float]]] = {}
    own = [found.setdefault(role, {}).setdefault(kind, {}) for role, kind in columns]
    for line in lines:
        feature, *values = line.split("\t")
        for weights, value in zip(own, values, strict=True):
            if value:
                weights[feature] = float(value)
    return found
