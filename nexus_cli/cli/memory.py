"""`nexus memory list | add | accept | forget | search | consolidate`: what is remembered over sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from nexus_cli.cli.command_options import Json, Model, refuse_empty, working_folder
from nexus_cli.cli.print_report import print_report
from nexus_cli.cli.session_lookup import open_ledger
from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.config.worktree_record import project_identity
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.errors import NexusError, nearest_name
from nexus_cli.core.memory import MemorySlot
from nexus_cli.ledger import Ledger
from nexus_cli.reports import memory as reports
from nexus_cli.reports.memory import fact_text, memory_text
from nexus_cli.session.memory import session_facts

app = typer.Typer(add_completion=False, rich_markup_mode=None, help="Facts remembered across sessions.")
SLOTS = tuple(map(str, MemorySlot))
Id = Annotated[str, typer.Argument(metavar="ID", help="The fact's id, such as m12.", callback=refuse_empty)]
Slot = Annotated[
    str, typer.Option("--slot", metavar="|".join(SLOTS), help="Who or what it is about.", callback=refuse_empty)
]
Everywhere = Annotated[bool, typer.Option("--all", help="Those of every project.")]


@app.command("list")
def list_facts(everywhere: Everywhere = False, slot: Slot = "", json: Json = False) -> int:
    """List the facts about this project, you and the agent; those that wait for you come first."""
    value = reports.list_facts(open_ledger(), None if everywhere else _root(), _slots(slot))
    return print_report(value, memory_text, json=json, whole=True)


@app.command("search")
def search(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Words to search for.")],
    everywhere: Everywhere = False,
    slot: Slot = "",
    json: Json = False,
) -> int:
    """Show the saved facts that match some words, the best first."""
    value = reports.search_facts(open_ledger(), text, None if everywhere else _root(), _slots(slot))
    return print_report(value, memory_text, json=json, whole=True)


@app.command("add")
def add(
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="One short sentence.")],
    slot: Slot = "project",
    json: Json = False,
) -> int:
    """Keep a fact, in the project slot unless --slot says otherwise."""
    (chosen,) = _slots(slot) or (MemorySlot.PROJECT,)
    words = " ".join(text)
    if words.strip().casefold() in SLOTS:
        why = "the fact itself is missing"
        raise NexusError("usage", f"nexus memory add {words.strip()}", why, f"--slot {words.strip()} and a TEXT")
    ledger = Ledger.open(ledger_place())
    return _done(ledger, [session_facts.add_fact(ledger, chosen, words, _root(), _now())], "kept", json)


@app.command("accept")
def accept(
    key: Annotated[
        str,
        typer.Argument(metavar="ID", help="A proposal's id, or all for those that are listed.", callback=refuse_empty),
    ],
    json: Json = False,
) -> int:
    """Accept a fact that the model proposed."""
    ledger = open_ledger(writes=True)
    value = reports.acceptance_report(ledger, session_facts.accept(ledger, [key], _root(), _now()))
    return _print_change(ledger, value, json)


@app.command("forget")
def forget(key: Id, json: Json = False) -> int:
    """Remove a fact and its text from memory. This cannot be undone.

    Sessions that were sent it, or in which it was said, keep it until you delete them: they are named.
    """
    ledger = open_ledger(writes=True)
    return _done(ledger, [session_facts.forget(ledger, key, _now())], "forgotten", json)


@app.command("consolidate")
def consolidate(model: Model = "", json: Json = False) -> int:
    """Have the model merge and clean up the facts of this project and of the agent, and show what changed."""
    from nexus_cli.cli import consolidate as work  # noqa: PLC0415  (the engine; the other commands need the ledger alone)

    value = work.consolidate(model)
    return print_report(value, work.changes_text, json=json)


def _done(ledger: Ledger, facts: list[Any], done: str, json: bool) -> int:
    return _print_change(ledger, reports.facts_report(ledger, facts, done=done), json)


def _print_change(ledger: Ledger, value: Mapping[str, Any], json: bool) -> int:
    ledger.close()
    return print_report(value, fact_text, json=json)


def _slots(name: str) -> tuple[MemorySlot, ...]:
    """Return the slot of this name, none for ""; `NexusError("usage", ...)` for another name."""
    if name and name not in SLOTS:
        near = nearest_name(name, SLOTS)
        hint = f"The nearest is {near}" if near else "Give one of them"
        raise NexusError("usage", f"wrong value for --slot: '{name}'", f"it must be one of {', '.join(SLOTS)}", hint)
    return (MemorySlot(name),) if name else ()


def _root() -> str:
    return str(project_identity(working_folder()))


def _now() -> str:
    return format_utc(local_now())
