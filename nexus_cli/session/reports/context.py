"""What the next request would hold, or what request N held (interface.md section 8). Sends nothing, writes nothing.

A session's own epoch is shown as it was sent; without a session the first request of a new one is put together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nexus_cli.context.groups import arrange, flatten
from nexus_cli.context.lane import slot_of
from nexus_cli.context.meter import Meter
from nexus_cli.context.recipe import load_recipe
from nexus_cli.context.render import prefix_sha256
from nexus_cli.context.tokens import StoredCounter, TiktokenCounter
from nexus_cli.core.budget import TokenBudget, Used
from nexus_cli.core.entry import Drop, Epoch, Form, Slot
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Bound, compose
from nexus_cli.core.paths import defaults, places
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.services import Calibration
from nexus_cli.core.settings import Settings
from nexus_cli.core.wire import canonical
from nexus_cli.ledger import Ledger, RequestRow, SessionInfo
from nexus_cli.session.fresh import fresh_epoch
from nexus_cli.session.logger import SessionLogger
from nexus_cli.session.opening import known_model
from nexus_cli.session.options import Options, limit_layers
from nexus_cli.session.reports.budget import budget_value
from nexus_cli.session.reports.largest import largest
from nexus_cli.session.reports.result import drop_value

MODELLESS = ModelInfo("", "openai", 128_000, known=False)


@dataclass(frozen=True)
class View:
    """One request, or the next one, before it is written out."""

    session: SessionInfo | None
    info: ModelInfo
    recipe: str
    epoch: Epoch
    slots: Sequence[Slot]
    cursor: int
    total_entries: int
    row: RequestRow | None
    sent: int
    """The last entry that an earlier request of this epoch held; -1 when there was no such request."""
    meter: Meter
    drops: Sequence[Drop]
    bounds: Sequence[Bound]
    counter: StoredCounter
    event: Sequence[dict[str, Any]] = ()
    notices: tuple[str, ...] = ()


def report(options: Options, settings: Settings, session: str | None, step: int | None = None) -> dict[str, Any]:
    """The report as JSON; `NexusError("usage", ...)` for a session or request that is not there."""
    ledger = Ledger.open(places().ledger if session else None)
    try:
        found = ledger.find_session(session) if session else None
        view = _of_session(ledger, found, options, settings, step) if found else _of_new(ledger, options, settings)
        return _value(view, step is None)
    finally:
        ledger.close()


def of_session(ledger: Ledger, session: str, options: Options, settings: Settings) -> dict[str, Any]:
    """The report of what the next request of a session would hold, from a ledger that is open."""
    found = ledger.session(session)
    begun = SessionLogger(ledger=ledger, session=session).current_epoch() is not None
    if begun:
        return _value(_of_session(ledger, found, options, settings, None), True)
    return _value(_of_new(Ledger.open(None), options, settings), True)


def _of_session(ledger: Ledger, found: SessionInfo, options: Options, settings: Settings, step: int | None) -> View:
    log = SessionLogger(ledger=ledger, session=found.id)
    row = _row(log, step)
    name = str(row.manifest.arguments["model"]) if row and step is not None else options.model or found.model
    info = known_model(ledger, name, settings)
    epoch = log.epoch(row.manifest.epoch) if row and step is not None else log.current_epoch()
    if epoch is None:
        raise NexusError("usage", f"session {found.id}", "it has sent nothing yet", "Ask something first")
    last = row.manifest.last if row and step is not None else log.last_id()
    slots = [*epoch.head, *map(slot_of, log.read(epoch.base + 1, last))]
    meter = Meter(log.calibration(info.name))
    if row and row.usage and row.reported and row.manifest.epoch == epoch.id:
        sent = sum(slot.tokens for slot in slots if slot.entry <= row.manifest.last)
        fixed = epoch.system_tokens + epoch.tools_tokens
        meter.anchored(row.manifest.last, fixed + sent, row.usage.input)
    recipe = load_recipe(found.recipe, [places().config / "recipes", defaults() / "recipes"])
    _, bounds = compose(limit_layers(settings, recipe, options, True))
    cursor = row.manifest.last if row and step is not None else log.cursor()
    counter = StoredCounter(TiktokenCounter(info.encoding), log)
    drops = [drop for drop in ledger.drops(found.id) if step is None or row is None or drop.at <= row.manifest.at]
    before = row if step is None else _row(log, step - 1) if step > 1 else None
    effort = options.effort or epoch.effort
    same = step is not None or (epoch.model, epoch.effort) == (info.name, effort)
    sent = before.manifest.last if before is not None and before.manifest.epoch == epoch.id and same else -1
    return View(
        found, info, found.recipe, epoch, slots, cursor, log.last_id(), row if step is not None else None, sent, meter,
        drops, bounds, counter,
    )  # fmt: skip


def _row(log: SessionLogger, step: int | None) -> RequestRow | None:
    if step is None:
        return log.last_request()
    rows = log.request_rows()
    if step > len(rows):
        raise NexusError("usage", f"--step {step}", f"this session has sent {len(rows)} requests", "Name one of them")
    return rows[step - 1]


def _of_new(ledger: Ledger, options: Options, settings: Settings) -> View:
    if options.model:
        ledger.calibrate(options.model, _learned(options.model))
    info = known_model(ledger, options.model, settings) if options.model else MODELLESS
    recipe = load_recipe(options.recipe, [places().config / "recipes", defaults() / "recipes"])
    _, bounds = compose(limit_layers(settings, recipe, options, False))
    epoch, event, log, counter = fresh_epoch(ledger, options, info, recipe)
    notice = "" if info.known else f"the window of {info.name or 'the model'} is unknown: {info.window} are assumed"
    return View(
        None, info, recipe.name, epoch, (), 0, 0, None, -1, Meter(log.calibration(info.name)),
        ledger.drops(log.session.id), bounds, counter, event, (notice,) if notice else (),
    )  # fmt: skip


def _learned(model: str) -> Calibration:
    """What the person's ledger knows of `model`; nothing where there is none, or it cannot be read."""
    path = places().ledger
    if not path.exists():
        return Calibration()
    try:
        ledger = Ledger.open(path)
    except NexusError:
        return Calibration()
    try:
        return ledger.calibration(model)
    finally:
        ledger.close()


