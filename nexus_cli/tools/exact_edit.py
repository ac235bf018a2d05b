"""Exact replacement in a text, pure: finds what is to be replaced, keeps line ends, says why it cannot.

Bytes and encodings are in `text`, the file is the tool's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nexus_cli.tools.cancellable_thread import Stop
from nexus_cli.tools.files import Refused
from nexus_cli.tools.line_ends import keep_line_ends, near_line_end, to_lf
from nexus_cli.tools.lookalikes import name_lookalikes
from nexus_cli.tools.omission import find_new_omission

_MOST_LINES = 20_000
_MOST_NAMED = 8
_MOST_COUNTED = 100_000
_BOM = "\ufeff"
_CANDIDATES = 3
_COMPARED = 400
"""Characters of a place or a line that are compared: how long that takes grows with the square or more."""
_CONTEXT = 2
_DIFF_LINES = 5_000


def apply_edits(text: str, edits: Sequence[Mapping[str, Any]], stop: Stop) -> str:
    """`text` after all edits in order, each on what the one before left.

    An edit is `old`, `new` and perhaps `all`. `old` must occur exactly once, or with `all` at least once. Every line
    keeps its own end, and an added one takes that of its neighbours, whatever line ends `old` and `new` are written
    in; a byte order mark in front of `new` is no text. Everything outside the matches stays as it is. Raises `Refused`
    with the nearest candidates, and `Stopped`; then no edit counts.
    """
    for number, edit in enumerate(edits, 1):
        try:
            text = _apply_edit(text, edit["old"], edit["new"], bool(edit.get("all", False)), stop)
        except Refused as refused:
            which = f"edit {number} of {len(edits)}: " if len(edits) > 1 else ""
            raise Refused(f"{which}{refused}") from None
    return text


def short_diff(before: str, after: str) -> str:
    """Return what changed as unified hunks with two lines of context and no file header; "" when nothing did.

    A last line without an end is marked as a diff marks it. Line ends are not compared.
    """
    a, b = _diff_lines(before), _diff_lines(after)
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
    return "\n".join(_shift_header(line, start) for line in hunks)


def _diff_lines(text: str) -> list[str]:
    lines = to_lf(text).split("\n")
    if not lines[-1]:
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]}\n\\ No newline at end of file"]


def _shift_header(line: str, offset: int) -> str:
    """A hunk header with its line numbers counted from the start of the file; another line as it is."""
    if not line.startswith("@@"):
        return line
    return re.sub(r"([-+])(\d+)", lambda m: f"{m[1]}{int(m[2]) + offset}", line)


def _apply_edit(text: str, old: str, new: str, every: bool, stop: Stop) -> str:
    if not old:
        raise Refused("`old` is empty")
    if to_lf(old) == to_lf(new):
        raise Refused("`old` and `new` are the same" + (" but for line ends, which an edit keeps" * (old != new)))
    omitted = find_new_omission(old, new)
    if omitted:
        raise Refused(f"`new` leaves text out: {omitted[:80]!r} would stand in the file. Write out every line of `new`")
    new = new.removeprefix(_BOM)
    starts = _find_places(text, old, every, stop)
    if not starts and old.startswith(_BOM) and old != _BOM:
        starts = _find_places(text, old[1:], every, stop)
    if not starts:
        raise Refused(f"`old` does not occur{_describe_nearest(text, old, stop)}")
    if len(starts) > 1 and not every:
        lines = list(dict.fromkeys(_line_numbers(text, [match.start() for match in starts])))
        more = ", ..." if len(lines) > _MOST_NAMED else ""
        named = f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:_MOST_NAMED]))}"
        times = f"{'at least ' if len(starts) >= _MOST_COUNTED else ''}{len(starts):,} times"
        raise Refused(f"`old` occurs {times} ({named}{more}): add text around it, or set `all`")
    parts, position = [], 0
    for match in starts:
        stop.check()
        default = near_line_end(text, match.start(), match.end()) if "\n" in new else ""
        parts += [text[position : match.start()], keep_line_ends(match[0], new, default)]
        position = match.end()
    return "".join(parts) + text[position:]


def _find_places(text: str, old: str, every: bool, stop: Stop) -> list[re.Match[str]]:
    """Return the places of `old`: all that do not overlap if `every`, else also overlapping ones, up to a bound."""
    lenient = re.compile(_any_line_end(old, "\n" not in text))
    places: list[re.Match[str]] = []
    found = lenient.search(text)
    while found is not None and (every or len(places) < _MOST_COUNTED):
        stop.check()
        places.append(found)
        # For one replacement overlapping places count: each of them could have been meant.
        found = lenient.search(text, found.end() if every else found.start() + 1)
    return places


def _any_line_end(old: str, lone_cr: bool) -> str:
    """Return a pattern for `old` as it was shown: a line end of either kind matches the end of any line.

    With `lone_cr` the lines of the text end in `\\r`.
    """
    end = r"\r" if lone_cr else r"(?<!\r)\r*\n"
    return "".join(end if part.endswith("\n") else re.escape(part) for part in re.split(r"(\r?\n)", old) if part)


def _line_numbers(text: str, offsets: Sequence[int]) -> list[int]:
    numbers, line, position = [], 1, 0
    for offset in offsets:
        line += text.count("\n", position, offset)
        position = offset
        numbers.append(line)
    return numbers


def _describe_nearest(text: str, old: str, stop: Stop) -> str:
    """Return what keeps `old` from being found: look-alike characters, and the places that it most likely means."""
    alike = name_lookalikes(text, old)
    blanks, places = _find_candidates(text, old, stop)
    why = " (only white space differs)" if blanks else ""
    if alike:
        why += f": only characters that look alike differ, the file has {alike}. Quote the file's own characters"
    near = "\n".join(f"line {first + 1}:\n" + "\n".join(block[:20]) for first, block in places)
    where = f" in the first {_MOST_LINES:,} lines" if text.count("\n") >= _MOST_LINES else ""
    return f"{why}. Nearest{where}:\n{near}" if near else why


def _find_candidates(text: str, old: str, stop: Stop) -> tuple[bool, list[tuple[int, list[str]]]]:
    """Return whether only white space differs, and the likeliest places: index of the first line, and the lines.

    No two of them overlap.
    """
    wanted = to_lf(old).strip("\n").split("\n")
    lines = to_lf(text).split("\n", _MOST_LINES)[:_MOST_LINES]
    anchor = max(range(len(wanted)), key=lambda i: len(wanted[i].strip()))
    key = wanted[anchor].strip()
    if not key:
        return False, []
    scored = []
    for _, negative in sorted(_find_similar(lines, key, stop), reverse=True)[: _CANDIDATES * 4]:
        first = max(0, -negative - anchor)
        block = lines[first : first + len(wanted)]
        stop.check()
        seen, meant = "\n".join(block)[:_COMPARED], "\n".join(wanted)[:_COMPARED]
        scored.append((difflib.SequenceMatcher(None, seen, meant, False).ratio(), -first, block))
    scored.sort(key=lambda found: found[:2], reverse=True)
    best: list[tuple[int, list[str]]] = []
    for ratio, negative, block in scored:
        apart = all(abs(-negative - first) >= len(wanted) for first, _ in best)
        if apart and ratio > 0.5 and ratio > scored[0][0] - 0.15:
            best.append((-negative, block))
    same = bool(best) and [part.split() for part in wanted] == [part.split() for part in best[0][1]]
    return same, best[:_CANDIDATES]


def _find_similar(lines: Sequence[str], key: str, stop: Stop) -> list[tuple[float, int]]:
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
