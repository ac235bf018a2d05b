"""`/memory`: facts remembered across sessions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, cast

from nexus_cli.commands.verb import Authority, Noun, Report, Source, Verb
from nexus_cli.core.clock import format_local_minute, utc_now
from nexus_cli.core.entry import PERSON
from nexus_cli.core.errors import NexusError, UsageError, suggest_name
from nexus_cli.core.json_value import ABSENT, JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.memory import Fact, FactState, MemorySlot
from nexus_cli.core.option import Argument, Option
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.fact_traces import find_sessions_with
from nexus_cli.reports.text.blocks import Blocks, Paragraph, Table, Verbatim, paragraphs
from nexus_cli.reports.text.command_names import name_commands
from nexus_cli.reports.text.lines import plural, when

HITS = 20
NAME = 24
"""Most characters of a session's name."""
CURRENT_SESSION_NOTE = "  # the current session: exit it first"
"""Comment after the command that deletes the session in which it is shown: the line can still be pasted."""


class FactObject(JsonOf[Fact]):
    """A fact, and where it comes from."""

    statement: str
    """The text that requests contain: the fact, or the quote of an unaccepted paraphrase."""
    waits: bool
    """True if the person can accept it."""
    source: str
    place: str
    told_in: list[Any] = ABSENT
    """For a forgotten fact: sessions that still contain it."""


class _Facts(VersionedReport):
    facts: list[FactObject]


class FactsReport(_Facts, total=False):
    """The facts that were found or changed."""

    project: str | None
    more: bool
    text: str
    whole: bool
    done: str
    here: str
    forgotten: list[FactObject]


def facts_report(ledger: Ledger, facts: Sequence[Fact], open_session: str = "", **more: Any) -> FactsReport:
    """Return facts as JSON with their origin in words: `source`, and `place` without the message.

    A forgotten fact also has the sessions in which it can still be read (`told_in`); `open_session` is the current one.
    """
    places_by_session: dict[str, str] = {}
    forgotten = more.get("done") == "forgotten"
    rows = []
    for fact in facts:
        place = ""
        if fact.entry and not fact.deleted:
            place = places_by_session.setdefault(fact.session, _place(ledger, fact.session, open_session))
        source = f"{place}, message {fact.entry}" if place else _typed(fact)
        if fact.colleague:
            source = place = fact.source
        readable_in = {"told_in": find_sessions_with(ledger.db, fact)} if forgotten else {}
        wording = {"statement": fact.statement, "waits": fact.waits}
        rows.append(to_json_value(fact) | wording | {"source": source, "place": place or source} | readable_in)
    return cast("FactsReport", {"version": 1, **more, **({"here": open_session} if forgotten else {}), "facts": rows})


def acceptance_report(
    ledger: Ledger, accepted: Sequence[Fact], forgotten: Sequence[Fact], open_session: str = ""
) -> FactsReport:
    """Return the `accepted` facts as JSON, with the facts `forgotten` for them."""
    forgotten_report = facts_report(ledger, forgotten, open_session, done="forgotten")
    return {
        **facts_report(ledger, accepted, open_session, done="kept"),
        "here": open_session,
        "forgotten": forgotten_report["facts"],
    }


def _typed(fact: Fact) -> str:
    return "typed by you" if not fact.entry and fact.actor == "person" else fact.source


def _place(ledger: Ledger, session: str, open_session: str) -> str:
    """Describe a session: "this one", its name, or its day and the end of its id."""
    if session == open_session:
        return "this session"
    try:
        info = ledger.session(session)
    except NexusError:
        return f"session ..{session[-6:]}"
    label = f'"{info.name[:NAME]}"' if info.name else f"..{session[-6:]}"
    return f"session {label} of {format_local_minute(info.created, '%Y-%m-%d')}"


def memory_text(value: JsonObject) -> Blocks:
    """List the facts of a listing or a search."""
    facts = value["facts"]
    waiting = [fact for fact in facts if fact["state"] == "proposed" or fact.get("waits")]
    saved = [fact for fact in facts if fact["state"] == "kept"]
    if not facts:
        nothing = "No facts yet."
        if value.get("project"):
            nothing = "No facts about this project yet. --all lists the facts of every project."
        yield "No facts match." if "text" in value else nothing
    if waiting:
        yield from [_waits(waiting), *_describe_in_full(waiting), *([""] if saved else [])]
    if value.get("whole"):
        yield from _describe_in_full(saved)
        if value.get("more"):
            yield from ["", f"Only the best {len(facts)} matches are shown."]
    elif saved:
        columns = {
            "id": "id",
            "slot": "slot",
            "since": lambda fact: when(fact["at"])[:10],
            "from": lambda fact: fact.get("place") or fact["source"],
            "text": _statement,
        }
        yield Table(columns, saved)


def fact_text(value: JsonObject) -> Blocks:
    """Describe the action on facts, and list them. A forgotten fact is gone, so that this is its last line."""
    facts, action = value["facts"], value.get("done", "kept")
    removed = facts if action == "forgotten" else value.get("forgotten", [])
    if not facts and not removed:
        yield "No facts to change."
    elif action != "forgotten":
        yield from ["Saved:", *_describe_in_full(facts)]
    for fact in removed:
        yield from _forgotten(fact, value["here"])


