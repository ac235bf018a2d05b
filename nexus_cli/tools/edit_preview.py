"""Make diffs of files: of a change, of a call that waits for approval; name the changed lines for the model.

Time is bounded for any size and difference of the two texts.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from nexus_cli.core.decode import DecodedText
from nexus_cli.core.elide import plural
from nexus_cli.core.message import FileEdit, replace_surrogates
from nexus_cli.core.tool import EditPreview, ToolContext
from nexus_cli.text.diff_lines import omit_lines
from nexus_cli.tools.editor_texts import read_shown_file
from nexus_cli.tools.files import (
    ToolError,
    count_common_ends,
    decided_path,
    decode_file,
    project_relative,
    split_lines,
    to_lf,
)

LARGEST = 1 << 20
"""Most characters of a text for which a diff is made."""
MOST = 200_000
"""Most characters of a diff; the rest is cut."""
_COMPARED = 4_000_000
"""Most lines before times lines after that are compared directly: more are first split at unique lines."""
_CONTEXT = 3
"""Unchanged lines around each change."""
_MAX_NAMED, _LONGEST_NAMED = 100, 60
"""Most changes that are named to the model, and characters of each."""


def unified_diff(before: str | None, after: str, name: str) -> str:
    """Return the change of the file `name` from `before` (None: no file) in the form of `diff -u`, without times.

    If line ends change or are mixed (a new file is compared with `\\n`), lines with `\\r\\n` end in `^M`. A byte order
    mark is shown as `<U+FEFF>`. A diff longer than `MOST` is cut, with a line that counts the missing ones. Returns ""
    without a change, or above `LARGEST`.
    """
    if before == after or (before is not None and max(len(before), len(after)) > LARGEST):
        return ""
    marked = len(_kinds("\n" if before is None else before) | _kinds(after)) > 1
    old, new = _lines(before or "", marked), _lines(after, marked)
    label = file_label(name)
    source = "/dev/null" if before is None else f"a/{label}"
    hunks = (line for hunk in _hunks(old, new) for line in _unified_hunk(hunk, old, new))
    return replace_surrogates(_clip_lines([f"--- {source}", f"+++ b/{label}", *hunks]))


def file_label(name: str) -> str:
    """Return the name of a file as a diff has it behind `a/` and `b/`."""
    return " ".join(name.split()).removeprefix("/")


def name_changed_lines(before: str, after: str) -> str:
    """Return a line for each change, with its lines in the new text and the beginning of the first that is not blank.

    The rest is left out: the model wrote it in its call. Line ends are not compared; "" if nothing else changed.
    """
    old, new = _lines(to_lf(before), False), _lines(to_lf(after), False)
    changes = list(_changes(old, new))
    rows = [_name_change(change, new) for change in changes[:_MAX_NAMED]]
    if len(changes) > _MAX_NAMED:
        first, last = changes[_MAX_NAMED].new_start + 1, changes[-1].new_end
        unnamed = len(changes) - _MAX_NAMED
        rows.append(f"[further changes: {unnamed:,}; read lines {first}-{max(first, last)} to see them]")
    return "\n".join(rows)


def describe_edit(target: Path, before: str, after: str, *, is_whole: bool = False) -> FileEdit:
    """Return the lines of the file `target` that changed from `before` to `after`."""
    old, new = _lines(to_lf(before), False), _lines(to_lf(after), False)
    return FileEdit(str(target), list(_changes(old, new)), len(new), is_whole)


def _name_change(change: _Change, new: list[str]) -> str:
    """Return `41-45 def total(names):`, `-3 lines after 40`, or `-3 lines at the top`."""
    first, last = change.new_start, change.new_end
    if first == last:
        return f"-{plural(change.old_end - change.old_start, 'line')} {f'after {last}' if last else 'at the top'}"
    first = next((index for index in range(first, last) if new[index].strip()), first)
    line = new[first].strip()
    omission = f"...[{len(line) - _LONGEST_NAMED:,} more characters]" * (len(line) > _LONGEST_NAMED)
    return f"{first + 1}{f'-{last}' * (last > first + 1)} {line[:_LONGEST_NAMED]}{omission}".rstrip()


def preview_change(path: str, context: ToolContext, change: Callable[[DecodedText | None], str]) -> EditPreview:
    """Preview what `change` makes of the file at `path`; no diff if binary, unreadable, above `LARGEST` or refused."""
    digest: str | None = None
    try:
        target = decided_path(path, context)
        name = project_relative(target, context.project)
        try:
            content = read_shown_file(target, context.services)
        except FileNotFoundError:
            digest = ""
            return EditPreview(unified_diff(None, change(None), name), digest)
        digest = content.digest
        text = None if len(content.data) > LARGEST else decode_file(content.data)
        return EditPreview(unified_diff(text.text, change(text), name) if text else "", digest)
    except (OSError, ValueError, ToolError):
        return EditPreview("", digest)


def check_before(context: ToolContext, digest: str) -> None:
    """Raise `ToolError` if the person approved a change of other content than that with `digest` ("": no file)."""
    if context.before is not None and context.before != digest:
        raise ToolError("changed since the person was asked: read it again")


def _kinds(text: str) -> set[str]:
    """Return the line ends that occur in `text`."""
    return {end for _, end in split_lines(text) if end}


def _lines(text: str, marked: bool) -> list[str]:
    r"""Return the lines of a text, `marked` with `^M` for `\r`; a missing last newline is marked as in a diff."""
    lines = []
    for body, end in split_lines(text):
        sign = "^M" * end.count("\r") if marked else ""
        lines.append(body + sign + ("" if end else "\n\\ No newline at end of file"))
    if lines:
        lines[0] = re.sub("^\ufeff+", lambda match: "<U+FEFF>" * len(match[0]), lines[0])
    return lines


class _Change(NamedTuple):
    """Lines `old_start:old_end` of the old text that became `new_start:new_end` of the new one."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def _hunks(old: list[str], new: list[str]) -> list[list[_Change]]:
    """Return the changes in order, grouped so that the context lines of two groups do not touch."""
    hunks: list[list[_Change]] = []
    for change in _changes(old, new):
        if hunks and change.old_start - hunks[-1][-1].old_end <= 2 * _CONTEXT:
            hunks[-1].append(change)
        else:
            hunks.append([change])
    return hunks


