"""Find the words that changed between a removed line and the added line that replaces it. The work is bounded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

Range = tuple[int, int]
"""Index of the first character, and one past the last."""
ALIKE = 0.5
"""Least share of common text for one line to count as a change of the other."""
_MOST_LINES = 30
"""Most lines of a change in which words are compared."""
_LONGEST = 500
_WORD = re.compile(r"\w+|\s+|.")


def changed_words(lines: Sequence[tuple[str, str]]) -> list[tuple[Range, ...]]:
    """Return the changed ranges of each of `lines`, which are roles (`removed`, `added` or another) with texts."""
    made: list[tuple[Range, ...]] = [()] * len(lines)
    start = 0
    while start < len(lines):
        between = _end(lines, start, "removed")
        end = _end(lines, between, "added")
        if start < between < end and end - start <= 2 * _MOST_LINES:
            _mark(lines, start, between, end, made)
        start = max(end, start + 1)
    return made


def _end(lines: Sequence[tuple[str, str]], start: int, role: str) -> int:
    return next((place for place in range(start, len(lines)) if lines[place][0] != role), len(lines))


def _mark(lines: Sequence[tuple[str, str]], start: int, between: int, end: int, made: list[tuple[Range, ...]]) -> None:
    """Mark the differences in pairs of similar removed and added lines, in their order."""
    least = between
    equal = between - start == end - between
    for old in range(start, between):
        candidates = [between + old - start] if equal else range(least, end)
        for new in candidates:
            ranges = _differences(lines[old][1], lines[new][1])
            if ranges is not None:
                made[old], made[new] = ranges
                least = new + 1
                break


def _differences(old: str, new: str) -> tuple[tuple[Range, ...], tuple[Range, ...]] | None:
    """Return the differences in each of two lines; None if they have little in common."""
    if not old.strip() or not new.strip() or max(len(old), len(new)) > _LONGEST:
        return None
    befores, afters = _WORD.findall(old), _WORD.findall(new)
    matcher = SequenceMatcher(None, befores, afters, autojunk=False)
    same = sum(len("".join(befores[a : a + size]).strip()) for a, _, size in matcher.get_matching_blocks())
    if 2 * same < ALIKE * (len(old.strip()) + len(new.strip())):
        return None
    gone: list[Range] = []
    come: list[Range] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            gone.append((len("".join(befores[:a])), len("".join(befores[:b]))))
            come.append((len("".join(afters[:c])), len("".join(afters[:d]))))
    return _seen(gone, old), _seen(come, new)


def _seen(ranges: Sequence[Range], line: str) -> tuple[Range, ...]:
    """Return the ranges that deserve a mark: an indentation is visible without one."""
    return tuple((begin, end) for begin, end in ranges if line[:end].strip() and begin < end)
