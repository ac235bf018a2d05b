"""Line ends of a text: split, kept through a change, and counted. Pure; which bytes they are is in `core/decode`."""

from __future__ import annotations

import difflib
import re
from collections import Counter

_LINE = re.compile(r"([^\r\n]*(?:\r+(?!\r*\n)[^\r\n]*)*)(\r*\n|\Z)")
_CR_LINE = re.compile(r"([^\r]*)(\r|\Z)")
_COMPARED = 4_000_000
"""Lines before times lines after up to which the lines of a mixed text are matched one by one."""
_NAMES = {"\n": "LF", "\r\n": "CRLF", "\r": "CR"}


def split_lines(text: str) -> list[tuple[str, str]]:
    """Return body and end of every line; a last line without an end has the end "".

    An end is `\\n` with all `\\r` before it. A lone `\\r` ends a line only in a text that has no `\\n`.
    """
    pattern = _CR_LINE if "\r" in text and "\n" not in text else _LINE
    lines = [(found[1], found[2]) for found in pattern.finditer(text)]
    return lines[:-1] if lines and lines[-1] == ("", "") else lines


def to_lf(text: str) -> str:
    """Return `text` with every `\\r\\n` as `\\n`."""
    return text.replace("\r\n", "\n")


def keep_line_ends(old: str, new: str, default: str) -> str:
    """Return `new` (line ends `\\n` or `\\r\\n`) with the line ends of `old`, the text that it replaces.

    A line that stays keeps its own end, a changed one takes that of the line it replaces, an added one that of the
    line before it. `default` is for lines whose part of `old` has no end.
    """
    if "\n" not in new:
        return new
    olds, news = split_lines(old), split_lines(to_lf(new))
    ends = {end for _, end in olds if end} or {default}
    if len(ends) == 1:
        sources = [next(iter(ends))] * len(news)
    else:
        sources = [end or default for end in _aligned_ends(olds, news, default)]
    return "".join(body + (source if end else "") for (body, end), source in zip(news, sources, strict=True))


def _aligned_ends(olds: list[tuple[str, str]], news: list[tuple[str, str]], default: str) -> list[str]:
    """Return for each new line the end of the old line that it is, replaces or follows."""
    before, after = [body for body, _ in olds], [body for body, _ in news]
    shortest = min(len(before), len(after))
    head = next((at for at in range(shortest) if before[at] != after[at]), shortest)
    tail = 0
    while tail < shortest - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    inner_old, inner_new = before[head : len(before) - tail], after[head : len(after) - tail]
    ends = [end for _, end in olds[:head]]
    if len(inner_old) * len(inner_new) <= _COMPARED:
        codes = difflib.SequenceMatcher(None, inner_old, inner_new, False).get_opcodes()
    else:
        codes = [("replace", 0, len(inner_old), 0, len(inner_new))]
    for _, low, high, start, stop in codes:
        for at in range(stop - start):
            nearest = head + (min(low + at, high - 1) if high > low else low - 1)
            ends.append(olds[nearest][1] if nearest >= 0 else olds[0][1])
    return [*ends, *(end for _, end in olds[len(olds) - tail :])] if news else []


def near_line_end(text: str, start: int, end: int) -> str:
    """Return the end of the line in which `text[start:end]` ends, else of the line before it, else of any line."""
    if "\n" not in text:
        return "\r" if "\r" in text else "\n"
    after = text.find("\n", end)
    near = after if after >= 0 else text.rfind("\n", 0, start)
    if near < 0:
        near = text.find("\n")
    return "\r\n" if near > 0 and text[near - 1] == "\r" else "\n"


def main_line_end(text: str) -> str:
    """Return the end of most lines, `\\n` where there is none."""
    counted = Counter(end for _, end in split_lines(text) if end)
    return counted.most_common(1)[0][0] if counted else "\n"


def describe_line_ends(text: str) -> str:
    """Return the kinds of line ends with their counts where there are several, as in `CRLF` or `3 CRLF, 1 LF`."""
    counted = Counter(_NAMES.get(end, "CR CRLF") for _, end in split_lines(text) if end)
    if len(counted) < 2:
        return next(iter(counted), "none")
    return ", ".join(f"{count:,} {name}" for name, count in counted.most_common())
