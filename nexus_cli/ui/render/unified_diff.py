"""Draw a unified diff for a terminal: line numbers, glyphs, syntax colours, changed words; nothing is cut off.

The tools make the diffs; the text is sanitized here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from itertools import accumulate, groupby, islice, takewhile

from nexus_cli.core.elide import plural
from nexus_cli.text.cells import cut, expand_tabs, fold, one_line
from nexus_cli.text.diff_lines import DiffLine, count_lines, describe_counts, parse_diff
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.render.theme import Theme

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
    ranges: list[tuple[Range, ...]] = [()] * len(lines)
    start = 0
    while start < len(lines):
        between = _end(lines, start, "removed")
        end = _end(lines, between, "added")
        if start < between < end and end - start <= 2 * _MOST_LINES:
            _mark(lines, start, between, end, ranges)
        start = max(end, start + 1)
    return ranges


def _end(lines: Sequence[tuple[str, str]], start: int, role: str) -> int:
    return next((place for place in range(start, len(lines)) if lines[place][0] != role), len(lines))


def _mark(lines: Sequence[tuple[str, str]], start: int, between: int, end: int, marks: list[tuple[Range, ...]]) -> None:
    """Mark the differences in pairs of similar removed and added lines, in their order."""
    least = between
    equal = between - start == end - between
    for old in range(start, between):
        candidates = [between + old - start] if equal else range(least, end)
        for new in candidates:
            ranges = _differences(lines[old][1], lines[new][1])
            if ranges is not None:
                marks[old], marks[new] = ranges
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
    olds, news = ([0, *accumulate(map(len, words))] for words in (befores, afters))
    changes = [places for tag, *places in matcher.get_opcodes() if tag != "equal"]
    gone = [(olds[begin], olds[end]) for begin, end, _, _ in changes]
    come = [(news[begin], news[end]) for _, _, begin, end in changes]
    return _seen(gone, old), _seen(come, new)


def _seen(ranges: Sequence[Range], line: str) -> tuple[Range, ...]:
    """Return the ranges that deserve a mark: an indentation is visible without one."""
    return tuple((begin, end) for begin, end in ranges if line[:end].strip() and begin < end)


_HIGHLIGHTED = 500
"""Most lines of a hunk that get syntax colours."""


@dataclass
class _Hunk:
    """Consecutive lines of a file."""

    name: str
    """The name of the file, "" if unknown."""
    lines: list[DiffLine] = field(default_factory=list)

    def parameters(self, theme: Theme) -> list[list[str]]:
        """Return the SGR parameters of each character of each line; a removed line has no syntax colours."""
        line_numbers = [number for number, line in enumerate(self.lines) if line.role in ("added", "")][:_HIGHLIGHTED]
        parameters: list[list[str]] = [[] for _ in self.lines]
        if theme.colour and self.name:
            # Without colours, load nothing.
            from nexus_cli.ui.render.highlight import code_parameters  # noqa: PLC0415

            texts = [expand_tabs(self.lines[number].text.rstrip(" \t")) for number in line_numbers]
            for number, parameter in zip(line_numbers, code_parameters(texts, self.name, theme.name), strict=True):
                parameters[number] = parameter
        return parameters

    @cached_property
    def shows_tabs(self) -> bool:
        """True if some of its lines begin with a tab and others with blanks, so that the difference must be visible."""
        return len({line.text[0] for line in self.lines if line.text[:1] in ("\t", " ") and line.text.strip()}) > 1

    @cached_property
    def words(self) -> list[tuple[Range, ...]]:
        """Changed ranges of each line that is otherwise unchanged."""
        return changed_words([(line.role, expand_tabs(line.text)) for line in self.lines])


@dataclass
class _Row:
    """One line to show, and its colours."""

    line: DiffLine
    hunk: _Hunk | None = None
    place: int = 0
    """Its index in the hunk."""


def diff_lines(
    text: str,
    width: int,
    theme: Theme,
    *,
    most_lines: int = 0,
    tail: int = 0,
    names: bool = False,
    is_cut: bool = False,
) -> list[str]:
    """Return `text` in lines of at most `width` cells, at most about `most_lines` of them (0: all).

    Omitted lines are counted in their place: at the end, or before the last `tail` lines. Files are named if there are
    several, or with `names`. With `is_cut` the text ends somewhere in its last file.
    """
    rows = _rows(sanitize(text), names, is_cut)
    painter = _Painter(max((len(str(row.line.number)) for row in rows if row.line.number), default=0), width, theme)
    if not most_lines:
        return [piece for row in rows for piece in painter.pieces(row)]
    head: list[str] = []
    shown = 0
    while shown < len(rows):
        pieces = list(islice(painter.pieces(rows[shown]), most_lines + 1))
        if head and len(head) + len(pieces) > most_lines:
            break
        head += pieces[:most_lines]
        shown += 1
    if shown == len(rows):
        return head
    end: list[str] = []
    if tail:
        while shown > 1 and len(head) > most_lines - tail:
            shown -= 1
            del head[len(head) - len(list(islice(painter.pieces(rows[shown]), most_lines))) :]
        while len(rows) > shown:
            pieces = list(islice(painter.pieces(rows[-1]), tail + 1))
            if end and len(end) + len(pieces) > tail:
                break
            end = pieces + end
            rows.pop()
    hidden_count = sum(sum(row.line.omitted) or 1 for row in rows[shown:])
    return [*head, theme.paint("dim", f"... {plural(hidden_count, 'more line')}"), *end]


def diff_text(text: str, width: int, theme: Theme, *, most_lines: int = 0) -> str:
    """Return `diff_lines` as one text for a question; of a long diff the beginning and the end."""
    return "\n".join(diff_lines(text, width, theme, most_lines=most_lines, tail=most_lines * 2 // 5))


def _rows(text: str, names: bool, is_cut: bool) -> list[_Row]:
    """Return the lines for people: names and hunks instead of headers."""
    parsed = list(parse_diff(text))
    shows_names = names or sum(line.role == "file" for line in parsed) > 2
    rows: list[_Row] = []
    old = name = ""
    hunk: _Hunk | None = None
    for place, line in enumerate(parsed):
        if line.role == "file":
            path = re.sub(r"^[ab]/", "", line.text[4:].partition("\t")[0])
            if line.text.startswith("---"):
                old, hunk = path, None
                continue
            name, hunk = (old if path == "/dev/null" else path), None
            if shows_names:
                gone = path == "/dev/null"
                file_lines = list(takewhile(lambda diff_line: diff_line.role != "file", parsed[place + 1 :]))
                changes = describe_counts(*count_lines(file_lines), new=old == "/dev/null", gone=gone)
                changes += " or more" if is_cut and place + 1 + len(file_lines) == len(parsed) else ""
                if rows:
                    rows.append(_Row(DiffLine("dim", "")))
                rows.append(_Row(DiffLine("file", f"{name}  {changes}")))
        elif line.role == "hunk":
            if hunk is not None or line.text:
                rows.append(_Row(line))
            hunk = _Hunk(name)
        elif hunk is not None and line.role in ("added", "removed", ""):
            rows.append(_Row(line, hunk, len(hunk.lines)))
            hunk.lines.append(line)
        elif line.role != "header" and line.text:
            rows.append(_Row(line))
    return rows


class _Painter:
    """Paints rows at a width. The colours of a hunk are computed once."""

    def __init__(self, digits: int, width: int, theme: Theme) -> None:
        self._digits, self._width, self._theme = digits, width, theme
        self._gutter = digits + 3 if digits and width >= digits + 12 else 2
        self._colours: tuple[_Hunk | None, list[list[str]]] = (None, [])

    def pieces(self, row: _Row) -> Iterator[str]:
        """Yield one line with its number and mark, folded into as many rows as needed."""
        line, theme = row.line, self._theme
        if line.role == "hunk":
            skip = f"{theme.signs.skip:>{max(1, self._gutter - 3)}}  {one_line(line.text)}".rstrip()
            yield theme.paint("dim", cut(skip, self._width, theme.signs.cut))
            return
        if row.hunk is None:
            role = "bold" if line.role == "file" else line.role or "dim"
            yield from (theme.paint(role, piece) for piece in fold(expand_tabs(line.text), self._width))
            return
        sign = {"added": theme.signs.added, "removed": theme.signs.removed}.get(line.role, " ")
        number = f"{line.number or '':>{self._digits}} " if self._gutter > 2 else ""
        before, start = f"{number}{sign} ", 0
        text, parameters = _visible(row, theme), self._parameters(row)
        for piece in fold(text, max(2, self._width - self._gutter)):
            painted = self._paint(piece, parameters[start : start + len(piece)])
            yield (theme.paint(line.role or "dim", before) if before.strip() else before) + painted
            before, start = " " * self._gutter, start + len(piece)

    def _parameters(self, row: _Row) -> list[str]:
        """Return the SGR parameters of each character of a row's text."""
        assert row.hunk is not None, "only lines of a hunk have colours"
        text = _visible(row, self._theme)
        base = self._theme.parameters(row.line.role)
        if not self._theme.codes:
            return [""] * len(text)
        if self._colours[0] is not row.hunk:
            self._colours = row.hunk, row.hunk.parameters(self._theme)
        colours = self._colours[1][row.place]
        parameters = [code or base for code in colours] + [base] * (len(text) - len(colours))
        marked = self._theme.parameters(f"{row.line.role} word")
        for begin, end in row.hunk.words[row.place]:
            parameters[begin:end] = [marked] * len(parameters[begin:end])
        return parameters[: len(text)]

    @staticmethod
    def _paint(text: str, parameters: Sequence[str]) -> str:
        painted, offset = "", 0
        for code, run in groupby(parameters):
            size = len(list(run))
            part = text[offset : offset + size]
            painted += f"\x1b[{code}m{part}\x1b[0m" if code else part
            offset += size
        return painted


def _visible(row: _Row, theme: Theme) -> str:
    """Return the text with tabs as columns. In a changed line, blanks at the end get a glyph; tabs do if lines near it
    begin with blanks."""
    line = row.line
    text = line.text.rstrip(" \t") if line.role else line.text.rstrip(" ")
    blanks = line.text[len(text) :] if line.role else ""
    if "\t" in text and line.role and row.hunk is not None and row.hunk.shows_tabs:
        expanded = ""
        for part in re.split(r"(\t)", text):
            expanded += theme.signs.tab + " " * (3 - len(expanded) % 4) if part == "\t" else part
        text = expanded
    return expand_tabs(text) + "".join(theme.signs.tab if blank == "\t" else theme.signs.space for blank in blanks)
