"""Values that a summary states and nobody did, where nearly the same one, or one of the same thing, was said.

A value that stands anywhere in what the summary was made from is never doubted, nor is one without its like there: it
may be the summariser's own, and nothing better could be told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from nexus_cli.context.fidelity.exact import LONGEST, Value, is_whole, sentences, values
from nexus_cli.context.fidelity.words import plain

MOST = 40
"""Values of a summary whose like is looked for in the history."""
LINES = 4000
"""Lines of the history in which it is looked for."""
SURE = frozenset(("url", "mail", "uuid", "address", "path", "pair", "ticket", "hash", "name", "long"))
"""Kinds of which one that is nearly the same is the same, whatever stands around it."""
_AHEAD = re.compile(
    r"\b(?:next|will|plan\w*|todo|to do|to be|propos\w+|suggest\w*|renam\w+|bump\w*|new|should be created|still)\b",
    re.IGNORECASE,
)
"""In a sentence that speaks of what is still to come: there are names and versions that nobody has said yet."""
_LOOSE = frozenset(
    ("under", "at most", "at least", "min", "minimum", "max", "maximum", "level", "length", "depth", "go")
)
"""Keys that say little of what their number is one of."""
_TELLING = 3
"""Letters of a word beyond which it tells lines apart."""
_AROUND = 2
"""Words that two values have to share where nothing else speaks for it."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text that a summary was made from."""

    entry: int
    text: str
    rank: int = 0
    """The higher, the rather a value is taken from it: what a person said goes before what a tool printed."""


Read: TypeAlias = tuple[Text, str]
"""A text, and the same folded."""


@dataclass(frozen=True, slots=True)
class Mistaken:
    """A value of a summary, and what it should be."""

    value: Value
    sentence: str
    """Where it stands."""
    meant: Value
    entry: int


def mistaken(summary: str, history: Sequence[Text], beside: Iterable[str] = ()) -> list[Mistaken]:
    """The values of `summary` that stand neither in `history` nor in what stood `beside` it, and what was meant."""
    doubted: dict[tuple[str, str], tuple[Value, str]] = {}
    for sentence in sentences(summary):
        ahead = bool(_AHEAD.search(sentence))
        for value in values(sentence):
            if not (ahead and value.kind in ("path", "name", "version")):
                doubted.setdefault((value.kind, value.text), (value, sentence))
    folded = [one.text.casefold() for one in history]
    low = "\n".join([*map(str.casefold, beside), *folded])
    left = [one for one in doubted.values() if not stands(one[0], low)]
    if not left:
        return []
    read = list(zip(history, folded, strict=True))
    like = _like([value for value, _ in left[:MOST]], read)
    found = (_meant(value, sentence, like.get(value.kind, ())) for value, sentence in left[:MOST])
    return [one for one in found if one and not _is_said(one, read)]


def stands(value: Value, low: str) -> bool:
    """Whether a value stands in a folded text: not inside a longer word or number; a version or hash may go on."""
    wanted = value.text.casefold()
    if value.kind == "path":
        return _path_stands(wanted, low)
    if value.kind == "hash":
        return wanted[:7] in low
    spelled = [wanted, f"{int(wanted):,}"] if wanted.isdigit() and len(wanted) > 3 else [wanted]
    if value.kind == "version":
        spelled.append(wanted.removeprefix("v"))
    return any(is_whole(low, one, open_end=value.kind == "version") for one in spelled)


def _path_stands(path: str, low: str) -> bool:
    """Also where its folder and its name stand apart: somebody changed into the folder first."""
    path = path.removeprefix("./").removeprefix("~/")
    if is_whole(low, path):
        return True
    folder, _, name = path.rpartition("/")
    return bool(folder) and is_whole(low, name) and all(is_whole(low, part) for part in folder.split("/") if part)


def _meant(value: Value, sentence: str, like: Iterable[tuple[Text, Value]]) -> Mistaken | None:
    """What was said where the summary says `value`; None where nothing is like it."""
    low = sentence.casefold()
    best: tuple[tuple[bool, int, int, int], Value, int] | None = None
    for text, other in like:
        if value.key != other.key:
            continue
        shared, near = len(value.around & other.around), is_near(value.text, other.text)
        weight = near, shared, text.rank, text.entry
        if (best is None or weight > best[0]) and _is_same(value, shared, near) and not stands(other, low):
            best = weight, other, text.entry
    return Mistaken(value, sentence, best[1], best[2]) if best else None


def _is_same(value: Value, shared: int, near: bool) -> bool:
    """Whether another value with the same key, that shares so many words with it, is one of the same thing."""
    if value.key:
        return shared >= _AROUND if value.key in _LOOSE else near or shared >= 1
    if value.kind in SURE and near and len(value.text) > (6 if value.kind == "path" else 2):
        return True
    return shared >= (1 if near else _AROUND) and value.kind not in ("path", "name", "url", "hash", "long")


def _like(doubted: Sequence[Value], history: Sequence[Read]) -> dict[str, list[tuple[Text, Value]]]:
    """By kind the values in lines that may hold one like those that are `doubted`: what somebody said goes first, then
    what tools gave, the newest first."""
    exact = {needle for value in doubted for needle in _needles(value)}
    words = {word for value in doubted for word in value.around if len(word) > _TELLING}
    kinds = {value.kind for value in doubted}
    found: dict[str, list[tuple[Text, Value]]] = {}
    left = LINES
    for text, low in sorted(history, key=lambda one: (one[0].rank, one[0].entry), reverse=True):
        needles = exact | words if text.rank else exact
        if left <= 0 or not any(needle in low for needle in needles):
            continue
        for line in text.text.splitlines():
            if len(line) > LONGEST or not any(needle in line.casefold() for needle in needles):
                continue
            left -= 1
            for sentence in sentences(line):
                for value in values(sentence):
                    if value.kind in kinds:
                        found.setdefault(value.kind, []).append((text, value))
            if left <= 0:
                break
    return found


def _needles(value: Value) -> list[str]:
    """Something of which stands in every line that holds nearly the same value: its key, else its parts."""
    if value.key:
        return [value.key]
    text = value.text.casefold()
    third = max(2, len(text) // 3)
    return [text[:third], text[third:-third], text[-third:]] if len(text) > 5 else [text[: max(2, len(text) - 1)]]


def is_near(one: str, other: str) -> bool:
    """Whether they differ in one sign (no plural), two in long ones, or by two that changed places."""
    one, other = one.casefold(), other.casefold()
    if one == other:
        return False
    if len(one) == len(other):
        apart = [index for index, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
        if len(apart) == 1 or (len(apart) == 2 and len(one) > 6):
            return True
        swapped = len(apart) == 2 and apart[1] == apart[0] + 1
        return swapped and one[apart[0]] == other[apart[1]] and one[apart[1]] == other[apart[0]]
    short, long = sorted((one, other), key=len)
    return len(long) - len(short) == 1 and len(short) > 2 and any(
        short == long[:index] + long[index + 1 :] for index in range(len(long)) if long[index] != "s"
    )


def _is_said(one: Mistaken, history: Iterable[Read]) -> bool:
    """Whether the sentence stands in the history as it is."""
    wanted, value = plain(one.sentence), one.value.text.casefold()
    return any(value in low and is_whole(plain(text.text), wanted) for text, low in history)