def _changes(old: list[str], new: list[str]) -> Iterator[_Change]:
    """Yield the changes. In long texts, lines unique in both are matched first, then the lines between them."""
    first, tail = count_common_ends(old, new)
    last, end = len(old) - tail, len(new) - tail
    anchors = [(last, end)]
    if (last - first) * (end - first) > _COMPARED:
        anchors = [*_unique_pairs(old[first:last], new[first:end], first), (last, end)]
    low, start, remaining = first, first, _COMPARED
    for high, stop in anchors:
        size = (high - low) * (stop - start)
        if 0 < size <= remaining:
            remaining -= size
            for tag, i, j, k, m in difflib.SequenceMatcher(None, old[low:high], new[start:stop]).get_opcodes():
                if tag != "equal":
                    yield _Change(low + i, low + j, start + k, start + m)
        elif high > low or stop > start:
            yield _Change(low, high, start, stop)
        low, start = high + 1, stop + 1


def _unique_pairs(old: list[str], new: list[str], offset: int) -> list[tuple[int, int]]:
    """Return the positions of the longest sequence of unique lines in the same order in both texts (patience diff)."""
    once = {line for line, count in Counter(old).items() if count == 1}
    places = {line: index for index, line in enumerate(new) if line in once}
    twice = {line for line, count in Counter(line for line in new if line in once).items() if count > 1}
    ends: list[int] = []
    links: list[tuple[int, int, int]] = []
    """Position in the old text, in the new one, and index of the previous link (-1: none)."""
    chain: list[int] = []
    for index, line in enumerate(old):
        to = places.get(line, -1)
        if to < 0 or line in twice:
            continue
        length = bisect_left(ends, to)
        links.append((index, to, chain[length - 1] if length else -1))
        ends[length : length + 1], chain[length : length + 1] = [to], [len(links) - 1]
    pairs: list[tuple[int, int]] = []
    link = chain[-1] if chain else -1
    while link >= 0:
        index, to, link = links[link]
        pairs.append((offset + index, offset + to))
    return pairs[::-1]


def _hunk_lines(hunk: list[_Change], old: list[str], new: list[str]) -> Iterator[str]:
    """Yield the lines of a hunk behind their sign."""
    position = max(0, hunk[0].old_start - _CONTEXT)
    for change in [*hunk, None]:
        until = min(len(old), hunk[-1].old_end + _CONTEXT) if change is None else change.old_start
        yield from (f" {line}" for line in old[position:until])
        if change is not None:
            yield from (f"-{line}" for line in old[change.old_start : change.old_end])
            yield from (f"+{line}" for line in new[change.new_start : change.new_end])
            position = change.old_end


def _unified_hunk(hunk: list[_Change], old: list[str], new: list[str]) -> list[str]:
    """Format a hunk as `diff -u` does."""
    rows = list(_hunk_lines(hunk, old, new))
    spans = []
    for sign, before in (("-", hunk[0].old_start), ("+", hunk[0].new_start)):
        count = sum(row[0] in (" ", sign) for row in rows)
        start = before - min(_CONTEXT, hunk[0].old_start)
        spans.append(f"{start + bool(count)}{'' if count == 1 else f',{count}'}")
    return [f"@@ -{spans[0]} +{spans[1]} @@", *rows]


def _clip_lines(lines: list[str]) -> str:
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size > MOST and number > 2:
            return "\n".join([*lines[:number], omit_lines(lines[number:]), ""])
    text = "\n".join(lines) + "\n"
    return text if len(text) <= 2 * MOST else text[:MOST] + "\n\\ the rest of this line is omitted\n"
