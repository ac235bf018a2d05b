"""Read the lines of a unified diff, count and describe its changes.

A diff that was cut says how many lines it lacks, so that its counts are those of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nexus_cli.core.elide import plural

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_BEGINS = re.compile(r"(?:diff |Index: |--- \S|@@ -\d)")
_HEADER = re.compile(r"(?:diff |Index: |index [0-9a-f]|=====|(?:new|deleted) file mode |similarity index )")
"""Header lines before the hunks that tell a person nothing but the name of the file."""
_FILE = "diff --git "
"""Begins the line with both names of a file; one that was made or removed has the same twice."""
_LOOKED_AT = 65_536
_OMITTED = re.compile(r"\\ .+ of this diff omitted: \+(\d{1,9}) -(\d{1,9})")


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a diff."""

    role: str
    """`added`, `removed`, `hunk`, `file` (the old or new name), `header` (other data for programs), `dim` (other facts
    for people), "" (unchanged)."""
    text: str
    """The text without its mark; for a hunk the part after its numbers."""
    number: int = 0
    """Its number in the old file for a removed line, else in the new one; 0 if unknown."""
    omitted: tuple[int, int] = (0, 0)
    """Added and removed lines that a line of `omit_lines` stands for."""


def omit_lines(lines: Sequence[str]) -> str:
    """Return the line of a diff in place of `lines`, with the numbers of added and of removed ones."""
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return f"\\ {plural(len(lines), 'more line')} of this diff omitted: +{added} -{removed}"


def looks_like_diff(text: str) -> bool:
    """True if `text` begins like a unified diff and has a hunk."""
    head = text[:_LOOKED_AT].lstrip("\n")
    return bool(_BEGINS.match(head)) and any(_HUNK.match(line) for line in head.split("\n"))


def count_lines(lines: Iterable[DiffLine]) -> tuple[int, int]:
    """Count the lines that `lines` add and remove, with those that `omit_lines` left out of them."""
    added = removed = 0
    for line in lines:
        added += line.omitted[0] + (line.role == "added")
        removed += line.omitted[1] + (line.role == "removed")
    return added, removed


def describe_changes(text: str) -> str:
    """Describe the size of a file's diff: `+3 -1`, `new, +12`."""
    return describe_counts(*count_lines(parse_diff(text)), new=text.startswith("--- /dev/null\n"))


def describe_counts(added: int, removed: int, *, new: bool = False, deleted: bool = False) -> str:
    """Describe the size of a change of a `new` file, of one that is `deleted`, or of another one."""
    kind = "new, " if new else "deleted, " if deleted else ""
    signed = [f"+{added:,}"] * bool(added or not removed) + [f"-{removed:,}"] * bool(removed)
    return kind + " ".join(signed)


def parse_diff(text: str) -> Iterator[DiffLine]:
    """Yield the lines of a diff; one with a wrong line count is read as far as possible. An empty file that was made or
    removed has lines with its names too."""
    old = new = left_old = left_new = 0
    names, empty = "", list[DiffLine]()
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith(_FILE):
            yield from empty
            names, empty = line.removeprefix(_FILE), []
        elif names and line.startswith(("new file mode ", "deleted file mode ")):
            before, after = names[: len(names) // 2], names[len(names) // 2 + 1 :]
            before, after = ("/dev/null", after) if line.startswith("new") else (before, "/dev/null")
            empty = [DiffLine("file", f"--- {before}"), DiffLine("file", f"+++ {after}")]
        elif not line.startswith("index "):
            empty = []
        match = _HUNK.match(line)
        if match:
            old, new = int(match[1]), int(match[3])
            left_old, left_new = int(match[2] or 1), int(match[4] or 1)
            yield DiffLine("hunk", match[5].strip())
        elif (left_old or left_new) and line[:1] in ("+", "-", " ", ""):
            sign = line[:1] or " "
            role = {"+": "added", "-": "removed"}.get(sign, "")
            yield DiffLine(role, line[1:], old if sign == "-" else new)
            old, left_old = old + (sign != "+"), max(0, left_old - (sign != "+"))
            new, left_new = new + (sign != "-"), max(0, left_new - (sign != "-"))
        elif cut := _OMITTED.fullmatch(line):
            left_old = left_new = 0  # the next file has headers again
            yield DiffLine("dim", line, omitted=(int(cut[1]), int(cut[2])))
        elif line.startswith(("--- ", "+++ ")):
            yield DiffLine("file", line)
        else:
            yield DiffLine("header" if _HEADER.match(line) else "dim", line)
    yield from empty
