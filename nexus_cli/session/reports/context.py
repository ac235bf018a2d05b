"""What the next request would hold, or what request N held (interface.md section 8). Sends nothing, writes nothing.

A session's own epoch is shown as it was sent; without a session the first request of a new one is put together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.context.apportion import apportion
from nexus_cli.context.assembled import scaled
from nexus_cli.context.sections.planner import JOINT, section_budget
from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.context.window.render import prefix_sha256
from nexus_cli.core.entry import Form
from nexus_cli.core.errors import NexusError
from nexus_cli.core.wire import canonical
from nexus_cli.ledger import Ledger, pick_request
from nexus_cli.session.options import Options
from nexus_cli.session.reports.between import between
from nexus_cli.session.reports.budget import budget_value
from nexus_cli.session.reports.drops import UNIT, of_window
from nexus_cli.session.reports.largest import largest
from nexus_cli.session.reports.shown import Running, Shown, fresh, shown


def report(options: Options, settings: Settings, session: str | None, step: int | None = None) -> dict[str, Any]:
    """The report as JSON; `NexusError("usage", ...)` for a session or request that is not there."""
    ledger = Ledger.look(places().ledger) if session else Ledger.open(None)
    try:
        found = ledger.find_session(session) if session else None
        return value(shown(ledger, found, options, settings, step) if found else fresh(ledger, options, settings))
    finally:
        ledger.close()


def difference(options: Options, settings: Settings, session: str, step: int | None = None) -> dict[str, Any]:
    """What request `step` (default: the newest) has more or less than the one before it; errors as in `report`."""
    ledger = Ledger.look(places().ledger)
    try:
        return difference_in(ledger, session, options, settings, step)
    finally:
        ledger.close()


def difference_in(
    ledger: Ledger, session: str, options: Options, settings: Settings, step: int | None = None
) -> dict[str, Any]:
    """The same from a ledger that is open."""
    found = ledger.find_session(session)
    rows = ledger.log(found.id).requests()
    number = len(rows) if step is None else step
    if step is None and not rows:
        raise NexusError("usage", "--diff", f"session {found.id} has sent no request yet", "Ask something first")
    pick_request(rows, number)
    before = shown(ledger, found, options, settings, number - 1) if number > 1 else None
    return between(before, shown(ledger, found, options, settings, number))


def of_request(ledger: Ledger, session: str, options: Options, settings: Settings, step: int) -> dict[str, Any]:
    """The report of what request `step` of a session held, from a ledger that is open; errors as in `report`."""
    return value(shown(ledger, ledger.find_session(session), options, settings, step))


def of_session(
    ledger: Ledger, session: str, options: Options, settings: Settings, recipe: Recipe, running: Running
) -> dict[str, Any]:
    """The report of what the next request of a session would hold that goes on in `recipe` and is as `running` says;
    from a ledger that is open."""
    found = ledger.session(session)
    begun = ledger.log(session).current_epoch() is not None
    if begun:
        return value(shown(ledger, found, options, settings, None, recipe, running))
    return value(fresh(Ledger.open(None), replace(options, recipe=recipe.name), settings, running.along))


def value(view: Shown) -> dict[str, Any]:
    """What is shown, as JSON."""
    made, slots = view.assembled, view.arranged
    waiting = sum(slot.tokens for slot in view.along)
    used, counted, scale = made.budget.used, made.report.counted, made.report.messages
    tools = _tools(view, used.tools)
    sections = list(made.report.sections)
    layers = {"system": counted.system, "tools": counted.tools, "history": counted.history, "event": counted.event}
    return {
        "version": 1,
        "session": view.session.id if view.session else None,
        "model": view.info.name,
        "recipe": view.recipe.name,
        "epoch": view.epoch.id,
        "cursor": view.cursor,
        "basis": made.report.basis,
        "budget": budget_value(made.budget),
        "counted": {**layers, "total": counted.total},
        "scale": round(made.report.scale, 4),
        "section_budget": _section_budget(view, sections),
        "sections": sections,
        "joins": {"system": used.system - sum(one["tokens"] for one in sections if one["layer"] == "system")},
        "told": scaled(view.told, round(sum(one["tokens"] for one in view.told) * scale), scale),
        "history": _history(view),
        "tools": tools,
        "largest": largest(sections, tools, [*slots, *view.along], scale),
        "waiting": {"texts": len(view.along), "tokens": round(waiting * scale), "counted": waiting},
        "cached": {"tokens": _cached(view)},
        **_left_out(view),
        "limits": [dict(bound) for bound in view.bounds],
        "notices": list(view.notices),
        "pending": view.row is None,
        "prefix_sha256": prefix_sha256(view.epoch, slots),
        "request_sha256": view.row.manifest.sha256 if view.row else None,
    }  # fmt: skip


def _left_out(view: Shown) -> dict[str, Any]:
    """The drops, those that are back in the window marked, and how many of the others were asked for again."""
    listed = of_window("", view.drops, view.slots, view.memos, view.epoch.sections)
    return {key: listed[key] for key in ("drops", "left_out", "recalled")}


def _tools(view: Shown, total: int) -> list[dict[str, Any]]:
    """The schemas, which come to `total` tokens with what wraps them."""
    named = [(tool["function"]["name"], view.counter.count(canonical(tool).decode())) for tool in view.epoch.tools]
    parts = apportion(total, [counted for _, counted in named])
    return [
        {"name": name, "tokens": tokens, "counted": counted}
        for (name, counted), tokens in zip(named, parts, strict=True)
    ]


def _section_budget(view: Shown, sections: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the static sections may take, and take, by our own count, which plans them; above it stand the shortest
    forms of sticky ones alone."""
    sent = [int(one["counted"]) + JOINT for one in sections if one["layer"] == "system" and one["form"] != "dropped"]
    tokens = section_budget(view.assembled.budget.available, view.recipe.section_budget)
    return {"tokens": tokens, "used": sum(sent), "raised": sum(sent) > tokens, "unit": UNIT}


def _cached(view: Shown) -> int:
    """Tokens of the request's beginning that the provider was sent before, scaled as the layers are."""
    if view.sent < 0:
        return 0
    used, before = view.assembled.budget.used, sum(slot.tokens for slot in view.assembled.history)
    return min(used.total, used.system + used.tools + round(view.assembled.report.messages * before))


def _history(view: Shown) -> dict[str, Any]:
    """The entries that stand in the window, whole or in part, and the groups that hold one of them: a summary, a note
    and the stub of a result stand for entries that are hidden, and are in neither."""
    by_kind = dict.fromkeys(("user", "assistant", "tool"), 0)
    for slot in (*view.arranged, *view.along):
        by_kind[str(slot.message.role)] += slot.tokens
    seen = [{slot.entry for slot in group if slot.form in (Form.FULL, Form.ELIDED)} for group in view.groups]
    entries = set().union(*seen)
    last = view.row.manifest.last if view.row else view.total_entries
    used = view.assembled.budget.used.history
    said = _without(by_kind, sum(by_kind.values()) - view.assembled.report.counted.history)
    return {
        "entries": len(entries),
        "groups": sum(map(bool, seen)),
        "tokens": used,
        "hidden_entries": max(0, last - len(entries)),
        "by_kind": dict(zip(said, apportion(used, list(said.values())), strict=True)),
    }


def _without(by_kind: dict[str, int], told: int) -> dict[str, int]:
    """The messages by kind less what we added to the newest: that stands in the event layer."""
    for kind in ("user", "tool"):
        part = min(told, by_kind[kind])
        by_kind[kind] -= part
        told -= part
    return by_kind
