"""Build the page of a session: the conversation, and beside it the context timeline, in one HTML file.

The page runs nothing and loads nothing: it has no script, and its policy forbids both. A click on a bar goes to the
panel of that request, which the style sheet shows while it is the target. Two pages of one session are byte-equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from sys import maxsize

from nexus_cli.config.settings import Settings
from nexus_cli.conversation.cache_diagnosis import CAUSES
from nexus_cli.core.clock import format_local_minute
from nexus_cli.core.entry import Drop
from nexus_cli.core.json_value import JsonObject, to_json_value
from nexus_cli.core.memo_kinds import IMPORTED_SESSION
from nexus_cli.ledger import Ledger, SessionInfo
from nexus_cli.ledger.sessions import FIRST_TEXT
from nexus_cli.reports.conversation import Replay
from nexus_cli.reports.last_exchange import title_of
from nexus_cli.reports.page.chart import LAYERS, draw_chart
from nexus_cli.reports.page.conversation_html import TIME, Block, ConversationHtml, Fold
from nexus_cli.reports.page.markup import Markup
from nexus_cli.reports.page.request_figures import (
    ALONE,
    FORMS,
    HeldPart,
    RequestFigures,
    describe_request,
    list_request_figures,
)
from nexus_cli.reports.text.lines import dollars, known_dollars, list_components, name_cause, number, plural, share
from nexus_cli.reports.timeline import session_timeline

MOST = 25_000_000
"""Most bytes of a page. Beyond it the largest folded parts are left out, then the oldest messages; both are named."""
FOR_PANELS = 0.5
"""Most of a page that the panels of requests take; the oldest are left out."""
TITLE = 200
"""Most characters of the title."""
MAX_PARTS = 6
"""Most drops and sections that the panel of a request lists."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
LEGEND = {"system": "system text", "tools": "tool schemas", "history": "history", "event": "event"}
HINT = "Select a bar, or the line above an answer, to see what a request contained and why parts were left out."


def session_page(ledger: Ledger, info: SessionInfo, settings: Settings, *, raw: bool = False) -> Iterator[str]:
    """Yield the page in pieces, at most about `MOST` bytes; reads the ledger only. `raw` keeps secrets."""
    markup, log = Markup(raw=raw), ledger.log(info.id)
    entries = log.read(1, log.last_id())
    value = session_timeline(ledger, info.id, maxsize)
    requests = list(list_request_figures(log, entries, settings))
    replies = {request.row.manifest.last + 1: request for request in requests}
    talk = ConversationHtml(markup, list(Replay(log, info.folder, is_whole=True).events()), replies)
    by_id = {entry.id: entry for entry in entries}
    blocks, between = list[Block](), list[tuple[str, Block]]()
    for row in value["rows"]:
        if row["entry"] is not None:
            blocks += [block for _, block in sorted(between, key=itemgetter(0))]
            blocks += talk.blocks(by_id[row["entry"]])
            between = talk.notes(row["entry"])
        elif row["kind"] != "request":
            between.append((row["at"], talk.event(row)))
    blocks += [block for _, block in sorted(between, key=itemgetter(0))]
    origins = log.memos(IMPORTED_SESSION)
    origin = f"{origins[-1].value['from']}, {origins[-1].value['file']}" if origins else ""
    beside = value["totals"]["requests"] - len(requests)
    before = [_head(markup, info, value, origin), *_timeline(requests, markup, info.id, int(MOST * FOR_PANELS), beside)]
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
        ("Started", format_local_minute(info.created, TIME)),
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


def _timeline(
    requests: Sequence[RequestFigures], markup: Markup, session: str, room: int, beside: int
) -> Iterator[str]:
    """Yield the chart and, in at most `room` bytes, the panels of the newest requests. One panel is shown at a time.

    `beside` is the number of requests that are not in it: of workers, summaries and the like.
    """
    yield '<aside id="timeline"><h2>Context timeline</h2>\n'
    if not requests:
        yield '<p class="note">No request was recorded in this session.</p>\n</aside>\n'
        return
    keys = "".join(f'<li class="{name}">{text}</li>' for name, text in LEGEND.items())
    yield f'<ul class="legend">{keys}<li class="pale">from the cache</li><li class="cut">window rewritten</li>'
    yield '<li class="left">something left out</li></ul>\n'
    panels = list[str]()
    for request in reversed(requests):
        panel = _panel(request, markup, session, len(requests))
        room -= len(panel.encode())
        if room < 0:
            command, last = f"nexus context --session {session} --step N", request.row.manifest.step
            yield f'<p class="note">Not shown here: requests 1 to {last:,}; <code>{command}</code></p>'
            break
        panels.append(panel)
    yield f'{draw_chart(requests)}<div class="panels">\n'
    yield from reversed(panels)
    yield "</div>\n"
    hint = (
        f" The chart does not show {plural(beside, 'request')} for workers, summaries and similar work."
        if beside > 0
        else ""
    )
    yield f'<p class="hint">{HINT}{hint}</p>\n</aside>\n'


