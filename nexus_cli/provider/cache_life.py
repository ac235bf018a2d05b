"""How long each provider keeps the beginning of a request in its prompt cache, and from what length on. Data.

Documented by Anthropic (5 minutes from the last use; least lengths by model), OpenAI and Azure (5 to 10 minutes, at
most an hour; newer models up to 24; from 1,024 tokens in steps of 128), Google (least lengths; how long is left open)
and DeepSeek (hours to days, in steps of 64). What stands under `USUAL` is what is usual, not what anybody promised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from nexus_cli.provider.cache_marks import takes_marks

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@dataclass(frozen=True, slots=True)
class CacheLife:
    """What is known of one provider's cache."""

    least: float
    """Seconds since its last use for which a beginning is surely kept, as far as the provider says."""
    most: float
    """Seconds after which it is surely gone."""
    minimum: int
    """Tokens below which nothing is kept."""
    step: int = 1
    """Tokens by which what is kept grows."""
    automatic: bool = True
    """False: only what is marked is kept (`cache_marks`)."""
    documented: bool = True
    """False: nobody promised these figures."""


ANTHROPIC = CacheLife(5 * MINUTE, 5 * MINUTE, 1024, automatic=False)
OPENAI = CacheLife(5 * MINUTE, HOUR, 1024, 128)
GEMINI = CacheLife(3 * MINUTE, HOUR, 1024, 256, documented=False)
DEEPSEEK = CacheLife(HOUR, 7 * DAY, 64, 64)
USUAL = CacheLife(5 * MINUTE, DAY, 1024, 128, documented=False)

LONGER_MINIMUM = (
    (re.compile(r"claude.*(haiku-?4|haiku-?5|opus-?4[-.](5|6|7|8|9)|opus-?5)"), 4096),
    (re.compile(r"claude.*(sonnet-?4[-.](6|7|8|9)|sonnet-?5|haiku)"), 2048),
    (re.compile(r"gemini.*pro"), 4096),
)
"""Models that keep nothing below more tokens than others of their house; the first that fits."""
KEPT_A_DAY = re.compile(r"gpt-(5\.[5-9]|[6-9])")
"""OpenAI's models that keep their cache for up to a day unless told otherwise."""
HOUSES = {
    "anthropic": ANTHROPIC,
    "openai": OPENAI,
    "azure": OPENAI,
    "gemini": GEMINI,
    "vertex_ai": GEMINI,
    "google": GEMINI,
    "deepseek": DEEPSEEK,
    "xai": USUAL,
    "x-ai": USUAL,
}
"""By litellm's name of the provider; behind OpenRouter by its name of the house."""


def cache_life(model: str, provider: str, *, caches: bool = False) -> CacheLife | None:
    """What is known of the cache that `model` has at `provider`; None where there is none that we know of.

    `caches`: the model is known to have one, whoever serves it.
    """
    name = model.lower()
    house = name.split("/")[1] if provider == "openrouter" and name.count("/") > 1 else provider
    life = ANTHROPIC if takes_marks(model, provider) else HOUSES.get(house)
    if life is None or (house == "vertex_ai" and "gemini" not in name and life is GEMINI):
        return USUAL if caches else None
    if life is OPENAI and KEPT_A_DAY.search(name):
        life = replace(life, most=DAY)
    least = next((tokens for pattern, tokens in LONGER_MINIMUM if pattern.search(name)), life.minimum)
    return replace(life, minimum=least)
