"""Report the next request or request N of a session (`nexus docs json`). Sends nothing, writes nothing.

A session's epoch is shown as it was sent; without a session, the first request of a new one is assembled.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Literal, TypedDict

from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.config.settings import Settings
from nexus_cli.conversation.groups import group_tool_calls
from nexus_cli.core.drop_list import UNIT, ListedDrop, window_drops
from nexus_cli.core.json_value import ABSENT, JsonDict, JsonObject, JsonOf, to_json_value
from nexus_cli.core.limits import Bound
from nexus_cli.core.memo_kinds import ATTACHMENTS
from nexus_cli.core.section_rows import JOINT, apportion, scale_sections
from nexus_cli.core.wire import canonical
from nexus_cli.engine.requests.tool_selection import describe_left_out
from nexus_cli.ledger import Ledger
from nexus_cli.reports.request_view import (
    LargestPart,
    RequestView,
    ToolTokens,
    first_view,
    largest_items,
    live_view,
    recorded_view,
)
from nexus_cli.reports.text.blocks import NO_CELLS, Blocks, Drawn, Paragraph, TitledTable, paragraphs
from nexus_cli.reports.text.lines import (
    count_recalled,
    describe_attached,
    describe_drop,
    describe_missed,
    limit,
    name_basis,
    name_cause,
    number,
    plural,
    share,
)
from nexus_cli.reports.text.style import PLAIN, ReportStyle
from nexus_cli.sections.planner import SectionObject, section_budget
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import ServiceMakers
from nexus_cli.text.cells import cells

if TYPE_CHECKING:
    from nexus_cli.session.session import Session

LAYERS = ("system", "tools", "history", "event")
ROLES = ("system", "tools", "history", "dim")
"""Colours of the parts of the bar."""
MARKS = dict(zip((*LAYERS, "free"), (*PLAIN.shades[:3], *PLAIN.shades[2:]), strict=True))
"""Marks of the layers in the bar; text that we add to a message counts as history there."""
WIDEST = 60
"""Cells of the longest bar."""
BAR = 10
"""Cells of a section's bar: its share of its layer."""
ROOM = 90
"""Least columns for bars."""
LETTERS = {"system": "S", "history": "H", "event": "E"}
SECTION_COLUMNS = ("id", "in", "tokens", "share", "form", "score", "from")
"""Columns of a table of sections; `share` is a bar."""


class SectionBudgetObject(TypedDict):
    """The budget of the system layer's sections."""

    tokens: int
    used: int
    raised: bool
    unit: str


class HistoryObject(TypedDict):
    entries: int
    groups: int
    tokens: int
    hidden_entries: int
    by_kind: dict[str, int]


class ServerTokens(TypedDict):
    """The share of an MCP server in the request."""

    name: str
    schemas: int
    """Tokens of the schemas of tools that are sent individually."""
    results: int
    """Tokens of the results of its calls in the window."""


class WaitingTexts(TypedDict):
    """Texts that wait for your next message."""

    texts: int
    tokens: int
    counted: int


class NextRewrite(TypedDict):
    """The next rewrite of a window. Stale tool results may be removed earlier."""

    by: Literal["epoch", "summary", "truncation"]
    at: int | None
    """The tokens at which it happens; null: with the next request."""
    why: str


class ContextReport(JsonOf[RequestView]):
    """The content of a request: of the next one, or with `--step` of one that was sent."""

    scale: float
    """Factor from `counted` to `budget.used`."""
    section_budget: SectionBudgetObject
    sections: list[SectionObject]
    joins: dict[str, int]
    """Tokens between the sections."""
    told: list[SectionObject]
    """Event sections that the newest request sent."""
    history: HistoryObject
    attachments: list[JsonDict]
    tools: list[ToolTokens]
    servers: list[ServerTokens]
    largest: list[LargestPart]
    waiting: WaitingTexts
    cached: dict[str, int]
    """`tokens`: common beginning with earlier requests; `expected`: of those of the next one, the ones still cached."""
    drops: list[ListedDrop]
    left_out: int
    missed: int
    recalled: int
    limits: list[JsonOf[Bound]]
    notices: list[str]
    pending: bool
    """False for a request that was sent."""
    rewrite: NextRewrite = ABSENT
    """Of an open session."""
    prefix_sha256: str
    request_sha256: str | None


