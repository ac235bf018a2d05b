"""List results that were left out of requests, show the originals, send one to the model again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Annotated, Any, NotRequired

from nexus_cli.commands.arguments import SessionSource, read_log
from nexus_cli.commands.command import CommandContext
from nexus_cli.commands.verb import Act, Noun, Report, Source, Verb, print_act
from nexus_cli.core.drop_list import DropsReport, window_drops
from nexus_cli.core.elide import count_large, cut_piece, plural
from nexus_cli.core.entry import WindowItem
from nexus_cli.core.errors import UsageError
from nexus_cli.core.event import ContextRecall
from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.core.option import Argument, Option
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.sessions import SHOWN_ID
from nexus_cli.reports.text.blocks import Blocks, Table, Verbatim
from nexus_cli.reports.text.command_names import name_commands
from nexus_cli.reports.text.lines import count_recalled, describe_drop, describe_missed, name_cause

MAX_SHOWN, MOST = 4000, 100_000
"""Characters shown in a session by default, and most characters of a range there."""
_RANGE = re.compile(r"(-?\d{0,12}):(-?\d{0,12})")
DropId = Annotated[str, Argument("ID", "The drop's id, such as d3.")]
Span = Annotated[
    str, Option("A:B", "Characters A to B (B not included); either may be omitted.", "--range", is_positional=True)
]


class DropReport(VersionedReport):
    """The original content of a drop."""

    id: str
    what: str
    tokens: NotRequired[int]
    cause: NotRequired[str]
    text: str
    start: int
    """The range of characters."""
    end: int
    total: int


def list_drops(source: Source) -> Report[DropsReport]:
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
    if not source.is_json:
        value["shell"] = session if source.session_name else ""
    return Report("drops", value, uncut=True)


def session_drops(ledger: Ledger, session: str) -> DropsReport:
    """Return the drops of a session in the ledger, which need not be open in this process."""
    log = ledger.log(session)
    drops = log.drops()
    epoch = log.current_epoch() if drops else None
    items = [*epoch.head, *map(WindowItem.of, log.read(epoch.base + 1, log.last_id()))] if epoch else []
    return window_drops(session, drops, items, log.memos, epoch.sections if epoch else "")


def show_drop(source: Source, drop: DropId, span: Span = "") -> Report[DropReport]:
    """Print the original content of a drop; in a session only its beginning, or a range."""
    text, start, end = _read_range(source, drop, span)
    end = min(end, start + (MOST if span else MAX_SHOWN)) if source.live else end
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
    tokens, omission_note = count(block), ""
    if remaining := await asyncio.to_thread(count_large, text[piece.end : end], cap, count):
        next_command = f"/drops recall {drop} {piece.end}:{end}"
        omission_note = (
            f"About {remaining:,} of {tokens + remaining:,} tokens are left out. To send more: {next_command}"
        )
    read_log(source).count_recall(drop)
    session.attached_texts.note_recall(block, drop)
    context.attach(block, f"{drop}, about {plural(tokens, 'token')}")
    context.feed(ContextRecall(drop, tokens))
    return print_act(omission_note, drop)


def drops_text(value: JsonObject) -> Blocks:
    """List every drop of a session, with the command that reads it.

    For a shell `shell` is the id that must be part of the command, "" for the folder's newest session.
    """
    drops, session = value["drops"], value.get("shell")
    if not drops:
        yield "Nothing was left out."
        return
    out = [d for d in drops if not d.get("back")]
    columns = {
        "id": "id",
        "tokens": lambda drop: drop.get("tokens"),
        "cause": lambda drop: name_cause(drop.get("cause")),
        "recalled": lambda drop: f"{drop['recalls']} x" if drop.get("recalls") else "-",
        "what": describe_drop,
    }
    yield Table(columns, drops)
    again = sum(1 for d in out if d.get("recalls"))
    sentence = count_recalled(again, len(out), len(drops))
    sentence += describe_missed(value) if session is None else ""
    yield from ["", f"{sentence[0].upper()}{sentence[1:]}. Tokens are estimated."]
    beyond = sum(d.get("uncounted_bytes") or 0 for d in drops)
    if beyond:
        yield f"nexus did not keep {beyond:,} bytes beyond the size limits of files and outputs."
    first = drops[0]["id"]
    session_option = f" --session {session[-SHOWN_ID:]}" if session else ""
    yield from ["", name_commands(f"`nexus drops show {first}{session_option}` prints the first drop.")]


def drop_text(value: JsonObject) -> Blocks:
    """Show one drop: the range of characters, then the text."""
    start, end, total = value["start"], value["end"], value["total"]
    head = f"{value['id']}: {value['what']}"
    if value.get("tokens") is not None:
        head += f", {plural(value['tokens'], 'token')} ({name_cause(value['cause'])})"
    yield from [head, f"characters {start:,} to {end:,} of {total:,}", ""]
    yield Verbatim(value["text"].removesuffix("\n"))
    if end < total:
        yield from ["", f"`/drops {value['id']} {end}:` shows more."]


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
