"""`/reflect`: the model looks back at its work and keeps its lessons."""

from __future__ import annotations

from nexus_cli.commands.arguments import refuse_arguments
from nexus_cli.commands.command import Command, CommandContext
from nexus_cli.config.paths import project_root
from nexus_cli.core.errors import NexusError
from nexus_cli.session.acts.reflect import reflection
from nexus_cli.session.reports.memory import waiting


async def run(context: CommandContext, rest: str) -> None:
    """Let the model look back and keep its lessons.

    What it learned goes to memory, slot agent; what you did not say yourself waits there until you accept it (see
    /memory). The conversation is left as it is: nothing is added to it and its next request finds its cache.
    """
    refuse_arguments("reflect", rest)
    told: list[str] = []
    before = _waiting(context)

    async def work() -> None:
        async for event in context.session.act(reflection(told.append)):
            context.feed(event)

    await context.busy("reflecting", work())
    after = _waiting(context)
    new = [fact_id for fact_id in after if fact_id not in before]
    value = {"version": 1, "text": told[0] if told else "", "waiting": new, "older": len(after) - len(new)}
    context.show("reflection", value)


def _waiting(context: CommandContext) -> list[str]:
    """The ids of the facts that wait for the person; none where the ledger does not answer."""
    ledger = context.session.ledger
    try:
        return [] if ledger is None else waiting(ledger, str(project_root(context.session.folder)))
    except NexusError:
        return []


COMMAND = Command("reflect", "work", run, idle=True)
