"""The context of a conversation: prompts, history, token budget, truncation, compaction (seed A's module exports). Each
export loads its module on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nexus_cli.context.compaction import CompactionResult, build_summarize_prompt, select_messages_for_compaction
    from nexus_cli.context.manager import ContextConfig, ContextManager
    from nexus_cli.context.prompt_loader import LoadedPrompt, PromptLoader
    from nexus_cli.conversation.tokens.counter import (
        SimpleTokenCounter,
        TiktokenCounter,
        TokenCounter,
        get_token_counter,
    )
    from nexus_cli.core.summary_message import create_summary_message

__all__ = [
    "CompactionResult",
    "ContextConfig",
    "ContextManager",
    "LoadedPrompt",
    "PromptLoader",
    "SimpleTokenCounter",
    "TiktokenCounter",
    "TokenCounter",
    "build_summarize_prompt",
    "create_summary_message",
    "get_token_counter",
    "select_messages_for_compaction",
]

_HOMES = {
    "context.compaction": (
        "CompactionResult",
        "build_summarize_prompt",
        "create_summary_message",
        "select_messages_for_compaction",
    ),
    "context.manager": ("ContextConfig", "ContextManager"),
    "context.prompt_loader": ("LoadedPrompt", "PromptLoader"),
    "conversation.tokens.counter": ("SimpleTokenCounter", "TiktokenCounter", "TokenCounter", "get_token_counter"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"nexus_cli.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
