"""Apply exact replacements to a text, keep line ends, and explain why a text to replace is not found.

Look-alikes are characters that a person reads as the same (quotes, dashes, accents, blanks, invisible characters): an
error says so; they never match.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from nexus_cli.core.elide import plural
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.files import ToolError, keep_line_ends, near_line_end, to_lf
from nexus_cli.tools.omission import find_new_omission

_LOOK_ALIKES = "only characters that look alike differ"
_BLANKS = "only white space differs"
_LARGEST = 4_000_000
"""Most characters of a text that are searched."""


_FORMS = {
    "'": "\u2018\u2019\u201a\u201b\u2032\u02b9\u02bb\u02bc\u00b4",
    '"': "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
    "": "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufe0e\ufe0f\ufeff\x7f",
}
"""Each form with its look-alikes; invisible characters have none."""
_LOOK_ALIKE_FORMS = str.maketrans({char: form for form, alikes in _FORMS.items() for char in alikes})


def _fold(text: str) -> str:
    """Replace each character of `text` by one form for all its look-alikes."""
    return re.sub(r"[^\S\n]+", " ", unicodedata.normalize("NFKC", text.translate(_LOOK_ALIKE_FORMS)))


_MAX_NAMED = 8
_MAX_SHOWN = 20
"""Most lines that are shown of a similar passage."""
_MAX_LINES = 20_000
_MAX_COUNTED = 100_000
_MAX_COMPARED = 50_000_000
"""Most characters that counting the places of a text compares."""
_CR_ENDS = re.compile(r"(?<!\r)\r++\n")
BOM = "\ufeff"
_CANDIDATES = 3
_MIN_EVIDENCE = 4
"""Fewest characters of `new` that are taken for a sign of an edit that was made before."""
_PART = 8
"""Fewest characters of a line of `old` that are looked for within a line."""
_COMPARED = 400
"""Most characters of a passage or line that are compared: the time is at least quadratic."""


@dataclass(frozen=True, slots=True)
class ExactEdit:
    """The replacement of one text."""

    old: str
    """Must occur exactly once, or with `all` at least once; an empty one means the end of the text."""
    new: str
    all: bool = False


@dataclass(frozen=True, slots=True)
class EditedText:
    """A text after edits, with notes for the model."""

    text: str
    notes: tuple[str, ...]
    """The number of places that `all` replaced, and skipped edits."""


def apply_edits(text: str, edits: Sequence[ExactEdit], stop: StopFlag) -> EditedText:
    """Apply the edits in order, each to the result of the previous one.

    Every line keeps its own end and an added one takes that of its neighbours, for any line ends in `old` and `new`. An
    edit with equal `old` and `new` is skipped, unless all are. Raises `ToolError` with the nearest candidates, and
    `ThreadStopped`; no edit is applied then.
    """
    notes: list[str] = []
    skipped = [_describe_no_change(edit.old, edit.new) for edit in edits]
    for number, (edit, no_change) in enumerate(zip(edits, skipped, strict=True), 1):
        which = f"edit {number} of {len(edits)}" if len(edits) > 1 else ""
        try:
            if no_change and all(skipped):
                raise ToolError(no_change)
            if no_change:
                notes.append(f"{which} skipped: {no_change}")
                continue
            text, places = _apply_edit(text, edit.old, edit.new, edit.all, stop)
        except ToolError as refused:
            raise ToolError(f"{which}: {refused}".removeprefix(": ")) from None
        if edit.all:
            notes.append(f"{which}: {plural(places, 'place')}".removeprefix(": "))
    return EditedText(text, tuple(notes))


def _describe_no_change(old: str, new: str) -> str:
    """Return the reason why an edit changes nothing, "" if it changes something."""
    if to_lf(old) != to_lf(new):
        return ""
    return "`old` and `new` are the same" + (" except for line endings, which an edit keeps" * (old != new))


def _apply_edit(text: str, old: str, new: str, every: bool, stop: StopFlag) -> tuple[str, int]:
    """Apply one edit; return the text and the number of replacements."""
    omitted = find_new_omission(old, new)
    if omitted:
        raise ToolError(f"`new` has a placeholder for omitted text, {omitted[:80]!r}. Write out every line of `new`")
    if not old:
        return _append(text, new), 1
    starts = _find_places(text, old, every, stop)
    if not starts and old.startswith(BOM) and old != BOM:
        old, new = old[1:], new.removeprefix(BOM)
        starts = _find_places(text, old, every, stop)
    if not starts:
        nearest = describe_nearest(text, old, stop)
        hint = (
            _explain_earlier_edit(text, new.removeprefix(BOM), stop)
            if not nearest or nearest.startswith(". Nearest")
            else ""
        )
        raise ToolError(f"`old` does not occur{hint}{nearest}")
    if len(starts) > 1 and not every:
        lines = list(dict.fromkeys(_line_numbers(text, [start for start, _ in starts])))
        ellipsis = ", ..." if len(lines) > _MAX_NAMED else ""
        places_text = f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:_MAX_NAMED]))}"
        times = f"{'at least ' if len(starts) >= _most_counted(old) else ''}{len(starts):,} times"
        raise ToolError(f"`old` occurs {times} ({places_text}{ellipsis}): add text around it, or set `all`")
    parts, position = [], 0
    for start, end in starts:
        stop.raise_if_pressed()
        default = near_line_end(text, start, end) if "\n" in new else ""
        parts += [text[position:start], keep_line_ends(text[start:end], new, default)]
        position = end
    return "".join(parts) + text[position:], len(starts)


def _explain_earlier_edit(text: str, new: str, stop: StopFlag) -> str:
    """Return a hint that the edit was made before, "" unless `new` occurs once and is long enough as evidence."""
    places = _find_places(text, new, False, stop) if len(new.strip()) >= _MIN_EVIDENCE else []
    if len(places) != 1:
        return ""
    (line,) = _line_numbers(text, [places[0][0]])
    return f", but `new` does, at line {line}: this edit may already be done"


def _append(text: str, new: str) -> str:
    """Append `new` as further lines, with the line ends of `text`; the last line has an end if that of `text` had."""
    end = near_line_end(text, len(text), len(text))
    ended = not text or text.endswith(end)
    added = keep_line_ends("", new, end)
    return text + end * (not ended) + added + end * (bool(text) and ended and not added.endswith(end))


def _find_places(text: str, old: str, every: bool, stop: StopFlag) -> list[tuple[int, int]]:
    """Find the beginnings and ends of `old`, in which `\\n` and `\\r\\n` mean any line end: without overlaps if
    `every`, else with overlaps, at most `_most_counted` times."""
    part = re.sub(r"\r?\n", "\n" if "\n" in text else "\r", old)
    crosses = "\n" in part and "\r" in text
    plain = _CR_ENDS.sub("\n", text) if crosses else text
    # Overlapping matches count for a single replacement, because each of them could be meant.
    starts = find_all(plain, part, stop, 0 if every else _most_counted(part))
    if not starts or not crosses:
        return [(start, start + len(part)) for start in starts]
    # Where `plain` has a shorter line end, and how much it lacks up to there.
    shortened, removed, lost = list[int](), [0], 0
    for match in _CR_ENDS.finditer(text):
        shortened.append(match.start() - lost)
        lost += len(match[0]) - 1
        removed.append(lost)

    def locate(position: int) -> int:
        return position + removed[bisect_left(shortened, position)]

    return [(locate(start), locate(start + len(part))) for start in starts]


def find_all(text: str, part: str, stop: StopFlag, most: int) -> list[int]:
    """Find the places of `part`: the first `most` with overlaps, or with 0 all without overlaps.

    `str.find` is linear. A regular expression is not: it can hold all threads for hours in a text of equal lines.
    """
    places = list[int]()
    position = text.find(part)
    while position >= 0 and not (most and len(places) == most):
        stop.raise_if_pressed()
        places.append(position)
        position = text.find(part, position + (1 if most else len(part)))
    return places


def _most_counted(part: str) -> int:
    """Return the most overlapping places of `part` to count: each is compared in its whole length."""
    return max(_MAX_NAMED + 1, min(_MAX_COUNTED, _MAX_COMPARED // len(part)))


def _line_numbers(text: str, offsets: Sequence[int]) -> list[int]:
    numbers, line, position = [], 1, 0
    for offset in offsets:
        line += text.count("\n", position, offset)
        position = offset
        numbers.append(line)
    return numbers


def describe_nearest(text: str, old: str, stop: StopFlag, name: str = "`old`") -> str:
    """Explain why `old`, which the model knows as `name`, is not found: white space, look-alike characters, and the
    most similar passages."""
    if respelled := _find_respelled(text, old, stop):
        first, count, exact, differs = respelled
        which = f"line {first}" if count == 1 else f"lines {first}-{first + count - 1}"
        changes = _diff_lines(to_lf(old).removeprefix(BOM).strip("\n").split("\n"), exact.split("\n"), first)
        if len(changes) < len(exact):
            return (
                f" ({differs}). {which[0].upper()}{which[1:]} would match if you changed {name} as follows:\n{changes}"
            )
        return f" ({differs}). Use {which} as {name}:\n{exact}"
    blanks, places = _find_candidates(text, old, stop)
    why = f" ({_BLANKS})" if blanks else ""
    if not blanks and (differs := _compare_with_parts(text, old)):
        why = f" ({differs}). Quote the file's own characters"
    if why:
        wanted = _normalize_line(to_lf(old))
        places = [place for place in places if wanted in _normalize_line("\n".join(place[1]))] or places
    near = "\n".join(_show_passage(first, block) for first, block in places)
    scope = f" in the first {_MAX_LINES:,} lines" if text.count("\n") >= _MAX_LINES else ""
    return f"{why}. Nearest{scope}:\n{near}" if near else why


def _show_passage(first: int, lines: Sequence[str]) -> str:
    """Return the first `_MAX_SHOWN` lines of a passage below the number of its first line, and the numbers of the
    others."""
    omission = f"\n[lines {first + _MAX_SHOWN + 1}-{first + len(lines)} are left out: read them]"
    return f"line {first + 1}:\n" + "\n".join(lines[:_MAX_SHOWN]) + omission * (len(lines) > _MAX_SHOWN)


def _compare_with_parts(text: str, old: str) -> str:
    """Describe how a part of `text` differs from `old`, if only in white space or look-alikes; "" else."""
    old_text, searched = (re.sub(r"[ \t]+", " ", to_lf(part)) for part in (old, text[:_LARGEST]))
    folded = _fold(old_text)
    if not folded.strip() or folded not in _fold(searched):
        return ""
    return _BLANKS if old_text in searched else _LOOK_ALIKES


def _diff_lines(old: Sequence[str], actual: Sequence[str], first: int) -> str:
    """Return the lines of `old` that differ from those in the file, whose first number is `first`, each with its own
    instead."""
    rows, before = list[str](), -2
    for index, (expected_line, actual_line) in enumerate(zip(old, actual, strict=True)):
        if expected_line != actual_line:
            rows += [f"@@ line {first + index} @@"] * (index != before + 1) + [f"-{expected_line}", f"+{actual_line}"]
            before = index
    return "\n".join(rows)


_NUMBERED = re.compile(r"[ \t]*(\d{1,7})(?:: ?|\t|\||\u2192)")
"""A line number before a line, as tools show it."""
_LONGEST_OFFER = 8_000
"""Most characters of a passage that is offered whole."""


def _find_respelled(text: str, old: str, stop: StopFlag) -> tuple[int, int, str, str] | None:
    """Find the only whole lines of `text` that differ from `old` in white space, quotes or line numbers alone.

    Returns the number of the first line, the number of lines, their text, and the difference in words.
    """
    old_lines = to_lf(old).removeprefix(BOM).strip("\n").split("\n")
    lines = to_lf(text[:_LARGEST]).split("\n")
    keys = [_normalize_line(line) for line in lines]
    for parts, differs in (
        (old_lines, ""),
        (_without_numbers(old_lines), "its lines begin with line numbers, which the file does not have"),
    ):
        stop.raise_if_pressed()
        keys_of_part = [_normalize_line(part) for part in parts]
        if not any(keys_of_part):
            continue
        places = find_lines(keys, keys_of_part, stop)
        passage = lines[places[0] : places[0] + len(parts)] if places else []
        if len(places) == 1 and sum(map(len, passage)) <= _LONGEST_OFFER:
            if not differs and ["".join(line.split()) for line in passage] == ["".join(part.split()) for part in parts]:
                differs = _BLANKS
            elif not differs and [_fold(line) for line in passage] != [_fold(part) for part in parts]:
                differs = "only white space, quotes or look-alike characters differ"
            return places[0] + 1, len(passage), "\n".join(passage), differs or _LOOK_ALIKES
    return None


def find_lines(lines: Sequence[str], passage: Sequence[str], stop: StopFlag) -> list[int]:
    """Return the indexes of the first two places of the lines `passage` in `lines`, with overlaps."""
    joined, part = "\n".join(["", *lines, ""]), "\n".join(["", *passage, ""])
    return [line - 1 for line in _line_numbers(joined, find_all(joined, part, stop, 2))]


def _normalize_line(line: str) -> str:
    """Return the form of a line without its white space and with one kind of quote."""
    return "".join(_fold(line).split()).replace('"', "'").replace("`", "'")


def _without_numbers(lines: Sequence[str]) -> list[str]:
    """Return the lines without the line numbers before them; [] unless all have one, each one more than the last."""
    matches = [_NUMBERED.match(line) for line in lines]
    numbers = [int(match[1]) for match in matches if match]
    if len(numbers) < len(lines) or numbers != list(range(numbers[0], numbers[0] + len(lines))):
        return []
    return [line[match.end() :] for line, match in zip(lines, matches, strict=True) if match]


def _find_candidates(text: str, old: str, stop: StopFlag) -> tuple[bool, list[tuple[int, list[str]]]]:
    """Return True if only white space differs, and the most similar passages, disjoint: first line, and lines."""
    old_lines = to_lf(old).strip("\n").split("\n")
    lines = to_lf(text).split("\n", _MAX_LINES)[:_MAX_LINES]
    anchor = max(range(len(old_lines)), key=lambda i: len(old_lines[i].strip()))
    key = old_lines[anchor].strip()
    if not key:
        return False, []
    scored = []
    for _, negative in sorted(_find_similar(lines, key, stop), reverse=True)[: _CANDIDATES * 4]:
        first = max(0, -negative - anchor)
        block = lines[first : first + len(old_lines)]
        stop.raise_if_pressed()
        cut = [*block]  # the first and the last line of `old` may be a part of one
        cut[0] = cut[0][-len(old_lines[0]) :] if len(old_lines) > 1 else cut[0]
        cut[-1] = cut[-1][: len(old_lines[-1])] if len(block) == len(old_lines) > 1 else cut[-1]
        actual, expected = "\n".join(cut)[:_COMPARED], "\n".join(old_lines)[:_COMPARED]
        scored.append((difflib.SequenceMatcher(None, actual, expected, False).ratio(), -first, block))
    scored.sort(key=lambda entry: entry[:2], reverse=True)
    best: list[tuple[int, list[str]]] = []
    for ratio, negative, block in scored:
        apart = all(abs(-negative - first) >= len(old_lines) for first, _ in best)
        if apart and ratio > 0.5 and ratio > scored[0][0] - 0.15:
            best.append((-negative, block))
    is_only_space = bool(best) and [part.split() for part in old_lines] == [part.split() for part in best[0][1]]
    return is_only_space, best[:_CANDIDATES]


def _find_similar(lines: Sequence[str], key: str, stop: StopFlag) -> list[tuple[float, int]]:
    """Return similarity and negative index of the lines similar to `key`, after a cheap check of each length."""
    matcher = difflib.SequenceMatcher(None, "", key[:_COMPARED], False)
    similar = []
    for index, line in enumerate(lines):
        stop.raise_if_pressed()
        bare = line.strip()[:_COMPARED]
        if not bare:
            continue
        if bare == key or (len(key) >= _PART and key in bare):
            similar.append((1.0, -index))
            continue
        if min(len(bare), len(key)) * 2 < (len(bare) + len(key)) * 0.5:
            continue
        matcher.set_seq1(bare)
        likeness = matcher.quick_ratio()
        if likeness > 0.6:
            similar.append((likeness, -index))
    return similar
