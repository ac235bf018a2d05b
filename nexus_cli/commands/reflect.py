"""`/reflect`: have the model review its work and save lessons."""

from __future__ import annotations

from nexus_cli.commands.command import CommandContext, run_act
from nexus_cli.commands.verb import Authority, Noun, Report, Verb
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.core.memory import FactState
from nexus_cli.reports.text.blocks import Blocks, paragraphs
from nexus_cli.reports.text.lines import plural
from nexus_cli.session.acts.memory import reflection

MAX_SHOWN = 5
"""Most facts that are named by their ids."""


class ReflectionReport(VersionedReport):
    """The model's review of a session."""

    text: str
    waiting: list[str]
    """The ids of the facts that it proposed."""
    older: int
    """Facts proposed earlier that still wait."""


def reflection_text(value: JsonObject) -> Blocks:
    """Show the model's review (None if it is shown already), and the lessons that wait."""
    if value["text"] is not None:
        yield from paragraphs(value["text"].strip().splitlines() or ["(no answer)"])
    if new := value.get("waiting"):
        every = "all" if len(new) > 1 and not value["older"] else "ID" if len(new) > 1 else new[0]
        names = ", ".join(new) if len(new) <= MAX_SHOWN else f"{new[0]} to {new[-1]}"
        lessons = f"{plural(len(new), 'new lesson')} ({names})"
        yield from ["", f"{lessons}: review with /memory, keep with /memory accept {every}."]


async def reflect(context: CommandContext) -> Report[ReflectionReport]:
    """Have the model review its work and save lessons.

    nexus saves the lessons to memory, slot agent. Lessons that you did not state yourself wait until you accept them
    (see /memory). The conversation is not changed, so its next request still hits the cache.
    """
    replies: list[str] = []
    before = _list_proposals(context)
    await run_act(context, "reflecting", reflection(replies.append))
    after = _list_proposals(context)
    new = [fact_id for fact_id in after if fact_id not in before]
    text = replies[0] if replies else ""
    return Report("reflection", {"version": 1, "text": text, "waiting": new, "older": len(after) - len(new)})


def _list_proposals(context: CommandContext) -> list[str]:
    """Return the ids of the proposed facts, oldest first; none if the ledger fails."""
    ledger = context.session.ledger
    try:
        facts = ledger.facts.list_facts(ledger.project_of(context.session.folder), state=FactState.PROPOSED)
    except NexusError:
        return []
    return [fact.id for fact in reversed(facts)]


NOUN = Noun("reflect", "run", (Verb(reflect, authority=Authority.KEEPS),), is_idle=True)
