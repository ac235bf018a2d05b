"""Values and seams that every room shares. Standard library only (platformdirs in `paths`)."""

from nexus_cli.core.message import Message, Role, ToolCall, ToolResult

__all__ = ["Message", "Role", "ToolCall", "ToolResult"]