def context_report(
    options: Options, settings: Settings, session: str | None, *, services: ServiceMakers = ()
) -> ContextReport:
    """Return the report of the next request with the front end's `services`; raise `UsageError` for an unknown
    session."""
    if session is None:
        from nexus_cli.session.draft import new_session  # noqa: PLC0415  (the factory; not for others)

        with new_session(options, settings, services) as new:
            return request_value(first_view(new))
    with closing(Ledger.open_for_reading(ledger_place())) as ledger:
        return request_value(recorded_view(ledger, ledger.find_session(session), options, settings, services))


def live_report(session: Session) -> ContextReport:
    """Return the report of the next request (`nexus docs json`); raise `NexusError` if the ledger fails."""
    if session.engine.conversation.is_recorded or session.has_no_ledger:
        return request_value(live_view(session))
    return request_value(first_view(session))


def estimate_next_tokens(session: Session) -> int:
    """Return the tokens of the next request, with those of a system text that no request has had yet."""
    return int(live_report(session)["budget"]["used"]["total"])


def request_value(view: RequestView) -> ContextReport:
    """Return the report of a request."""
    request = view.request
    used, scale, waiting = request.budget.used, request.messages_scale, request.waiting
    expected = {} if view.row else {"expected": min(request.repeated, request.cached)}
    listed = window_drops("", view.drops, view.items, view.memos, request.epoch.sections)
    tools = _tools(view, used.tools)
    sections = list(request.sections)
    return ContextReport(
        **to_json_value(view),
        scale=round(request.scale, 4),
        section_budget=_section_budget(view, sections),
        sections=sections,
        joins={"system": used.system - sum(section["tokens"] for section in sections if section["layer"] == "system")},
        told=_scale_event_sections(view),
        history=_history(view),
        attachments=_attachments(view),
        tools=tools,
        servers=_servers(view, tools),
        largest=largest_items(sections, tools, [*view.arranged, *view.waiting], scale),
        waiting={"texts": len(view.waiting), "tokens": round(waiting * scale), "counted": waiting},
        cached={"tokens": request.repeated, **expected},
        drops=listed["drops"],
        left_out=listed["left_out"],
        missed=listed["missed"],
        recalled=listed["recalled"],
        limits=to_json_value(view.bounds),
        notices=[*filter(None, [describe_left_out(request.budget.window, request.epoch.tools)]), *view.notices],
        pending=view.row is None,
        prefix_sha256=view.prefix_sha256,
        request_sha256=view.row.manifest.sha256 if view.row else None,
    )


def _attachments(view: RequestView) -> list[JsonDict]:
    """Return the records of attached files whose messages are in the window, with their entry."""
    shown_entries = {item.entry for item in view.arranged if item.shows_entry}
    memos = [memo for memo in view.memos(ATTACHMENTS) if memo.entry in shown_entries]
    return [{"entry": memo.entry, **file} for memo in memos for file in memo.value["files"]]


def _scale_event_sections(view: RequestView) -> list[JsonDict]:
    """Return the event sections sent last, in tokens of the budget."""
    scale = view.request.messages_scale
    return scale_sections(view.last_told, round(sum(section["tokens"] for section in view.last_told) * scale), scale)


def _tools(view: RequestView, total: int) -> list[ToolTokens]:
    """Return the schemas; with their wrapping they sum to `total` tokens."""
    tool_counts = [
        (tool["function"]["name"], view.count(canonical(tool).decode())) for tool in view.request.epoch.tools
    ]
    parts = apportion(total, [counted for _, counted in tool_counts])
    return [
        {"name": name, "tokens": tokens, "counted": counted}
        for (name, counted), tokens in zip(tool_counts, parts, strict=True)
    ]


