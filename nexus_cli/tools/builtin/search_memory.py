"""`search_memory`: find kept facts, with id, date and source."""

from __future__ import annotations

from dataclasses import dataclass

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import Facts, MemorySlot
from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread

LIMIT = 20


@dataclass(frozen=True, slots=True)
class SearchMemoryArguments:
    """The arguments of `search_memory`."""

    query: str
    slot: MemorySlot | None = None


async def run(arguments: SearchMemoryArguments, context: ToolContext) -> ToolResult:
    """Return a line for each fact, best match first, at most `LIMIT`, and a last line if there are more."""
    try:
        slots = (arguments.slot,) if arguments.slot else ()
        facts = await run_in_thread(lambda stop: context.service(Facts).search(arguments.query, slots, LIMIT + 1))
    except (ValueError, NexusError) as error:
        return ToolResult(error=str(error))
    lines = [f"{fact.id} ({fact.slot}, {fact.at[:10]}, {fact.source}): {fact.statement}" for fact in facts[:LIMIT]]
    if len(facts) > LIMIT:
        lines.append(f"[the best {LIMIT}; there are more: narrow the query or name a slot]")
    ids = tuple(fact.id for fact in facts[:LIMIT])
    return ToolResult("\n".join(lines) or "no stored fact matches", facts=ids)
