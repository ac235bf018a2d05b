"""Exact values that prose states and that nobody could guess: which tokens of a sentence count.

A value counts where somebody wrote it in a sentence; code, output and traces are full of numbers that bind nobody. What
a value looks like is in `shapes`, what speaks for it in `traits`; here they are weighed. The weights are log odds in
`values.tsv`, a feature in each line, fitted to labelled messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from math import fsum
from pathlib import Path

from nexus_cli.context.fidelity.commitment import CommitmentKind
from nexus_cli.context.fidelity.prose import Sentence
from nexus_cli.context.fidelity.shapes import candidates
from nexus_cli.context.fidelity.speech import Found
from nexus_cli.context.fidelity.traits import is_certain, is_refused, shared, traits

MOST = 24
"""Tokens of one sentence that are weighed."""
WEIGHTS = Path(__file__).with_name("values.tsv")
_MOST_ODD = 40
"""Rules that are no sentence by themselves, of which it is known in what sentences they stand."""
_LED = 3
"""Words before a value that say what it is."""


def identifiers(
    text: str, role: str = "user", rule: bool = False, weights: Mapping[str, float] | None = None
) -> list[str]:
    """The values in one sentence by `user` or `assistant`, each once, in order; `rule` where it demands something."""
    tokens = list(islice(candidates(text), MOST))
    if not tokens:
        return []
    table = fitted() if weights is None else weights
    whole = shared(text, role, rule, len(tokens))
    found = [
        token
        for token in tokens
        if not is_refused(text, token)
        and (
            is_certain(text, token, whole)
            # An exact sum, for the order of a set is not the same in every process.
            or fsum(table.get(name, 0.0) for name in ("", *traits(text, token, whole))) > 0
        )
    ]
    return list(dict.fromkeys(token.text for token in sorted(found, key=lambda token: token.start)))


def decided(sentences: Sequence[Sentence], found: Iterable[Found]) -> frozenset[str]:
    """Which sentences of a message are a rule or a correction among its sayings, are part of one or hold one."""
    rules = dict.fromkeys(
        text for kind, text in found if kind in (CommitmentKind.CONSTRAINT, CommitmentKind.CORRECTION)
    )
    texts = {sentence.text for sentence in sentences}
    # Nearly every saying is a sentence as it stands; the others are looked for one by one, and so are bounded.
    odd = list(islice((rule for rule in rules if rule not in texts), _MOST_ODD))
    return frozenset(text for text in texts if text in rules or any(rule in text or text in rule for rule in odd))


def led_to(sentence: str, value: str) -> str:
    """`value` with the few words before it in its sentence: what it is the value of."""
    start = sentence.find(value)
    before = sentence[max(0, start - 60) : max(0, start)].split()[-_LED:]
    return " ".join([*before, value])


@cache
def fitted() -> Mapping[str, float]:
    """The weights of the package."""
    return parsed(WEIGHTS.read_text(encoding="utf-8"))


def parsed(text: str) -> dict[str, float]:
    """The weights in a table as it is stored; of "" the one that is added always."""
    lines = (line.split("\t") for line in text.splitlines())
    return {name: float(value) for name, value in lines}
