"""Preview a compaction: the kept and removed messages, and the cost. Sends nothing and changes nothing.

Returns the value of `/compact --preview`. Uses the plan of a real compaction, but assumes a summary at its cap and the
present system text, which a compaction reads again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.compaction import compaction_plan as planning
from nexus_cli.conversation.compaction.own_words import OwnWords, Quote
from nexus_cli.conversation.groups import flatten, is_request
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.conversation.rewrite_cost import price_rewrite
from nexus_cli.core.entry import ItemForm, WindowItem
from nexus_cli.core.event import TOO_LITTLE
from nexus_cli.core.message import Message, Role
from nexus_cli.core.price import request_cost
from nexus_cli.core.request import ModelInfo
from nexus_cli.engine.compaction.compact import choose_summary_source, draft_plan
from nexus_cli.engine.compaction.pins import list_pins
from nexus_cli.engine.compaction.rules import rules_tokens
from nexus_cli.engine.compaction.summary_source import SummarySource, price_summary
from nexus_cli.engine.requests.drop_list import UNIT
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.engine.requests.tool_selection import can_recall
from nexus_cli.engine.requests.user_messages import first_words

AHEAD = (1, 10)
"""Numbers of later requests to price."""
WORDS = 120
"""Most characters shown of a message."""


def preview(engine: Engine, instructions: str = "") -> dict[str, Any]:
    """Return the plan as JSON data. Without a plan `possible` is false and `why` has the reason."""
    plan = draft_plan(engine.context, engine.work, "command", engine.settings.compact.to)
    request = engine.next_request()
    before, waiting = request.tokens, sum(item.tokens for item in request.waiting)
    value: dict[str, Any] = {
        "version": 1,
        "model": engine.model.info.name,
        "instructions": instructions,
        "budget": engine.context.budget.available,
        "unit": UNIT,
        "before": before,
        "possible": plan is not None,
        "why": "" if plan else TOO_LITTLE,
        "pins": _pin_rows(engine.context, plan),
    }
    if plan is None:
        return value
    choice = choose_summary_source(engine, plan, "command")
    after = _after(engine.context, plan)
    value |= {
        "after": min(_afterwards(engine.context, plan, after + waiting).upper_bound, before),
        "goes": {
            **_part(flatten(plan.gone)),
            "first": plan.entries[0],
            "last": plan.entries[1],
            "without": list(plan.staying),
            "recall": can_recall(engine.conversation, engine.spending),
        },
        "stays": _part(plan.kept),
        "words": _words(plan),
        "own_words": [_line(words) for words in plan.own_words],
        "answers": len(plan.answers),
        "record": {"most": plan.record_room},
        "summary": {
            "most": plan.summary_cap,
            "source": choice.source,
            "why": choice.why,
            "model": choice.model.info.name,
        },
        "cost": _cost_value(engine, plan, choice, after),
    }
    return value


def _after(context: ContextManager, plan: planning.CompactionPlan) -> int:
    """Return the tokens of the compacted window by our count, with a summary at its cap."""
    count = context.count
    beside = sum(pin.labelled_tokens(count) for pin in plan.pins) + plan.record_room
    beside += rules_tokens(context.conversation, OwnWords(count))
    beside += sum(quote.tokens for quote in (*plan.quotes, *plan.answers))
    kept = sum(item.tokens for item in plan.kept)
    return context.conversation.epoch.header_tokens + kept + plan.summary_cap + planning.NOTE_TOKENS + beside


def _afterwards(context: ContextManager, plan: planning.CompactionPlan, counted: int) -> RequestPlan:
    """Return the request of the compacted window of `counted` tokens. The status line shows at most its `most`: the
    report on the summary request will change the estimate."""
    rest = counted - context.conversation.epoch.header_tokens - sum(item.tokens for item in plan.kept)
    told = WindowItem(0, ItemForm.SUMMARY, Message(Role.USER, "word " * max(1, rest)), tokens=rest)
    return context.project(epoch=context.conversation.epoch, items=(*plan.kept, told))


def _part(items: Sequence[WindowItem]) -> dict[str, Any]:
    """Return figures of `items`: messages, turns, and tokens by kind (our count, as for drops and pins)."""
    kinds: Counter[str] = Counter()
    for item in items:
        kinds[_kind(item)] += item.tokens
    return {
        "messages": len(items),
        "turns": sum(1 for item in items if is_request((item,))),
        "tokens": sum(kinds.values()),
        "by_kind": dict(sorted(kinds.items(), key=lambda one: -one[1])),
        "newest": _newest(items),
    }


def _words(plan: planning.CompactionPlan) -> list[dict[str, Any]]:
    """Return the removed messages of the person, each with how it is quoted: `whole`, `part` or `no`."""
    kept = {quote.entry: "whole" if quote.whole else "part" for quote in plan.quotes}
    return [{"entry": entry, "kept": kept.get(entry, "no"), "text": _line(text)} for entry, text in sorted(plan.said)]


def _newest(items: Iterable[WindowItem]) -> list[dict[str, Any]]:
    """Return the person's five newest messages among `items`, oldest first."""
    said = [item for item in items if is_request((item,))]
    return [{"entry": s.entry, "text": _line(s.message.content)} for s in said[-5:]]


