"""Fit the weights of the score of sentences to labelled messages, and tell how well they do on a corpus left out.

By hand: `python tests/context/fidelity/fit.py` prints precision and recall of the score alone for each corpus of
`CORPORA` after a fit on the others; with `write` it fits on all and writes the weights into the package. A logistic
regression for each kind and role, by descent over all examples at once, in plain Python. Beside the corpora it
learns from the single sentences of `wordings.txt` and the invented messages of `phrases.txt`.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from context.fidelity.evaluate import CORPUS, Evaluation, Label, evaluate, read

from nexus_cli.context.fidelity.features import features
from nexus_cli.context.fidelity.prose import parts
from nexus_cli.context.fidelity.score import WEIGHTS, Weights, parsed, scored
from nexus_cli.context.fidelity.speech import of_assistant, of_person

CORPORA = ("development", "development2", "development3")
MODELS = (
    ("user", "constraint"),
    ("user", "correction"),
    ("user", "failed"),
    ("assistant", "failed"),
    ("assistant", "plan"),
)
SPOKEN = ("constraint", "correction", "failed", "plan")
LETTERS = {"c": "constraint", "x": "correction", "f": "failed", "p": "plan", "q": "question", ".": "none"}
ROUNDS = 60
RATE = 0.15
DECAY = 1.0
"""How hard a weight is pulled to zero."""
RARE = 2
"""A feature in fewer sentences than this is left out."""


@dataclass(frozen=True)
class Example:
    """A sentence with its features and the kinds it was labelled with."""

    role: str
    text: str
    features: frozenset[str]
    kinds: frozenset[str]
    source: str


def examples(role: str, content: str, labels: Iterable[dict[str, Any]], source: str) -> Iterator[Example]:
    """The sentences of a message; each has the kinds of the labels whose words stand in it."""
    sentences, _ = parts(content)
    flat = " ".join(content.replace("\n>", "\n").split())
    spans = []
    for label in labels:
        text = " ".join(label["text"].replace("\n>", "\n").split())
        start = flat.find(text)
        spans.append((label["kind"], start, start + len(text)))
    position = 0
    for number, sentence in enumerate(sentences):
        text = " ".join(sentence.text.split())
        start = max(flat.find(text, position), 0)
        end = position = start + len(text)
        kinds = {kind for kind, a, b in spans if a >= 0 and min(b, end) - max(a, start) >= 3}
        yield Example(role, sentence.text, features(sentences, number), frozenset(kinds), source)


def corpus(name: str) -> list[Example]:
    """The examples of a corpus file."""
    return [
        example
        for record in read(CORPUS / f"{name}.jsonl")
        if record["role"] != "tool"
        for example in examples(record["role"], record["content"], record["labels"], name)
    ]


def singles() -> list[Example]:
    """The examples of the single sentences."""
    found: list[Example] = []
    for line in (CORPUS / "wordings.txt").read_text(encoding="utf-8").splitlines():
        role, kind, text = line.split("\t")
        found += examples(role, text, [{"kind": kind, "text": text}], "wordings")
    return found


def phrases() -> list[Example]:
    """The examples of the invented messages: a sentence in each line, behind the letter of its kind."""
    found: list[Example] = []
    for block in (CORPUS / "phrases.txt").read_text(encoding="utf-8").split("@")[1:]:
        role, *lines = block.strip().splitlines()
        said = [(LETTERS[line[0]], line[2:]) for line in lines]
        content = ""
        for _, text in said:
            content += ("\n" if text[:2] in ("- ", "* ") or text[1:2] == "." else " " if content else "") + text
            content += "\n" if text.endswith(":") else ""
        labels = [{"kind": kind, "text": text.lstrip("-* 0123456789.")} for kind, text in said if kind != "none"]
        found += examples(role, content, labels, "phrases")
    return found


def fit(given: Sequence[Example], kind: str, decay: float = DECAY) -> dict[str, float]:
    """Weights of the features for a kind; the one of "" is added always. Nothing is drawn at random."""
    counts = Counter(feature for example in given for feature in example.features)
    rows = [
        (sorted(feature for feature in example.features if counts[feature] >= RARE), float(kind in example.kinds))
        for example in given
    ]
    weights: dict[str, float] = defaultdict(float)
    speed: dict[str, float] = defaultdict(float)
    squares: dict[str, float] = defaultdict(float)
    for number in range(ROUNDS):
        slopes: dict[str, float] = defaultdict(float)
        for present, wanted in rows:
            total = weights[""] + sum(weights[feature] for feature in present)
            error = 1 / (1 + math.exp(-max(-30.0, min(30.0, total)))) - wanted
            for feature in ("", *present):
                slopes[feature] += error
        for feature, slope in slopes.items():
            slope += decay * weights[feature] if feature else 0
            squares[feature] = 0.9 * squares[feature] + 0.1 * slope * slope
            speed[feature] = 0.8 * speed[feature] + 0.2 * slope
            weights[feature] -= RATE / (1 + 0.05 * number) * speed[feature] / (math.sqrt(squares[feature]) + 1e-3)
    return dict(weights)


def fitted(given: Sequence[Example]) -> Weights:
    """The weights of all models, rounded as they are stored."""
    return parsed(table(given))


def table(given: Sequence[Example]) -> str:
    """The weights of all models as they are stored."""
    models = [fit([example for example in given if example.role == role], kind) for role, kind in MODELS]
    lines = ["\t".join(["feature", *(" ".join(model) for model in MODELS)])]
    for feature in sorted({feature for model in models for feature in model}):
        values = [round(model.get(feature, 0.0), 2) for model in models]
        if any(values) or not feature:
            lines.append("\t".join([feature, *(f"{value:g}" if value or not feature else "" for value in values)]))
    return "\n".join(lines) + "\n"


def spoken(record: Mapping[str, Any], weights: Weights, cues: bool) -> list[Label]:
    """What is said in a record's message, with other weights than the package's; with or without the cues."""
    sentences, _ = parts(record["content"])
    if record["role"] == "tool":
        return []
    if cues:
        said = of_person if record["role"] == "user" else of_assistant
        return [Label(str(kind), text) for kind, text in said(sentences, weights)]
    found = [scored(record["role"], sentences, number, weights).odds for number in range(len(sentences))]
    return [
        Label(str(kind), sentence.text)
        for sentence, odds in zip(sentences, found, strict=True)
        for kind, value in odds.items()
        if value > 0
    ]


def left_out(name: str, found: Mapping[str, Sequence[Example]], cues: bool) -> Evaluation:
    """How well the sayings of a corpus are found with weights that were fitted on the other corpora."""
    weights = fitted([example for other in found if other != name for example in found[other]] + phrases() + singles())
    records = [
        {**record, "labels": [label for label in record["labels"] if label["kind"] in SPOKEN]}
        for record in read(CORPUS / f"{name}.jsonl")
    ]

    def told(record: Mapping[str, Any]) -> list[Label]:
        return [label for label in spoken(record, weights, cues) if label.kind in SPOKEN]

    return evaluate(records, told)


def main(write: bool) -> None:
    """Print the figures of each corpus left out; with `write` store the weights fitted on all."""
    found = {name: corpus(name) for name in CORPORA}
    for name in CORPORA:
        for cues in (False, True):
            print(f"{name}, left out of the fit, {'with the cues' if cues else 'the score alone'}")
            for line in left_out(name, found, cues).report(details=False):
                if line.split()[0] in ("all", *SPOKEN):
                    print(f"  {line}")
    if write:
        given = [example for name in CORPORA for example in found[name]]
        WEIGHTS.write_text(table([*given, *phrases(), *singles()]), encoding="utf-8")


if __name__ == "__main__":
    main("write" in sys.argv[1:])
