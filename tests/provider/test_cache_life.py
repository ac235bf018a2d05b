"""How long providers keep a prompt: each by its own words, and nothing where nothing is known."""

from __future__ import annotations

import pytest

from nexus_cli.core.request import ModelInfo
from nexus_cli.provider.prompt_cache import DAY, HOUR, cache_life_of


@pytest.mark.parametrize(
    ("model", "provider", "minimum", "step", "least", "most"),
    [
        ("anthropic/claude-sonnet-4-5", "anthropic", 1024, 1, 300, 300),
        ("anthropic/claude-sonnet-4-6", "anthropic", 2048, 1, 300, 300),
        ("anthropic/claude-haiku-4-5", "anthropic", 4096, 1, 300, 300),
        ("anthropic/claude-opus-4-6", "anthropic", 4096, 1, 300, 300),
        ("anthropic/claude-opus-4-1", "anthropic", 1024, 1, 300, 300),
        ("openrouter/anthropic/claude-sonnet-4.6", "openrouter", 2048, 1, 300, 300),
        ("bedrock/eu.anthropic.claude-3-5-haiku-20241022-v1:0", "bedrock", 2048, 1, 300, 300),
        ("openai/gpt-4.1", "openai", 1024, 128, 300, HOUR),
        ("openai/gpt-5.6", "openai", 1024, 128, 300, DAY),
        ("azure/gpt-5", "azure", 1024, 128, 300, HOUR),
        ("openrouter/openai/gpt-5", "openrouter", 1024, 128, 300, HOUR),
        ("gemini/gemini-2.5-flash", "gemini", 1024, 256, 180, HOUR),
        ("gemini/gemini-2.5-pro", "gemini", 4096, 256, 180, HOUR),
        ("deepseek/deepseek-chat", "deepseek", 64, 64, HOUR, 7 * DAY),
    ],
)
def test_a_provider_keeps_what_it_says(
    model: str, provider: str, minimum: int, step: int, least: float, most: float
) -> None:
    life = cache_life_of(ModelInfo(model, provider, 0))
    assert life is not None
    assert (life.min_tokens, life.step, life.min_seconds, life.max_seconds) == (minimum, step, least, most)
    assert life.automatic == (provider not in ("anthropic", "bedrock") and "claude" not in model)


def test_nothing_is_expected_of_a_provider_of_which_nothing_is_known() -> None:
    assert cache_life_of(ModelInfo("ollama/qwen3", "ollama_chat", 0)) is None
    assert cache_life_of(ModelInfo("vertex_ai/llama-4", "vertex_ai", 0)) is None
    usual = cache_life_of(ModelInfo("moonshot/kimi", "moonshot", 0, cache=True))
    assert usual is not None and not usual.documented
