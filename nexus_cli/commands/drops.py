"""List results that were left out of requests, show the originals, send one to the model again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Annotated, Any

from nexus_cli.commands.arguments import SessionSource, read_log
from nexus_cli.commands.command import CommandContext
from nexus_cli.commands.verb import Act, Noun, Report, Source, Verb, print_act
from nexus_cli.core.drop_list import window_drops
from nexus_cli.core.elide import count_large, cut_piece, plural
from nexus_cli.core.errors import UsageError
from nexus_cli.core.event import ContextRecall
from nexus_cli.core.option import Argument, Option
from nexus_cli.reports.drops import DropReport, session_drops

SHOWN, MOST = 4000, 100_000
"""Characters shown in a session by default, and most characters of a range there."""
_RANGE = re.compile(r"(-?\d{0,12}):(-?\d{0,12})")
DropId = Annotated[str, Argument("ID", "The drop's id, such as d3.")]
Span = Annotated[
    str, Option("A:B", "Characters A to B (B not included); either may be omitted.", "--range", is_positional=True)
]


def list_drops(source: Source) -> Report[Annotated[Any, "core.drop_list.DropsReport"]]:
    """List all content that was left out of a session's requests, and how to restore it.

    Drops of an undone compaction are not listed: their content is in the window again.
    """
    session = source.session()
    if source.live:
        window = source.live.context.conversation
        return Report(
            "drops", window_drops(session, read_log(source).drops(), window.items, window.memos, window.epoch.sections)
        )
    value: Any = session_drops(source.ledger, session)
    for_people = {} if source.is_json else {"shell": session if source.named else ""}
    return Report("drops", {**value, **for_people}, whole=True)


def show_drop(source: Source, drop: DropId, span: Span = "") -> Report[DropReport]:
    """Print the original content of a drop; in a session only its beginning, or a range."""
    text, start, end = _read_range(source, drop, span)
    end = min(end, start + (MOST if span else SHOWN)) if source.live else end
    recorded_drop = next((candidate for candidate in read_log(source).drops() if candidate.id == drop), None)
    value: DropReport = {
        "version": 1,
        "id": drop,
        "what": recorded_drop.what if recorded_drop else "left out",
        "text": text[start:end],
        "start": start,
        "end": end,
        "total": len(text),
    }
    if recorded_drop:
        value |= {"tokens": recorded_drop.tokens, "cause": str(recorded_drop.cause)}
    return Report("drop" if source.live else "text", value)


def _read_range(source: Source, drop: str, span: str) -> tuple[str, int, int]:
    """Return the whole text of a drop, and start and end of a range `A:B` of its characters.

    Raises `UsageError` if the drop or the range does not exist, or is empty.
    """
    text = read_log(source).original(drop)
    if text is None:
        why = f"there is no such drop in session {source.session()}"
        raise UsageError(f"drop {drop}", why, "`nexus drops` lists them")
    match, example = _RANGE.fullmatch(span or ":"), f"Example: nexus drops show {drop} --range 0:2000"
    if match is None:
        raise UsageError(f"--range {span}", "must be A:B, in characters", example)
    start, end, _ = slice(*(int(part) if part else None for part in match.groups())).indices(len(text))
    if span and text and start >= end:
        why = f"the range is empty: {drop} has {len(text):,} characters"
        raise UsageError(f"--range {span}", why, example)
    return text, start, end


async def recall_drop(context: CommandContext, drop: DropId, span: Span = "") -> Act:
    """Send a drop, or a range of its characters, with your next message."""
    source = SessionSource(context)
    text, start, end = _read_range(source, drop, span)
    if start == end:
        raise UsageError(f"drops recall {drop}", "this drop has no content to recall", "/drops lists all drops")
    session = context.session
    count, cap = session.context.counter.count, session.context.budget.output_cap
    piece = await asyncio.to_thread(cut_piece, text, start, end, cap, count)
    block = f'<recalled id="{drop}" characters="{start}:{piece.end} of {len(text)}">\n{piece.text}\n</recalled>'
    tokens, remark = count(block), ""
    if remaining := await asyncio.to_thread(count_large, text[piece.end : end], cap, count):
        next_command = f"/drops recall {drop} {piece.end}:{end}"
        remark = f"About {remaining:,} of {tokens + remaining:,} tokens are left out. To send more: {next_command}"
    read_log(source).count_recall(drop)
    session.attached_texts.note_recall(block, drop)
    context.attach(block, f"{drop}, about {plural(tokens, 'token')}")
    context.feed(ContextRecall(drop, tokens))
    return print_act(remark, drop)


def _complete_drops(source: Source) -> Sequence[str]:
    """Return the ids of the drops, newest first."""
    return [drop.id for drop in reversed(read_log(source).drops())]


NOUN = Noun(
    "drops",
    "context",
    (
        Verb(list_drops, only="slash", is_alone=True),
        Verb(list_drops, of_session=True, only="shell"),
        Verb(show_drop, "show", of_session=True, complete=_complete_drops),
        Verb(recall_drop, "recall", complete=_complete_drops),
    ),
    "List or print content left out of requests.",
)
