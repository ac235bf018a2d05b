"""`merge_facts`: propose one fact in place of several. Offered only in a run that consolidates memory."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import FactMerger
from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread


@dataclass(frozen=True, slots=True)
class MergeFactsArguments:
    """The arguments of `merge_facts`."""

    ids: tuple[str, ...]
    text: str


async def run(arguments: MergeFactsArguments, context: ToolContext) -> ToolResult:
    """Return one line: the proposal's id and slot, and the facts that stay until the person accepts it."""
    try:
        fact = await run_in_thread(lambda stop: context.service(FactMerger).merge(arguments.ids, arguments.text))
    except (ValueError, NexusError) as error:
        return ToolResult(error=str(error))
    stays = f"; until then {', '.join(fact.replaces)} stay" if fact.replaces else ""
    return ToolResult(f"{fact.id} ({fact.slot}): waits for the person{stays}", facts=(fact.id, *fact.replaces))
