"""How well the extractor does on labelled messages: precision, recall and F1, over all and by kind.

By hand: `python tests/context/fidelity/evaluate.py development` prints the figures and what was missed or invented.
A label is found when a prediction of its kind covers it; a prediction is right when it covers a label of its kind. So a
sentence that holds two labels finds both. Texts are compared by their words: at least half of the shorter one's;
paths, commands (with their exit) and files (with their state) must be equal but for white space. A value is the same
with and without the unit or the name beside it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nexus_cli.context.fidelity.commitment import Commitment
from nexus_cli.context.fidelity.extract import of_message
from nexus_cli.core.message import Message, Role, ToolCall

CORPUS = Path(__file__).parent / "corpus"
KINDS = ("constraint", "correction", "file", "command", "error", "identifier", "failed", "question", "plan")


@dataclass(frozen=True)
class Label:
    """What somebody found in a message, or what the extractor did."""

    kind: str
    text: str
    state: str = ""
    exit: int | None = None


@dataclass
class Score:
    """Hits and misses."""

    right: int = 0
    predicted: int = 0
    found: int = 0
    labelled: int = 0

    @property
    def precision(self) -> float:
        """Share of the predictions that are right."""
        return self.right / self.predicted if self.predicted else 1.0

    @property
    def recall(self) -> float:
        """Share of the labels that were found."""
        return self.found / self.labelled if self.labelled else 1.0

    @property
    def f1(self) -> float:
        """Their harmonic mean."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def described(self) -> str:
        """One line."""
        return (
            f"precision {self.precision:.3f} ({self.right}/{self.predicted})  "
            f"recall {self.recall:.3f} ({self.found}/{self.labelled})  F1 {self.f1:.3f}"
        )


@dataclass
class Evaluation:
    """Scores, and what went wrong."""

    total: Score = field(default_factory=Score)
    kinds: dict[str, Score] = field(default_factory=lambda: {kind: Score() for kind in KINDS})
    invented: list[tuple[str, Label]] = field(default_factory=list)
    missed: list[tuple[str, Label]] = field(default_factory=list)

    def report(self, details: bool) -> Iterator[str]:
        """The lines to print; with `details` every false positive and negative."""
        yield f"all         {self.total.described()}"
        for kind, score in self.kinds.items():
            yield f"{kind:<11} {score.described()}"
        if details:
            for what, labels in (("invented", self.invented), ("missed  ", self.missed)):
                yield from (f"{what} {where} {label.kind}: {label.text!r} {label.state}" for where, label in labels)


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a corpus file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def predicted(record: Mapping[str, Any]) -> list[Label]:
    """What the extractor finds in a record's message."""
    given = record.get("call")
    call = ToolCall("c1", given["name"], given["arguments"]) if given else None
    message = Message(Role(record["role"]), record["content"], tool_call_id="c1" if call else None)
    return [_label(found) for found in of_message(1, message, call)]


def _label(found: Commitment) -> Label:
    return Label(str(found.kind), found.text, found.state, found.exit)


def same(label: Label, other: Label) -> bool:
    """Whether two labels are about one thing."""
    if label.kind != other.kind:
        return False
    if label.kind == "file":
        return _path(label.text) == _path(other.text) and label.state == other.state
    if label.kind == "command":
        return label.text.split() == other.text.split() and label.exit == other.exit
    if label.kind == "identifier":
        return _holds(_bare(label.text), _bare(other.text)) or _holds(_bare(other.text), _bare(label.text))
    return _overlaps(label.text, other.text)


def _path(text: str) -> str:
    return text.strip().strip("`").removeprefix("./").rstrip("/")


def _bare(text: str) -> str:
    return " ".join(text.split()).strip("`\"'").casefold()


def _holds(whole: str, part: str) -> bool:
    return bool(part) and re.search(rf"(?<![\w.]){re.escape(part)}(?![\w]|\.\w)", whole) is not None


def _overlaps(text: str, other: str) -> bool:
    mine, theirs = _words(text), _words(other)
    shorter, longer = sorted((mine, theirs), key=len)
    return len(set(shorter) & set(longer)) >= 0.5 * len(set(shorter)) if shorter else mine == theirs


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def evaluate(
    records: Iterable[Mapping[str, Any]], predict: Callable[[Mapping[str, Any]], list[Label]] = predicted
) -> Evaluation:
    """Compare predictions with labels, record by record."""
    result = Evaluation()
    for record in records:
        labels = [
            Label(raw["kind"], raw["text"], raw.get("state") or "", raw.get("exit")) for raw in record.get("labels", ())
        ]
        guesses = predict(record)
        for guess in guesses:
            right = any(same(guess, label) for label in labels)
            for score in (result.total, result.kinds[guess.kind]):
                score.predicted += 1
                score.right += right
            if not right:
                result.invented.append((str(record["id"]), guess))
        for label in labels:
            found = any(same(label, guess) for guess in guesses)
            for score in (result.total, result.kinds[label.kind]):
                score.labelled += 1
                score.found += found
            if not found:
                result.missed.append((str(record["id"]), label))
    return result


if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else "development"
    print("\n".join(evaluate(read(CORPUS / f"{name}.jsonl")).report(details=name.startswith("development"))))
