"""Unified diffs of files: of a change, of a call that waits for approval, and a short one for the model.

The work is bounded however large and however different the two texts are.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable

from nexus_cli.core.decode import DecodedText
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.tool import EditPreview, ToolContext
from nexus_cli.tools.files import (
    ToolError,
    decided_path,
    decode_file,
    project_relative,
    read_real_file,
    split_lines,
    to_lf,
)

LARGEST = 1 << 20
"""Characters of a text above which no diff of two texts is made."""
MOST = 200_000
"""Characters of a diff that are kept."""
_COMPARED = 4_000_000
"""Lines before times lines after, beyond what both begin and end with, up to which lines are matched one by one."""
_MOST_SHORT = 5_000
"""Changed lines, before and after, up to which a short diff shows them."""


def unified_diff(before: str | None, after: str, name: str) -> str:
    """Return the change of the file `name` from `before` (None: no file); "" without one, or above `LARGEST`.

    In the form of `diff -u`, without times. Where line ends change or are of several kinds (a new file is compared
    with `\\n`), a line that ends in `\\r\\n` has `^M` behind it. A byte order mark that one of the two texts holds is
    shown as `<U+FEFF>`. A diff longer than `MOST` ends in a line that counts what is missing.
    """
    if before == after or (before is not None and max(len(before), len(after)) > LARGEST):
        return ""
    marked = len(_kinds("\n" if before is None else before) | _kinds(after)) > 1
    old, new = _lines(before or "", marked), _lines(after, marked)
    label = " ".join(name.split())
    source = "/dev/null" if before is None else f"a/{label}"
    hunks = _hunks(old, new, 3)
    return replace_surrogates(_clip_lines([f"--- {source}", f"+++ b/{label}", *hunks]))


def short_diff(before: str, after: str) -> str:
    """Return the changes as hunks with two lines of context and no file header; "" when there are none.

    A last line without an end is marked as a diff marks it. Line ends are not compared.
    """
    old, new = _lines(to_lf(before), False), _lines(to_lf(after), False)
    if old == new:
        return ""
    first, tail = _common_ends(old, new)
    if len(old) + len(new) - 2 * (first + tail) > _MOST_SHORT:
        return f"lines {first + 1} to {len(old) - tail} became {first + 1} to {len(new) - tail}"
    return "\n".join(_hunks(old, new, 2))


def preview_change(path: str, context: ToolContext, change: Callable[[DecodedText | None], str]) -> EditPreview:
    """Return what `change` makes of the text of the file at `path` (None: there is no file).

    The diff is "" if it is unknown: binary or over `LARGEST`, unreadable, or `change` raises `ToolError`.
    """
    digest: str | None = None
    try:
        target = decided_path(path, context)
        name = project_relative(target, context.project)
        try:
            content = read_real_file(target)
        except FileNotFoundError:
            digest = ""
            return EditPreview(unified_diff(None, change(None), name), digest)
        digest = content.digest
        text = None if len(content.data) > LARGEST else decode_file(content.data)
        return EditPreview(unified_diff(text.text, change(text), name) if text else "", digest)
    except (OSError, ValueError, ToolError):
        return EditPreview("", digest)


def check_before(context: ToolContext, digest: str) -> None:
    """Raise `ToolError` if the person was shown other content than that with `digest` ("": no file)."""
    if context.before is not None and context.before != digest:
        raise ToolError("changed since the person was asked: read it again")


def _kinds(text: str) -> set[str]:
    """Return the line ends that occur in `text`."""
    return {end for _, end in split_lines(text) if end}


def _lines(text: str, marked: bool) -> list[str]:
    """Return the lines of a text, `marked` with `^M` for each `\\r` at their end.

    A last one without an end is marked as a diff marks it.
    """
    lines = []
    for body, end in split_lines(text):
        sign = "^M" * end.count("\r") if marked else ""
        lines.append(body + sign + ("" if end else "\n\\ No newline at end of file"))
    if lines:
        lines[0] = re.sub("^\ufeff+", lambda found: "<U+FEFF>" * len(found[0]), lines[0])
    return lines


def _common_ends(old: list[str], new: list[str]) -> tuple[int, int]:
    """Return how many lines both begin with, and how many both end with besides."""
    shortest = min(len(old), len(new))
    first = next((at for at in range(shortest) if old[at] != new[at]), shortest)
    tail = 0
    while tail < shortest - first and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return first, tail


def _hunks(old: list[str], new: list[str], context: int) -> list[str]:
    """Return the changes with `context` lines around them."""
    first, tail = _common_ends(old, new)
    if not 0 < (len(old) - first - tail) * (len(new) - first - tail) <= _COMPARED:
        return _replace_hunk(old, new, first, tail, context)
    start, rest = max(0, first - context), max(0, tail - context)
    made = difflib.unified_diff(old[start : len(old) - rest], new[start : len(new) - rest], lineterm="", n=context)
    return [_move_header(line, start) if line.startswith("@@ ") else line for line in list(made)[2:]]


def _move_header(header: str, offset: int) -> str:
    """Return a hunk's header for a text that begins `offset` lines earlier."""
    _, old, new, _ = header.split(" ", 3)
    starts = []
    for part in (old, new):
        begin, comma, count = part[1:].partition(",")
        starts.append(f"{part[0]}{int(begin) + offset}{comma}{count}")
    return f"@@ {starts[0]} {starts[1]} @@"


def _replace_hunk(old: list[str], new: list[str], first: int, tail: int, context: int) -> list[str]:
    """Return one hunk: all lines between the common beginning and end."""
    start = max(0, first - context)
    before, after = len(old) - tail, len(new) - tail
    close = old[before : before + context]
    counts = (before + len(close) - start, after + len(close) - start)
    spans = [f"{start + bool(count)}{'' if count == 1 else f',{count}'}" for count in counts]
    return [
        f"@@ -{spans[0]} +{spans[1]} @@",
        *(" " + line for line in old[start:first]),
        *("-" + line for line in old[first:before]),
        *("+" + line for line in new[first:after]),
        *(" " + line for line in close),
    ]


def _clip_lines(lines: list[str]) -> str:
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size > MOST and number > 2:
            return "\n".join(lines[:number]) + f"\n\\ {len(lines) - number:,} more lines of this diff are not kept\n"
    text = "\n".join(lines) + "\n"
    return text if len(text) <= 2 * MOST else text[:MOST] + "\n\\ the rest of this line is not kept\n"
