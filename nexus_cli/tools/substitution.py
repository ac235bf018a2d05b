"""Exact replacement in a text, pure: finds what is to be replaced, keeps line ends, says why it cannot.

Bytes and encodings are in `text`, the file is the tool's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nexus_cli.tools.files import Refused
from nexus_cli.tools.threads import Stop

_MOST_LINES = 20_000
_MOST_NAMED = 8
_CANDIDATES = 3
_COMPARED = 400
"""Characters of a place or a line that are compared: how long that takes grows with the square or more."""
_CONTEXT = 2
_DIFF_LINES = 5_000


def apply_edits(text: str, edits: Sequence[Mapping[str, Any]], stop: Stop) -> str:
    """`text` after all edits in order, each on what the one before left.

    An edit is `old`, `new` and perhaps `all`. `old` must occur exactly once, or with `all` at least once. A newline in
    `old` also matches `\\r\\n`; one in `new` becomes the line end of the place it comes to stand in. Everything
    outside the matches stays as it is. Raises `Refused` with the nearest candidates, and `Stopped`; then no edit
    counts.
    """
    for number, edit in enumerate(edits, 1):
        try:
            text = _one(text, edit["old"], edit["new"], bool(edit.get("all", False)), stop)
        except Refused as refused:
            which = f"edit {number} of {len(edits)}: " if len(edits) > 1 else ""
            raise Refused(f"{which}{refused}") from None
    return text


def short_diff(before: str, after: str) -> str:
    """What changed, as unified hunks with two lines of context and no file header; "" when nothing did."""
    a, b = before.replace("\r\n", "\n").split("\n"), after.replace("\r\n", "\n").split("\n")
    if a == b:
        return ""
    first = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    tail = 0
    while tail < min(len(a), len(b)) - first and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    start = max(0, first - _CONTEXT)
    old = a[start : len(a) - max(0, tail - _CONTEXT)]
    new = b[start : len(b) - max(0, tail - _CONTEXT)]
    if len(old) + len(new) > _DIFF_LINES:
        return f"lines {first + 1} to {len(a) - tail} became {first + 1} to {len(b) - tail}"
    hunks = list(difflib.unified_diff(old, new, lineterm="", n=_CONTEXT))[2:]
    return "\n".join(_moved(line, start) for line in hunks)


def _moved(line: str, offset: int) -> str:
    """A hunk header with its line numbers counted from the start of the file; another line as it is."""
    if not line.startswith("@@"):
        return line
    return re.sub(r"([-+])(\d+)", lambda m: f"{m[1]}{int(m[2]) + offset}", line)


def _one(text: str, old: str, new: str, every: bool, stop: Stop) -> str:
    if not old:
        raise Refused("`old` is empty")
    if old == new:
        raise Refused("`old` and `new` are the same")
    lenient = re.compile(_lenient(old))
    starts: list[re.Match[str]] = []
    found = lenient.search(text)
    while found is not None and len(starts) < 100_000:
        stop.check()
        starts.append(found)
        # For one replacement overlapping places count: each of them could have been meant.
        found = lenient.search(text, found.end() if every else found.start() + 1)
    if not starts:
        raise Refused(f"`old` does not occur{_candidates(text, old, stop)}")
    if len(starts) > 1 and not every:
        lines = _line_numbers(text, [match.start() for match in starts[:_MOST_NAMED]])
        more = ", ..." if len(starts) > _MOST_NAMED else ""
        named = ", ".join(map(str, lines))
        raise Refused(f"`old` occurs {len(starts)} times (lines {named}{more}): add text around it, or set `all`")
    if every:
        return lenient.sub(lambda match: _fitted(text, match.start(), match.end(), new), text)
    match = starts[0]
    return text[: match.start()] + _fitted(text, match.start(), match.end(), new) + text[match.end() :]


def _lenient(old: str) -> str:
    """A pattern for `old` as it was shown: `\\r\\n` reads as `\\n`, and so does a `\\r\\r\\n` as `\\r\\n`."""
    ends = {"\n": r"\r?\n", "\r\n": r"(?:\r?\r)?\n"}
    return "".join(ends.get(part) or re.escape(part) for part in re.split(r"(\r?\n)", old))


def _line_numbers(text: str, offsets: Sequence[int]) -> list[int]:
    numbers, line, position = [], 1, 0
    for offset in offsets:
        line += text.count("\n", position, offset)
        position = offset
        numbers.append(line)
    return numbers


def _fitted(text: str, start: int, end: int, new: str) -> str:
    """`new` with the line ends of the place: whole lines that stay keep theirs, the others take the prevailing one."""
    if "\n" not in new:
        return new
    olds, news = _lines(text[start:end]), _lines(new)
    shortest = min(len(olds), len(news))
    head = 0
    while head < shortest and _stays(olds[head], news[head]):
        head += 1
    tail = 0
    while tail < shortest - head and _stays(olds[-1 - tail], news[-1 - tail]):
        tail += 1
    middle = _line_end(text, start, end, "".join(olds[head : len(olds) - tail]))
    changed = [_ended(line, middle) for line in news[head : len(news) - tail]]
    return "".join(olds[:head] + changed + olds[len(olds) - tail :])


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _stays(old: str, new: str) -> bool:
    """Whether a line is the same but for a `\\r` that only the file has; one that `new` names itself is meant."""
    return old == new or (old.endswith("\r\n") and old[:-2] + "\n" == new)


def _ended(line: str, end: str) -> str:
    return line[:-1] + end if line.endswith("\n") and not line.endswith("\r\n") else line


def _line_end(text: str, start: int, end: int, region: str) -> str:
    """The line end of most lines replaced; of the line around them when they have none."""
    breaks = region.count("\n")
    if breaks:
        return "\r\n" if region.count("\r\n") * 2 > breaks else "\n"
    after = text.find("\n", end)
    near = after if after >= 0 else text.rfind("\n", 0, start)
    return "\r\n" if near > 0 and text[near - 1] == "\r" else "\n"


def _candidates(text: str, old: str, stop: Stop) -> str:
    """The places that `old` most likely means, with line numbers and their text; "" when nothing is near."""
    wanted = old.replace("\r\n", "\n").strip("\n").split("\n")
    lines = text.replace("\r\n", "\n").split("\n", _MOST_LINES)[:_MOST_LINES]
    anchor = max(range(len(wanted)), key=lambda i: len(wanted[i].strip()))
    key = wanted[anchor].strip()
    if not key:
        return ""
    places = sorted(_near(lines, key, stop), reverse=True)[: _CANDIDATES * 4]
    scored = []
    for _, negative in places:
        first = max(0, -negative - anchor)
        block = lines[first : first + len(wanted)]
        stop.check()
        seen, meant = "\n".join(block)[:_COMPARED], "\n".join(wanted)[:_COMPARED]
        ratio = difflib.SequenceMatcher(None, seen, meant, False).ratio()
        scored.append((ratio, -first, block))
    scored.sort(key=lambda found: found[:2], reverse=True)
    best = [found for found in scored if found[0] > 0.5 and found[0] > scored[0][0] - 0.15][:_CANDIDATES]
    if not best:
        return ""
    same = [part.split() for part in wanted] == [part.split() for part in best[0][2]]
    told = "\n".join(f"line {1 - first}:\n" + "\n".join(block[:20]) for _, first, block in best)
    return f"{' (only white space differs)' if same else ''}. Nearest:\n{told}"


def _near(lines: Sequence[str], key: str, stop: Stop) -> list[tuple[float, int]]:
    """Likeness and negative index of the lines that resemble `key`, cheaply bounded before it is measured."""
    matcher = difflib.SequenceMatcher(None, "", key[:_COMPARED], False)
    found = []
    for index, line in enumerate(lines):
        stop.check()
        bare = line.strip()[:_COMPARED]
        if not bare:
            continue
        if bare == key:
            found.append((1.0, -index))
            continue
        if min(len(bare), len(key)) * 2 < (len(bare) + len(key)) * 0.5:
            continue
        matcher.set_seq1(bare)
        likeness = matcher.quick_ratio()
        if likeness > 0.6:
            found.append((likeness, -index))
    return found
