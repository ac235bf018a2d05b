"""Report the limits of a session, and the layers that set them."""

from __future__ import annotations

from dataclasses import fields
from typing import TypedDict

from nexus_cli.core.json_value import JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.limits import Bound, Limits
from nexus_cli.reports.text.blocks import Blocks, Paragraph, paragraphs
from nexus_cli.reports.text.lines import limit, plural
from nexus_cli.session.session import Session

NAMES = tuple(f.name for f in fields(Limits))


class SignalsObject(TypedDict):
    """The state of a run that may restrict its next step."""

    bind: bool
    """True if it restricts this session."""
    token_pressure: str
    recent_errors: int
    event_class: str


class LimitsReport(VersionedReport):
    """The limits in force, and the layers that set them."""

    recipe: str
    name: str
    """The name of the limit; "" for all."""
    limits: list[JsonOf[Bound]]
    signals: SignalsObject


def limits_report(session: Session, name: str = "") -> LimitsReport:
    """Return the limit `name`, or all."""
    engine, dispatcher = session.engine, session.dispatcher
    _, bounds = dispatcher.in_force(engine)
    wanted = [to_json_value(bound) for bound in bounds if name in ("", bound.name)]
    return {
        "version": 1,
        "recipe": dispatcher.recipe.name,
        "name": name,
        "limits": wanted,
        "signals": {
            "bind": dispatcher.signals,
            "token_pressure": engine.window_request().budget.pressure,
            "recent_errors": dispatcher.errors,
            "event_class": dispatcher.run_limits(engine).now.event_class,
        },
    }


def why_text(value: JsonObject) -> Blocks:
    """List each limit with its value, the layer that bound it and the value of each layer; signals only if they may
    bind."""
    limits = value["limits"]
    if not limits:
        yield f"{value['name']} has no limit." if value["name"] else "No limits are set."
        return
    for bound in limits:
        name = bound["name"]
        yield Paragraph(f"{name} = {limit(bound['value'])} (from {bound['bound_by']})", "  ")
        layers = (f"{layer}: {limit(said)}" for layer, said in bound["said"].items())
        yield from paragraphs(layers, " " * 6, "    ")
    signals = value["signals"]
    if not signals["bind"]:
        return
    failed = plural(signals["recent_errors"], "consecutive call")
    state = f"Context window use: {signals['token_pressure']}. {failed} could not run"
    state += f". Kind of turn: {signals['event_class']}" if signals["event_class"] else ""
    ends = f"The recipe {value['recipe']} tightens its limits accordingly."
    yield from ["", f"{state}. {ends}"]
