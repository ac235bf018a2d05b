"""Clip the person's messages: whole if they fit, else elided with a drop (law 4). `Engine.record_user_message` records
them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.tokens.content_kinds import kind_of
from nexus_cli.core.budget import share_room
from nexus_cli.core.elide import (
    Marker,
    count_large,
    drop_marker,
    line_namer,
    one_line,
)
from nexus_cli.core.entry import Cause
from nexus_cli.core.typed_text import AttachedText, find_attached_texts
from nexus_cli.engine.requests.clip_output import LARGE, clip_to_cap
from nexus_cli.engine.requests.control import Control

_MIN, _FEWEST, _MAX = 32_000, 4, 32
"""Least characters of a chunk (about one recall), fewest and most chunks of an index."""
_LINE_TOKENS = 80
"""Most tokens of a chunk's line."""
_SHARE = 4
"""Part of a text's room that its index may take: a fourth."""
_LONGEST_LINE = 80
"""Characters shown of a chunk's first line."""


def indexed_marker(text: str, drop_id: str, *, first_line: int, cap: int) -> Marker:
    """Return a marker that names the lines of its hole, and lists the hole's chunks if there are several.

    Each is listed with its range, for `recall`, its lines and the start of its first line. `cap` is the room in tokens
    of the elided text.
    """
    line = drop_marker(drop_id, line_namer(text, first_line))

    def marker(start: int, end: int, total: int, tokens: int) -> str:
        low, high = (start, end) if start < end else (0, total)
        chunks = min(_MAX, (high - low) // _MIN, cap // _SHARE // _LINE_TOKENS)
        if chunks < _FEWEST:
            return line(start, end, total, tokens)
        head = f'[{chunks} chunks: recall("{drop_id}", "A:B") reads a chunk, or searches it with a query]'
        rows = _chunk_rows(text, low, high, chunks, first_line)
        return "\n".join([line(start, end, total, tokens), head, *rows, "[end of the chunks]"])

    return marker


def _chunk_rows(text: str, low: int, high: int, chunks: int, first_line: int) -> list[str]:
    """Return a row for each of `chunks` parts of `text[low:high]`, which begin at lines where there are any."""
    starts = [low]
    for n in range(1, chunks):
        offset = low + (high - low) * n // chunks
        line = text.find("\n", offset, offset + _MIN // 4) + 1
        starts.append(line or offset)
    rows, number = [], first_line + text.count("\n", 0, low)
    for start, end in zip(starts, [*starts[1:], high], strict=True):
        last = number + text.count("\n", start, end - 1)
        first = one_line(text[start : min(end, start + _LONGEST_LINE)].partition("\n")[0])
        lines = f"line {number}" if number == last else f"lines {number}-{last}"
        rows.append(f"{start}:{end} {lines}: {first}")
        number = last + (text[end - 1] == "\n")
    return rows


REQUEST_SHARE = 0.6
"""Share of the budget without system text and tools that one message may use; a longer one is elided."""
MIN_CAP = 64
"""Least tokens of a message, and of an attached text that is clipped by itself."""
_JOINS = 4
"""Tokens that an attached text may gain where it joins the text around it."""

SAMPLE = 20_000
"""Characters of a text from which its kind of content is determined."""


async def clip_message(
    context: ContextManager, control: Control, text: str, uncounted: int
) -> tuple[str, list[tuple[int, int, str]]]:
    """Return `text` within its cap, and each clipped part: its range in there, and the id of the drop of the whole.

    Attached texts that are too long are clipped each by itself: the words and blocks around them stay whole.
    `uncounted` are the bytes of it that were lost before.
    """
    cap = input_cap(context, text)
    if not uncounted and 4 * len(text) <= cap:  # no text has more tokens than bytes
        return text, []
    plan = asyncio.to_thread(_plan_clips, context, text, cap, uncounted) if len(text) > LARGE else None
    planned = await plan if plan else _plan_clips(context, text, cap, uncounted)
    longest = max((attached.end - attached.start for attached, _ in planned), default=0)
    content, clipped, copied = "", list[tuple[int, int, str]](), 0
    for attached_text, share in planned:
        content += text[copied : attached_text.start]
        full_text, copied = text[attached_text.start : attached_text.end], attached_text.end
        lost, uncounted = (uncounted, 0) if len(full_text) == longest else (0, uncounted)
        marker = partial(indexed_marker, full_text, first_line=attached_text.first_line, cap=share)
        label = f"part of {attached_text.name} ({share:,} tokens are sent)"
        cut = await clip_to_cap(
            context, control, full_text, share, label, Cause.INPUT_CAP, uncounted=lost, marker=marker
        )
        if cut.drop:
            clipped.append((len(content), len(content) + len(cut.text), cut.drop.id))
        content += cut.text
        content += "\n" if copied < len(text) and not content.endswith("\n") else ""  # the closing tag has its own line
    return content + text[copied:], clipped


def _plan_clips(context: ContextManager, text: str, cap: int, uncounted: int) -> list[tuple[AttachedText, int]]:
    """Return the attached texts of a message with their room in tokens: the whole message as one where its words are
    long or its attached texts many, none if it fits."""
    count = context.count
    if not uncounted and count_large(text, cap, count) <= cap:
        return []
    attached_texts = find_attached_texts(text)
    ends = [0, *(attached_text.end for attached_text in attached_texts)]
    around = (
        "".join(text[end : attached.start] for end, attached in zip(ends, attached_texts, strict=False))
        + text[ends[-1] :]
    )
    sizes = [count_large(text[attached_text.start : attached_text.end], cap, count) for attached_text in attached_texts]
    shares = share_room(sizes, cap - count_large(around, cap, count) - _JOINS * len(attached_texts))
    if not attached_texts or any(share < min(size, MIN_CAP) for share, size in zip(shares, sizes, strict=True)):
        return [(AttachedText("the input", 0, len(text)), cap)]
    return list(zip(attached_texts, shares, strict=True))


def input_cap(context: ContextManager, text: str) -> int:
    """Return the most tokens of the person's message `text` that one request takes, by our own count."""
    window = context.conversation.counts()
    available = context.estimate.countable(context.budget.available, window, kind_of(text[:SAMPLE]).alone)
    return max(MIN_CAP, int((available - window.fixed) * REQUEST_SHARE))


def find_all(part: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each occurrence of `part` in `text`."""
    position = text.find(part) if part else -1
    while position >= 0:
        yield position, position + len(part)
        position = text.find(part, position + len(part))
