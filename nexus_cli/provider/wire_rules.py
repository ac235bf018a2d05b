"""Message rules of each provider, as data for `nexus_cli.core.wire`.

litellm merges neighbours of the same role (Anthropic, Gemini) in order, so that a conversation stays a prefix of a
longer one.
"""

from __future__ import annotations

from dataclasses import replace

from nexus_cli.core.wire import WireRules
from nexus_cli.provider.model_names import LOCAL, split_key_name, split_model_name

CONTINUE_TEXT = "Go on."
NOTED = "Understood."

RULES: dict[str, WireRules] = {
    "openai": WireRules("openai"),
    "anthropic": WireRules("anthropic", first_not_user=CONTINUE_TEXT),
    # Two model turns are merged, and litellm drops a call equal to an earlier one.
    "gemini": WireRules("gemini", assistant_after_assistant=CONTINUE_TEXT, first_not_user=CONTINUE_TEXT),
    # "Unexpected role 'user' after role 'tool'"; ids are nine letters or digits; unknown or null fields are refused.
    "mistral": WireRules(
        "mistral", user_after_tool=NOTED, first_not_user=CONTINUE_TEXT, call_id_length=9, null_content=False
    ),
    # The reasoner refuses two messages of one role in a row.
    "deepseek": WireRules(
        "deepseek", user_after_user=NOTED, assistant_after_assistant=CONTINUE_TEXT, first_not_user=CONTINUE_TEXT
    ),
    # Many chat templates raise on a first message that is not the user's.
    "ollama": WireRules("ollama", first_not_user=CONTINUE_TEXT),
}
"""Rules by family. `rules_for` finds the row and sets the provider's own name."""

FAMILY = {
    "ollama_chat": "ollama",
    "lm_studio": "ollama",
    "llamafile": "ollama",
    "hosted_vllm": "ollama",
    "codestral": "mistral",
    "vertex_ai": "gemini",
    "bedrock": "anthropic",
}
UPSTREAM = (
    ("claude", "anthropic"),
    ("gemini", "gemini"),
    ("deepseek", "deepseek"),
    ("mistral", "mistral"),
    ("mixtral", "mistral"),
    ("codestral", "mistral"),
    ("devstral", "mistral"),
)
"""Part of a model's name to its family, for providers that forward requests."""
FORWARDING_PROVIDERS = LOCAL | {"openrouter", "bedrock", "vertex_ai", "azure_ai", "vercel_ai_gateway", "litellm_proxy"}
"""Providers for which the model's name decides: a local server has the template of its model."""


def rules_for(provider: str, model: str = "") -> WireRules:
    """Return the rules of `provider`, which may also be a whole model name (`openrouter/mistralai/mistral-large`).

    For a provider that forwards requests, the name of `model` decides. Unknown ones get OpenAI's rules. The result's
    `provider` is always the requested one.
    """
    provider, model = split_key_name(provider)[1], split_key_name(model)[1]
    name = split_model_name(provider)[0] or provider.partition("/")[0]
    family = FAMILY.get(name, name)
    if name in FORWARDING_PROVIDERS:
        family = next((f for part, f in UPSTREAM if part in f"{provider} {model}".lower()), family)
    rules = RULES.get(family, RULES["openai"])
    return rules if rules.provider == name or not name else replace(rules, provider=name)
