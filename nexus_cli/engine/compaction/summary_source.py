"""Choose the source of a summary: the window as it is, or the originals behind an earlier summary.

The originals are used if they fit one request and do not cost much more: a summary of a summary loses details. Sends
nothing; `nexus_cli.engine.compaction.summarise` does.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.compaction.compaction_plan import CompactionPlan
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.budget import TokenBudget, remaining_output
from nexus_cli.core.entry import Entry, sum_tokens
from nexus_cli.core.memo_kinds import PIN, UNDONE_FILES
from nexus_cli.core.message import Message, Role
from nexus_cli.core.price import request_cost
from nexus_cli.core.request import Model
from nexus_cli.core.rewrite_cost import USUAL_PRICES
from nexus_cli.engine.compaction.summary_request import fork_instruction
from nexus_cli.engine.requests.engine import Engine

READ_AT_ONCE = 500
"""Entries per read of the log."""
TRANSCRIPT_SHARE = 0.8
"""Share of the summarizer's budget that one piece of a transcript may take."""
FRAMED = 1.1
"""Factor by which messages grow as lines of a transcript."""
COSTLIER = 4.0
"""Price limit for a summary of the originals, as a multiple of a summary of the window."""
UNPRICED_TOKENS = 20_000
"""Tokens of originals up to which the price limit does not apply."""


@dataclass(frozen=True, slots=True)
class SummarySource:
    """The source of a summary, with its model and size."""

    source: str
    """`window` (a fork), `transcript` (of the window), `originals` (a transcript of the window and of the messages
    behind an earlier summary)."""
    why: str
    model: Model
    originals: tuple[Message, ...] = ()
    fresh: int = 0
    """Uncached tokens of its first request, as the model counts them."""
    cached: int = 0
    forks: bool = False
    """True if a fork of the conversation is possible."""


def choose_source(engine: Engine, plan: CompactionPlan, cause: str) -> SummarySource:
    """Choose the source of the summary."""
    model = engine.other_model(engine.settings.compact.model)
    is_same_model = model.info.name == engine.model.info.name
    model = engine.model if is_same_model else model
    forks = not engine.settings.compact.model and cause != "overflow" and fork_fits(engine.context, plan, "")
    words = engine.context.count(fork_instruction(plan, ""))
    if forks:
        why, tokens = "the request reuses the cache", engine.window_request().tokens
        fresh_tokens = round(words * engine.context.estimate.scale().ratio)
        default = SummarySource("window", why, engine.model, fresh=fresh_tokens, cached=tokens, forks=True)
    else:
        why = "the window has no room for the summary request" if is_same_model else "another model writes the summary"
        counted = sum_tokens(plan.removed) + words
        default = SummarySource(
            "transcript", why, model, fresh=_transcript_tokens(engine.context, plan, model, counted)
        )
    if not plan.summed:
        return default
    room = room_for(engine.context, plan, model)
    messages, tokens, acts = [], 0, find_acts(engine.conversation)
    for entry in _originals(engine.conversation, plan):
        messages.append(with_acts(entry.message, entry.preamble, acts))
        tokens += entry.tokens
        if tokens * FRAMED > room:
            why = f"{default.why}; the original messages do not fit one request of {room:,} tokens"
            return replace(default, why=why)
    first, last = plan.entries
    if len(messages) + len({item.entry for item in plan.kept if first <= item.entry <= last}) <= last - first:
        return replace(default, why=f"{default.why}; the original messages are no longer available")
    cached = default.cached if engine.is_warm else 0
    beside = (default.model, default.fresh + default.cached - cached, cached)
    fresh = _transcript_tokens(engine.context, plan, model, tokens + words)
    times = _price_ratio((model, fresh, 0), beside, plan.summary_cap)
    if times > COSTLIER and tokens > UNPRICED_TOKENS:
        return replace(default, why=f"{default.why}; the original messages would cost {times:.1f} times as much")
    why = f"the original messages are available (at {times:.1f} times the cost)"
    return SummarySource("originals", why, model, tuple(messages), fresh, forks=forks)


def _originals(conversation: Conversation, plan: CompactionPlan) -> Iterator[Entry]:
    """Yield the original messages that the summary will replace, including those behind an earlier summary."""
    first, last = plan.entries
    kept_entries = {item.entry for item in plan.kept}
    for start in range(first, last + 1, READ_AT_ONCE):
        read = conversation.read(start, min(last, start + READ_AT_ONCE - 1))
        yield from (entry for entry in read if entry.id not in kept_entries)


def find_acts(conversation: Conversation) -> frozenset[str]:
    """Return the lines that told the model what the person has undone and pinned."""
    memos = (memo for kind in (UNDONE_FILES, PIN) for memo in conversation.memos(kind))
    return frozenset(f"[nexus: {line}]" for memo in memos if (line := memo.value.get("told")))


def with_acts(message: Message, preamble: str, acts: Container[str]) -> Message:
    """Return a message with those of the person's `acts` that its preamble contains."""
    notices = "\n".join(line for line in preamble.splitlines() if line in acts)
    return replace(message, content=f"{notices}\n{message.content}") if notices else message


def price_summary(choice: SummarySource, output: int, *, warm: bool) -> float | None:
    """Return the price in dollars of a summary of `output` tokens with a warm or cold cache; None if unknown."""
    fresh, cached = (choice.fresh, choice.cached) if warm else (choice.fresh + choice.cached, 0)
    return request_cost(choice.model.info, cached=cached, fresh=fresh, output=output)


def _transcript_tokens(context: ContextManager, plan: CompactionPlan, model: Model, counted: int) -> int:
    """Convert `counted` tokens of a transcript (our count) to tokens of `model`."""
    return round(counted * context.estimate_for(model).scale(like=plan.removed_by_kind).ratio)


def fork_fits(context: ContextManager, plan: CompactionPlan, instructions: str) -> bool:
    """True if a fork of the conversation has room for a summary at its cap."""
    added = context.measure(Message(Role.USER, fork_instruction(plan, instructions)), "")
    least = max(plan.summary_cap, context.least_output)
    return remaining_output(context.model.info, context.project(added=added).upper_bound) >= least


def _price_ratio(one: tuple[Model, int, int], other: tuple[Model, int, int], output: int) -> float:
    """Return the ratio of the prices of two requests, each given as model, fresh and cached tokens; by `USUAL_PRICES`
    if one is unknown."""
    for prices in ((one[0].info, other[0].info), (USUAL_PRICES, USUAL_PRICES)):
        costs = [
            request_cost(info, fresh=fresh, cached=cached, output=output)
            for info, (_, fresh, cached) in zip(prices, (one, other), strict=True)
        ]
        if costs[0] is not None and costs[1]:
            return costs[0] / costs[1]
    return 1.0


def room_for(context: ContextManager, plan: CompactionPlan, model: Model) -> int:
    """Return the largest piece of a transcript that one request to `model` may contain, in tokens by our count."""
    budget = TokenBudget.of(model.info.window, model.info.max_output)
    counted = context.estimate_for(model).countable(budget.available, like=plan.removed_by_kind)
    return int(counted * TRANSCRIPT_SHARE) - plan.summary_cap
