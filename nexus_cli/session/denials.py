"""Explain to the person what refused a call and what lets it run, from the layers of the limits. Pure.

`dispatch` refuses, `run_limits` has the words for the model, each front end names the permission level in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nexus_cli.core.limits import SETS, Bound

SAID_NO = "person"
"""In the place of a limit: the person was asked."""
SAID_NOTHING = "unanswered"
"""In the place of a limit: the person was asked and gave no answer; `why` says how that came."""
SIGNALS = "signals"
"""In the place of a limit: the state of the run, in a recipe that lets it bind."""

OPTION = "command line"
"""The layer of the options; of what refuses a call it can say that there are no tools."""
_LEFT_OUT = {"tools": "leaves {tool} out", "categories": "leaves out every tool of its kind"}
_STEPS = "lets only {steps} of a turn call tools"
_LAYERS = {
    "recipe": ("the recipe {recipe}", "choose another with --recipe NAME"),
    "settings": ("the limits.{limit} of your settings", "change it with nexus config edit"),
    "project": ("the limits.{limit} in this project's .nexus/config.toml", "change it there, or nexus trust --revoke"),
    OPTION: ("--no-tools", "leave it away"),
}
"""Name of a layer, and how the person changes it."""
_PLAIN = {
    SAID_NO: "you said no",
    SIGNALS: "the state of the run forbade it; ask again",
    "confirm": "this run asks before it changes anything, which takes a terminal",
}


def explain_denial(row: Mapping[str, str], bounds: Sequence[Bound], recipe: str, effect: str) -> dict[str, str]:
    """Return a refused call with `by`, what refused it (layers, `person` or `signals`), and `hint`, what lets it run.

    `effect` is that of its tool. If its `allow` names a sufficient level, `hint` is empty: front ends name the level.
    """
    limit = row["limit"]
    if limit == SAID_NOTHING:
        return {**row, "limit": "", "by": SAID_NO, "hint": row["why"].removeprefix("not run: ")}
    if limit in (SAID_NO, SIGNALS):
        return {**row, "limit": "", "by": limit, "hint": _PLAIN[limit]}
    bound = next((one for one in bounds if one.name == limit), None)
    by = _layers(bound, row["tool"] if limit == "tools" else effect) if bound else ["defaults"]
    return {**row, "by": " & ".join(by), "hint": _hint(row, bound, by, recipe)}


def _layers(bound: Bound, member: str) -> list[str]:
    """Return all layers that have to change before the call can run."""
    if bound.name in SETS:
        return [layer for layer, value in bound.said.items() if member not in value]
    return [layer for layer, value in bound.said.items() if value == bound.value]


def _hint(row: Mapping[str, str], bound: Bound | None, by: Sequence[str], recipe: str) -> str:
    limit = row["limit"]
    if row["allow"] or bound is None:
        return ""
    if limit in _PLAIN:
        return _PLAIN[limit]
    again = "" if limit in SETS or limit == "allow" else "ask again, or "
    if limit == "allow":  # no reachable level is enough
        by, says = ["recipe"], "allows too little for that"
    elif limit in SETS:
        says = _LEFT_OUT[limit].format(tool=row["tool"])
    else:
        most = bound.value if limit == "max_iterations" else 1
        says = _STEPS.format(steps="one step" if most == 1 else f"{most} steps")
    named = {layer: _LAYERS[layer] for layer in by if layer in _LAYERS and (limit == "tools" or layer != OPTION)}
    ways = (f"{who.format(recipe=recipe, limit=limit)} {says}: {again}{way}" for who, way in named.values())
    return "; ".join(ways)
