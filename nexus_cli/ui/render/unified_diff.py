"""Draw a unified diff for a terminal: line numbers, glyphs, syntax colours, changed words; nothing is cut off.

The tools make the diffs; the text is sanitized here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from itertools import accumulate, groupby, islice, pairwise, takewhile
from pathlib import PurePath

from nexus_cli.core.elide import plural
from nexus_cli.text.cells import expand_tabs, fold, one_line
from nexus_cli.text.diff_lines import DiffLine, count_lines, describe_counts, parse_diff
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.render.theme import Theme, paint_runs

Range = tuple[int, int]
"""Index of the first character, and one past the last."""
ALIKE = 0.5
"""Least share of common text for one line to count as a change of the other."""
_MAX_LINES = 30
"""Most lines of a change in which words are compared."""
_LONGEST = 500
_WORD = re.compile(r"\w+|\s+|.")


def _mark(lines: Sequence[str], removed: list[int], added: list[int], marks: list[tuple[Range, ...]]) -> None:
    """Mark the differences in pairs of similar removed and added lines, in their order."""
    is_equal, least = len(removed) == len(added), 0
    for number, old in enumerate(removed):
        for candidate in [number] if is_equal else range(least, len(added)):
            new = added[candidate]
            if (ranges := _differences(lines[old], lines[new])) is not None:
                marks[old], marks[new] = ranges
                least = candidate + 1
                break


def _differences(old: str, new: str) -> tuple[tuple[Range, ...], tuple[Range, ...]] | None:
    """Return the differences in each of two lines; None if they have little in common."""
    if not old.strip() or not new.strip() or max(len(old), len(new)) > _LONGEST:
        return None
    befores, afters = _WORD.findall(old), _WORD.findall(new)
    matcher = SequenceMatcher(None, befores, afters, autojunk=False)
    common = sum(len("".join(befores[a : a + size]).strip()) for a, _, size in matcher.get_matching_blocks())
    if 2 * common < ALIKE * (len(old.strip()) + len(new.strip())):
        return None
    changes = [places for tag, *places in matcher.get_opcodes() if tag != "equal"]
    removed = _ranges(befores, [(begin, end) for begin, end, _, _ in changes])
    return removed, _ranges(afters, [(begin, end) for _, _, begin, end in changes])


def _ranges(words: Sequence[str], changes: Sequence[Range]) -> tuple[Range, ...]:
    """Return the characters of the changed words of a line that deserve a mark: an indentation is visible without."""
    ends = [0, *accumulate(map(len, words))]
    marked = (change for change in changes if change[0] < change[1] and "".join(words[: change[1]]).strip())
    return tuple((ends[begin], ends[end]) for begin, end in marked)


_HIGHLIGHTED = 500
"""Most lines of a hunk that get syntax colours."""


@dataclass
class _Hunk:
    """Consecutive lines of a file."""

    name: str
    """The name of the file, "" if unknown."""
    theme: Theme
    lines: list[DiffLine] = field(default_factory=list)

    @cached_property
    def colours(self) -> dict[int, list[str]]:
        """The syntax colours of lines by their place; a removed line has none."""
        places = [place for place, line in enumerate(self.lines) if line.role in ("added", "")][:_HIGHLIGHTED]
        if not (self.theme.colour and self.name):
            return {}
        # Without colours, load nothing.
        from nexus_cli.ui.render.highlight import code_parameters  # noqa: PLC0415

        path = PurePath(self.name)
        language = path.suffix.removeprefix(".").lower() or path.name.lower()
        texts = [expand_tabs(self.lines[place].text.rstrip(" \t")) for place in places]
        return dict(zip(places, code_parameters(texts, language, self.theme.name), strict=True))

    @cached_property
    def shows_tabs(self) -> bool:
        """True if some of its lines begin with a tab and others with blanks, so that the difference must be visible."""
        return len({line.text[0] for line in self.lines if line.text[:1] in ("\t", " ") and line.text.strip()}) > 1

    @cached_property
    def words(self) -> list[tuple[Range, ...]]:
        """Changed ranges of each line that is otherwise unchanged."""
        texts = [expand_tabs(line.text) for line in self.lines]
        ranges: list[tuple[Range, ...]] = [()] * len(texts)
        places = groupby(range(len(texts)), key=lambda place: self.lines[place].role)
        for (role, removed), (next_role, added) in pairwise([(role, list(run)) for role, run in places]):
            if (role, next_role) == ("removed", "added") and len(removed) + len(added) <= 2 * _MAX_LINES:
                _mark(texts, removed, added, ranges)
        return ranges

    def text(self, place: int) -> str:
        """Return the text of a line with tabs as columns. In a changed line, blanks at the end get a glyph; tabs do if
        lines near it begin with blanks."""
        line, signs = self.lines[place], self.theme.signs
        text = line.text.rstrip(" \t") if line.role else line.text.rstrip(" ")
        blanks = line.text[len(text) :] if line.role else ""
        if "\t" in text and line.role and self.shows_tabs:
            expanded = ""
            for part in re.split(r"(\t)", text):
                expanded += signs.tab + " " * (3 - len(expanded) % 4) if part == "\t" else part
            text = expanded
        return expand_tabs(text) + "".join(signs.tab if blank == "\t" else signs.space for blank in blanks)

    def parameters(self, place: int, size: int) -> list[str]:
        """Return the SGR parameters of the `size` characters of a line's text."""
        role = self.lines[place].role
        base, marked = self.theme.parameters(role), self.theme.parameters(f"{role} word")
        parameters = [code or base for code in self.colours.get(place, ())][:size]
        parameters += [base] * (size - len(parameters))
        for begin, end in self.words[place] if self.theme.codes else ():
            parameters[begin:end] = [marked] * len(parameters[begin:end])
        return parameters


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
    rows = _rows(sanitize(text), names, is_cut, theme)
    painter = _Painter(max((len(str(row.line.number)) for row in rows if row.line.number), default=0), width, theme)
    if not most_lines:
        return [piece for row in rows for piece in painter.pieces(row)]
    head, end = painter.fill(rows, most_lines), list[list[str]]()
    if len(head) < len(rows) and tail:
        head = painter.fill(rows, most_lines - tail)
        end = painter.fill(rows[: len(head) - 1 : -1], tail)[::-1]
    hidden_count = sum(sum(row.line.omitted) or 1 for row in rows[len(head) : len(rows) - len(end)])
    more = [[theme.paint("dim", f"... {plural(hidden_count, 'more line')}")]] if hidden_count else []
    return [piece for pieces in (*head, *more, *end) for piece in pieces]