def _servers(view: RequestView, tools: Sequence[ToolTokens]) -> list[ServerTokens]:
    """Return the tokens of each MCP server that has schemas or results in the request."""
    servers: dict[str, ServerTokens] = {}

    def row(tool: str) -> ServerTokens | None:
        name = tool.split("__")[1] if tool.startswith("mcp__") else ""
        return servers.setdefault(name, {"name": name, "schemas": 0, "results": 0}) if name else None

    for tool in tools:
        if tokens := row(tool["name"]):
            tokens["schemas"] += tool["tokens"]
    calls: dict[str, str] = {}
    for item in (*view.arranged, *view.waiting):
        for call in item.message.tool_calls:
            calls[call.id] = str(call.arguments.get("tool", "")) if call.name == "mcp" else call.name
        if tokens := row(calls.get(item.message.tool_call_id or "", "")):
            tokens["results"] += round(item.tokens * view.request.messages_scale)
    return sorted(servers.values(), key=lambda tokens: tokens["name"])


def _section_budget(view: RequestView, sections: Sequence[JsonObject]) -> SectionBudgetObject:
    """Return the budget of the static sections and its use, by our own count. Only the shortest forms of sticky
    sections exceed it."""
    sent_sizes = [
        section["counted"] + JOINT
        for section in sections
        if section["layer"] == "system" and section["form"] != "dropped"
    ]
    tokens = section_budget(view.request.budget.available, view.recipe.section_budget)
    return {"tokens": tokens, "used": sum(sent_sizes), "raised": sum(sent_sizes) > tokens, "unit": UNIT}


def _history(view: RequestView) -> HistoryObject:
    """Return figures of the entries in the window, whole or in part, and of the groups with one of them.

    Summaries, markers and stubs replace hidden entries and count for neither.
    """
    by_kind = dict.fromkeys(("user", "assistant", "tool"), 0)
    for item in (*view.arranged, *view.waiting):
        by_kind[str(item.message.role)] += item.tokens
    group_entries = [{item.entry for item in group if item.shows_entry} for group in group_tool_calls(view.items)]
    entries = set().union(*group_entries)
    last = view.row.manifest.last if view.row else view.entries
    used = view.request.budget.used.history
    event_tokens = sum(by_kind.values()) - view.request.counted.history
    for kind in ("user", "tool"):  # the newest of these has the event sections, which the event layer counts
        part = min(event_tokens, by_kind[kind])
        by_kind[kind] -= part
        event_tokens -= part
    return {
        "entries": len(entries),
        "groups": sum(map(bool, group_entries)),
        "tokens": used,
        "hidden_entries": max(0, last - len(entries)),
        "by_kind": dict(zip(by_kind, apportion(used, list(by_kind.values())), strict=True)),
    }


def context_text(value: JsonObject, width: int) -> Blocks:
    """Draw the window with its layers, its largest items, sections, tools, drops and limits."""
    budget = value["budget"]
    state = "next request" if value["pending"] else "sent request"
    used, available = budget["used"]["total"], budget["available"]
    head = [
        f"session {value['session'] or '(new)'}, model {value['model'] or '(none)'}, {state}",
        f"{number(used)} of {number(available)} tokens used ({share(used, max(1, available))}), "
        f"{name_basis(value['basis'])}",
    ]
    head += filter(None, [describe_waiting(value)])
    bar = Drawn(f"  {window_bar(value, max(8, width - 2), PLAIN)[0]}")
    yield from [*head, "", bar, "", *_layers(budget, width), *_cached(value)]
    if value.get("rewrite"):
        text = f"next rewrite: {describe_rewrite(value['rewrite'])}; stale tool results may be removed earlier"
        yield Paragraph(text, "  ", "")
    yield TitledTable("largest items", {"tokens": "tokens", "entry": "entry", "what": "what"}, value["largest"])
    attached = {"entry": "entry", "bytes": "bytes", "what": describe_attached}
    yield TitledTable("attached", attached, value.get("attachments", []))
    yield from section_rows(value, width)
    yield TitledTable("tools", {"name": "name", "tokens": "tokens", **NO_CELLS}, value["tools"])
    server_columns = {
        "name": "name",
        "schemas": "schemas",
        "": lambda server: f"results {number(server['results'])}",
    }
    yield TitledTable("MCP servers", server_columns, value.get("servers", []))
    drop_columns = {
        "id": "id",
        "tokens": "tokens",
        "cause": lambda drop: name_cause(drop["cause"]),
        "what": describe_drop,
    }
    drops = value["drops"]
    yield TitledTable("left out", drop_columns, drops)
    if drops:
        again = count_recalled(value.get("recalled", 0), value.get("left_out", len(drops)), len(drops))
        counted = describe_missed(value) if "rewrite" in value else ""  # of an earlier request the status line is gone
        yield Paragraph(f"{again}{counted}; tokens are estimated", "  ")
    limit_columns = {"name": "name", "value": lambda bound: limit(bound["value"]), "set by": "bound_by"}
    yield TitledTable("limits", limit_columns, value["limits"])
    yield from [*_history_lines(value), *(f"note: {notice}" for notice in value["notices"])]


