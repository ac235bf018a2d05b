"""Build the page of a session: the conversation, and beside it the context timeline, in one HTML file.

The page runs nothing and loads nothing: it has no script, and its policy forbids both. A click on a bar goes to the
answer to that request. Two pages of one session are byte-equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from sys import maxsize

from nexus_cli.config.settings import Settings
from nexus_cli.core.clock import format_local_minute
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import IMPORTED_SESSION
from nexus_cli.ledger import Ledger, SessionInfo
from nexus_cli.ledger.sessions import FIRST_TEXT
from nexus_cli.reports.conversation import Replay
from nexus_cli.reports.page.chart import LEGEND, draw_strips
from nexus_cli.reports.page.markup import Markup
from nexus_cli.reports.page.request_figures import RequestFigures, list_request_figures
from nexus_cli.reports.page.talk import TIME, Block, Fold, Talk
from nexus_cli.reports.sessions import title_of
from nexus_cli.reports.text.lines import dollars, known_dollars, list_components, number, plural, share
from nexus_cli.reports.timeline import session_timeline

MOST = 25_000_000
"""Most bytes of a page. Beyond it the largest folded parts are left out, then the oldest messages; both are named."""
TITLE = 200
"""Most characters of the title."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
HINT = "Select a bar to go to the answer; nexus context --session {} --step N shows what request N contained."


def session_page(ledger: Ledger, info: SessionInfo, settings: Settings, *, raw: bool = False) -> Iterator[str]:
    """Yield the page in pieces, at most about `MOST` bytes; reads the ledger only. `raw` keeps secrets."""
    markup, log = Markup(raw=raw), ledger.log(info.id)
    entries = log.read(1, log.last_id())
    value = session_timeline(ledger, info.id, maxsize)
    requests = list(list_request_figures(ledger, log, entries, settings))
    replies = {request.row.manifest.last + 1: request for request in requests}
    talk = Talk(markup, Replay(log, info.folder, is_whole=True).events(), replies)
    by_id = {entry.id: entry for entry in entries}
    blocks, between = list[Block](), list[tuple[str, Block]]()
    for row in value["rows"]:
        if row["entry"] is not None:
            blocks += [block for _, block in sorted(between, key=itemgetter(0))]
            blocks += talk.blocks(by_id[row["entry"]])
            between = talk.notes(row["entry"])
        elif row["kind"] != "request" and (block := talk.event(row)):
            between.append((row["at"], block))
    blocks += [block for _, block in sorted(between, key=itemgetter(0))]
    origins = log.memos(IMPORTED_SESSION)
    origin = f"{origins[-1].value['from']}, {origins[-1].value['file']}" if origins else ""
    beside = value["totals"]["requests"] - len(requests)
    before = [_head(markup, info, value, origin), *_timeline(requests, info.id, beside)]
    room = MOST - sum(len(piece.encode()) for piece in before)
    yield from before
    yield '<main id="talk"><h2>Conversation</h2>\n'
    yield from _bounded(blocks, room, info.id)
    yield ("" if entries else '<p class="note">No messages in this session yet.</p>\n') + "</main>\n</body>\n</html>\n"


def _head(markup: Markup, info: SessionInfo, value: JsonObject, origin: str) -> str:
    total = value["totals"]
    first = info.first_text
    if len(first) >= FIRST_TEXT:  # it is cut, and the beginning of a secret would not be recognized
        first = re.sub(r"\s*\S*$", "", first)
    words = markup.clean(info.name or title_of(first) or "Session")
    title = markup.text(" ".join(words.split())[:TITLE])
    cost = known_dollars(total["cost_usd"], total["known_usd"])
    cached = share(total["cache_read"], total["input"])
    used = f"{number(total['input'])} in ({cached} cached), {number(total['output'])} out"
    facts = (
        ("Model", info.model),
        ("Folder", info.folder),
        ("Begun", format_local_minute(info.created, TIME)),
        ("Last used", format_local_minute(info.updated, TIME)),
        ("Size", f"{plural(info.turns, 'turn')}, {plural(total['requests'], 'request')}"),
        ("Tokens", used if total["requests"] else ""),
        ("Cost", (cost or "unknown price") if total["requests"] else ""),
        ("By component", list_components(total["cost"])),
        ("Saved by the cache", dollars(total["saved_usd"]) if total["saved_usd"] > 0 else ""),
        ("Imported from", origin),
        ("Session", info.id),
    )
    listed = "".join(f"<div><dt>{name}</dt><dd>{markup.text(text)}</dd></div>" for name, text in facts if text)
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{title} · nexus</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#talk">Skip to the conversation</a>\n'
        f'<header class="top"><h1>{title}</h1>\n<dl>{listed}</dl></header>\n'
    )


def _timeline(requests: Sequence[RequestFigures], session: str, beside: int) -> Iterator[str]:
    """Yield the chart. `beside` is the number of requests that are not in it: of workers, summaries and the like."""
    yield '<aside id="timeline"><h2>Context timeline</h2>\n'
    if not requests:
        yield '<p class="note">No request was recorded in this session.</p>\n</aside>\n'
        return
    keys = "".join(f'<li class="{name}">{text}</li>' for name, text in LEGEND.items())
    yield f'<ul class="legend">{keys}<li class="pale">from the cache</li><li class="cut">window rewritten</li>'
    yield '<li class="left">something left out</li></ul>\n'
    yield from draw_strips(requests)
    more = (
        f" Not in the chart: {plural(beside, 'request')} for workers, summaries and similar work." if beside > 0 else ""
    )
    yield f'<p class="hint">{HINT.format(session)}{more}</p>\n</aside>\n'


def _bounded(blocks: Sequence[Block], room: int, session: str) -> Iterator[str]:
    """Yield the blocks in at most `room` bytes, about."""
    parts = [(part, at, place) for at, block in enumerate(blocks) for place, part in enumerate(block)]
    folds = [(len(part.html.encode()), at, place) for part, at, place in parts if isinstance(part, Fold)]
    plain = [sum(len(part.encode()) for part in block if isinstance(part, str)) for block in blocks]
    over = sum(plain) + sum(size for size, _, _ in folds) - room
    for size, at, place in sorted(folds, reverse=True) if over > 0 else ():
        fold = blocks[at][place]
        assert isinstance(fold, Fold)
        note = f'<p class="note">Left out to keep this page small: {fold.what}, {size:,} bytes</p>\n'
        blocks[at][place] = note
        over -= size - len(note)
        if over <= 0:
            break
    first = 0
    while over > 0 and first < len(blocks):
        over -= plain[first]
        first += 1
    if first:
        yield (
            f'<p class="note">Only the newest {len(blocks) - first:,} of {len(blocks):,} messages and events are shown,'
            f" to keep this page small; all are in <code>nexus export {session} --jsonl</code>.</p>\n"
        )
    for block in blocks[first:]:
        yield "".join(part.html if isinstance(part, Fold) else part for part in block)
