"""Fit the weights of the score of sentences to labelled messages, and tell how well they do for other writers.

By hand: `python tests/context/fidelity/fit.py` prints precision and recall for each file of `WRITTEN` with weights that
were fitted on all others, then over all by kind; with `write` it fits on all of them, writes the weights into the
package and prints the figures of `VALIDATION`, from which nothing is ever learned. The thresholds are those that do
best over the files left out. It takes some minutes.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from context.fidelity.evaluate import CORPUS, Evaluation, Label, Score, evaluate, read
from context.fidelity.regression import Example, by_leaning, by_rarity, learned, matter

from nexus_cli.context.fidelity.features import BESIDE, features, length
from nexus_cli.context.fidelity.prose import parts
from nexus_cli.context.fidelity.score import WEIGHTS, Weights, parsed
from nexus_cli.context.fidelity.speech import of_assistant, of_person

CORPORA = ("development", "development2", "development3")
WRITTEN = tuple(f"written{number}" for number in (1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15))
VALIDATION = "written6"
MODELS = (
    ("user", "constraint"),
    ("user", "correction"),
    ("user", "failed"),
    ("user", "question"),
    ("assistant", "failed"),
    ("assistant", "plan"),
    ("assistant", "question"),
)
SPOKEN = ("constraint", "correction", "failed", "question", "plan")
LETTERS = {"c": "constraint", "x": "correction", "f": "failed", "p": "plan", "q": "question", ".": "none"}
READINGS = ((by_leaning, 0.33), (by_rarity, 5.0))
"""How the features are scaled, and how hard their weights are pulled to zero: the weights are the mean of these."""
FAINT = 0.25
"""A weight nearer to zero is left out."""
PLAIN = 3
"""How often the single sentences count: what people plainly say must not be lost to what they say oddly."""
NEAR, CUED = 0.5, 1.5
"""How much the sentences beside count, and the cues."""
LEAST, MOST, STEPS = -2.5, 1.0, 36
"""Between which log odds thresholds are tried, and how many of them."""
SLACK = 0.004
"""Thresholds whose F1 is lower by no more than this are as good as the best."""

Found = dict[tuple[str, str], dict[str, float]]
"""The weights of all models."""


def said(content: str, role: str) -> list[Any]:
    """The sentences of a message that are looked at."""
    return parts(content, quotes=role == "user")[0]


def flat(text: str) -> str:
    """`text` on one line, without the marks of quoted lines."""
    return " ".join(" ".join(line.lstrip("> ") for line in text.splitlines()).split())


def examples(role: str, content: str, labels: Iterable[dict[str, Any]], source: str) -> Iterator[Example]:
    """The sentences of a message; each has the kinds of the labels whose words stand in it."""
    sentences = said(content, role)
    whole = flat(content)
    spans = []
    for label in labels:
        text = flat(label["text"])
        start = whole.find(text)
        spans.append((label["kind"], start, start + len(text)))
    position = 0
    for sentence, present in zip(sentences, features(sentences), strict=True):
        text = flat(sentence.text)
        start = max(whole.find(text, position), 0)
        end = position = start + len(text)
        kinds = frozenset(kind for kind, a, b in spans if a >= 0 and min(b, end) - max(a, start) >= 3)
        yield Example(role, sentence.text, frozenset(present), kinds, source, length(sentence))


def records(name: str) -> list[dict[str, Any]]:
    """The messages of a corpus file that somebody said, with the labels of what is said."""
    return [
        {**record, "labels": [label for label in record["labels"] if label["kind"] in SPOKEN]}
        for record in read(CORPUS / f"{name}.jsonl")
        if record["role"] != "tool"
    ]


def corpus(name: str) -> list[Example]:
    """The examples of a corpus file."""
    return [
        example
        for record in records(name)
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
        told = [(LETTERS[line[0]], line[2:]) for line in lines]
        content = ""
        for _, text in told:
            content += ("\n" if text[:2] in ("- ", "* ") or text[1:2] == "." else " " if content else "") + text
            content += "\n" if text.endswith(":") else ""
        labels = [{"kind": kind, "text": text.lstrip("-* 0123456789.")} for kind, text in told if kind != "none"]
        found += examples(role, content, labels, "phrases")
    return found


def fitted(given: Sequence[Example]) -> Found:
    """The weights of all models, without thresholds."""
    found: Found = {}
    for role in ("user", "assistant"):
        seen = matter([example for example in given if example.role == role])
        counts = [NEAR if name.startswith(BESIDE) else CUED if name.startswith("cue:") else 1.0 for name in seen.names]
        for kind in (kind for other, kind in MODELS if other == role):
            total: dict[str, float] = defaultdict(float)
            for scale, decay in READINGS:
                scales = [a * b for a, b in zip(scale(seen, kind), counts, strict=True)]
                for name, weight in learned(seen, kind, scales, decay).items():
                    total[name] += weight / len(READINGS)
            found[role, kind] = total
    return found


def table(found: Found, thresholds: Mapping[tuple[str, str], float]) -> str:
    """The weights of all models as they are stored."""
    lines = ["\t".join(["feature", *(" ".join(model) for model in MODELS)])]
    for feature in sorted({feature for weights in found.values() for feature in weights}):
        values = [found[model].get(feature, 0.0) - (0 if feature else thresholds.get(model, 0.0)) for model in MODELS]
        if not feature or any(abs(value) >= FAINT for value in values):
            seen = (value if abs(value) >= FAINT or not feature else 0.0 for value in values)
            shown = (f"{value:.2f}".replace("0.", ".", 1) if value else "" for value in seen)
            lines.append("\t".join([feature, *shown]))
    return "\n".join(lines) + "\n"


def threshold(odds: Sequence[tuple[float, bool]]) -> float:
    """The middle one of the best, by F1 over the sentences; `odds` with whether the kind is meant."""
    tried = []
    meant = sum(wanted for _, wanted in odds)
    for number in range(STEPS):
        least = LEAST + number * (MOST - LEAST) / (STEPS - 1)
        chosen = [wanted for value, wanted in odds if value > least]
        tried.append((2 * sum(chosen) / (len(chosen) + meant), least))
    best = max(tried)[0]
    good = [least for value, least in tried if value >= best - SLACK]
    return good[len(good) // 2]


def spoken(record: Mapping[str, Any], weights: Weights) -> list[Label]:
    """What is said in a record's message, with other weights than the package's."""
    tell = of_person if record["role"] == "user" else of_assistant
    return [Label(str(kind), text) for kind, text in tell(said(record["content"], record["role"]), weights)]


def crossed(found: Mapping[str, Sequence[Example]], rest: Sequence[Example]) -> dict[tuple[str, str], float]:
    """Print the figures of each writer left out and over all; the thresholds that they were reached with."""
    fits = {name: fitted([*rest, *(e for other in found if other != name for e in found[other])]) for name in found}
    odds: dict[tuple[str, str], list[tuple[float, bool]]] = defaultdict(list)
    for name, weights in fits.items():
        model = parsed(table(weights, {}))
        for example in found[name]:
            for kind, value in model[example.role].odds(sorted(example.features), example.length).items():
                odds[example.role, str(kind)].append((value, str(kind) in example.kinds))
    thresholds = {model: threshold(values) for model, values in odds.items()}
    totals: dict[str, Score] = defaultdict(Score)
    for writer, weights in fits.items():
        model = parsed(table(weights, thresholds))
        result = evaluate(records(writer), partial(spoken, weights=model))
        print(f"{writer:<11} {result.total.described()}")
        for told, score in (("all", result.total), *((told, result.kinds[told]) for told in SPOKEN)):
            for name in ("right", "predicted", "found", "labelled"):
                setattr(totals[told], name, getattr(totals[told], name) + getattr(score, name))
    print("over all")
    print("\n".join(f"  {told:<11} {score.described()}" for told, score in totals.items()))
    return thresholds


def validated(weights: Weights) -> Evaluation:
    """How the weights do on the messages from which nothing was learned."""
    return evaluate(records(VALIDATION), lambda record: spoken(record, weights))


def main(write: bool) -> None:
    """Print the figures of each writer left out; with `write` store the weights fitted on all."""
    found = {name: corpus(name) for name in WRITTEN}
    rest = [example for name in CORPORA for example in corpus(name)] + phrases() + PLAIN * singles()
    thresholds = crossed(found, rest)
    print("thresholds", {" ".join(model): round(value, 2) for model, value in thresholds.items()})
    if write:
        text = table(fitted([*rest, *(example for name in found for example in found[name])]), thresholds)
        WEIGHTS.write_text(text, encoding="utf-8")
        print(f"{VALIDATION}, from which nothing was learned")
        print("\n".join(f"  {line}" for line in validated(parsed(text)).report(details=False)))


if __name__ == "__main__":
    main("write" in sys.argv[1:])
