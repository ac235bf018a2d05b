"""How a model is named: an optional provider before the first slash, then the provider's own name for it.

Owns the providers that may stand there. Leaves bare names to `windows`, which looks them up.
"""

from __future__ import annotations

PREFIXES = frozenset(
    {
        "ai21",
        "anthropic",
        "azure",
        "azure_ai",
        "bedrock",
        "cerebras",
        "codestral",
        "cohere",
        "cohere_chat",
        "custom_openai",
        "dashscope",
        "databricks",
        "deepinfra",
        "deepseek",
        "fireworks_ai",
        "gemini",
        "github",
        "github_copilot",
        "groq",
        "hosted_vllm",
        "huggingface",
        "litellm_proxy",
        "llamafile",
        "lm_studio",
        "minimax",
        "mistral",
        "moonshot",
        "nebius",
        "nvidia_nim",
        "ollama",
        "ollama_chat",
        "openai",
        "openrouter",
        "perplexity",
        "replicate",
        "sagemaker",
        "sambanova",
        "together_ai",
        "vercel_ai_gateway",
        "vertex_ai",
        "volcengine",
        "watsonx",
        "xai",
        "xinference",
        "zai",
    }
)
"""What may stand before the first slash of a model's name. Anything else there is part of the name."""
LOCAL = frozenset({"ollama", "ollama_chat", "lm_studio", "llamafile", "hosted_vllm"})
"""Servers of one's own: they need no key."""


def split(name: str) -> tuple[str, str]:
    """`name` as (provider prefix or "", rest)."""
    prefix, slash, rest = name.partition("/")
    return (prefix, rest) if slash and prefix in PREFIXES else ("", name)