def _line(text: str) -> str:
    return first_words(text, WORDS, end="")


def _kind(item: WindowItem) -> str:
    return str(item.form) if item.form in (ItemForm.SUMMARY, ItemForm.MARKER) else str(item.message.role)


def _pin_rows(context: ContextManager, plan: planning.CompactionPlan | None) -> list[dict[str, Any]]:
    """Return every pin with its place after the compaction."""
    count = context.count
    return [
        {
            "id": pin.pin,
            "entry": pin.entry,
            "tokens": pin.labelled_tokens(count),
            "where": _where(pin, plan),
            "text": _line(pin.text),
        }
        for pin in list_pins(context.conversation)
    ]


def _where(pin: Quote, plan: planning.CompactionPlan | None) -> str:
    """Return the place of a pin: `window` (unchanged), `summary` (quoted below it) or `dropped` (no room)."""
    if plan is None or (pin not in plan.pins and pin not in plan.crowded):
        return "window"
    return "summary" if pin in plan.pins else "dropped"


def _cost_value(engine: Engine, plan: planning.CompactionPlan, choice: SummarySource, after: int) -> dict[str, Any]:
    """Price the compaction and the next requests in dollars, with a warm and a cold cache; None if unknown."""
    info, request = engine.model.info, engine.window_request()
    before, used = request.tokens, request.budget.used
    then = min(_afterwards(engine.context, plan, after).tokens, before)
    fixed = used.system + used.tools
    still_warm = engine.is_warm
    rewrite = price_rewrite(
        info.with_tier_prices(before), cold=then - fixed, saved=before - then, steps=engine.step, warm=still_warm
    )
    return {
        "warm_now": still_warm,
        "now": {
            "cached": choice.cached,
            "fresh": choice.fresh,
            "output": plan.summary_cap,
            "warm": price_summary(choice, plan.summary_cap, warm=True),
            "cold": price_summary(choice, plan.summary_cap, warm=False),
        },
        "next": [
            {"requests": number, "without": _run(info, before, before, number), "with": _run(info, then, fixed, number)}
            for number in AHEAD
        ],
        "rewrite": {"cold": rewrite.cold, "saved": rewrite.saved, "steps": rewrite.steps, "why": rewrite.why},
    }


def _run(info: ModelInfo, tokens: int, cached: int, number: int) -> dict[str, float | None]:
    """Price the input of `number` requests of `tokens` each, in dollars: the first one with `cached` tokens cached
    (`warm`) or none (`cold`), the others fully cached."""
    rest = request_cost(info, cached=tokens, fresh=0)
    firsts = {
        "warm": request_cost(info, cached=min(cached, tokens), fresh=max(0, tokens - cached)),
        "cold": request_cost(info, cached=0, fresh=tokens),
    }
    return {
        name: None if first is None or rest is None else round(first + rest * (number - 1), 8)
        for name, first in firsts.items()
    }
