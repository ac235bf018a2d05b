"""The context of a conversation: prompts, history, token budget, truncation, compaction (seed A's module exports)."""

from nexus_cli.context.compaction import (
    CompactionResult,
    build_summarize_prompt,
    create_summary_message,
    select_messages_for_compaction,
)
from nexus_cli.context.manager import ContextConfig, ContextManager
from nexus_cli.context.prompt_loader import LoadedPrompt, PromptLoader
from nexus_cli.context.tokens import SimpleTokenCounter, TiktokenCounter, TokenCounter, get_token_counter

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
