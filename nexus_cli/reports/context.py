"""Report the next request or request N of a session (`nexus docs json`). Sends nothing, writes nothing.

A session's epoch is shown as it was sent; without a session, the first request of a new one is assembled.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.config.settings import Settings
from nexus_cli.context.sections.planner import JOINT, section_budget
from nexus_cli.context.tokens.estimator import apportion
from nexus_cli.context.window.render import prefix_sha256
from nexus_cli.core.entry import ItemForm
from nexus_cli.core.wire import canonical
from nexus_cli.lane.drop_list import UNIT, window_drops
from nexus_cli.lane.next_request import scale_sections
from nexus_cli.lane.options import Options
from nexus_cli.lane.user_input import ATTACHMENTS
from nexus_cli.ledger import Ledger
from nexus_cli.reports.request_view import RequestView, largest_items, new_view, recorded_view, sent_view
from nexus_cli.session.service_makers import ServiceMakers

if TYPE_CHECKING:
    from nexus_cli.core.json_types.context_report import (
        ContextReport,
        HistoryObject,
        LimitObject,
        SectionBudgetObject,
        SectionObject,
        ToolTokens,
    )


def context_report(
    options: Options, settings: Settings, session: str | None, step: int | None = None, *, services: ServiceMakers = ()
) -> ContextReport:
    """Return the report as JSON; raise `NexusError("usage", ...)` if the session or request does not exist.

    `services` are those with which a front end would open the session.
    """
    if session is None:
        return request_value(new_view(options, settings, services))
    with closing(Ledger.open_for_reading(ledger_place())) as ledger:
        found = ledger.find_session(session)
        if step is not None:
            return request_value(sent_view(ledger, found, settings, step))
        return request_value(recorded_view(ledger, found, options, settings, services))


def sent_request_report(ledger: Ledger, session: str, settings: Settings, step: int) -> ContextReport:
    """Return the report of request `step` of a session in an open ledger; errors as in `context_report`."""
    return request_value(sent_view(ledger, ledger.find_session(session), settings, step))


def request_value(view: RequestView) -> ContextReport:
    """Return a request as JSON."""
    request = view.request
    used, counted, scale = request.budget.used, request.counted, request.messages_scale
    waiting = sum(item.tokens for item in request.waiting)
    listed = window_drops("", view.drops, request.items, view.memos, request.epoch.sections)
    tools = _tools(view, used.tools)
    sections = cast("list[SectionObject]", list(request.sections))
    return {
        "version": 1,
        "session": view.session,
        "model": view.model,
        "recipe": view.recipe.name,
        "epoch": request.epoch.id,
        "cursor": view.cursor,
        "basis": request.basis,
        "budget": request.budget.to_json(),
        "counted": counted.to_json(),
        "scale": round(request.scale, 4),
        "section_budget": _section_budget(view, sections),
        "sections": sections,
        "joins": {"system": used.system - sum(one["tokens"] for one in sections if one["layer"] == "system")},
        "told": cast("list[SectionObject]", _told(view)),
        "history": _history(view),
        "attachments": _attachments(view),
        "tools": tools,
        "largest": largest_items(sections, tools, [*request.arranged, *request.waiting], scale),
        "waiting": {"texts": len(request.waiting), "tokens": round(waiting * scale), "counted": waiting},
        "cached": {"tokens": request.repeated},
        "drops": listed["drops"],
        "left_out": listed["left_out"],
        "recalled": listed["recalled"],
        "limits": cast("list[LimitObject]", [dict(bound) for bound in view.bounds]),
        "notices": list(view.notices),
        "pending": view.row is None,
        "prefix_sha256": prefix_sha256(request.epoch, request.arranged),
        "request_sha256": view.row.manifest.sha256 if view.row else None,
    }


def _attachments(view: RequestView) -> list[dict[str, Any]]:
    """Return the records of attached files whose messages are in the window, with their entry."""
    there = {item.entry for item in view.request.arranged if item.form in (ItemForm.FULL, ItemForm.ELIDED)}
    memos = [memo for memo in view.memos(ATTACHMENTS) if memo.entry in there]
    return [{"entry": memo.entry, **one} for memo in memos for one in memo.value["files"]]


def _told(view: RequestView) -> list[dict[str, Any]]:
    """Return the event sections sent last, in tokens of the budget."""
    scale = view.request.messages_scale
    return scale_sections(view.last_told, round(sum(one["tokens"] for one in view.last_told) * scale), scale)


def _tools(view: RequestView, total: int) -> list[ToolTokens]:
    """Return the schemas; with their wrapping they sum to `total` tokens."""
    named = [(tool["function"]["name"], view.count(canonical(tool).decode())) for tool in view.request.epoch.tools]
    parts = apportion(total, [counted for _, counted in named])
    return [
        {"name": name, "tokens": tokens, "counted": counted}
        for (name, counted), tokens in zip(named, parts, strict=True)
    ]


def _section_budget(view: RequestView, sections: Sequence[SectionObject]) -> SectionBudgetObject:
    """Return the budget of the static sections and its use, by our own count. Only the shortest forms of sticky
    sections exceed it."""
    sent = [int(one["counted"]) + JOINT for one in sections if one["layer"] == "system" and one["form"] != "dropped"]
    tokens = section_budget(view.request.budget.available, view.recipe.section_budget)
    return {"tokens": tokens, "used": sum(sent), "raised": sum(sent) > tokens, "unit": UNIT}


def _history(view: RequestView) -> HistoryObject:
    """Return figures of the entries in the window, whole or in part, and of the groups with one of them.

    Summaries, markers and stubs replace hidden entries and count for neither.
    """
    by_kind = dict.fromkeys(("user", "assistant", "tool"), 0)
    for item in (*view.request.arranged, *view.request.waiting):
        by_kind[str(item.message.role)] += item.tokens
    seen = [
        {item.entry for item in group if item.form in (ItemForm.FULL, ItemForm.ELIDED)} for group in view.request.groups
    ]
    entries = set().union(*seen)
    last = view.row.manifest.last if view.row else view.entries
    used = view.request.budget.used.history
    said = _without(by_kind, sum(by_kind.values()) - view.request.counted.history)
    return {
        "entries": len(entries),
        "groups": sum(map(bool, seen)),
        "tokens": used,
        "hidden_entries": max(0, last - len(entries)),
        "by_kind": dict(zip(said, apportion(used, list(said.values())), strict=True)),
    }


def _without(by_kind: dict[str, int], told: int) -> dict[str, int]:
    """Return the messages by kind, without the event sections in the newest one, which the event layer counts."""
    for kind in ("user", "tool"):
        part = min(told, by_kind[kind])
        by_kind[kind] -= part
        told -= part
    return by_kind
