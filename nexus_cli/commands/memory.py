"""`/memory`: facts remembered across sessions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from nexus_cli.commands.arguments import read_source, require_ledger, show_report, split_act
from nexus_cli.commands.command import Command, CommandContext, Option, Report, Source, Twin, usage_error
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.errors import NexusError, nearest_name
from nexus_cli.core.memory import MemorySlot
from nexus_cli.reports import memory as reports
from nexus_cli.session import session_facts

ACTS = ("add", "accept", "forget", "search", "list")
CHANGES = ("add", "accept", "forget")
USAGE = {"add": "[user|project|agent] TEXT", "accept": "ID..., or all", "forget": "ID...", "search": "WORDS"}
MISSING = {
    "add": "what to remember",
    "accept": "which fact: an id, several, or all",
    "forget": "which fact: an id, or several",
    "search": "what to search for",
}
CONSOLIDATE = "consolidate"
IDS = re.compile(r"[\s,;]+")
SLOTS = tuple(map(str, MemorySlot))
OFFERED = 50
"""Most facts whose ids completion offers."""
Slot = Annotated[str, Option("|".join(SLOTS), "Who or what it is about.", "--slot")]
Everywhere = Annotated[bool, Option(help="Those of every project.", name="--all")]


def build_list(source: Source, everywhere: Everywhere = False, slot: Slot = "") -> Report:
    """List the facts about this project, you and the agent; those that wait for you come first."""
    project = None if everywhere else source.project
    return Report("memory", reports.list_facts(source.ledger, project, _slots(slot), source.session()), whole=True)


def build_search(
    source: Source,
    text: Annotated[str, Option("TEXT", "Words to search for.", is_argument=True, least=0)],
    everywhere: Everywhere = False,
    slot: Slot = "",
) -> Report:
    """Show the saved facts that match some words, the best first."""
    project = None if everywhere else source.project
    found = reports.search_facts(source.ledger, text, project, _slots(slot), source.session())
    return Report("memory", found, whole=True)


def add_fact(
    source: Source,
    text: Annotated[list[str], Option("TEXT", "One short sentence.", is_argument=True)],
    slot: Slot = MemorySlot.PROJECT.value,
) -> Report:
    """Keep a fact, in the project slot unless --slot says otherwise."""
    (chosen,) = _slots(slot) or (MemorySlot.PROJECT,)
    words = " ".join(text)
    if words.strip().casefold() in SLOTS:
        why = "the fact itself is missing"
        raise NexusError(
            "usage", f"{source.prefix}memory add {words.strip()}", why, f"--slot {words.strip()} and a TEXT"
        )
    made = session_facts.add_fact(source.ledger, chosen, words, source.project, _now(), source.session())
    return Report("fact", reports.facts_report(source.ledger, [made], source.session(), done="kept"))


def accept_facts(
    source: Source,
    key: Annotated[str, Option("ID", "A proposal's id, or all for those that are listed.", is_argument=True)],
) -> Report:
    """Accept a fact that the model proposed."""
    done = session_facts.accept(source.ledger, _names(key), source.project, _now())
    return Report("fact", reports.acceptance_report(source.ledger, done, source.session()))


def forget_facts(
    source: Source, key: Annotated[str, Option("ID", "The fact's id, such as m12.", is_argument=True)]
) -> Report:
    """Remove a fact and its text from memory. This cannot be undone.

    Sessions that were sent it, or in which it was said, keep it until you delete them: they are named.
    """
    known = dict.fromkeys(source.ledger.facts.get(name).id for name in _names(key))
    gone = [session_facts.forget(source.ledger, name, _now()) for name in known]
    return Report("fact", reports.facts_report(source.ledger, gone, source.session(), done="forgotten"))


TWINS = (
    Twin(build_list, "list"),
    Twin(build_search, "search"),
    Twin(add_fact, "add", "create"),
    Twin(accept_facts, "accept", "write"),
    Twin(forget_facts, "forget", "write"),
)


def _slots(name: str) -> tuple[MemorySlot, ...]:
    """Return the slot of this name, none for ""; raise `NexusError("usage", ...)` for another name."""
    if name and name not in SLOTS:
        near = nearest_name(name, SLOTS)
        hint = f"The nearest is {near}" if near else "Give one of them"
        raise NexusError("usage", f"wrong value for --slot: '{name}'", f"it must be one of {', '.join(SLOTS)}", hint)
    return (MemorySlot(name),) if name else ()


def _now() -> str:
    return format_utc(local_now())


async def edit_memory(context: CommandContext, rest: str) -> None:
    """Show, add, accept or forget what is remembered.

    Without an argument it lists the facts of this project, of you and of the agent; proposals of the model come first
    and take effect once you accept them. add [user|project|agent] TEXT saves a fact (in project), accept ID... or all
    saves proposals, forget ID... removes facts and their texts from memory (it names the sessions that contain them,
    which keep them until you delete them), search WORDS lists matching facts.
    """
    source = read_source(context)
    act, text = split_act(rest)
    if act in CHANGES and not source.ledger.is_kept:
        raise NexusError("usage", f"/memory {act}", "this session is not saved", "Use nexus memory in a shell")
    if act in ("", "list") and not text:
        show_report(context, build_list(source))
        return
    if act == CONSOLIDATE:
        hint = f"In a shell: nexus memory {CONSOLIDATE}"
        raise usage_error("memory", rest, "this runs in a separate session", hint)
    if act == "list":
        raise usage_error("memory", rest, "list takes no arguments", "/memory search WORDS lists matching facts")
    if act not in ACTS:
        raise usage_error("memory", rest, f"expected one of {', '.join(ACTS)}")
    if not text:
        raise usage_error("memory", rest, f"the argument is missing: {MISSING[act]}", f"/memory {act} {USAGE[act]}")
    match act:
        case "add":
            slot, words = _split_slot(rest, text)
            show_report(context, add_fact(source, [words], slot))
        case "accept":
            show_report(context, accept_facts(source, text))
        case "forget":
            show_report(context, forget_facts(source, text))
        case _:
            show_report(context, build_search(source, text))


def _names(text: str) -> list[str]:
    """Return the ids in `text`."""
    return IDS.split(text.strip(", "))


def _split_slot(rest: str, text: str) -> tuple[MemorySlot, str]:
    """Split `text` into the slot that it begins with, in lower case, else project, and the words of the fact.

    Raises `NexusError("usage", ...)` for a slot without words or a misspelt slot. A capitalized word is the first word
    of a sentence.
    """
    first, _, words = text.partition(" ")
    if first.startswith("--"):
        raise usage_error("memory", rest, f"{first} is an option of the shell", f"/memory add {USAGE['add']}")
    named, words = first.casefold(), words.strip()
    if named in SLOTS and not words:
        raise usage_error("memory", rest, "the text of the fact is missing", f"/memory add {named} TEXT")
    if first in SLOTS:
        return MemorySlot(first), words
    if first != named:
        return MemorySlot.PROJECT, text
    near = next((slot for slot in SLOTS if _one_edit(named, slot)), "")
    if near and words:
        hint = f"/memory add {near} TEXT; or /memory add project {first} ... if it is a word of the fact"
        raise usage_error("memory", f"add {first} ...", f"{first} is not a slot, the nearest is {near}", hint)
    return MemorySlot.PROJECT, text


def _one_edit(word: str, slot: str) -> bool:
    """True if inserting, deleting or replacing one letter, or swapping two, turns `word` into `slot`."""
    if abs(len(word) - len(slot)) > 1 or word == slot:
        return False
    start = next((n for n, (a, b) in enumerate(zip(word, slot, strict=False)) if a != b), min(len(word), len(slot)))
    a, b = word[start:], slot[start:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[:2] == b[1::-1] and len(a) > 1 and a[2:] == b[2:])


def _complete_memory(context: CommandContext) -> Sequence[str]:
    """Return the verbs, plain and with their possible arguments."""
    try:
        ledger = require_ledger(context)
        found = ledger.facts.list_facts(ledger.project_of(context.session.folder), limit=OFFERED)
    except NexusError:
        found = []
    waits = [fact.id for fact in found if fact.waits]
    accept = [f"accept {name}" for name in (*waits, *(("all",) if len(waits) > 1 else ()))]
    return [*ACTS, *(f"add {slot}" for slot in SLOTS), *accept, *(f"forget {fact.id}" for fact in found)]


COMMANDS = (
    Command(
        "memory",
        "context",
        edit_memory,
        "[add|accept|forget|search|list ...]",
        complete=_complete_memory,
        served=lambda context, rest: split_act(rest)[0] not in CHANGES,
    ),
)
