"""Preview a compaction: the kept and removed messages, and the cost. Sends nothing and changes nothing.

Returns the value of `/compact --preview`: the rewrite of a real compaction, drafted with a stand-in for the summary at
its cap, and not applied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.compaction.compaction_plan import CompactionPlan
from nexus_cli.conversation.compaction.compactor import Summary
from nexus_cli.conversation.compaction.pins import list_pins
from nexus_cli.conversation.rewrite import Rewrite
from nexus_cli.core.drop_list import UNIT
from nexus_cli.core.elide import first_words
from nexus_cli.core.entry import WindowItem
from nexus_cli.core.event import NOTHING_TO_SUMMARIZE
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.price import request_cost
from nexus_cli.core.request import ModelInfo
from nexus_cli.engine.compaction.compact import draft_compaction
from nexus_cli.engine.compaction.summarise import SummaryError
from nexus_cli.engine.compaction.summary_source import SummarySource, choose_source, price_summary
from nexus_cli.engine.requests.engine import Engine

PRICED_REQUESTS = (1, 10)
"""Numbers of later requests to price."""
WORDS = 120
"""Most characters shown of a message."""


async def preview_compaction(engine: Engine, instructions: str = "") -> JsonObject:
    """Return the plan and the drafted window as JSON data. Without a plan, and where a summary at its cap would be
    refused, `possible` is false and `why` has the reason.
    """
    engine = engine.drafting()
    plan, request = engine.compactor.plan(engine.settings.compact.to, on_command=True), engine.next_request()
    value: JsonObject = {
        "version": 1,
        "model": engine.model.info.name,
        "instructions": instructions,
        "budget": engine.context.budget.available,
        "unit": UNIT,
        "before": request.tokens,
        "possible": False,
        "why": NOTHING_TO_SUMMARIZE,
        "pins": _pin_rows(engine.context, plan),
    }
    if plan is None:
        return value
    choice = choose_source(engine, plan, "command")
    stand_in, _ = engine.compactor.split_summary(plan, "word " * plan.summary_cap)
    summary = Summary(stand_in, choice.source, choice.why)
    try:
        rewrite, _ = await draft_compaction(engine, plan, summary, "command")
    except SummaryError as reason:
        return {**value, "why": f"{reason}, with a summary of up to {plan.summary_cap:,} tokens"}
    texts = engine.control.waiting_texts()
    after = engine.context.project(epoch=rewrite.epoch, items=rewrite.epoch.head, texts=texts)
    return {
        **value,
        "possible": True,
        "why": "",
        "after": min(after.upper_bound, request.tokens),
        "goes": {
            **_part(plan.removed),
            "first": plan.entries[0],
            "last": plan.entries[1],
            "without": list(plan.staying),
            "recall": engine.can_recall,
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
        "cost": _cost_value(engine, rewrite, choice, plan.summary_cap),
    }


def _part(items: Sequence[WindowItem]) -> JsonObject:
    """Return figures of `items`: messages, turns, and tokens by kind (our count, as for drops and pins)."""
    kinds: Counter[str] = Counter()
    for item in items:
        kinds[_kind(item)] += item.tokens
    return {
        "messages": len(items),
        "turns": sum(1 for item in items if item.is_request),
        "tokens": sum(kinds.values()),
        "by_kind": dict(sorted(kinds.items(), key=lambda pair: -pair[1])),
        "newest": _newest(items),
    }


def _words(plan: CompactionPlan) -> list[JsonObject]:
    """Return the removed messages of the person, each with how it is quoted: `whole`, `part` or `no`."""
    quoted = {quote.entry: "whole" if quote.whole else "part" for quote in plan.quotes}
    return [
        {"entry": entry, "kept": quoted.get(entry, "no"), "text": _line(text)}
        for entry, text in sorted(plan.user_texts)
    ]


def _newest(items: Iterable[WindowItem]) -> list[JsonObject]:
    """Return the person's five newest messages among `items`, oldest first."""
    requests = [item for item in items if item.is_request]
    return [{"entry": s.entry, "text": _line(s.message.content)} for s in requests[-5:]]


def _line(text: str) -> str:
    return first_words(text, WORDS, end="")


def _kind(item: WindowItem) -> str:
    return str(item.form) if item.replaces_others else str(item.message.role)


def _pin_rows(context: ContextManager, plan: CompactionPlan | None) -> list[JsonObject]:
    """Return every pin with its place after the compaction."""
    count = context.count
    return [
        {
            "id": pin.pin,
            "entry": pin.entry,
            "tokens": pin.labelled_tokens(count),
            "where": plan.place_of(pin) if plan else "window",
            "text": _line(pin.text),
        }
        for pin in list_pins(context.conversation)
    ]


def _cost_value(engine: Engine, rewrite: Rewrite, choice: SummarySource, output: int) -> JsonObject:
    """Price the compaction with a summary of `output` tokens and the next requests in dollars, with a warm and a cold
    cache; None if unknown."""
    info, before, price = engine.model.info, engine.window_request().tokens, rewrite.price
    assert price is not None, "a compaction is priced"
    after = engine.context.project(engine.conversation.clock(), epoch=rewrite.epoch, items=rewrite.epoch.head)
    then = min(after.tokens, before)
    return {
        "warm_now": engine.is_warm,
        "now": {
            "cached": choice.cached,
            "fresh": choice.fresh,
            "output": output,
            "warm": price_summary(choice, output, warm=True),
            "cold": price_summary(choice, output, warm=False),
        },
        "next": [
            {
                "requests": number,
                "without": _run(info, before, before, number),
                "with": _run(info, then, after.outlook.shared, number),
            }
            for number in PRICED_REQUESTS
        ],
        "rewrite": {"cold": price.cold, "saved": price.saved, "steps": price.steps, "why": price.why},
    }


def _run(info: ModelInfo, tokens: int, cached: int, number: int) -> dict[str, float | None]:
    """Price the input of `number` requests of `tokens` each, in dollars: the first one with `cached` tokens cached
    (`warm`) or none (`cold`), the others fully cached."""
    later = request_cost(info, cached=tokens, fresh=0)
    firsts = {
        "warm": request_cost(info, cached=min(cached, tokens), fresh=max(0, tokens - cached)),
        "cold": request_cost(info, cached=0, fresh=tokens),
    }
    return {
        name: None if first is None or later is None else round(first + later * (number - 1), 8)
        for name, first in firsts.items()
    }
