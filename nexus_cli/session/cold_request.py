"""Price the next request of a session if the provider's cache no longer holds what was sent before."""

from __future__ import annotations

from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.core.price import price_input
from nexus_cli.core.usage import Usage, dollars
from nexus_cli.provider.model_table import price_command
from nexus_cli.provider.prompt_cache import cache_life_of
from nexus_cli.session.base_session import BaseSession

COLD = 0.5
"""A request is cold if less than this share of what was sent before should be cached."""

WORTH = 0.9
"""Most that a compaction may leave of a request, as a share, to be offered."""


def cold_price(session: BaseSession, request: RequestPlan) -> Usage | None:
    """Return the input of the next `request`, with its cost, if it is cold; None if it is not, nothing was sent before,
    the model is free, or neither a price nor a cache of its provider is known."""
    engine = session.engine
    last, info = engine.conversation.sent.last, engine.model.info
    if last is None or not (info.input_price or (info.input_price is None and cache_life_of(info))):
        return None
    cached = 0 if engine.begins_without_draft else request.cached
    return None if cached >= COLD * min(last.tokens, request.tokens) else price_input(info, request.tokens, cached)


async def warn_of_cold_request(session: BaseSession) -> str:
    """Return the warning, once, about a cold request from `limits.warn_cost` on, with the price of compaction."""
    price, last = cold_price(session, session.engine.next_request()), session.engine.conversation.sent.last
    if price is None or last is None or price.cost_usd is None or price.cost_usd < session.engine.settings.warn_cost:
        return ""
    key = f"cold {last.epoch.id} {last.last}"
    if key in session.shown_lines:
        return ""
    session.shown_lines.add(key)
    text = f"the next request misses the cache: about {price.input:,} tokens for {dollars(price.cost_usd)}"
    return f"{text}. {await _describe_compaction(session, price.input)}"


async def _describe_compaction(session: BaseSession, tokens: int) -> str:
    """Return an alternative to sending a cold request of so many tokens, with its price."""
    from nexus_cli.engine.compaction.preview import preview_compaction  # noqa: PLC0415  (few requests are expensive)

    value = await preview_compaction(session.engine)
    if not value["possible"] or value["after"] > WORTH * tokens:
        return "To avoid that cost, start a new session"
    cost = value["cost"]
    now, then = cost["now"]["cold"], cost["next"][0]["with"]["warm"]  # the summary reads the same cold window
    if now is None or then is None:
        how = price_command(value["summary"]["model"])
        return f"Running /compact first makes later requests smaller (cost unknown; to set the price: {how})"
    later = f"then {dollars(then)} for a request of {value['after']:,} tokens"
    return f"Running /compact first would cost {dollars(now)} for the summary, {later}"
