"""Choose the source of a summary: the window as it is, or the originals behind an earlier summary.

The originals are taken if they are at hand, fit one request and do not cost much more: a summary of a summary loses
more. Sends nothing; `nexus_cli.lane.compaction.summarise` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from nexus_cli.config.settings import Settings
from nexus_cli.context.compaction_plan import CompactionPlan
from nexus_cli.context.tokens.content_kinds import PLAIN, slots_by_kind
from nexus_cli.context.window.groups import flatten
from nexus_cli.context.window.rewrite_cost import request_cost
from nexus_cli.core.message import Message, Role
from nexus_cli.lane.cache_expectation import is_warm
from nexus_cli.lane.compaction.summary_request import fork_instruction
from nexus_cli.lane.current_request import most_with, window_request
from nexus_cli.lane.lane_forks import other_model, sized
from nexus_cli.lane.lane_state import LaneState
from nexus_cli.lane.lane_window import LaneWindow, Model
from nexus_cli.lane.spending import left_over

TRANSCRIPT_SHARE = 0.8
"""Share of the summariser's budget that one piece of a transcript may take."""
FRAMED = 1.1
"""By so much messages grow as lines of a transcript."""
COSTLIER = 4.0
"""Price limit for a summary of the originals, in prices of a warm fork: a summary of a summary loses more."""
LITTLE = 20_000
"""Tokens of originals up to which their price does not matter."""
OUTPUT_RATIO = 5.0
READ_RATIO = 0.1
"""Prices of output and of a cached token, in prices of input, where a model's own are unknown."""


@dataclass(frozen=True, slots=True)
class SummarySource:
    """The source of a summary."""

    source: str
    """`window` (a fork), `transcript` (of the window), `originals` (a transcript of the window and of the messages
    behind an earlier summary)."""
    why: str
    model: Model
    originals: tuple[Message, ...] = ()
    fresh: int = 0
    """Tokens, as the model counts, that its first request sends uncached."""
    cached: int = 0
    forks: bool = False
    """True if a fork of the lane can be asked."""


def choose_source(
    lane_state: LaneState, plan: CompactionPlan, originals: Callable[[], Iterator[tuple[int, Message]]], cause: str
) -> SummarySource:
    """Return the source of the summary. `originals` reads the messages that go from the log, each with its tokens."""
    model = summarizer_model(lane_state.window, lane_state.settings)
    same = model.info.name == lane_state.model.info.name
    model = lane_state.model if same else model
    forks = not lane_state.settings.compact.model and cause != "overflow" and fork_fits(lane_state.window, plan, "")
    words = lane_state.window.context.counter.count(fork_instruction(plan, ""))
    if forks:
        why, tokens = "it shares the cached lines", window_request(lane_state).tokens
        said = round(words * lane_state.window.estimator.scale(PLAIN).ratio)
        here = SummarySource("window", why, lane_state.model, fresh=said, cached=tokens, forks=True)
    else:
        why = "another model summarizes" if not same else "a fork of the window would not fit"
        counted = sum(item.tokens for item in flatten(plan.gone)) + words
        here = SummarySource(
            "transcript", why, model, fresh=_transcript_tokens(lane_state.window, plan, model, counted)
        )
    if not plan.summed:
        return here
    room = room_for(lane_state.window, plan, model)
    messages, tokens = [], 0
    for size, message in originals():
        messages.append(message)
        tokens += size
        if tokens * FRAMED > room:
            why = f"{here.why}; the messages behind the earlier summary do not fit one request of {room:,} tokens"
            return replace(here, why=why)
    cached = here.cached if is_warm(lane_state.window, lane_state.cache, lane_state.clock()) else 0
    beside = (here.model, here.fresh + here.cached - cached, cached)
    fresh = _transcript_tokens(lane_state.window, plan, model, tokens + words)
    times = _price_ratio((model, fresh, 0), beside, plan.summary_cap)
    if times > COSTLIER and tokens > LITTLE:
        return replace(here, why=f"{here.why}; the messages behind the earlier summary would cost {times:.1f} times")
    why = f"the messages behind the earlier summary are at hand ({times:.1f} times the price of the window)"
    return SummarySource("originals", why, model, tuple(messages), fresh, forks=forks)


def price_summary(choice: SummarySource, output: int, *, warm: bool) -> float | None:
    """Return the dollars of a summary of `output` tokens, None if a price is unknown; `warm`: with what is cached."""
    fresh, cached = (choice.fresh, choice.cached) if warm else (choice.fresh + choice.cached, 0)
    return request_cost(choice.model.info, cached=cached, fresh=fresh, output=output)


def summarizer_model(window: LaneWindow, settings: Settings) -> Model:
    """Return the model that summarizes a plain transcript: `compact.model`, else the session's own."""
    return other_model(window, settings, settings.compact.model)


def _transcript_tokens(window: LaneWindow, plan: CompactionPlan, model: Model, counted: int) -> int:
    """Return the tokens for `model` of `counted` ones of a transcript."""
    _, estimator = sized(window, model)
    return round(counted * estimator.scale(slots_by_kind(flatten(plan.gone))).ratio)


def fork_fits(window: LaneWindow, plan: CompactionPlan, instructions: str) -> bool:
    """True if a fork of the lane leaves room for a summary at its cap."""
    added = window.context.measure(Message(Role.USER, fork_instruction(plan, instructions)), "")
    least = max(plan.summary_cap, window.least_output)
    return left_over(window.model.info, most_with(window, added)) >= least


def _price_ratio(one: tuple[Model, int, int], other: tuple[Model, int, int], output: int) -> float:
    """Return the price of the request `one` in multiples of `other` (model, fresh and cached tokens); in tokens of
    input if a price is unknown."""
    prices = [request_cost(m.info, fresh=fresh, cached=cached, output=output) for m, fresh, cached in (one, other)]
    if prices[0] is not None and prices[1]:
        return prices[0] / prices[1]
    tokens = [fresh + READ_RATIO * cached + OUTPUT_RATIO * output for _, fresh, cached in (one, other)]
    return tokens[0] / max(1.0, tokens[1])


def room_for(window: LaneWindow, plan: CompactionPlan, model: Model) -> int:
    """Return the tokens of a transcript by our count that one request to `model` takes."""
    budget, estimator = sized(window, model)
    counted = estimator.countable(budget.available, slots_by_kind(flatten(plan.gone)))
    return int(counted * TRANSCRIPT_SHARE) - plan.summary_cap