def _value(view: View, pending: bool) -> dict[str, Any]:
    groups = arrange(view.slots)
    slots = flatten(groups)
    budget = replace(TokenBudget.of(view.info.window, view.info.max_output), used=_used(view, slots))
    tools = [
        {"name": tool["function"]["name"], "tokens": view.counter.count(canonical(tool).decode())}
        for tool in view.epoch.tools
    ]
    return {
        "version": 1,
        "session": view.session.id if view.session else None,
        "model": view.info.name,
        "recipe": view.recipe,
        "epoch": view.epoch.id,
        "cursor": view.cursor,
        "basis": "reported" if view.row and view.row.reported else view.meter.basis,
        "budget": budget_value(budget),
        "sections": [*_sections(view.epoch), *view.event],
        "history": _history(view, slots, len(groups)),
        "tools": tools,
        "largest": largest([*_sections(view.epoch), *view.event], tools, slots),
        "cached": {"tokens": _cached(view, slots, budget.used.total)},
        "drops": [drop_value(drop) for drop in view.drops],
        "limits": [{"name": b.name, "value": _plain(b.value), "bound_by": b.bound_by} for b in view.bounds],
        "notices": list(view.notices),
        "pending": pending,
        "prefix_sha256": prefix_sha256(view.epoch, slots),
        "request_sha256": view.row.manifest.sha256 if view.row else None,
    }  # fmt: skip


def _used(view: View, slots: Sequence[Slot]) -> Used:
    """Tokens by layer, scaled so that their total is what was reported or is expected."""
    messages = sum(slot.tokens for slot in slots)
    event = sum(section["tokens"] for section in view.event)
    counted = view.epoch.system_tokens + view.epoch.tools_tokens + messages + event
    row = view.row
    total = row.usage.input if row and row.usage and row.reported else view.meter.estimate(counted)
    scale = total / max(1, counted)
    system, tools = round(view.epoch.system_tokens * scale), round(view.epoch.tools_tokens * scale)
    late = round(event * scale)
    return Used(system, tools, max(0, total - system - tools - late) if slots else 0, late)


def _cached(view: View, slots: Sequence[Slot], total: int) -> int:
    """Tokens of the request's beginning that the provider was sent before, scaled as the layers are."""
    if view.sent < 0:
        return 0
    fixed = view.epoch.system_tokens + view.epoch.tools_tokens
    before = sum(slot.tokens for slot in slots if slot.entry <= view.sent)
    counted = fixed + sum(slot.tokens for slot in slots)
    return min(total, round(total * (fixed + before) / max(1, counted)))


def _sections(epoch: Epoch) -> list[dict[str, Any]]:
    sections: list[dict[str, Any]] = json.loads(epoch.sections)
    return sections


def _history(view: View, slots: Sequence[Slot], groups: int) -> dict[str, Any]:
    by_kind = dict.fromkeys(("user", "assistant", "tool"), 0)
    for slot in slots:
        by_kind[str(slot.message.role)] += slot.tokens
    shown = {slot.entry for slot in slots if slot.form in (Form.FULL, Form.ELIDED)}
    last = view.row.manifest.last if view.row else view.total_entries
    return {
        "entries": len(shown),
        "groups": groups,
        "tokens": sum(by_kind.values()),
        "hidden_entries": max(0, last - len(shown)),
        "by_kind": by_kind,
    }


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else value
