"""`recall`: read text that was left out of a request, in pieces within the cap, so that they cause no new drop."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from nexus_cli.core.elide import Count, cut_piece, plural, token_bound
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Recall, TextCounter
from nexus_cli.core.tool import ToolContext

_RANGE = re.compile(r"\s*(-?\d*)\s*:\s*(-?\d*)\s*")
_HEADER = 64
"""Tokens reserved for the line with the piece's range."""
_AROUND, _MAX_AROUND = 200, 1000
"""Characters shown around each match of a query, and around a single one: usually a whole function."""
_MAX_HITS = 10_000


@dataclass(frozen=True, slots=True)
class RecallArguments:
    """The arguments of `recall`."""

    id: str
    range: str = ":"
    query: str = ""


async def run(arguments: RecallArguments, context: ToolContext) -> ToolResult:
    """Return a piece of the original with its range and the next call, or the matches of `query`.

    Counts as a recall if it returns any text.
    """
    drop = arguments.id
    service = context.service(Recall)
    text = await asyncio.to_thread(service.original, drop)  # of 64 MiB it takes a while
    if text is None:
        why = f'there is no drop {drop!r} here; ids are in the lines `[... left out: recall("d1", ...) ...]`'
        return ToolResult(error=why)
    try:
        start, end = _bounds(arguments.range, len(text))
    except ValueError:
        return ToolResult(error='`range` must be "A:B", two offsets in characters, such as "4000:8000"')
    counter = context.services.get(TextCounter)
    count: Count = token_bound if counter is None else counter.count
    cap = max(16, context.output_cap - _HEADER)
    query = arguments.query.strip() and arguments.query
    if start == end:
        return ToolResult(f"[nothing in this range; {drop} has {len(text)} characters]")
    if query:
        output = await asyncio.to_thread(_hits, text, start, end, query, cap, count)
    else:
        output = await asyncio.to_thread(_piece, drop, text, start, end, cap, count)
    if not output:
        return ToolResult(f"[{query!r} does not occur in characters {start}:{end}]")
    service.count_recall(drop)
    return ToolResult(output, cites=drop)


def _bounds(text: str, length: int) -> tuple[int, int]:
    match = _RANGE.fullmatch(text)
    if match is None or "-" in match.groups():
        raise ValueError(text)
    first, last = (int(part) if part else None for part in match.groups())
    start, end, _ = slice(first, last).indices(length)
    return start, max(start, end)


def _piece(drop: str, text: str, start: int, end: int, cap: int, count: Count) -> str:
    piece = cut_piece(text, start, end, cap, count)
    continuation = f'; next: recall("{drop}", "{piece.end}:{end}")' if piece.end < end else ""
    return f"[{drop}, characters {piece.start}:{piece.end} of {piece.total}{continuation}]\n{piece.text}"


def _find_all(text: str, start: int, end: int, query: str) -> tuple[list[tuple[int, int]], int]:
    """Return the first `_MAX_HITS` places of `query`, ignoring case, and the number of all."""
    places: list[tuple[int, int]] = []
    total = 0
    for match in re.compile(re.escape(query), re.IGNORECASE).finditer(text, start, end):
        total += 1
        if len(places) < _MAX_HITS:
            places.append(match.span())
    return places, total


def _hits(text: str, start: int, end: int, query: str, cap: int, count: Count) -> str:
    """Return the matches of `query` with text around each (the fewer, the more), as many as fit; "" if it has none."""
    places, total = _find_all(text, start, end, query)
    if not total:
        return ""
    spots: list[tuple[int, int]] = []
    around = max(_AROUND, _MAX_AROUND // total)
    for first, last in places:
        low, high = max(start, first - around), min(end, last + around)
        # Extend to whole lines, if there are any.
        low = low if low == start else text.find("\n", low - 1, first) + 1 or low
        high = high if high == end else text.rfind("\n", last, high) + 1 or high
        if spots and low <= spots[-1][1]:
            spots[-1] = (spots[-1][0], high)
        else:
            spots.append((low, high))
    parts: list[str] = []
    remaining, line, counted = cap, 1, 0
    for low, high in spots:
        line += text.count("\n", counted, low)
        counted = low
        part = f"[line {line}, characters {low}:{high}]\n{text[low:high]}"
        remaining -= count(part) + 1
        if remaining < 0:
            break
        parts.append(part)
    if not parts:
        piece = cut_piece(text, spots[0][0], spots[0][1], max(16, cap - _HEADER), count)
        parts.append(f"[line {line}, characters {piece.start}:{piece.end}]\n{piece.text}")
    unshown = plural(len(spots) - len(parts), "more place")
    unlisted = total > len(places)
    least = "at least " if unlisted else ""
    footer = f"\n[{least}{unshown}; narrow `range` or `query`]" if len(spots) > len(parts) or unlisted else ""
    return f"[{plural(total, 'hit')}]\n" + "\n".join(parts) + footer
