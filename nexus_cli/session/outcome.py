"""Make the outcome of a turn.

Explains for each refused call what refused it and what would allow it; front ends name the permission level.
"""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.core.errors import NexusError, ProviderError
from nexus_cli.core.event import Outcome
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import BUDGET, PLAN, SETS, Bound
from nexus_cli.permission.call_decision import BY_RULE, DECLINED, GUARDED, NOT_ANSWERED
from nexus_cli.permission.run_limits import SIGNALS
from nexus_cli.session.base_session import BaseSession
from nexus_cli.session.options import COMMAND_LINE

_LEFT_OUT = {"tools": "excludes {tool}", "categories": "excludes every tool of this kind"}
_STEPS = "allows tool calls in only {steps} of a turn"
_LAYERS = {
    "recipe": ("the recipe {recipe}", "start nexus with another recipe: --recipe NAME"),
    "settings": ("your setting limits.{limit}", "change it with `nexus config edit`"),
    "project": (
        "the setting limits.{limit} in this project's .nexus/config.toml",
        "change it there, or turn off all of this project's configuration: nexus trust --revoke",
    ),
    COMMAND_LINE: ("--no-tools", "omit it"),
}
"""Name of a layer, and how the person changes it."""
_PLAIN = {
    DECLINED: "you said no",
    SIGNALS: "a limit set during the turn refused the call; ask again",
    "confirm": "this run needs approval for each change, and nobody could be asked",
}


def outcome(session: BaseSession, error: NexusError | None) -> Outcome:
    """Return the outcome of the newest turn, with the text of its last step; `error` is what stopped it."""
    engine, dispatcher = session.engine, session.dispatcher
    result = Outcome(
        text=engine.partial_reply if engine.spending.steps else "",
        steps=engine.spending.steps,
        usage=engine.spending.usage,
        seconds=round(engine.spending.seconds, 3),
        denied=tuple(
            explain_denial(
                decision.denied_row(), dispatcher.bounds, dispatcher.recipe.name, str(decision.checked.tool.effect)
            )
            for decision in dispatcher.denied
        ),
        changed=tuple(dispatcher.changed),
        not_covered=tuple({"path": path, "why": why} for path, why in dispatcher.call_changes.not_covered.items()),
        retry_after=(error.retry_after or 0.0) if isinstance(error, ProviderError) and error.is_away else None,
    )
    return result.with_error(error) if error else result


def explain_denial(row: JsonObject, bounds: Sequence[Bound], recipe: str, effect: str) -> JsonObject:
    """Add `by` (what refused the call) and `hint` (what would allow it) to a refused call.

    `by` names layers, or is `rules`, `person` or `signals`; `effect` is that of the tool. `hint` is empty if `allow`
    names the level to choose, `rule` the rule to add, or `option` the option to give, which front ends show.
    """
    limit = row["limit"]
    if limit == NOT_ANSWERED:
        return {**row, "limit": "", "by": DECLINED, "hint": row["why"].removeprefix("not run: ")}
    if limit in (BY_RULE, GUARDED):
        why = row["why"].removeprefix("not permitted: ")
        hint = f"refused at every level: {why}" if limit == BY_RULE else why
        return {**row, "limit": "", "by": "rules", "hint": hint}
    if limit in BUDGET:
        return {**row, "by": "budget", "hint": "the last request of the budget is reserved for the report"}
    if limit in (DECLINED, SIGNALS):
        return {**row, "limit": "", "by": limit, "hint": _PLAIN[limit]}
    bound = next((candidate for candidate in bounds if candidate.name == limit), None)
    by = _layers(bound, row["tool"] if limit == "tools" else effect) if bound else ["defaults"]
    return {**row, "by": " & ".join(by), "hint": _hint(row, bound, by, recipe)}


def _layers(bound: Bound, member: str) -> list[str]:
    """Return the layers that must change before the call can run, or plan mode."""
    if bound.value == PLAN:
        return [PLAN]
    if bound.name in SETS:
        return [layer for layer, value in bound.said.items() if member not in value]
    return [layer for layer, value in bound.said.items() if value == bound.value]


def _hint(row: JsonObject, bound: Bound | None, by: Sequence[str], recipe: str) -> str:
    limit = row["limit"]
    if any(map(row.get, ("allow", "rule", "option"))) or bound is None:
        return ""
    if limit in _PLAIN:
        return _PLAIN[limit]
    again = "" if limit in SETS or limit == "allow" else "ask again, or "
    if limit == "allow":  # no reachable level is enough
        by, says = ["recipe"], "does not allow that"
    elif limit in SETS:
        says = _LEFT_OUT[limit].format(tool=row["tool"])
    else:
        step_limit = bound.value if limit == "max_iterations" else 1
        says = _STEPS.format(steps="one step" if step_limit == 1 else f"{step_limit} steps")
    layer_texts = {
        layer: _LAYERS[layer] for layer in by if layer in _LAYERS and (limit == "tools" or layer != COMMAND_LINE)
    }
    hints = (
        f"{who.format(recipe=recipe, limit=limit)} {says}: {again}{advice}" for who, advice in layer_texts.values()
    )
    return "; ".join(hints)
