"""`nexus import`: take over what another coding agent keeps in the home folder, each change after a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from nexus_cli.cli.confirm import ask_terminal, can_confirm, confirm
from nexus_cli.cli.print_report import print_text, text_width
from nexus_cli.cli.session_lookup import open_ledger
from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.config.paths import places, with_tilde
from nexus_cli.config.settings import own_settings
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import NexusError
from nexus_cli.imports.other_setups import SETUPS, program_folder
from nexus_cli.imports.personal_changes import MINE, plan_import, refuse_without_terminal
from nexus_cli.imports.store_sessions import READERS, SessionsImport, import_sessions
from nexus_cli.ledger import Ledger
from nexus_cli.reports.text.lines import wrapped
from nexus_cli.tools.edit_preview import unified_diff
from nexus_cli.ui.asked_question import AnswerKey, AskedQuestion
from nexus_cli.ui.print.progress_bar import progress_bar
from nexus_cli.ui.print.stream import write_stderr_line

app = typer.Typer(add_completion=False, rich_markup_mode=None)
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the changes without writing anything.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; keep different values in your files.")]
MOST_LEFT_OUT = 40
"""Most lines about what could not be taken over of sessions."""


@app.command("import")
def import_program(
    program: Annotated[
        str, typer.Argument(metavar="|".join(SETUPS), help="The program to import from.", show_default=False)
    ],
    dry_run: DryRun = False,
    sessions: Annotated[
        bool, typer.Option("--sessions", help="Import the program's sessions instead of its settings.")
    ] = False,
    yes: Yes = False,
) -> int:
    """Import settings, rules, instructions, commands and MCP servers, or sessions, of another agent.

    It shows each changed file and asks before writing; a second import changes nothing. Entries that nexus cannot
    import are listed, deny and ask rules first. Keys are never copied. Nothing is executed.
    """
    if program not in SETUPS:
        raise NexusError("usage", f"cannot import from {program}", f"it is one of {', '.join(SETUPS)}", "Name one")
    if sessions:
        return _import_sessions(program, dry_run)
    home = program_folder(program)
    setup = SETUPS[program](home)
    count = len(READERS[program][0](home)) if program in READERS else 0
    there = f"Its {plural(count, 'session')}: nexus import {program} --sessions" if count else ""
    if not (setup.files or setup.lost or setup.in_place):
        why = f"{home} has no settings to import" if count else f"{home} has no files to import"
        raise NexusError("usage", f"nothing to import from {program}", why, there or "See nexus docs moving")
    asks = can_confirm()
    plan = plan_import(setup, places(), _choose if asks and not dry_run and not yes else lambda what, answers: MINE)
    _print_lines("Not taken over, and it kept something from happening:", setup.lost)
    _print_lines("Not taken over:", [*setup.notes, *plan.kept])
    _print_lines("Already in use:", setup.in_place)
    if not plan.changes:
        _print_wrapped(f"Nothing new from {', '.join(setup.files) or home}. {there}".rstrip())
        return 0
    if not (asks or yes or dry_run):
        raise refuse_without_terminal()
    for change in plan.changes:
        print_text(unified_diff(change.before or None, change.after, change.shown))
        if dry_run:
            continue
        if yes or confirm(f"Write {change.shown}?"):
            change.write()
            write_stderr_line(f"nexus: {change.shown} was written.")
        else:
            write_stderr_line(f"nexus: {change.shown} stays as it was.")
    _print_wrapped(there)
    return 0


def _import_sessions(program: str, dry_run: bool) -> int:
    if program not in READERS:
        why = f"only sessions of {' and '.join(READERS)} can be imported"
        raise NexusError("usage", f"sessions of {program} cannot be imported", why, "Omit --sessions")
    home = program_folder(program)
    ledger = open_ledger() if dry_run else Ledger.open(ledger_place())
    try:
        with progress_bar("importing"):
            done = import_sessions(ledger, program, home, own_settings().model, dry_run=dry_run)
    finally:
        ledger.close()
    if not (done.new or done.grown or done.same or done.empty or done.problems):
        raise NexusError("usage", "no sessions", f"{home} has none", "See nexus docs moving")
    _print_lines("Not taken over:", [*done.problems, *_left_out(done)])
    _print_wrapped(_describe(done, dry_run))
    return 0


def _left_out(done: SessionsImport) -> list[str]:
    rows = done.left_out.most_common()
    more = [f"and {len(rows) - MOST_LEFT_OUT} further kinds"] if len(rows) > MOST_LEFT_OUT else []
    return [f"{what}: {number:,}" for what, number in rows[:MOST_LEFT_OUT] if number] + more


def _describe(done: SessionsImport, dry_run: bool) -> str:
    verb = "would be" if dry_run else "was" if done.new == 1 else "were"
    empty = f" {plural(done.empty, 'file')} without a message."
    lines = [
        f"{plural(done.new, 'session')} {verb} imported, {done.grown} continued, {done.same} unchanged:"
        f" {plural(done.entries, 'entry', 'entries')}.{empty if done.empty else ''}"
    ]
    for model, usage in sorted(done.usage.items()):
        counted = f"{usage.input:,} tokens in ({usage.cache_read:,} from the cache), {usage.output:,} out"
        lines.append(f"Used there, not in the sums of nexus usage: {model or 'unknown model'}: {counted}")
    if done.new and not dry_run:
        lines.append("nexus sessions list --all shows them, nexus -r ID continues one.")
    return "\n".join(lines)


def _print_lines(title: str, lines: Sequence[str]) -> None:
    if not lines:
        return
    width = text_width(whole=True)
    pieces = (wrapped(with_tilde(line), width - 4) for line in dict.fromkeys(lines))
    print_text("\n".join([*wrapped(title, width), *("  " + "\n    ".join(piece) for piece in pieces)]) + "\n")


def _print_wrapped(text: str) -> None:
    """Print a message, in a terminal broken between words; nothing if it is empty."""
    if text:
        print_text("\n".join(wrapped(text, text_width(whole=True))))


def _choose(what: str, answers: Sequence[str]) -> str:
    """Ask which to keep; Esc and an empty line keep the person's."""
    keys = [AnswerKey(one[0], one, one) for one in answers]
    asked = AskedQuestion(f"{what} differs. Keep which?", keys, words="", default=MINE[0], escape=f"Esc {MINE}")
    reply = ask_terminal(asked)
    return str(reply.meaning) if reply is not None else MINE