def window_parts(value: JsonObject) -> list[tuple[str, int]]:
    """Return the parts of the bar with their tokens; text that we add to a message counts as history here."""
    budget, used = value["budget"], value["budget"]["used"]
    history = used["history"] + used["event"]
    free = max(0, budget["remaining"])
    return [("system", used["system"]), ("tools", used["tools"]), ("history", history), ("free", free)]


def window_bar(value: JsonObject, room: int, look: ReportStyle) -> list[str]:
    """Draw the window as one bar in `room` cells, and below it a mark for the cached part, if there is one."""
    parts = window_parts(value)
    window_tokens, size = max(1, sum(tokens for _, tokens in parts)), min(WIDEST, room)
    bar, end, total, start = "", 0, 0, 0
    for role, shade, (_, tokens) in zip(ROLES, look.shades, parts, strict=True):
        total += tokens
        start, end = end, min(size, max(round(size * total / window_tokens), end + bool(tokens)))
        bar += look.paint(role, shade * (end - start)) if end > start else ""
    used = value["budget"]["used"]["total"]
    cached = min(used, (value["cached"] or {}).get("expected") or 0)
    if not cached:
        return [bar]
    marks = look.below * max(1, round(start * cached / used))
    # The status line has the share of the last request.
    line = f"{marks} next request {cached / used:.0%} cached"
    return [bar, look.paint("dim", line if cells(line) <= room else marks)]


def describe_waiting(value: JsonObject) -> str:
    """Describe the texts that wait for the next message; "" for none."""
    waiting = value.get("waiting") or {}
    if not waiting.get("texts"):
        return ""
    attached = plural(waiting["texts"], "attachment")
    return f"{attached} ({number(waiting['tokens'])} tokens) will be sent with your next message"


def _layers(budget: JsonObject, width: int) -> Blocks:
    """List the layers and the free part by their marks in the bar, and what is reserved."""
    available = max(1, budget["available"])
    parts = [(name, budget["used"].get(name, 0)) for name in LAYERS]
    parts.append(("free", max(0, budget["remaining"])))
    rows = (f"  {MARKS[name]} {name:<8}{number(tokens):>9}{share(tokens, available):>8}" for name, tokens in parts)
    reply, tools = number(budget["reserve_reply"]), number(budget["reserve_tools"])
    reserved = f"reserved: {reply} for the reply, {tools} for tool results; window {number(budget['window'])}"
    blocks = (Drawn(row) if cells(row) <= width else Paragraph(row, "    ", "  ") for row in rows)
    return [*blocks, Paragraph(reserved, "    ", "  ")]


def _cached(value: JsonObject) -> Blocks:
    cached = value["cached"]
    if not cached:
        return []
    total = value["budget"]["used"]["total"]
    tokens = cached["tokens"]
    now = cached.get("expected", tokens)
    if not tokens:
        text = "cached: nothing"
    elif 2 * now < tokens:
        sent = f"{number(tokens)} were sent before, but are probably not cached"
        text = f"cached: {number(now)} of {number(total)} tokens ({sent})"
    else:
        text = f"cached: {number(tokens)} of {number(total)} tokens ({share(tokens, total)})"
    return ["", Paragraph(text, "  ", "")]


