"""What a person can do about a failed request, and which variables hold a provider's key and address.

Owns the names of the variables. Leaves finding out what failed to `failures`.
"""

from __future__ import annotations

from nexus_cli.provider.names import LOCAL
from nexus_cli.provider.windows import provider_of

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


def hint_for(kind: str, model: str, *, status: int | None = None, spent: bool = False) -> str:
    """What to do about a failure of `kind` with `model`; "" when there is nothing particular."""
    provider = provider_of(model)
    if spent and kind in ("auth", "rate_limit"):
        return f"Look at the plan and the balance of the {provider} account, or choose another model"
    if kind == "auth":
        if status == 403:
            return f"The key in {key_variable(provider)} may not use {model}"
        return f"Set {key_variable(provider)} to a valid key"
    if kind == "usage":
        return "`nexus model list` shows names that work; a name is written PROVIDER/MODEL"
    if kind == "network":
        where = BASE_VARIABLES.get(provider, ("",))[0]
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
