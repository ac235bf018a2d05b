"""`recall`: read back what was left out of a request, in pieces within the cap, so that it makes no new drop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from nexus_cli.core.elide import Count, cut_piece, token_bound
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Recall, TextCounter
from nexus_cli.core.tool import ToolContext

_RANGE = re.compile(r"\s*(-?\d*)\s*:\s*(-?\d*)\s*")
_HEADER = 64
"""Tokens kept free for the line that says which piece this is."""
_AROUND = 200
_MOST_HITS = 10_000


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Return a piece of the original with its range and the next call, or the places of `query`. Counts as a recall
    where it gives anything."""
    drop = arguments["id"]
    service: Recall = context.services[Recall]
    text = service.original(drop)
    if text is None:
        why = f"there is no drop {drop!r} here; ids are in the lines `[... left out: recall(\"d1\", ...) ...]`"
        return ToolResult(error=why)
    try:
        start, end = _bounds(arguments.get("range", ":"), len(text))
    except ValueError:
        return ToolResult(error='`range` must be "A:B", two offsets in characters, such as "4000:8000"')
    counter = context.services.get(TextCounter)
    count: Count = token_bound if counter is None else counter.count
    cap = max(16, context.output_cap - _HEADER)
    query = arguments.get("query", "").strip() and arguments["query"]
    if start == end:
        return ToolResult(f"[nothing in this range; {drop} has {len(text)} characters]")
    if query and not re.compile(re.escape(query), re.IGNORECASE).search(text, start, end):
        return ToolResult(f"[{query!r} does not occur in characters {start}:{end}]")
    shown = await asyncio.to_thread(_hits, text, start, end, query, cap, count) if query else None
    if shown is None:
        shown = await asyncio.to_thread(_piece, drop, text, start, end, cap, count)
    service.count_recall(drop)
    return ToolResult(shown, cites=drop)


def _bounds(text: str, length: int) -> tuple[int, int]:
    match = _RANGE.fullmatch(text)
    if match is None or "-" in match.groups():
        raise ValueError(text)
    first, last = (int(part) if part else None for part in match.groups())
    start, end, _ = slice(first, last).indices(length)
    return start, max(start, end)


def _piece(drop: str, text: str, start: int, end: int, cap: int, count: Count) -> str:
    found = cut_piece(text, start, end, cap, count)
    more = f'; next: recall("{drop}", "{found.end}:{end}")' if found.end < end else ""
    return f"[{drop}, characters {found.start}:{found.end} of {found.total}{more}]\n{found.text}"


def _hits(text: str, start: int, end: int, query: str, cap: int, count: Count) -> str:
    """Return the places of `query`, case aside, with some text around each, as many as fit."""
    spots: list[tuple[int, int]] = []
    total = unlisted = 0
    for match in re.compile(re.escape(query), re.IGNORECASE).finditer(text, start, end):
        total += 1
        low, high = max(start, match.start() - _AROUND), min(end, match.end() + _AROUND)
        if spots and low <= spots[-1][1]:
            spots[-1] = (spots[-1][0], high)
        elif len(spots) < _MOST_HITS:
            spots.append((low, high))
        else:
            unlisted += 1
    parts: list[str] = []
    left = cap
    for low, high in spots:
        part = f"[characters {low}:{high}]\n{text[low:high]}"
        left -= count(part) + 1
        if left < 0:
            break
        parts.append(part)
    if not parts:
        found = cut_piece(text, spots[0][0], spots[0][1], max(16, cap - _HEADER), count)
        parts.append(f"[characters {found.start}:{found.end}]\n{found.text}")
    more = len(spots) - len(parts)
    least = "at least " if unlisted else ""
    rest = f"\n[{least}{more} more places; narrow `range` or `query`]" if more or unlisted else ""
    return f"[{total} hits]\n" + "\n".join(parts) + rest
