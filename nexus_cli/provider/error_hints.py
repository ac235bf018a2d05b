"""What a person can do about a failed request, and which variables hold a provider's key and address.

Owns the names of the variables. Leaves finding out what failed to `failures`.
"""

from __future__ import annotations

import os

from nexus_cli.provider.model_names import LOCAL
from nexus_cli.provider.model_table import HOW_TO_NAME, provider_of

KEY_VARIABLES: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "mistral": ("MISTRAL_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "ollama_chat": ("OLLAMA_API_KEY",),
}
"""Where litellm looks for a key, the usual place first."""
BASE_VARIABLES: dict[str, tuple[str, ...]] = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "anthropic": ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
    "ollama_chat": ("OLLAMA_API_BASE",),
    "lm_studio": ("LM_STUDIO_API_BASE",),
    "llamafile": ("LLAMAFILE_API_BASE",),
    "hosted_vllm": ("HOSTED_VLLM_API_BASE",),
}
"""Where litellm looks for an address, the one that wins first."""


def key_variable(provider: str) -> str:
    """The variable to set for `provider`."""
    return KEY_VARIABLES.get(provider, (f"{provider.upper() or 'PROVIDER'}_API_KEY",))[0]


def base_variable(provider: str) -> str:
    """The variable that gives `provider` its address: the one that is set, else the usual one; "" without any."""
    names = BASE_VARIABLES.get(provider, ())
    return next((name for name in names if os.environ.get(name)), names[0] if names else "")


def hint_for(kind: str, model: str, *, status: int | None = None, spent: bool = False) -> str:
    """What to do about a failure of `kind` with `model`; "" when there is nothing particular."""
    provider = provider_of(model)
    if spent and kind in ("auth", "rate_limit", "provider"):
        return f"Look at the plan and the balance of the {provider} account, or choose another model"
    if kind == "auth":
        if status == 403:
            return f"The key in {key_variable(provider)} may not use {model}"
        if provider == "bedrock":
            return "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, or AWS_BEARER_TOKEN_BEDROCK"
        return f"Set {key_variable(provider)} to a valid key"
    if kind == "usage":
        return HOW_TO_NAME
    if kind == "network":
        where = base_variable(provider)
        if provider in LOCAL:
            return f"Is the model server running? Its address is set by {where}"
        return "Check the connection" + (f" and {where}, if it is set" if where else "")
    return {
        "rate_limit": "Try again later",
        "overloaded": "Try again later, or choose another model",
        "overflow": "Compact the session, or choose a model with a larger window",
        "refused": "Put the request in other words, or choose another model",
        "provider": "Try again; if it goes on, choose another model",
    }.get(kind, "")
