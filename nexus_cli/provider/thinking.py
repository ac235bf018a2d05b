"""Folds a model's thinking to what its provider wants back: signed blocks, or plain reasoning text.

Owns the joining of fragments and signatures. Leaves showing the thinking to the front ends. What has no signature is
for people only: Anthropic refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.core.request import OpaqueDelta

WANTS_REASONING = frozenset({"deepseek", "moonshot"})
"""Providers that ask for `reasoning_content` with every assistant message."""
NO_BLOCKS = frozenset({"mistral", "codestral", "gemini"})
"""Providers whose thinking blocks litellm makes up (Mistral) or carries elsewhere (Gemini, in the call's id)."""


class ThinkingFold:
    """The thinking of one reply."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._blocks: list[dict[str, Any]] = []
        self._unsigned: list[str] = []
        self._reasoning: list[str] = []

    def feed(self, delta: OpaqueDelta) -> None:
        """Takes a fragment; values of another shape than its field has are left out."""
        if delta.field == "reasoning_content":
            if isinstance(delta.value, str):
                self._reasoning.append(delta.value)
            return
        values = delta.value if isinstance(delta.value, list) else [delta.value]
        for block in values:
            if isinstance(block, Mapping):
                self._block(block)

    def _block(self, block: Mapping[str, Any]) -> None:
        if block.get("type") == "redacted_thinking":
            self._unsigned.clear()
            self._blocks.append(dict(block))
            return
        text, signature = block.get("thinking") or "", block.get("signature")
        if not signature:
            self._unsigned.append(text)
            return
        # The signature comes alone, or with the whole text of its block once more.
        before = "".join(self._unsigned)
        whole = text if text.startswith(before) else before + text
        self._blocks.append({**block, "type": "thinking", "thinking": whole, "signature": signature})
        self._unsigned.clear()

    def fields(self) -> dict[str, Any]:
        """The fields to merge into the message when it goes back to the same provider and model."""
        if self._provider in WANTS_REASONING:
            text = "".join(self._reasoning)
            return {"reasoning_content": text} if text else {}
        if self._provider in NO_BLOCKS or not self._blocks:
            return {}
        return {"thinking_blocks": self._blocks}
