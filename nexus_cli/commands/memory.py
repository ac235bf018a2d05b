"""`/memory`: what is remembered over sessions."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.commands.command import Command, Desk
from nexus_cli.commands.line import ledger_of, wrong
from nexus_cli.core.clock import local_now, stamp
from nexus_cli.core.memory import MemorySlot
from nexus_cli.core.paths import project
from nexus_cli.session import memory
from nexus_cli.session.reports import memory as reports

ACTS = ("add", "accept", "forget", "search")
SLOTS = tuple(map(str, MemorySlot))


async def run(desk: Desk, rest: str) -> None:
    """Show, add, accept or forget what is remembered.

    Alone it lists the facts of this project, of you and of the agent; proposals of the model come first and count once
    you accept them. add [user|project|agent] TEXT keeps a fact (in project), accept ID or accept all keeps proposals,
    forget ID removes a fact for good, search WORDS shows the kept ones that fit.
    """
    ledger, root = ledger_of(desk), str(project(desk.session.folder))
    act, _, text = rest.partition(" ")
    text, at = text.strip(), stamp(local_now())
    if not rest:
        desk.show("memory", reports.listing(ledger, root))
        return
    if act not in ACTS:
        raise wrong("memory", rest, f"it is followed by {', '.join(ACTS)}")
    if not text:
        raise wrong("memory", rest, "something is missing behind it")
    match act:
        case "add":
            slot, _, words = text.partition(" ")
            known = slot.casefold() in SLOTS and bool(words.strip())
            chosen = MemorySlot(slot.casefold()) if known else MemorySlot.PROJECT
            fact = memory.state(ledger, chosen, words if known else text, root, at, desk.session.id)
            desk.show("fact", reports.value([fact], done="kept"))
        case "accept":
            desk.show("fact", reports.value(memory.accept(ledger, text, root, at), done="kept"))
        case "forget":
            desk.show("fact", reports.value([memory.forget(ledger, text, at)], done="forgotten"))
        case _:
            desk.show("memory", reports.search(ledger, text, root))


def _words(desk: Desk) -> Sequence[str]:
    return ACTS


COMMAND = Command("memory", "context", run, "[add|accept|forget|search ...]", complete=_words)
