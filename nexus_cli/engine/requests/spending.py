"""Enforce the limits of one turn on steps, tokens and dollars, before the money is spent (`nexus docs recipes`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from nexus_cli.core.budget import MIN_OUTPUT, remaining_output
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.limits import BUDGET, Limits
from nexus_cli.core.price import MILLION, price_usage
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.usage import Usage
from nexus_cli.provider.model_table import price_command
from nexus_cli.sections.recipe import Recipe

MIN_BUDGET = {"max_steps": 3, "max_total_tokens": 2 * MIN_OUTPUT, "max_cost": 1e-6, "timeout": 0.001}
"""Least budget that must be left to start a worker: two steps for it (work, report), and one to read its report."""
PARENT_SHARE = 0.25
"""Share of the remaining budget that stays with the parent of workers; at least one step."""
WARNING_STEPS = 5
"""Remaining steps at which a run that must report is warned."""
MAX_OUTPUT = 32_000
FINAL_TIME_SHARE = 0.2
"""Share of the seconds of a run that must report, in which it begins no other step than its report; of those that are
left, the share in which no worker runs."""
NOTICE_ROOM = 256
"""Tokens kept free for the notice of the last request, and for rough counts."""


LAST_REQUEST = "this is the last request of your budget; no more calls will run. Report what was done and what was not."
"""Notice for the model before the last request of a run that must report."""
LAST_STEP = (
    "this is the last request of this turn; results of more calls will not reach you. Answer with what you know."
)
"""Notice for the model before the last request within `max_steps` of a turn that only answers."""


@dataclass
class Spending:
    """The limits of a turn, and what it has used of them, its side conversations included: they share this object."""

    limits: Limits
    recipes: tuple[Recipe, ...] = ()
    """Recipes whose limits are included."""
    must_report: bool = False
    """True for unattended work: the last request of the budget is reserved for a report."""
    is_chat: bool = False
    """True in an interactive session, where a setting raises a limit instead of an option."""
    is_served: bool = False
    """True in an agent of a server, where `limits` of `create_agent` raises a limit."""
    is_scheduled: bool = False
    """True in an unattended run, which nobody continues with another limit."""
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    started: float = field(default_factory=time.monotonic)
    worker_steps: int = 0
    """Steps of finished workers; `steps` are the turn's own."""
    reserved: dict[str, Limits] = field(default_factory=dict)
    """Budgets of running workers, by worker."""
    parent_steps: int = 1
    """Steps reserved for the parent of workers without a budget of their own: enough to read each report."""
    unpriced: str = ""
    """The newest model of the turn or its workers whose price is unknown."""
    newest: Usage = field(default_factory=Usage)
    """Usage of the newest request."""
    is_near: bool = False
    """True once the model was told that its tokens, dollars or seconds end soon."""
    ending: str = ""
    """The limit that makes the newest request the last one; its calls are refused."""

    @property
    def seconds(self) -> float:
        """Seconds since the turn began."""
        return time.monotonic() - self.started

    def add(self, usage: Usage, model: str) -> None:
        """Add the usage of one request to `model`."""
        self._add(usage, model)
        self.newest = usage

    def _add(self, usage: Usage, model: str) -> None:
        self.usage = self.usage + usage
        if usage.cost_usd is None:
            self.unpriced = model

    @contextmanager
    def within(self, recipe: Recipe) -> Iterator[None]:
        """Apply the limits of `recipe` too, in the block of a side run. All that is counted in it counts for the turn;
        only the limits and what decides on the turn's own next request (`newest`, `ending`) are set back."""
        outer = self.limits, self.recipes, self.newest, self.ending
        self.limits, self.recipes, self.ending = self.limits & recipe.limits, (*self.recipes, recipe), ""
        try:
            yield
        finally:
            self.limits, self.recipes, self.newest, self.ending = outer

    def begin_next(self, expected: Callable[[], int], model: ModelInfo) -> str:
        """Determine if the next request is the last one, and return the notice for the model, "" if it needs none.

        `expected` returns the estimated input in tokens. A report must pass `output_cap` after one more request, so it
        is priced as that does: without the cache. Raises `NexusError("limit", ...)` after the last request.
        """
        if self.ending:
            raise self.reached(self.ending, "the model answered its last request with tool calls")
        remaining, newest = self._find_remaining(), self.newest
        if not self.must_report:
            return LAST_STEP if remaining.max_steps == 1 and not self.is_chat else ""
        is_counted = remaining.max_total_tokens is not None or remaining.max_cost is not None
        size = expected() if is_counted else 0
        grown = max(0, size - newest.input) if newest.input else 0
        later = size + newest.output + grown + NOTICE_ROOM
        prices = model.with_tier_prices(later)
        cost = newest.cost_usd or _most_dollars(prices, size)
        report = max(1.5 * cost, _most_dollars(prices, later, MIN_OUTPUT))
        needs = {
            "max_steps": 2,
            "max_total_tokens": 2 * later + MIN_OUTPUT,
            "max_cost": cost + _most_dollars(prices, 2 * grown) + report,
            "timeout": FINAL_TIME_SHARE * (self.limits.timeout or 0.0),
        }
        rests = {name: remaining_amount for name in needs if (remaining_amount := getattr(remaining, name)) is not None}
        self.ending = next((name for name, remaining_amount in rests.items() if remaining_amount < needs[name]), "")
        if self.ending:
            return LAST_REQUEST
        if remaining.max_steps == WARNING_STEPS:
            return f"{WARNING_STEPS} requests are left for this task."
        near = next(
            (
                name
                for name, remaining_amount in rests.items()
                if name != "max_steps" and remaining_amount < 2 * needs[name]
            ),
            "",
        )
        if not near or self.is_near:
            return ""
        self.is_near = True
        return f"The budget of this task is nearly used up ({near}): {_amount(near, rests[near])} left."

    def share(self, workers: int) -> Limits:
        """Divide the remaining budget, without the part `PARENT_SHARE`, equally among the `workers` of one message."""
        remaining = self._find_remaining()
        steps = remaining.max_steps or 0
        self.parent_steps = max(1, int(steps * PARENT_SHARE), min(workers, steps // 2 + 1))
        part = (1 - PARENT_SHARE) / workers
        return Limits(
            max_steps=None
            if remaining.max_steps is None
            else max(2, (remaining.max_steps - self.parent_steps) // workers),
            max_total_tokens=None if remaining.max_total_tokens is None else int(remaining.max_total_tokens * part),
            max_cost=None if remaining.max_cost is None else remaining.max_cost * part,
        )

    def reserve(self, worker: str, requested: Limits, share: Limits) -> Limits:
        """Reserve the budget of a worker and return it: the limits `requested`, else its `share`, within the remaining
        budget. One step and `FINAL_TIME_SHARE` of the seconds always stay with the parent, to read the report.

        Raises `NexusError("limit", ...)` if less than `MIN_BUDGET` is left.
        """
        remaining = self._find_remaining()
        least_of = {**MIN_BUDGET, **({} if requested.max_steps else {"max_steps": self.parent_steps + 2})}
        for name, least in least_of.items():
            if (value := getattr(remaining, name)) is not None and value < least:
                raise self.reached(name, "too little budget is left for a worker")
        over = {name: value for name in BUDGET if (value := getattr(requested, name)) is not None}
        if remaining.max_steps is not None:
            remaining = replace(remaining, max_steps=remaining.max_steps - 1)
        if remaining.timeout is not None:
            remaining = replace(remaining, timeout=remaining.timeout * (1 - FINAL_TIME_SHARE))
        budget = replace(share, **over) & remaining
        self.reserved[worker] = budget
        return budget

    def _find_remaining(self) -> Limits:
        """Return the remaining budget."""
        limits = self.limits
        used = self.usage.tokens
        return Limits(
            max_steps=_subtract(limits.max_steps, self.steps + self.worker_steps + self._sum_reserved("max_steps")),
            max_total_tokens=_subtract(limits.max_total_tokens, used + self._sum_reserved("max_total_tokens")),
            max_cost=_subtract(limits.max_cost, (self.usage.cost_usd or 0.0) + self._sum_reserved("max_cost")),
            timeout=_subtract(limits.timeout, self.seconds),
        )

    def settle(self, worker: str, steps: int, usage: Usage, model: str) -> None:
        """Replace the reserved budget of a worker with its actual usage of `model`."""
        if self.reserved.pop(worker, None) is not None:
            self.worker_steps += steps
            self._add(usage, model)

    def _sum_reserved(self, name: str) -> Any:
        return sum(getattr(limits, name) or 0 for limits in self.reserved.values())

    @property
    def has_step(self) -> bool:
        """True unless all steps are taken."""
        return self._find_remaining().max_steps != 0

    def check_steps(self) -> None:
        """Raise `NexusError("limit", ...)` if no step is left."""
        if not self.has_step:
            workers = self.worker_steps + self._sum_reserved("max_steps")
            why = f"the turn has taken {plural(self.steps, 'step')}" + (
                f", and workers used or reserved {workers}" if workers else ""
            )
            raise self.reached("max_steps", why)

    def output_cap(self, model: ModelInfo, expected: int) -> int:
        """Return the output cap in tokens of the next request to `model` with `expected` input tokens.

        Raises `NexusError("limit", ...)` if a limit leaves less than `MIN_OUTPUT`, `UsageError` if
        `max_cost` cannot be enforced because the price is unknown.
        """
        remaining = self._find_remaining()
        caps = [MAX_OUTPUT, model.max_output or MAX_OUTPUT, remaining_output(model, expected)]
        if (tokens := remaining.max_total_tokens) is not None:
            if tokens < expected + MIN_OUTPUT:
                why = f"{tokens:,} tokens are left, but the next request needs about {expected + MIN_OUTPUT:,}"
                raise self.reached("max_total_tokens", why)
            caps.append(tokens - expected)
        if remaining.max_cost is not None:
            caps.append(self._affordable(model, remaining.max_cost, expected))
        return max(1, min(caps))

    def _affordable(self, model: ModelInfo, budget: float, expected: int) -> int:
        """Return the output tokens that `budget` dollars pay for after the input."""
        prices = model.with_tier_prices(expected)
        if model.covered:
            return MAX_OUTPUT
        self.require_prices(prices)
        remaining = budget - _most_dollars(prices, expected)
        tokens = int(min(remaining * MILLION / prices.output_price, MAX_OUTPUT)) if prices.output_price else MAX_OUTPUT
        if remaining < 0 or tokens < MIN_OUTPUT:
            needed = _most_dollars(prices, expected, MIN_OUTPUT)
            why = f"${budget:.4f} is left, but the next request could cost up to ${needed:.4f}"
            raise self.reached("max_cost", why)
        return tokens

    def require_prices(self, model: ModelInfo) -> None:
        """Raise `UsageError` if `max_cost` cannot be enforced because a price of the model is unknown."""
        is_known = model.input_price is not None and model.output_price is not None
        if unpriced := self.unpriced if is_known else model.name:
            hint = f"Set the price: {price_command(unpriced)} (and output_price in the same way)"
            raise UsageError("max_cost cannot be enforced", f"the price of {unpriced} is unknown", hint)

    def describe_raise(self, name: str) -> str:
        """Return the hint for raising the limit `name` and continuing."""
        chat = f"To raise the limit: /config limits.{name} VALUE, then /reload and /continue"
        option = f"limits.{name}" if self.is_served else f"--{name.replace('_', '-')}"
        advice = f"Use a higher {option}"
        if self.is_scheduled:
            setting = "runs.max_cost" if name == "max_cost" else f"limits.{name}"
            advice = f"Schedule it again with a higher {option}, or raise {setting} for runs without that option"
        return self.raised_by(name, chat if self.is_chat else advice)

    def raised_by(self, name: str, option: str) -> str:
        """Return the hint for raising the limit `name`: `option`, unless a recipe sets the limit."""
        sources = (source for source in self.recipes if getattr(source.limits, name) == getattr(self.limits, name))
        recipe = next(sources, None)
        if recipe is None:
            return option
        place = f" in {recipe.source}" if recipe.source else ""
        alternative = "choose another recipe with --recipe NAME"
        return f"Recipe {recipe.name} sets this limit: change limits.{name}{place}, or {alternative}"

    def reached(self, name: str, why: str) -> NexusError:
        """Return the error of a turn that is stopped by the limit `name`."""
        return NexusError("limit", f"limit {name} reached", why, self.describe_raise(name))


def _most_dollars(model: ModelInfo, tokens: int, output: int = 0) -> float:
    """Return the most that a request of so many input tokens costs: none is read from the cache; 0 if a price is
    unknown."""
    costs = (price_usage(Usage(tokens, output, cache_write=written), model) for written in (0, tokens))
    return max(cost.total if cost else 0.0 for cost in costs)


def _amount(name: str, amount: float) -> str:
    return {"max_cost": f"${amount:.4f}", "timeout": f"{amount:.0f} s"}.get(name, f"{amount:,.0f} tokens")


def _subtract(limit: Any, used: Any) -> Any:
    return None if limit is None else max(0, limit - used)