def _forgotten(fact: JsonObject, open_session: str) -> Blocks:
    """List the fact and every session in which it stays readable until that is deleted: no later report could name
    them."""
    sessions = fact["told_in"]
    heading = "Forgotten" if sessions else "Forgotten permanently"
    yield Paragraph(f"{heading}: {fact['id']} ({fact['slot']}) {fact['text']}", "    ", "")
    if sessions:
        which = "The model can still read this fact in 1 session until you delete the session:"
        if len(sessions) > 1:
            which = f"The model can still read this fact in {len(sessions):,} sessions until you delete them:"
        yield Paragraph(which, "    ", "")
        for session in sessions:
            yield Verbatim(
                name_commands(
                    f"nexus sessions delete {session}{CURRENT_SESSION_NOTE if session == open_session else ''}"
                ),
                "    ",
            )


def _waits(waiting: list[JsonObject]) -> str:
    ids = waiting[0]["id"] if len(waiting) == 1 else "ID, or all"
    facts = plural(len(waiting), "fact")
    return name_commands(f"{facts} proposed by the model (to accept: nexus memory accept {ids}):")


def _describe_in_full(facts: list[JsonObject]) -> Blocks:
    for fact in facts:
        head = f"{fact['id']}  {fact['slot']}, {when(fact['at'])[:10]}, {fact['source']}"
        worded = fact["state"] == "kept" and fact.get("waits")
        yield Paragraph(head, "    ", "")
        yield Paragraph(_statement(fact), "    ")
        if worded:
            accept = name_commands(f"nexus memory accept {fact['id']}")
            how = f"active in your wording; the model proposes another (to accept: {accept}): {fact['text']}"
            yield Paragraph(how, "    ")
        if fact["state"] == "proposed" and fact.get("quote"):
            ground = "the model's reason" if fact["actor"] == "agent" else f"based on {fact['actor']}"
            yield Paragraph(f'{ground}: "{fact["quote"]}"', "    ")
        if fact["state"] == "proposed" and fact.get("replaces"):
            yield Paragraph(f"replaces {', '.join(fact['replaces'])}", "    ")


def _statement(fact: JsonObject) -> str:
    """Return a kept fact as requests state it, or a proposal in the wording to be accepted."""
    return str(fact["text"] if fact["state"] == "proposed" else fact.get("statement") or fact["text"])


def changed_facts_text(value: JsonObject) -> Blocks:
    """Format the report: the changed facts, then the model's comment."""
    lines = []
    for fact in value["remembered"]:
        waits = (
            f"proposed; to accept: nexus memory accept {fact['id']}" if fact["state"] == "proposed" else fact["state"]
        )
        waits += f"; then {', '.join(fact['replaces'])} will be forgotten" if fact["replaces"] else ""
        lines.append(f"+ {fact['id']} {fact['text']} ({waits})")
    lines += [f"- {fact['id']} {fact['text']}" for fact in value["forgotten"]]
    head = f"{plural(value['looked_at'], 'fact')} reviewed"
    head += f", {plural(value['left'], 'older fact')} skipped" if value["left"] else ""
    head += "." if lines else "; nothing changed."
    yield head
    yield from paragraphs(lines, "      ", "")
    if comment := value["answer"].strip():
        yield ""
        yield from paragraphs(comment.splitlines())


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
    facts = source.ledger.facts.list_facts(project, _slots(slot))
    return Report("memory", facts_report(source.ledger, facts, source.session(), project=project), uncut=True)


def build_search(
    source: Source,
    text: Annotated[str, Argument("TEXT", "Words to search for.", least=0)],
    everywhere: Everywhere = False,
    slot: Slot = "",
) -> Report[FactsReport]:
    """Search saved facts, best match first."""
    project = None if everywhere else source.project
    if not text.strip():
        raise UsageError("nothing to search for", "the text is empty", "Enter text to search for")
    facts = source.ledger.facts.search(text, project, _slots(slot), HITS + 1)
    details = {"more": len(facts) > HITS, "project": project, "text": text, "whole": True}
    return Report("memory", facts_report(source.ledger, facts[:HITS], source.session(), **details), uncut=True)


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
    return Report("fact", facts_report(source.ledger, [fact], source.session(), done="kept"), changed=True)


def accept_facts(
    source: Source,
    key: Annotated[str, Argument("ID", "Ids of proposals, or `all` for every listed proposal.")],
) -> Report[FactsReport]:
    """Accept a fact that the model proposed."""
    accepted, forgotten = accept_proposals(source.ledger, _names(key), source.project, utc_now())
    return Report("fact", acceptance_report(source.ledger, accepted, forgotten, source.session()), changed=True)


def forget_facts(
    source: Source, key: Annotated[str, Argument("ID", "Ids of facts, such as m12.")]
) -> Report[FactsReport]:
    """Remove a fact and its text from memory. This cannot be undone.

    Sessions that contain the fact keep it until you delete them; the command lists these sessions.
    """
    facts = source.ledger.facts
    facts_by_id = {fact.id: fact for fact in map(facts.get, _names(key))}
    forgotten = [facts.forget(name, utc_now()) or fact for name, fact in facts_by_id.items()]
    return Report("fact", facts_report(source.ledger, forgotten, source.session(), done="forgotten"), changed=True)


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