def diff_text(text: str, width: int, theme: Theme, *, most_lines: int = 0) -> str:
    """Return `diff_lines` as one text for a question; of a long diff the beginning and the end."""
    return "\n".join(diff_lines(text, width, theme, most_lines=most_lines, tail=most_lines * 2 // 5))


def _rows(text: str, names: bool, is_cut: bool, theme: Theme) -> list[_Row]:
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
                is_deleted = path == "/dev/null"
                file_lines = list(takewhile(lambda diff_line: diff_line.role != "file", parsed[place + 1 :]))
                changes = describe_counts(*count_lines(file_lines), new=old == "/dev/null", deleted=is_deleted)
                changes += " or more" if is_cut and place + 1 + len(file_lines) == len(parsed) else ""
                if rows:
                    rows.append(_Row(DiffLine("dim", "")))
                rows.append(_Row(DiffLine("file", f"{name}  {changes}")))
        elif line.role == "hunk":
            if hunk is not None or line.text:
                rows.append(_Row(line))
            hunk = _Hunk(name, theme)
        elif hunk is not None and line.role in ("added", "removed", ""):
            rows.append(_Row(line, hunk, len(hunk.lines)))
            hunk.lines.append(line)
        elif line.role != "header" and line.text:
            rows.append(_Row(line))
    return rows


class _Painter:
    """Paints rows at a width."""

    def __init__(self, digits: int, width: int, theme: Theme) -> None:
        self._digits, self._width, self._theme = digits, width, theme
        self._gutter = digits + 3 if digits and width >= digits + 12 else 2

    def fill(self, rows: Iterable[_Row], most: int) -> list[list[str]]:
        """Return the pieces of the first rows that fit `most` lines. A first one that does not is cut, with a mark."""
        filled: list[list[str]] = []
        free_lines = most
        for row in rows:
            pieces = list(islice(self.pieces(row), most + 1))
            if filled and len(pieces) > free_lines:
                break
            if len(pieces) > most:
                pieces[most - 1 :] = [self._theme.paint("dim", self._theme.cut("... more of this line", self._width))]
            filled.append(pieces)
            free_lines -= len(pieces)
        return filled

    def pieces(self, row: _Row) -> Iterator[str]:
        """Yield one line with its number and mark, folded into as many rows as needed."""
        line, theme = row.line, self._theme
        if line.role == "hunk":
            skip = f"{theme.signs.skip:>{max(1, self._gutter - 3)}}  {one_line(line.text)}".rstrip()
            yield theme.paint("dim", theme.cut(skip, self._width))
            return
        if row.hunk is None:
            role = "bold" if line.role == "file" else line.role or "dim"
            yield from (theme.paint(role, piece) for piece in fold(expand_tabs(line.text), self._width))
            return
        sign = {"added": theme.signs.added, "removed": theme.signs.removed}.get(line.role, " ")
        number = f"{line.number or '':>{self._digits}} " if self._gutter > 2 else ""
        before, start, text = f"{number}{sign} ", 0, row.hunk.text(row.place)
        parameters = row.hunk.parameters(row.place, len(text))
        for piece in fold(text, max(2, self._width - self._gutter)):
            painted = paint_runs(piece, parameters[start : start + len(piece)])
            yield (theme.paint(line.role or "dim", before) if before.strip() else before) + painted
            before, start = " " * self._gutter, start + len(piece)
