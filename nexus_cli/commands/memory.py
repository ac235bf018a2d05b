"""`/memory`: facts remembered across sessions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from nexus_cli.commands.verb import Authority, Noun, Report, Source, Verb
from nexus_cli.core.clock import utc_now
from nexus_cli.core.entry import PERSON
from nexus_cli.core.errors import UsageError, suggest_name
from nexus_cli.core.memory import Fact, FactState, MemorySlot
from nexus_cli.core.option import Argument, Option
from nexus_cli.ledger import Ledger
from nexus_cli.reports import memory as reports
from nexus_cli.reports.memory import FactsReport

IDS = re.compile(r"[\s,;]+")
SLOTS = tuple(map(str, MemorySlot))
ALL = "all"
"""The argument for all proposals."""
OFFERED = 50
"""Most facts whose ids completion offers."""
Slot = Annotated[str, Option("|".join(SLOTS), "What a fact is about.", "--slot")]
Everywhere = Annotated[bool, Option(help="Show facts of every project.", name="--all")]


def build_list(source: Source, everywhere: Everywhere = False, slot: Slot = "") -> Report[FactsReport]:
    """List saved facts about this project, you and the agent; facts that wait for your approval come first."""
    project = None if everywhere else source.project
    return Report("memory", reports.list_facts(source.ledger, project, _slots(slot), source.session()), whole=True)


def build_search(
    source: Source,
    text: Annotated[str, Argument("TEXT", "Words to search for.", least=0)],
    everywhere: Everywhere = False,
    slot: Slot = "",
) -> Report[FactsReport]:
    """Search saved facts, best match first."""
    project = None if everywhere else source.project
    facts_report = reports.search_facts(source.ledger, text, project, _slots(slot), source.session())
    return Report("memory", facts_report, whole=True)


def add_fact(
    source: Source,
    text: Annotated[list[str], Argument("TEXT", "The fact, in one short sentence.", is_text=True, least=0)],
    slot: Slot = "",
) -> Report[FactsReport]:
    """Save a fact, by default about the project (see --slot); in a session the first word may name the slot."""
    words = " ".join(text)
    if source.live and not slot:
        slot, words = _split_slot(words)
    (chosen,) = _slots(slot) or (MemorySlot.PROJECT,)
    if words.strip().casefold() in SLOTS:
        why = "the text of the fact is missing"
        raise UsageError(
            f"nexus memory add {words.strip()}", why, f"Usage: nexus memory add --slot {words.strip()} TEXT"
        )
    fact = keep_fact(source.ledger, chosen, words, source.project, utc_now(), source.session())
    return Report("fact", reports.facts_report(source.ledger, [fact], source.session(), done="kept"))


def accept_facts(
    source: Source,
    key: Annotated[str, Argument("ID", "Ids of proposals, or `all` for every listed proposal.")],
) -> Report[FactsReport]:
    """Accept a fact that the model proposed."""
    kept, forgotten = accept_proposals(source.ledger, _names(key), source.project, utc_now())
    return Report("fact", reports.acceptance_report(source.ledger, kept, forgotten, source.session()))


def forget_facts(
    source: Source, key: Annotated[str, Argument("ID", "Ids of facts, such as m12.")]
) -> Report[FactsReport]:
    """Remove a fact and its text from memory. This cannot be undone.

    Sessions that contain the fact keep it until you delete them; the command lists these sessions.
    """
    facts = source.ledger.facts
    facts_by_id = {fact.id: fact for fact in map(facts.get, _names(key))}
    gone = [facts.forget(name, utc_now()) or fact for name, fact in facts_by_id.items()]
    return Report("fact", reports.facts_report(source.ledger, gone, source.session(), done="forgotten"))


def keep_fact(ledger: Ledger, slot: MemorySlot, text: str, root: str, at: str, session: str = "") -> Fact:
    """Keep a fact that the person typed in project `root`; raise `UsageError` for a wrong length."""
    try:
        return ledger.facts.add(slot, text, state=FactState.KEPT, at=at, actor=PERSON, project=root, session=session)
    except ValueError as error:
        raise UsageError("the fact cannot be stored", str(error), "Give a short sentence") from error


def accept_proposals(ledger: Ledger, which: Sequence[str], root: str, at: str) -> tuple[list[Fact], list[Fact]]:
    """Accept proposals by id, or `all` of `root`; return the kept facts, and those that they replace. For an unknown id
    raise `UsageError`, and accept none."""
    if [word.strip().casefold() for word in which] == [ALL]:
        ids = [fact.id for fact in ledger.facts.list_facts(root) if fact.waits]
    else:
        ids = list(dict.fromkeys(ledger.facts.get(word).id for word in which))
    kept_ids, forgotten = list[str](), dict[str, Fact]()
    for proposal in filter(None, map(ledger.facts.find, ids)):
        old = filter(None, map(ledger.facts.find, proposal.replaces))
        forgotten.update({fact.id: fact for fact in old if fact.id != proposal.id})
        ledger.facts.accept(proposal.id, at)
        kept_ids.append(proposal.id)
    return [fact for fact in map(ledger.facts.find, kept_ids) if fact is not None], list(forgotten.values())


def _slots(name: str) -> tuple[MemorySlot, ...]:
    """Return the slot of this name, none for ""; raise `UsageError` for another name."""
    if name and name not in SLOTS:
        hint = suggest_name(name, SLOTS, "")
        raise UsageError(f"--slot {name}", f"must be one of {', '.join(SLOTS)}", hint)
    return (MemorySlot(name),) if name else ()


def _names(text: str) -> list[str]:
    """Return the ids in `text`."""
    return IDS.split(text.strip(", "))


def _split_slot(text: str) -> tuple[str, str]:
    """Split `text` into the slot that it begins with, in lower case, else project, and the words of the fact.

    Raises `UsageError` for a slot without words. A capitalized word is the first word of a sentence.
    """
    first, _, words = text.partition(" ")
    if first.casefold() in SLOTS and not words.strip():
        hint = f"Usage: /memory add {first.casefold()} TEXT"
        raise UsageError(f"/memory add {first}", "the text of the fact is missing", hint)
    return (first, words.strip()) if first in SLOTS else (MemorySlot.PROJECT.value, text)


def _complete_waiting(source: Source) -> Sequence[str]:
    """Return the ids of the proposals, and `all`."""
    waits = [fact.id for fact in _list_newest(source) if fact.waits]
    return [*waits, *((ALL,) if len(waits) > 1 else ())]


def _complete_known(source: Source) -> Sequence[str]:
    """Return the ids of the facts."""
    return [fact.id for fact in _list_newest(source)]


def _list_newest(source: Source) -> Sequence[Fact]:
    return source.ledger.facts.list_facts(source.project, limit=OFFERED)


NOUN = Noun(
    "memory",
    "context",
    (
        Verb(build_list, "list"),
        Verb(build_search, "search"),
        Verb(add_fact, "add", Authority.KEEPS, "create", complete=SLOTS),
        Verb(accept_facts, "accept", Authority.KEEPS, "write", complete=_complete_waiting, approves=True),
        Verb(forget_facts, "forget", Authority.KEEPS, "write", complete=_complete_known),
    ),
    "Show, add, accept or forget remembered facts.",
    "In a shell, `nexus memory consolidate` has the model merge and clean up facts.",
    ("consolidate",),
    aliases=("facts", "fact"),
)
