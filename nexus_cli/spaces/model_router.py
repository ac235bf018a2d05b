"""Ask a small model which agents a message in a space is meant for. One request, limited in tokens, dollars and
seconds."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

from nexus_cli.config.prompts import load_prompt
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.core.price import price_usage
from nexus_cli.core.request import Request, TextDelta, close_if_closable
from nexus_cli.core.usage import Usage
from nexus_cli.provider.available_models import resolve_alias
from nexus_cli.provider.model_table import check_model, model_info
from nexus_cli.provider.retry import make_provider
from nexus_cli.text.untrusted_text import neutralize

MAX_CHARACTERS = 2_000
"""Characters of the message that are sent to the model."""
MAX_OUTPUT = 256
"""Tokens of its answer."""
MAX_COST = 0.01
"""US dollars of one request, estimated before it is sent."""
SECONDS = 20.0
_PER_TOKEN = 3
"""Least number of characters of one token, for the estimate."""


async def choose_by_model(settings: Settings, model: str, topics: Mapping[str, Sequence[str]], text: str) -> set[str]:
    """Return the agents in `topics` that a model chooses; raise `NexusError`, or `TimeoutError` after `SECONDS`."""
    name = resolve_alias(model, settings)
    provider = make_provider(settings)
    check_model(name)
    listed = "\n".join(f"- {agent}: {', '.join(words) or 'anything'}" for agent, words in topics.items())
    words = f"AGENTS:\n{listed}\n\nMESSAGE:\n{neutralize(text[:MAX_CHARACTERS])}"
    instruction = load_prompt("space_router")
    _check_cost(settings, name, len(instruction) + len(words))
    messages = ({"role": "system", "content": instruction}, {"role": "user", "content": words})
    pieces = []
    try:
        async with asyncio.timeout(SECONDS):
            async for delta in provider.stream(Request(name, messages, (), MAX_OUTPUT, stall_seconds=SECONDS)):
                if isinstance(delta, TextDelta):
                    pieces.append(delta.text)
    finally:
        await close_if_closable(provider)
    answer = "".join(pieces)
    return {agent for agent in topics if re.search(rf"(?<!\w){re.escape(agent)}(?!\w)", answer, re.IGNORECASE)}


def _check_cost(settings: Settings, name: str, characters: int) -> None:
    info = model_info(name, settings.models)
    if info.covered:
        return
    cost = price_usage(Usage(round(characters / _PER_TOKEN), MAX_OUTPUT), info)
    if cost is None:
        hint = f'To set it: nexus config set models."{name}".input_price 0.1, and the same for output_price'
        raise NexusError("config", f"the router's model {name}", "its price is unknown", hint)
    if cost.total > MAX_COST:
        why = f"an answer may cost ${cost.total:.3f}; the limit is ${MAX_COST}"
        raise NexusError("config", f"the router's model {name}", why, "Set spaces.router to a smaller model")
