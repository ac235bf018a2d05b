"""Report remembered facts of a project and of its person, proposals first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from nexus_cli.core.clock import format_local_minute
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import Fact, FactState, MemorySlot
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.fact_traces import find_sessions_with
from nexus_cli.session.memory.session_facts import AcceptedFacts

if TYPE_CHECKING:
    from nexus_cli.core.json_types.setup_reports import FactsReport

HITS = 20
NAME = 24
"""Most characters of a session's name."""


def list_facts(ledger: Ledger, project: str | None, slots: Collection[MemorySlot] = (), here: str = "") -> FactsReport:
    """Return all facts in `project` (None: in all of them), the newest first; `here` is the id of the asking
    session."""
    return facts_report(ledger, ledger.facts.list_facts(project, slots), here, project=project)


def search_facts(
    ledger: Ledger, text: str, project: str | None, slots: Collection[MemorySlot] = (), here: str = ""
) -> FactsReport:
    """Return the kept facts that fit `text`, the best first; raise `NexusError("usage", ...)` if it is empty."""
    if not text.strip():
        raise NexusError("usage", "nothing to search for", "the text is empty", "Name some words")
    found = ledger.facts.search(text, project, slots, HITS + 1)
    return facts_report(ledger, found[:HITS], here, more=len(found) > HITS, project=project, text=text, whole=True)


def facts_report(ledger: Ledger, facts: Sequence[Fact], here: str = "", **more: Any) -> FactsReport:
    """Return facts as JSON with their origin in words: `source`, and `place` without the message.

    A forgotten fact also has the sessions in which it can still be read (`told_in`); `here` is the open one.
    """
    known: dict[str, str] = {}
    forgotten = more.get("done") == "forgotten"
    rows = []
    for fact in facts:
        place = ""
        if fact.entry and not fact.deleted:
            place = known.setdefault(fact.session, _place(ledger, fact.session, here))
        source = f"{place}, message {fact.entry}" if place else _typed(fact)
        told = {"told_in": find_sessions_with(ledger.db, fact)} if forgotten else {}
        said = {"statement": fact.statement, "waits": fact.waits}
        rows.append(asdict(fact) | said | {"source": source, "place": place or source} | told)
    return cast("FactsReport", {"version": 1, **more, **({"here": here} if forgotten else {}), "facts": rows})


def acceptance_report(ledger: Ledger, done: AcceptedFacts, here: str = "") -> FactsReport:
    """Return the accepted facts as JSON, with the facts `forgotten` for them."""
    gone = facts_report(ledger, done.forgotten, here, done="forgotten")
    return {**facts_report(ledger, done.kept, here, done="kept"), "here": here, "forgotten": gone["facts"]}


def list_proposals(ledger: Ledger, project: str) -> list[str]:
    """Return the ids of the proposals, oldest first."""
    return [fact.id for fact in reversed(ledger.facts.list_facts(project, state=FactState.PROPOSED))]


def _typed(fact: Fact) -> str:
    return "typed by you" if not fact.entry and fact.actor == "person" else fact.source


def _place(ledger: Ledger, session: str, here: str) -> str:
    """Describe a session: "this one", its name, or its day and the end of its id."""
    if session == here:
        return "this session"
    try:
        info = ledger.session(session)
    except NexusError:
        return f"session ..{session[-6:]}"
    named = f'"{info.name[:NAME]}"' if info.name else f"..{session[-6:]}"
    return f"session {named} of {format_local_minute(info.created, '%Y-%m-%d')}"
