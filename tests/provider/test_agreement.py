"""What is read from litellm's files without importing it agrees with what litellm itself says."""

from __future__ import annotations

from typing import Any

import pytest

from nexus_cli.provider.litellm_backend import litellm
from nexus_cli.provider.model_names import provider_prefixes
from nexus_cli.provider.model_table import model_info, provider_of
from nexus_cli.provider.usage import to_usage


def listed() -> set[str]:
    """Every provider that litellm knows."""
    from litellm.llms.openai_like.json_loader import JSONProviderRegistry

    names = {str(getattr(provider, "value", provider)) for provider in litellm().provider_list}
    return names | set(JSONProviderRegistry.list_providers())


def test_every_provider_of_litellm_may_stand_before_the_slash_and_no_other() -> None:
    assert provider_prefixes() == listed()
    assert len(provider_prefixes()) > 100


DECIDED = {"ollama": "ollama_chat"}
"""Where we go another way on purpose."""


def test_what_azure_ai_passes_on_to_azure_keeps_the_name_that_the_person_wrote() -> None:
    assert litellm().get_llm_provider("azure_ai/gpt-5.4")[1] == "azure"
    assert provider_of("azure_ai/gpt-5.4") == "azure_ai"
    assert provider_of("bedrock_mantle/openai.gpt-5.4") == "bedrock_mantle"


@pytest.mark.matrix
def test_names_with_a_prefix_go_where_litellm_sends_them() -> None:
    wrong = []
    for prefix in sorted(provider_prefixes()):
        try:
            _, theirs, *_ = litellm().get_llm_provider(f"{prefix}/some-model")
        except Exception as error:  # litellm asks some providers for an address first
            assert type(error).__name__ in ("BadRequestError", "AuthenticationError", "ValueError"), prefix
            continue
        if provider_of(f"{prefix}/some-model") != DECIDED.get(theirs, theirs):
            wrong.append((prefix, theirs))
    assert not wrong


LONG = [
    "gpt-5.4",
    "gemini/gemini-2.5-pro",
    "anthropic/claude-sonnet-4-5",
    "xai/grok-4",
    "dashscope/qwen-flash",
    "deepseek/deepseek-chat",
]


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("tokens", [1_000, 199_999, 200_000, 200_001, 256_000, 256_001, 272_000, 272_001])
def test_a_cost_is_what_litellm_computes(name: str, tokens: int) -> None:
    from litellm.litellm_core_utils.llm_cost_calc.utils import generic_cost_per_token

    report: dict[str, Any] = {
        "prompt_tokens": tokens,
        "completion_tokens": 500,
        "total_tokens": tokens + 500,
        "prompt_tokens_details": {"cached_tokens": 400},
    }
    model, provider, *_ = litellm().get_llm_provider(name)
    spent = generic_cost_per_token(model=model, usage=litellm().Usage(**report), custom_llm_provider=provider)
    usage = to_usage([report], model_info(name))
    assert usage is not None and usage.cost_usd == pytest.approx(sum(spent))
