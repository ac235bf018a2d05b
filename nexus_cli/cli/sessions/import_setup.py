"""`nexus import`: take over what another coding agent keeps in the home folder, each change after a question."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, TypedDict

from nexus_cli.cli.confirm import ask_terminal
from nexus_cli.cli.opened_ledger import open_ledger
from nexus_cli.cli.print_report import print_for_consent, print_text, text_width
from nexus_cli.commands.verb import Authority, Noun, Report, Source, Verb
from nexus_cli.config.load_settings import own_settings
from nexus_cli.config.paths import places, with_tilde
from nexus_cli.core.elide import plural
from nexus_cli.core.errors import UsageError
from nexus_cli.core.json_value import VersionedReport
from nexus_cli.core.option import Argument, Option
from nexus_cli.imports.other_setups import SETUPS, program_folder
from nexus_cli.imports.personal_changes import MINE, PersonalChange, plan_import, refuse_without_terminal
from nexus_cli.imports.store_sessions import READERS, SessionsImport, import_sessions
from nexus_cli.reports.text.blocks import Wrapped, lay_out
from nexus_cli.tools.edit_preview import unified_diff
from nexus_cli.ui.asked_question import AnswerKey, AskedQuestion


class ImportedFile(TypedDict):
    """The change of a personal file."""

    file: str
    diff: str
    written: bool


class ImportReport(VersionedReport):
    """Settings and sessions that were imported from another program."""

    program: str
    files: list[ImportedFile]
    left_out: list[str]
    """What was not imported, and why."""
    in_use: list[str]
    """What nexus uses in place, without importing it."""
    sessions: dict[str, int] | None
    """With --sessions or --all, their numbers: new, grown, same, empty, and entries written."""


MAX_LEFT_OUT = 40
"""Most lines about what could not be taken over of sessions."""


def import_program(
    source: Source,
    program: Annotated[str, Argument("|".join(SETUPS), "The program to import from.", least=0)],
    dry_run: Annotated[bool, Option(None, "Show the changes without writing anything.", only_shows=True)] = False,
    sessions: Annotated[bool, Option(None, "Import the program's sessions instead of its settings.")] = False,
    with_sessions: Annotated[bool, Option(None, "Import the program's settings, then its sessions.", "--all")] = False,
    yes: Annotated[bool, Option(None, "Do not ask; keep your own values where they differ.", "--yes -y")] = False,
) -> Report[ImportReport]:
    """Import settings, rules, instructions, commands and MCP servers of another program, or its sessions.

    nexus shows each changed file and asks before writing; a second import changes nothing. Entries that nexus cannot
    import are listed, deny and ask rules first. Keys are never copied. Nothing is executed.
    """
    if program not in SETUPS:
        raise UsageError(f"program {program}", f"must be one of {', '.join(SETUPS)}")
    home = program_folder(program)
    count = len(READERS[program][0](home)) if program in READERS else 0
    value: ImportReport = {
        "version": 1,
        "program": program,
        "files": [],
        "left_out": [],
        "in_use": [],
        "sessions": None,
    }
    if with_sessions or not sessions:
        _import_setup(source, value, home, count, dry_run=dry_run, yes=yes, with_sessions=with_sessions)
    if sessions or (with_sessions and count):
        _import_sessions(source, value, home, dry_run)
    return Report("", value)


def _import_setup(
    source: Source, value: ImportReport, home: Path, count: int, *, dry_run: bool, yes: bool, with_sessions: bool
) -> None:
    """Import the settings; without `with_sessions`, name the command for the `count` sessions."""
    program = value["program"]
    setup = SETUPS[program](home)
    sessions_hint = (
        f"To import its {plural(count, 'session')}: nexus import {program} --sessions"
        if count and not with_sessions
        else ""
    )
    if not (setup.files or setup.lost or setup.in_place):
        if with_sessions and count:
            return
        why = f"{home} has no settings to import" if count else f"{home} has no files to import"
        raise UsageError(f"nothing to import from {program}", why, sessions_hint or "See `nexus docs moving`")
    plan = plan_import(
        setup, places(), _choose if source.confirm and not dry_run and not yes else lambda subject, answers: MINE
    )
    value["left_out"] += [*setup.lost, *setup.notes, *plan.kept_values]
    value["in_use"] += setup.in_place
    _print_lines(source, "Restrictions that were not imported:", setup.lost)
    _print_lines(source, "Not imported:", [*setup.notes, *plan.kept_values])
    _print_lines(source, "Already used by nexus:", setup.in_place)
    if not plan.changes:
        _print_wrapped(source, f"Nothing new from {', '.join(setup.files) or home}. {sessions_hint}".rstrip())
        return
    if not (source.confirm or yes or dry_run):
        raise refuse_without_terminal()
    value["files"] = [_write(source, change, dry_run=dry_run, yes=yes) for change in plan.changes]
    _print_wrapped(source, sessions_hint)


def _write(source: Source, change: PersonalChange, *, dry_run: bool, yes: bool) -> ImportedFile:
    """Show the change of a file, and write it unless the person declines."""
    diff = unified_diff(change.before or None, change.after, change.display_path)
    asks = not (dry_run or yes)
    if asks or not source.is_json:
        print_for_consent(lambda width: diff, is_json=source.is_json)
    writes = yes or bool(asks and source.confirm and source.confirm(f"Write {change.display_path}?"))
    if writes and not dry_run:
        change.write()
    if not dry_run:
        source.say(f"{change.display_path} was written." if writes else f"{change.display_path} was not changed.")
    return {"file": str(change.path), "diff": diff, "written": writes and not dry_run}


def _import_sessions(source: Source, value: ImportReport, home: Path, dry_run: bool) -> None:
    program = value["program"]
    if program not in READERS:
        why = f"only sessions of {', '.join(READERS)} are supported"
        raise UsageError(f"sessions of {program} cannot be imported", why, "Omit --sessions")
    with closing(open_ledger("read" if dry_run else "create")) as ledger:
        result = import_sessions(ledger, program, home, own_settings().model, dry_run=dry_run)
    if not (result.new or result.grown or result.same or result.empty or result.problems):
        raise UsageError("nothing to import", f"{home} has no sessions", "See `nexus docs moving`")
    left_out = [*result.problems, *_left_out(result)]
    _print_lines(source, "Not imported:", left_out)
    _print_wrapped(source, _describe(result, dry_run))
    value["left_out"] += left_out
    value["sessions"] = {name: getattr(result, name) for name in ("new", "grown", "same", "empty", "entries")}


def _left_out(result: SessionsImport) -> list[str]:
    rows = result.left_out.most_common()
    more = [f"and {plural(len(rows) - MAX_LEFT_OUT, 'further kind')}"] if len(rows) > MAX_LEFT_OUT else []
    return [f"{kind}: {number:,}" for kind, number in rows[:MAX_LEFT_OUT] if number] + more


def _describe(result: SessionsImport, dry_run: bool) -> str:
    verb = "would be" if dry_run else "was" if result.new == 1 else "were"
    empty = f" Skipped {plural(result.empty, 'file')} without messages."
    lines = [
        f"{plural(result.new, 'session')} {verb} imported, {result.grown} updated, {result.same} unchanged:"
        f" {plural(result.entries, 'entry', 'entries')}.{empty if result.empty else ''}"
    ]
    for model, usage in sorted(result.usage.items()):
        counted = f"{usage.input:,} tokens in ({usage.cache_read:,} from the cache), {usage.output:,} out"
        lines.append(f"Imported usage (not counted by `nexus usage`): {model or 'unknown model'}: {counted}")
    if result.new and not dry_run:
        lines.append("`nexus sessions list --all` lists them, `nexus -r ID` resumes a session.")
    return "\n".join(lines)


def _print_lines(source: Source, title: str, lines: Sequence[str]) -> None:
    if source.is_json or not lines:
        return
    blocks = [Wrapped(title), *(Wrapped(with_tilde(line), "    ", "  ") for line in dict.fromkeys(lines))]
    print_text("\n".join(lay_out(blocks, text_width(uncut=True))))


def _print_wrapped(source: Source, text: str) -> None:
    """Print a message, in a terminal broken between words; nothing if it is empty."""
    if text and not source.is_json:
        print_text("\n".join(Wrapped(text).lines(text_width(uncut=True))))


def _choose(subject: str, answers: Sequence[str]) -> str:
    """Ask which to keep; Esc and an empty line keep the person's."""
    keys = [AnswerKey(answer[0], answer, answer) for answer in answers]
    question = AskedQuestion(
        f"{subject} differs. Which version do you want to keep?", keys, words="", default=MINE[0], escape=f"Esc {MINE}"
    )
    reply = ask_terminal(question)
    return str(reply.meaning) if reply is not None else MINE


NOUN = Noun("import", "sessions", (Verb(import_program, "", Authority.PERMITS, "nothing", busy="importing"),))
