"""Read back the limits and the window of each request, which a memo of the conversation holds once per change.

Also changes the permission level of an open session, and finds the limits of the next request of a session that does
not run here. A report on an old request reads the memo, because settings and recipes may have changed since. If signals
bind, limits can differ by request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields, replace

from nexus_cli.config.settings import Settings
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.limits import LEVEL_LAYER, PLAN, Bound, Limits, compose_limits, read_level, read_value
from nexus_cli.core.memo_kinds import DECISION, LEVEL_SET, LIMITS_IN_FORCE
from nexus_cli.ledger import LaneLog, SessionInfo
from nexus_cli.permission.run_limits import SIGNALS, Signals, tighten_by_signals
from nexus_cli.sections.recipe import Recipe
from nexus_cli.session.base_session import BaseSession
from nexus_cli.session.open_session import recipe_of
from nexus_cli.session.options import Options, limit_layers

NEWEST = 500
"""Messages at the end of a session whose decisions are read when it is resumed."""
PLAN_ENDS = "Plan mode is over. Follow the plan above unless the next message changes it."


def set_level(session: BaseSession, level: str) -> None:
    """Set the permission `level`, as far as other layers allow, with a notice to the model if limits change too."""
    engine, dispatcher = session.engine, session.dispatcher
    if session.has_no_ledger:  # one layer
        dispatcher.limits = replace(dispatcher.limits, allow=level)
        return
    options = session.opening.options = replace(session.options, allow=level, allow_from=LEVEL_LAYER)
    layers = limit_layers(engine.settings, dispatcher.recipe, options)
    dispatcher.limits, dispatcher.bounds = compose_limits(layers)
    notify_changed_limits(session)


def notify_changed_limits(session: BaseSession, ignored_names: Collection[str] = ()) -> None:
    """Notify the model of the limits that changed since the last request; this replaces an earlier notice of them.

    Limits of signals, those named in `ignored_names`, and the permission level, which has its own section, are ignored.
    """
    engine = session.engine
    now = Limits(**{bound.name: bound.value for bound in session.dispatcher.bounds})
    memos = engine.conversation.memos(LIMITS_IN_FORCE)
    if not memos:
        return
    before = _set_by_layers(memos[-1].value["limits"])
    ends = PLAN_ENDS if before.allow == PLAN != now.allow else ""
    names = [f.name for f in fields(Limits) if getattr(before, f.name) != getattr(now, f.name)]
    names = [name for name in names if name not in {"allow", *ignored_names}]
    lines = (f"{name} {_value_text(name, now)} (was {_value_text(name, before)})" for name in names)
    changes = f"the limits have changed: {'; '.join(lines)}" if names else ""
    engine.notices.keep(f"limits after {engine.conversation.cursor}", f"{ends} {changes}".strip())


def describe_former_level(session: BaseSession) -> str:
    """Return a line for the person if a session continues at another level than that of its newest request, or the one
    that was set since, and they named none; else ""."""
    newest, level = session.engine.conversation.newest_memo(LIMITS_IN_FORCE, LEVEL_SET), session.dispatcher.level
    before = read_level(newest) if newest else level
    if before in ("", level) or session.has_no_ledger or session.options.allow is not None:
        return ""
    return f"This session's level was {before}; it continues at {level}. To restore the level: /permissions {before}"


def describe_ended_answers(session: BaseSession) -> str:
    """Return a line for the person if calls of a resumed session ask again that they had allowed for it among its
    newest messages, else ""."""
    if session.has_no_ledger:
        return ""
    log = session.record
    answers = (memo.value.get("answer") for memo in log.memos(DECISION, first=max(1, log.last_id() - NEWEST + 1)))
    return "Calls that you allowed for this session need approval again." if "session" in answers else ""


def _set_by_layers(noted: Iterable[JsonObject]) -> Limits:
    """Return the recorded limits without those of signals."""
    limits = Limits()
    for row in noted:
        name, by_layer = str(row["name"]), row.get("said") or {"": row["value"]}
        for value in (its for layer, its in by_layer.items() if layer != SIGNALS):
            limits &= Limits.from_json({name: value})
    return limits


def _value_text(name: str, limits: Limits) -> str:
    value = getattr(limits, name)
    if value is None:
        return "without limit"
    if isinstance(value, frozenset):
        return ", ".join(sorted(value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class NextLimits:
    """The limits of the next request."""

    recipe: Recipe
    limits: Limits
    bounds: tuple[Bound, ...]
    lost: str = ""
    """The reason why the session's recipe cannot be loaded, and what is shown instead; "" if it can."""

    @classmethod
    def load(cls, log: LaneLog, info: SessionInfo, options: Options, settings: Settings) -> NextLimits:
        """Return the limits of the next request of the session of `info`.

        If its recipe is missing or invalid, returns those of its last request. Raises as `load_recipe` for a recipe
        named in `options`.
        """
        try:
            recipe = recipe_of(info, replace(options, front=""))[0]
        except NexusError as error:
            if options.recipe:
                raise
            why = f"{error.sentences} The request is shown with the last recorded limits"
            return _last(log, info, why)
        return cls(recipe, *compose_limits(limit_layers(settings, recipe, options)))

    def at(self, budget: TokenBudget) -> NextLimits:
        """Return the limits tightened by the signals of a turn that the person begins, if the recipe has signals."""
        if not self.recipe.signals:
            return self
        limits, bounds = tighten_by_signals(self.bounds, Signals(budget.pressure, event_class="communication"))
        return replace(self, limits=limits, bounds=bounds)


def _last(log: LaneLog, info: SessionInfo, why: str) -> NextLimits:
    """Return the limits recorded for the newest request."""
    noted = [memo.value for memo in log.memos(LIMITS_IN_FORCE)]
    last: JsonObject = noted[-1] if noted else {"recipe": info.recipe, "section_budget": None, "limits": ()}
    bounds = tuple(_bound(limit) for limit in last["limits"])
    recipe = Recipe(str(last["recipe"]), section_budget=last["section_budget"])
    return NextLimits(recipe, Limits(**{bound.name: bound.value for bound in bounds}), bounds, why)


def _bound(row: JsonObject) -> Bound:
    """Restore a limit from its JSON form."""
    name = str(row["name"])
    by_layer = {layer: read_value(name, value) for layer, value in row.get("said", {}).items()}
    return Bound(name, read_value(name, row["value"]), str(row["bound_by"]), by_layer)