def _panel(request_figures: RequestFigures, markup: Markup, session: str, steps: int) -> str:
    row, usage, used = request_figures.row, request_figures.row.usage, request_figures.used
    step, last = row.manifest.step, row.manifest.last
    targets = {
        "Its answer": f"e{last + 1}" if usage else "",
        "Before": f"r{step - 1}" if step > 1 else "",
        "After": f"r{step + 1}" if step < steps else "",
    }
    cells = "".join(
        f'<tr class="{name}"><th scope="row">{LEGEND[name]}</th><td>{number(getattr(used, name))}</td>'
        f"<td>{share(getattr(used, name), used.total)}</td></tr>"
        for name in LAYERS
    )
    facts = [markup.time(row.manifest.at, TIME), markup.text(request_figures.model), describe_request(request_figures)]
    facts.append("reported" if row.reported else "estimated")
    facts += [f"{number(usage.output)} out", list_components(to_json_value(usage)["cost"])] if usage else ["no answer"]
    if row.finish and row.finish not in ("stop", "tool_calls"):
        facts.append(markup.text(row.finish))
    sections = sorted((part for part in request_figures.sections if part[1]), key=lambda part: -part[1])
    listed = ", ".join(f"{markup.text(name)} {number(tokens)}" for name, tokens in sections[:MAX_PARTS])
    listed += f" and {len(sections) - MAX_PARTS} smaller" if len(sections) > MAX_PARTS else ""
    cause = markup.text(CAUSES.get(request_figures.rewrite, request_figures.rewrite))
    rewritten = f"<p>The window was rewritten before this request: {cause}.</p>" if request_figures.rewrite else ""
    summaries = [part for part in request_figures.window_parts[:-MAX_PARTS] if part.form not in ALONE]
    older_parts = [part for part in request_figures.window_parts[:-MAX_PARTS] if part.form in ALONE]
    part_items = "".join(f"<li>{_describe_part(part)}</li>" for part in request_figures.window_parts[-MAX_PARTS:])
    earlier = "".join(f"<li>{_describe_part(part)}</li>" for part in summaries)
    if older_parts:
        tokens = plural(sum(part.tokens for part in older_parts), "token")
        earlier += f"<li>{plural(len(older_parts), 'earlier part')}, {tokens}</li>"
    links = "".join(f'<a href="#{place}">{name}</a> ' for name, place in targets.items() if place)
    return (
        f'<i id="r{step}"></i><section class="request"><h3>Request {step:,}</h3>'
        f'<p class="go">{links}<a href="#closed">Close</a></p>'
        f"<p>{' · '.join(filter(None, facts))}</p>{rewritten}"
        f"<table>{cells}</table>"
        f"<h4>Content</h4><ul>{earlier}{part_items}<li>new: {_span(request_figures.new_from, last)}</li></ul>"
        + (f"<p>Sections: {listed}</p>" if listed else "")
        + _left_out(request_figures.drops, markup, session)
        + "</section>\n"
    )


def _describe_part(part: HeldPart) -> str:
    several = f'messages up to <a href="#e{part.last}">{part.last}</a>'
    position = _span(part.first, part.last) if part.form in ALONE else several
    return f"{position} {FORMS[part.form]}, {plural(part.tokens, 'token')}"


def _span(first: int, last: int) -> str:
    """Return links to the first and the last of some messages."""
    if first > last:
        return "nothing"
    if first == last:
        return f'message <a href="#e{first}">{first}</a>'
    return f'messages <a href="#e{first}">{first}</a> to <a href="#e{last}">{last}</a>'


def _left_out(drops: Sequence[Drop], markup: Markup, session: str) -> str:
    if not drops:
        return "<h4>Left out</h4><p>Nothing.</p>"
    rows = "".join(
        f'<li><a href="#drop-{drop.id}">{drop.id}</a> {markup.text(drop.what)}: {plural(drop.tokens, "token")}, '
        f"{markup.text(name_cause(drop.cause))}</li>"
        for drop in reversed(drops[-MAX_PARTS:])
    )
    more = f"<li>{plural(len(drops) - MAX_PARTS, 'earlier drop')}</li>" if len(drops) > MAX_PARTS else ""
    command = f"nexus drops show {drops[-1].id} --session {session}"
    return f"<h4>Left out</h4><ul>{rows}{more}</ul><p>To read a drop: <code>{command}</code></p>"


def _bounded(blocks: Sequence[Block], room: int, session: str) -> Iterator[str]:
    """Yield the blocks in at most `room` bytes, about."""
    parts = [(part, block_index, place) for block_index, block in enumerate(blocks) for place, part in enumerate(block)]
    folds = [
        (len(part.html.encode()), block_index, place) for part, block_index, place in parts if isinstance(part, Fold)
    ]
    plain = [sum(len(part.encode()) for part in block if isinstance(part, str)) for block in blocks]
    over = sum(plain) + sum(size for size, _, _ in folds) - room
    for size, block_index, place in sorted(folds, reverse=True) if over > 0 else ():
        fold = blocks[block_index][place]
        assert isinstance(fold, Fold)
        note = f'<p class="note">Left out to keep this page small: {fold.description}, {size:,} bytes</p>\n'
        blocks[block_index][place] = note
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
