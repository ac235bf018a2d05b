"""A unified diff as lines for a terminal: line numbers where they are known, signs kept, nothing cut off at the side.

Making diffs is the tools' business. The text is sanitized here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from nexus_cli.ui.cells import expand_tabs, fold
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.terminal_sanitizer import sanitize

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_BEGINS = re.compile(r"(?:diff |Index: |--- \S|@@ -\d)")
_LOOKED_AT = 65_536


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a diff."""

    role: str
    """`added`, `removed`, `hunk`, `bold` (a file's name), `dim` (what else stands between), "" (unchanged)."""
    text: str
    """Without its sign."""
    number: int = 0
    """Where it stands: in the old file for a removed line, else in the new one; 0 when that is not known."""


def looks_like_diff(text: str) -> bool:
    """True if `text` is a unified diff: it begins like one, and has a hunk."""
    head = text[:_LOOKED_AT].lstrip("\n")
    return bool(_BEGINS.match(head)) and any(_HUNK.match(line) for line in head.split("\n"))


def paint_diff(text: str, theme: Theme) -> str:
    """Return the lines of a diff as they are, each in the colour of its sign; the text is sanitized."""
    roles = {"+": "added", "-": "removed", "@": "hunk"}
    return "\n".join(theme.paint(roles.get(line[:1], ""), line) for line in text.split("\n"))


def count_changes(text: str) -> tuple[int, int]:
    """Return how many lines `text` adds and removes."""
    roles = [line.role for line in parse_diff(text)]
    return roles.count("added"), roles.count("removed")


def parse_diff(text: str) -> Iterator[DiffLine]:
    """Return the lines of a diff; one with a false count of lines is read as far as it goes."""
    old = new = left_old = left_new = 0
    for line in text.removesuffix("\n").split("\n"):
        found = _HUNK.match(line)
        if found:
            old, new = int(found[1]), int(found[3])
            left_old, left_new = int(found[2] or 1), int(found[4] or 1)
            yield DiffLine("hunk", line)
        elif (left_old or left_new) and line[:1] in ("+", "-", " ", ""):
            sign = line[:1] or " "
            role = {"+": "added", "-": "removed"}.get(sign, "")
            yield DiffLine(role, line[1:], old if sign == "-" else new)
            old, left_old = old + (sign != "+"), max(0, left_old - (sign != "+"))
            new, left_new = new + (sign != "-"), max(0, left_new - (sign != "-"))
        elif line.startswith(("--- ", "+++ ")):
            yield DiffLine("bold", line)
        else:
            yield DiffLine("dim", line)


def diff_lines(
    text: str, width: int, theme: Theme, *, most_lines: int = 0, tail: int = 0, names: bool = True
) -> list[str]:
    """Return `text` in lines of at most `width` cells, at most about `most_lines` of them (0: all).

    What is left out is counted where it is missed: at the end, or before the last `tail` lines. Without `names` the
    lines that name the files are left out.
    """
    parsed = [line for line in parse_diff(sanitize(text)) if names or line.role != "bold"]
    digits = max((len(str(line.number)) for line in parsed if line.number), default=0)
    if not most_lines:
        return [piece for line in parsed for piece in _shown(line, digits, width, theme)]
    head: list[str] = []
    taken = 0
    while taken < len(parsed):
        pieces = list(islice(_shown(parsed[taken], digits, width, theme), most_lines + 1))
        if head and len(head) + len(pieces) > most_lines:
            break
        head += pieces[:most_lines]
        taken += 1
    if taken == len(parsed):
        return head
    end: list[str] = []
    if tail:
        while taken > 1 and len(head) > most_lines - tail:
            taken -= 1
            del head[len(head) - len(list(islice(_shown(parsed[taken], digits, width, theme), most_lines))) :]
        for line in reversed(parsed[taken:]):
            pieces = list(islice(_shown(line, digits, width, theme), tail + 1))
            if end and len(end) + len(pieces) > tail:
                break
            end = pieces + end
            taken += 1
    return [*head, theme.paint("dim", f"... {len(parsed) - taken:,} more lines"), *end]


def diff_text(text: str, width: int, theme: Theme, *, most_lines: int = 0) -> str:
    """Return `diff_lines` as one text for a question: of a long diff the beginning and the end."""
    return "\n".join(diff_lines(text, width, theme, most_lines=most_lines, tail=most_lines * 2 // 5))


def _shown(line: DiffLine, digits: int, width: int, theme: Theme) -> Iterator[str]:
    """Return one line with its number and sign before it, as many times as it has to be folded."""
    if line.role in ("hunk", "bold", "dim"):
        yield from (theme.paint(line.role, piece) for piece in fold(expand_tabs(line.text), width))
        return
    sign = {"added": theme.signs.added, "removed": theme.signs.removed}.get(line.role, " ")
    gutter = digits + 3 if digits and width >= digits + 12 else 2
    number = f"{line.number or '':>{digits}} " if gutter > 2 else ""
    before = f"{number}{sign} "
    for piece in fold(_visible(line, theme), max(2, width - gutter)):
        if line.role:
            yield theme.paint(line.role, before + piece)
        else:
            yield theme.paint("dim", before) + piece if before.strip() else before + piece
        before = " " * gutter


def _visible(line: DiffLine, theme: Theme) -> str:
    """Return the text with tabs as columns; where a line changes, its tabs and the blanks at its end have a sign."""
    text = line.text.rstrip(" \t") if line.role else line.text.rstrip(" ")
    blanks = line.text[len(text) :] if line.role else ""
    if "\t" in text and line.role:
        made = ""
        for part in re.split(r"(\t)", text):
            made += theme.signs.tab + " " * (3 - len(made) % 4) if part == "\t" else part
        text = made
    return expand_tabs(text) + "".join(theme.signs.tab if blank == "\t" else theme.signs.space for blank in blanks)
