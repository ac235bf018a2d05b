"""`nexus import`: take over what another coding agent keeps in the home folder, each change after a question."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Annotated

from nexus_cli.cli.confirm import ask_terminal
from nexus_cli.cli.print_report import print_text, text_width
from nexus_cli.cli.session_lookup import open_ledger
from nexus_cli.commands.verb import Authority, Noun, Option, Source, Verb
from nexus_cli.config.load_settings import own_settings
from nexus_cli.config.paths import places, with_tilde
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import NexusError
from nexus_cli.imports.other_setups import SETUPS, program_folder
from nexus_cli.imports.personal_changes import MINE, plan_import, refuse_without_terminal
from nexus_cli.imports.store_sessions import READERS, SessionsImport, import_sessions
from nexus_cli.reports.text.lines import wrapped
from nexus_cli.tools.edit_preview import unified_diff
from nexus_cli.ui.asked_question import AnswerKey, AskedQuestion

MOST_LEFT_OUT = 40
"""Most lines about what could not be taken over of sessions."""


def import_program(
    source: Source,
    program: Annotated[str, Option("|".join(SETUPS), "The program to import from.", is_argument=True, least=0)],
    dry_run: Annotated[bool, Option(None, "Show the changes without writing anything.")] = False,
    sessions: Annotated[bool, Option(None, "Import the program's sessions instead of its settings.")] = False,
    yes: Annotated[bool, Option(None, "Do not ask; keep different values in your files.", "--yes -y")] = False,
) -> None:
    """Take over settings, rules, instructions, commands and MCP servers of another program, or its sessions.

    It shows each changed file and asks before writing; a second import changes nothing. Entries that nexus cannot
    import are listed, deny and ask rules first. Keys are never copied. Nothing is executed.
    """
    if program not in SETUPS:
        raise NexusError("usage", f"cannot import from {program}", f"it is one of {', '.join(SETUPS)}", "Name one")
    if sessions:
        _import_sessions(program, dry_run)
        return
    home = program_folder(program)
    setup = SETUPS[program](home)
    count = len(READERS[program][0](home)) if program in READERS else 0
    there = f"Its {plural(count, 'session')}: nexus import {program} --sessions" if count else ""
    if not (setup.files or setup.lost or setup.in_place):
        why = f"{home} has no settings to import" if count else f"{home} has no files to import"
        raise NexusError("usage", f"nothing to import from {program}", why, there or "See nexus docs moving")
    plan = plan_import(
        setup, places(), _choose if source.confirm and not dry_run and not yes else lambda what, answers: MINE
    )
    _print_lines("Not taken over, and it kept something from happening:", setup.lost)
    _print_lines("Not taken over:", [*setup.notes, *plan.kept])
    _print_lines("Already in use:", setup.in_place)
    if not plan.changes:
        _print_wrapped(f"Nothing new from {', '.join(setup.files) or home}. {there}".rstrip())
        return
    if not (source.confirm or yes or dry_run):
        raise refuse_without_terminal()
    for change in plan.changes:
        print_text(unified_diff(change.before or None, change.after, change.shown))
        if dry_run:
            continue
        if yes or (source.confirm and source.confirm(f"Write {change.shown}?")):
            change.write()
            source.say(f"{change.shown} was written.")
        else:
            source.say(f"{change.shown} stays as it was.")
    _print_wrapped(there)


def _import_sessions(program: str, dry_run: bool) -> None:
    if program not in READERS:
        why = f"only sessions of {' and '.join(READERS)} can be imported"
        raise NexusError("usage", f"sessions of {program} cannot be imported", why, "Omit --sessions")
    home = program_folder(program)
    with closing(open_ledger("read" if dry_run else "create")) as ledger:
        done = import_sessions(ledger, program, home, own_settings().model, dry_run=dry_run)
    if not (done.new or done.grown or done.same or done.empty or done.problems):
        raise NexusError("usage", "no sessions", f"{home} has none", "See nexus docs moving")
    _print_lines("Not taken over:", [*done.problems, *_left_out(done)])
    _print_wrapped(_describe(done, dry_run))


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


NOUN = Noun("import", "sessions", (Verb(import_program, "", Authority.PERMITS, "nothing", busy="importing"),))
