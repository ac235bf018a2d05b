"""Whether a commitment stands in a text: the question behind "retained".

Words count when they stand verbatim, or when all that carry the meaning stand in one sentence (in their order where
that is part of the meaning). A negation that was put before them, a digit that changed, a longer path, another exit
status: then they do not stand. Better one line too many than a commitment that is only nearly there.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from nexus_cli.context.fidelity.changes import CHANGED, CREATED, DELETED
from nexus_cli.context.fidelity.commitment import Commitment, CommitmentKind
from nexus_cli.context.fidelity.words import NEGATION, directed, plain, stem, stems, tokens

_SENTENCE_END = re.compile(r"(?<![.!?…;])[.!?…;]++[\"')\]*_`]*+\s+|\s+[•·|]\s+")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s|.{0,120}:\s*$|\s*\*\*[^*]{1,80}\*\*:?\s*$")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,2}[.)])\s")
_AT_LINE = re.compile(r":\d+(?:[-:]\d+)*$")
_STATES: Mapping[str, str] = {
    **dict.fromkeys(("delet", "remov", "unlink", "gone", "dropp"), DELETED),
    **dict.fromkeys(("creat", "add", "new", "written", "wrote", "introduc"), CREATED),
    **dict.fromkeys(("chang", "edit", "updat", "modifi", "modif", "rewrote", "rewritten", "fix", "patch", "replac",
    "adjust"), CHANGED),
}
"""Stems that tell the state of a file."""
_EXIT = re.compile(r"\b(?:exit(?:ed)?(?: with)?(?: status| code)?|status|code|rc)[ :=]{1,2}(-?\d{1,3})\b")
_PASSED = re.compile(r"\b(?:pass(?:es|ed)?|ok|succe\w+|green|clean|fine|works?|worked)\b")
_FAILED = re.compile(r"\b(?:fail\w*|error\w*|crash\w*|broke\w*|red|not (?:pass|work))\b")
_NEAR = 2
"""Words before a phrase in which a negation turns it round."""


class Standing:
    """One text, made ready to be asked what stands in it."""

    def __init__(self, text: str) -> None:
        self._lines = [plain(line) for line in text.splitlines()]
        self._headings = _headings(text.splitlines())
        self._flow = " ".join(line for line in self._lines if line)
        self._starts: list[int] = []
        self._by_line = _joined(self._lines, self._starts)
        self._units = [tuple(stems(unit)) for line in self._lines for unit in _SENTENCE_END.split(line) if unit]
        self._wide = [tuple(stems(line)) for line in self._lines]
        self._where, self._where_wide = _index(self._units), _index(self._wide)

    def holds(self, commitment: Commitment) -> bool:
        """Whether every key of `commitment` stands here, as its kind demands."""
        match commitment.kind:
            case CommitmentKind.FILE:
                return self._file(*commitment.keys)
            case CommitmentKind.COMMAND:
                return self._command(commitment.keys[0], commitment.exit)
            case CommitmentKind.IDENTIFIER:
                return next(_found(self._flow, commitment.keys[0], _exact), None) is not None
            case CommitmentKind.ERROR:
                return self._verbatim(commitment) or self._together(commitment.keys, self._wide, self._where_wide, True)
            case _:
                return self._said(commitment)

    def _said(self, commitment: Commitment) -> bool:
        if self._verbatim(commitment):
            return True
        ordered = directed(commitment.text)
        if len(_SENTENCE_END.split(plain(commitment.text))) > 1:
            return self._together(commitment.keys, self._wide, self._where_wide, ordered)
        return self._together(commitment.keys, self._units, self._where, ordered)

    def _verbatim(self, commitment: Commitment) -> bool:
        said = plain(commitment.text).strip(" .,;:!")
        for start in _found(self._flow, said, _whole):
            before = [stem(word.strip(".,;:!'\"")) for word in self._flow[max(0, start - 40) : start].split()[-_NEAR:]]
            if NEGATION not in before:
                return True
        return False

    def _together(
        self, keys: Sequence[str], units: Sequence[tuple[str, ...]], where: Mapping[str, set[int]], ordered: bool
    ) -> bool:
        found = [where.get(key, set()) for key in sorted(keys, key=lambda key: len(where.get(key, ())))]
        common = set.intersection(*found) if found else set()
        return any(_carries(units[number], keys, ordered) for number in sorted(common))

    def _file(self, path: str, state: str) -> bool:
        low = plain(path)
        for start in _found(self._by_line, low, _path_ends):
            number = bisect_right(self._starts, start) - 1
            told = _state(self._lines[number], low) or _state(f"{self._headings[number]} {low}", low)
            if (told == DELETED) == (state == DELETED):
                return True
        return False

    def _command(self, command: str, status: int | None) -> bool:
        low = plain(command)
        for start in _found(self._by_line, low, _whole):
            number = bisect_right(self._starts, start) - 1
            line, at = self._lines[number], start - self._starts[number]
            if status is None or _ended(line[:at], line[at + len(low) :], status):
                return True
        return False


def _headings(lines: Sequence[str]) -> list[str]:
    """For each line the heading over it."""
    found, heading = [], ""
    for line in lines:
        if _HEADING.match(line) and not _ITEM.match(line):
            heading = plain(line)
        elif line.strip() and not _ITEM.match(line) and not line[:1].isspace():
            heading = ""
        found.append(heading)
    return found


def _joined(lines: Sequence[str], starts: list[int]) -> str:
    position = 0
    for line in lines:
        starts.append(position)
        position += len(line) + 1
    return "\n".join(lines)


def _index(units: Sequence[tuple[str, ...]]) -> dict[str, set[int]]:
    where: dict[str, set[int]] = {}
    for number, unit in enumerate(units):
        for word in unit:
            where.setdefault(word, set()).add(number)
    return where


def _found(text: str, part: str, ends: Callable[[str, int, int], bool]) -> Iterator[int]:
    """Where `part` stands in `text` with the right `ends`."""
    start = text.find(part) if part else -1
    while start >= 0:
        if ends(text, start, start + len(part)):
            yield start
        start = text.find(part, start + 1)


def _whole(text: str, start: int, end: int) -> bool:
    """Not inside a longer word."""
    return not (_word(text, start - 1) and _word(text, start)) and not (_word(text, end) and _word(text, end - 1))


def _exact(text: str, start: int, end: int) -> bool:
    """Not inside a longer word or number: no 3.9 in 3.9.1 or 13.9."""
    if not _whole(text, start, end) or (start > 1 and text[start - 1] == "." and text[start - 2].isdigit()):
        return False
    return not (text[end : end + 1] in (".", "-", "/", ":") and _word(text, end + 1) and text[end - 1].isalnum())


def _path_ends(text: str, start: int, end: int) -> bool:
    """Not inside a longer path; a line number may follow, `./` go before."""
    before = text[max(0, start - 2) : start]
    if before[-1:] and (before[-1].isalnum() or before[-1] in "_-.@/~") and before != "./" and before != " ./":
        return False
    after = text[end : end + 2]
    return not after[:1] or not (after[0].isalnum() or after[0] in "_-/@" or (after[0] == "." and after[1:].isalnum()))


def _word(text: str, position: int) -> bool:
    return 0 <= position < len(text) and (text[position].isalnum() or text[position] == "_")


def _carries(unit: Sequence[str], keys: Sequence[str], ordered: bool) -> bool:
    """Whether a sentence that has all `keys` says the same."""
    first = min(unit.index(key) for key in keys)
    if NEGATION not in keys and NEGATION in unit[max(0, first - _NEAR) : first]:
        return False
    if not ordered:
        return Counter(keys) <= Counter(unit)
    rest = iter(unit)
    return all(key in rest for key in keys)


def _state(line: str, path: str) -> str:
    """What `line` says of `path`: the state that stands nearest to it; "" where it says none."""
    words = [word.removeprefix("./") for word in tokens(line)]
    at = next((i for i, word in enumerate(words) if word == path or _AT_LINE.sub("", word) == path), None)
    if at is None:
        return ""
    told = [(abs(i - at), i > at, _STATES[stem(word)]) for i, word in enumerate(words) if stem(word) in _STATES]
    return min(told)[2] if told else ""


def _ended(before: str, after: str, status: int) -> bool:
    """Whether what stands around a command in its line tells its exit `status`."""
    told = _EXIT.search(after) or next(reversed(list(_EXIT.finditer(before))), None)
    if told:
        return int(told[1]) == status
    rest = f"{before} {after}"
    failed = bool(_FAILED.search(rest))
    return failed if status else bool(_PASSED.search(rest)) and not failed
