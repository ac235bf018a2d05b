"""Fit the weights by which a token counts as an exact value, and tell how well they do on a corpus left out.

By hand: `python tests/context/fidelity/fit_values.py [write]`: with `write` the weights go into the package, fitted on
the corpora, what `WRITTEN` names and the single sentences of `values.txt`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from context.fidelity.evaluate import CORPUS, Label, Score, evaluate, read, same
from context.fidelity.fit import CORPORA, WRITTEN
from context.fidelity.regression import Example, fit

from nexus_cli.context.fidelity.identifiers import MOST, WEIGHTS, decided, identifiers, parsed
from nexus_cli.context.fidelity.prose import Sentence, parts
from nexus_cli.context.fidelity.shapes import candidates
from nexus_cli.context.fidelity.speech import Found, of_person
from nexus_cli.context.fidelity.traits import is_refused, shared, traits

KIND = "identifier"
DECAY = 2.0
"""How hard a weight is pulled to zero: there are few values to learn from."""
FAINT = 0.02
"""A weight nearer to zero is left out."""
PLAIN = 2
"""How often the single sentences count."""
LEANING = 0.4
"""Log odds that are added always: F1 is best so, and a value that is kept in vain costs less than one that is lost."""
INVENTED = "invented"
"""Marks the single sentences, of which far more hold a value than in messages; its own weight is thrown away."""


def examples(role: str, content: str, labels: Sequence[Label], source: str) -> Iterator[Example]:
    """The tokens of a message that may be values, each with its features."""
    sentences, _ = parts(content)
    rules = decided(sentences, _said(role, sentences))
    for sentence in sentences:
        tokens = list(islice(candidates(sentence.text), MOST))
        whole = shared(sentence.text, role, sentence.text in rules, len(tokens))
        for token in tokens:
            if is_refused(sentence.text, token):
                continue
            right = any(same(Label(KIND, token.text), label) for label in labels)
            present = frozenset(traits(sentence.text, token, whole))
            yield Example(role, token.text, present, frozenset({KIND} if right else ()), source)


def corpus(path: Path) -> list[Example]:
    """The examples of a file of labelled messages."""
    return [
        example
        for record in read(path)
        if record["role"] != "tool"
        for example in examples(record["role"], record["content"], _labels(record), path.stem)
    ]


def singles() -> list[Example]:
    """The examples of the single sentences: who says it, the values, the words."""
    found: list[Example] = []
    for line in (CORPUS / "values.txt").read_text(encoding="utf-8").splitlines():
        role, values, text = line.split("\t")
        labels = [Label(KIND, text if value == text else value) for value in _values(values, text)]
        found += examples(role, text, labels, "values")
    return [replace(example, features=example.features | {INVENTED}) for example in found]


def _said(role: str, sentences: list[Sentence]) -> list[Found]:
    return list(of_person(sentences)) if role == "user" else []


def _values(told: str, text: str) -> list[str]:
    return [told] if told in text else told.split()


def _labels(record: Mapping[str, Any]) -> list[Label]:
    return [Label(KIND, label["text"]) for label in record["labels"] if label["kind"] == KIND]


def table(given: Sequence[Example]) -> str:
    """The weights as they are stored: a feature in each line."""
    weights = {name: value for name, value in fit(given, KIND, DECAY).items() if name != INVENTED}
    weights[""] += LEANING
    lines = [f"{name}\t{value:.2f}" for name, value in sorted(weights.items()) if not name or abs(value) >= FAINT]
    return "\n".join(lines) + "\n"


def left_out(path: Path, given: Sequence[Example]) -> Score:
    """Precision and recall on a file with weights that were fitted on `given`."""
    weights = parsed(table(given))

    def told(record: Mapping[str, Any]) -> list[Label]:
        if record["role"] == "tool":
            return []
        sentences, _ = parts(record["content"])
        rules = decided(sentences, _said(record["role"], sentences))
        found = dict.fromkeys(
            value
            for sentence in sentences
            for value in identifiers(sentence.text, record["role"], sentence.text in rules, weights)
        )
        return [Label(KIND, value) for value in found]

    records = [
        {**record, "labels": [label for label in record["labels"] if label["kind"] == KIND]} for record in read(path)
    ]
    return evaluate(records, told).total


def main(write: bool) -> None:
    """Print the figures of each file left out; with `write` store the weights fitted on all."""
    paths = [CORPUS / f"{name}.jsonl" for name in (*CORPORA, *WRITTEN)]
    found = {path: corpus(path) for path in paths}
    alone = PLAIN * singles()
    for path in paths:
        rest = [example for other in paths if other != path for example in found[other]]
        print(f"{path.stem}, left out of the fit: {left_out(path, [*rest, *alone]).described()}")
    if write:
        given = [example for path in paths for example in found[path]]
        WEIGHTS.write_text(table([*given, *alone]), encoding="utf-8")


if __name__ == "__main__":
    main("write" in sys.argv[1:])
