"""`forget`: withdraw a proposed fact; only the person may forget facts that they stated or accepted."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import Facts
from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread


@dataclass(frozen=True, slots=True)
class ForgetArguments:
    """The arguments of `forget`."""

    id: str


async def run(arguments: ForgetArguments, context: ToolContext) -> ToolResult:
    """Forget the fact and return one line about it."""
    try:
        fact = await run_in_thread(lambda stop: context.service(Facts).forget(arguments.id))
    except (ValueError, NexusError) as error:
        return ToolResult(error=str(error))
    if fact is None:
        why = "forget withdraws proposals, by the id that remember returned; only the person can forget kept facts"
        return ToolResult(error=f"there is no fact {arguments.id[:40]!r} here; {why}")
    return ToolResult(f"{fact.id} ({fact.slot}): forgotten")
