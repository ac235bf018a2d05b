"""`goal`: propose a goal of the agent, for its later runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.core.message import ToolResult
from nexus_cli.core.run import PRIORITY
from nexus_cli.core.services import Spaces
from nexus_cli.core.tool import EditPreview, ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Store the goal, which a person has accepted."""
    spaces: Spaces = context.services[Spaces]
    return await run_in_thread(lambda stop: spaces.add_goal(*_words(arguments)))


def preview(arguments: Mapping[str, Any], context: ToolContext) -> EditPreview:
    """Return the agent, its goals, and the new one."""
    spaces: Spaces = context.services[Spaces]
    return EditPreview(spaces.describe_goal(*_words(arguments)))


def _words(arguments: Mapping[str, Any]) -> tuple[str, int, bool]:
    return arguments["text"], arguments.get("priority", PRIORITY), arguments.get("long_term", False)
