"""`remember`: store a fact for later sessions. `Facts` decides whether it is kept or proposed."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import Fact, Facts, FactState, MemorySlot
from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread


@dataclass(frozen=True, slots=True)
class RememberArguments:
    """The arguments of `remember`."""

    text: str
    slot: MemorySlot
    quote: str = ""


async def run(arguments: RememberArguments, context: ToolContext) -> ToolResult:
    """Store the fact and return one line: id, slot, and `kept` or the command to accept it."""
    try:
        fact = await run_in_thread(
            lambda stop: context.service(Facts).remember(arguments.slot, arguments.text, arguments.quote)
        )
    except (ValueError, NexusError) as error:
        return ToolResult(error=str(error))
    return ToolResult(_format_fact(fact), facts=(fact.id,))


def _format_fact(fact: Fact) -> str:
    if not fact.waits:
        return f"{fact.id} ({fact.slot}): kept"
    status = "proposed" if fact.state is FactState.PROPOSED else "the quoted sentence is kept; this wording is proposed"
    return f"{fact.id} ({fact.slot}): {status}; the person can accept it: /memory accept {fact.id}"