def describe_rewrite(rewrite: JsonObject) -> str:
    """Describe the next rewrite of the window: when and by what."""
    if rewrite["by"] == "epoch":
        return f"with your next message, which misses the cache: {rewrite['why']}"
    threshold = f"at {number(rewrite['at'])} tokens"
    if rewrite["by"] == "truncation":
        return f"{threshold}, nexus removes the oldest messages"
    return f"{threshold}, nexus summarizes older messages"


def _history_lines(value: JsonObject) -> Blocks:
    history = value["history"]
    if not history:
        return []
    text = (
        f"history: {plural(history['entries'], 'entry', 'entries')} in {plural(history['groups'], 'group')}, "
        f"{number(history['hidden_entries'])} not in the window"
    )
    return ["", text]


def section_rows(value: JsonObject, width: int) -> Blocks:
    """List every section, the rest of the layer, the event sections sent last, and the reasons for their forms."""
    sections, event_sections = value["sections"], value.get("told", [])
    fixed = [section for section in sections if section["layer"] == "system"]
    rows = [_row(section, _layer(value, section)) for section in fixed]
    if unsectioned := value.get("joins", {}).get("system", 0):
        rows.append(
            {**dict.fromkeys(SECTION_COLUMNS, ""), "id": "(no section)", "in": "S", "tokens": number(unsectioned)}
        )
    rows += [_row(section, _layer(value, section)) for section in sections if section["layer"] != "system"]
    columns = {name: name for name in SECTION_COLUMNS if name != "share" or width >= ROOM}
    yield TitledTable("sections", columns, rows)
    if rows and (plan := value.get("section_budget")):
        raised = "; raised for sections that are always sent" if plan["raised"] else ""
        part = f"{number(plan['used'])} of {number(plan['tokens'])} tokens"
        yield Paragraph(f"{part} of the section budget (estimated){raised}", "  ")
    last = [
        _row(section, sum(event_section["tokens"] for event_section in event_sections)) for section in event_sections
    ]
    yield TitledTable("sent last", columns, last)
    yield from _reasons([*sections, *event_sections])


def _reasons(sections: list[JsonObject]) -> Blocks:
    """Return the reasons that sections are not whole, and the places of the whole texts."""
    lines = []
    for section in sections:
        why = section.get("reason") or ""
        beyond = section.get("unread_bytes")
        if why and (section["form"] != "full" or beyond):
            drop = f"; {'the text read' if beyond else 'the full text'} is {section['drop']}" if section["drop"] else ""
            lines.append(f"{section['id']}: {why}{drop}")
    return ["", "why:", *paragraphs(lines, "    ", "  ")] if lines else []


def _layer(value: JsonObject, section: JsonObject) -> int:
    """Return the tokens of the section's layer."""
    return int(value["budget"]["used"].get(str(section["layer"]), 0))


def _row(section: JsonObject, layer: int) -> dict[str, str]:
    full, tokens = section["full_tokens"], section["tokens"]
    size = number(tokens)
    if full is not None and full != tokens:
        size += f" of {number(full)}"
    cells = min(BAR, round(BAR * tokens / max(1, layer)) or (1 if tokens else 0))
    bar = "#" * cells + "." * (BAR - cells)
    form = "off" if section.get("off") else section["form"]
    source = ("always sent, " if section["sticky"] else "") + (section["source"] or "")
    return {
        "id": section["id"],
        "in": LETTERS.get(str(section["layer"]), ""),
        "tokens": size,
        "share": bar,
        "form": form,
        "score": _score(section),
        "from": source,
    }


def _score(section: JsonObject) -> str:
    score, multiplier = section.get("score"), section.get("multiplier", 1.0)
    learned = ", learned" if section.get("learned", 1.0) != 1.0 else ""
    return "-" if score is None else f"{score:g}" + ("" if multiplier == 1.0 else f" (x{multiplier:g}{learned})")
