"""`goal`: propose a goal of the agent, for its later runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nexus_cli.core.message import ToolResult
from nexus_cli.core.run import PRIORITY
from nexus_cli.core.services import Spaces
from nexus_cli.core.tool import EditPreview, ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread


@dataclass(frozen=True, slots=True)
class GoalArguments:
    """The arguments of `goal`."""

    text: str
    priority: Annotated[int, {"minimum": 1, "maximum": 9}] = PRIORITY
    long_term: bool = False


async def run(arguments: GoalArguments, context: ToolContext) -> ToolResult:
    """Store the goal, which a person has accepted."""
    return await run_in_thread(
        lambda stop: context.service(Spaces).add_goal(arguments.text, arguments.priority, arguments.long_term)
    )


def preview(arguments: GoalArguments, context: ToolContext) -> EditPreview:
    """Return the agent, its goals, and the new one."""
    return EditPreview(context.service(Spaces).describe_goal(arguments.text, arguments.priority, arguments.long_term))
