"""Values and protocols that every room shares. Imports the standard library only; its exports are loaded on access."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nexus_cli.core.message import Message, Role, ToolCall, ToolResult

__all__ = ["Message", "Role", "ToolCall", "ToolResult"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.message"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
