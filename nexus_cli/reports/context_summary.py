"""Report the next request of the running session in twelve rows: the window, the drops, the next rewrite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nexus_cli.context.manager import ContextManager
from nexus_cli.core.json_value import JsonObject
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.reports.context import (
    ROLES,
    ContextReport,
    NextRewrite,
    describe_rewrite,
    describe_waiting,
    live_report,
    window_bar,
    window_parts,
)
from nexus_cli.reports.text.blocks import Blocks, Drawn, Paragraph
from nexus_cli.reports.text.lines import cut_line, measure_attached, number, short
from nexus_cli.reports.text.look import PLAIN, ReportStyle
from nexus_cli.session.session import Session
from nexus_cli.text.cells import cells

LABEL = 10
"""Cells of the column of labels."""
NARROW = 70
"""Width below which labels have no column of their own."""
LARGEST = ATTACHED = 5


def context_summary(session: Session) -> ContextReport:
    """Return the report of the next request, with what its cache should hold now and when the window is rewritten."""
    value = live_report(session)
    used = value["budget"]["used"]["total"]
    cached = 0 if session.engine.begins_epoch else session.engine.window_request().cached
    value["cached"]["expected"] = min(value["cached"]["tokens"], cached) if used else 0
    value["rewrite"] = next_rewrite(session.engine)
    return value


def next_rewrite(engine: Engine) -> NextRewrite:
    """Return the next rewrite of the window."""
    if engine.conversation.is_recorded and engine.begins_epoch:
        return {"by": "epoch", "at": None, "why": _epoch_cause(engine.context)}
    request = engine.window_request()
    overflow = round(request.room * request.tokens / request.upper_bound) if request.upper_bound else request.room
    if engine.backoff.may_compact(fits=True):
        return {
            "by": "summary",
            "at": min(round(engine.settings.compact.at * request.budget.available), overflow),
            "why": "",
        }
    may_compact = engine.backoff.may_compact(fits=False)
    return {"by": "summary" if may_compact else "truncation", "at": overflow, "why": ""}


def _epoch_cause(context: ContextManager) -> str:
    epoch, model = context.conversation.epoch, context.model
    if epoch.model != model.info.name:
        return "another model"
    changed = epoch.effort != (model.effort or epoch.effort)
    return "another effort" if changed else "nexus reloads instructions and tools"


def context_summary_text(value: JsonObject, width: int, look: ReportStyle = PLAIN) -> Blocks:
    """Draw the window as one bar, with its largest items, drops, the next rewrite, and a hint to the full report."""
    indent = LABEL if width >= NARROW else 2
    room = max(8, width - indent)
    yield _label("Context", _size(value), width)
    yield from (Drawn(" " * indent + line) for line in (*window_bar(value, room, look), *_legend(value, room, look)))
    largest = value["largest"][:LARGEST]
    size = max((len(number(item["tokens"])) for item in largest), default=0)
    rows = [f"{number(item['tokens']):>{size}}  {cut_line(item['what'], room - size - 2)}" for item in largest]
    yield from map(Drawn, _title_rows(rows, width))
    yield from (_label(label, texts, width) for label, texts in _facts(value))


def _title_rows(rows: Sequence[str], width: int) -> Sequence[str]:
    """Return the largest messages with a label before the first one, or above it if there is no room."""
    if not rows:
        return []
    if width < NARROW:
        return ["Largest:", *(f"  {row}" for row in rows)]
    return ["Largest".ljust(LABEL) + rows[0], *(" " * LABEL + row for row in rows[1:])]


def _label(label: str, texts: Sequence[str], width: int) -> Paragraph:
    """Return the first of `texts` that fits on one line after its label, or else the last one on several lines."""
    first, indent = (f"{label}: ", "  ") if width < NARROW else (label.ljust(LABEL), " " * LABEL)
    text = next((text for text in texts if cells(first + text) <= width), texts[-1])
    return Paragraph(text, indent, first)


def _size(value: JsonObject) -> Sequence[str]:
    budget = value["budget"]
    used, available = budget["used"]["total"], budget["available"]
    about = "about " if value["basis"] == "estimate" else ""
    window = budget["window"]
    text = f"{about}{number(used)} of {number(available)} tokens, {used / max(1, available):.0%}"
    return f"{text} ({short(window)} window, {short(window - available)} reserved)", text


def _legend(value: JsonObject, room: int, look: ReportStyle) -> Iterator[str]:
    """Yield the parts of the bar by their shades."""
    line, end = "", 0
    for role, shade, (name, tokens) in zip(ROLES, look.shades, window_parts(value), strict=True):
        text = f" {name} {short(tokens)}"
        if line and end + 2 + 1 + len(text) > room:
            yield line
            line, end = "", 0
        line += ("  " if line else "") + look.paint(role, shade) + text
        end += (2 if end else 0) + 1 + len(text)
    yield line


def _facts(value: JsonObject) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the labels and texts below the largest items. Several texts are variants of one, longest first."""
    if waiting := describe_waiting(value):
        yield "Waiting", [waiting]
    if files := [measure_attached(attachment) for attachment in value.get("attachments", [])]:
        more = [f"{len(files) - ATTACHED} more"] if len(files) > ATTACHED else []
        yield "Attached", ["; ".join([*files[-ATTACHED:], *more])]
    if servers := value.get("servers"):
        spent = (
            f"{server['name']}: schemas {number(server['schemas'])}, results {number(server['results'])}"
            for server in servers
        )
        yield "MCP", ["; ".join(spent)]
    yield "Left out", _left_out([drop for drop in value["drops"] if not drop.get("back")], value.get("missed"))
    notices, rewrite = list(value["notices"]), value["rewrite"]
    if rewrite:
        text = describe_rewrite(rewrite)
        now = [f"{text} (now: /compact)"] if rewrite["by"] == "summary" else []
        notices = notices[:-1] if rewrite["by"] == "epoch" else notices  # the last one repeats it in more words
        yield "Next", [*now, text]
    yield "More", ["/context all: sections, tools, drops, limits"]
    for notice in notices:
        yield "Note", [notice]


def _left_out(drops: Sequence[JsonObject], missed: int | None) -> Sequence[str]:
    """Describe the drops, of which the status line counts those that are `missed`, and the way to read them."""
    if not drops:
        return ["nothing"]
    tokens = number(sum(drop["tokens"] for drop in drops))
    if len(drops) == 1:
        return [f"{cut_line(drops[0]['what'], 30)}, {tokens} tokens; /drops {drops[0]['id']} prints it"]
    counted = "" if missed in (None, len(drops)) else f" ({missed:,} counted in the status line)"
    text = f"{len(drops):,} parts{counted}, {tokens} tokens; /drops lists them"
    return [f"{text}; the model can recall them", text]
