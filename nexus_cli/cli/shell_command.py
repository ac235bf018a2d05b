"""Make the shell command of a noun (`nexus_cli.commands.verb`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from importlib import import_module
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from nexus_cli.cli.command_options import Json, SessionKey, check_amount, refuse_empty, whole_number
from nexus_cli.cli.confirm import can_confirm, confirm
from nexus_cli.cli.print_report import print_diff, print_json, print_text, text_width
from nexus_cli.cli.session_lookup import find_session_id, open_ledger
from nexus_cli.commands.verb import Noun, Report, Source, Verb, VerbParameter
from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.config.paths import working_folder
from nexus_cli.config.settings import own_settings
from nexus_cli.core.errors import NexusError
from nexus_cli.core.tool import Tool
from nexus_cli.ledger import Ledger
from nexus_cli.reports.forms import find_form
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.input.piped import Reader
from nexus_cli.ui.print.progress_bar import progress_bar
from nexus_cli.ui.print.stream import Stream, write_stderr_line


def add_verbs(app: typer.Typer, name: str) -> typer.Typer:
    """Add the verbs of the noun that `nexus_cli.commands.NAME` declares to `app`, which may have others; return it."""
    noun: Noun = import_module(f"nexus_cli.commands.{name}").NOUN
    verbs = noun.list_verbs("shell")
    if all(verb.name for verb in verbs):
        app.info.help = app.info.help or noun.summary
    for verb in verbs:
        if verb.name or len(verbs) == 1:
            app.command(verb.name or noun.name)(_make_function(verb))
        else:
            app.callback(invoke_without_command=True)(_make_function(verb))
    return app


def _make_function(verb: Verb) -> Any:
    """Build the function of a shell command; typer reads its signature and docstring."""

    def run(context: typer.Context, *, session: str = "", json: bool = False, **options: Any) -> int | None:
        before, as_json = context.obj or ("", False)
        session, json = context.obj = session or before, json or as_json
        if context.invoked_subcommand:
            return None
        ledger = _open_ledger(verb)
        source = make_source(ledger, lambda: find_session_id(ledger, session) if verb.of_session else "", session)
        with progress_bar(verb.busy):
            report = verb.run(source, **options)
        if verb.opens != "read":
            ledger.close()
        if not isinstance(report, Report):
            for piece in report or ():
                Stream(1).write(piece if source.is_piped else sanitize(piece))
            return 0
        _print(report, json)
        if report.note and not json:
            source.say(report.note)
        return int(report.status)

    given = {one.name: (_declare(one), one.default) for one in verb.parameters}
    every: dict[str, Any] = {"context": (typer.Context, Parameter.empty)}
    every |= ({"session": (SessionKey, "")} if verb.of_session else {}) | given
    every |= {"json": (Json, False)} if verb.has_json else {}
    kind = Parameter.KEYWORD_ONLY
    parameters = [Parameter(name, kind, default=default, annotation=hint) for name, (hint, default) in every.items()]
    run.__doc__ = verb.help
    run.__annotations__ = {name: hint for name, (hint, _) in every.items()}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _print(report: Report[Any], json: bool) -> None:
    if json:
        print_json(report.value)
    elif report.form == "diff":
        print_diff(report.value)
    else:
        print_text(report.line or find_form(report.form)(report.value, text_width(whole=report.whole)))


def _open_ledger(verb: Verb) -> Ledger:
    if verb.opens == "nothing":
        return Ledger.open(None)
    return Ledger.open(ledger_place()) if verb.opens == "create" else open_ledger(writes=verb.opens == "write")


def make_source(ledger: Ledger, find_session: Callable[[], str] = str, named: str = "") -> Source:
    """Return the source of a report of a shell command; `find_session` returns the id of its session."""
    return Source(
        ledger,
        find_session,
        lambda key: find_session_id(ledger, key),
        own_settings,
        _load_tools,
        working_folder,
        "nexus ",
        named,
        say=lambda text: write_stderr_line(f"nexus: {text}"),
        is_piped=not Stream(1).terminal,
        read_stdin=_read_stdin,
        confirm=confirm if can_confirm() else None,
    )


def _read_stdin() -> str:
    if os.isatty(0):
        raise NexusError("usage", "there is no message", "TEXT and stdin are empty", "Give a TEXT")
    return Reader(0, "stdin").read().text.rstrip("\n")


def _load_tools() -> Iterable[Tool]:
    from nexus_cli.tools.registry import discover_tools  # noqa: PLC0415  (few reports name arguments of tools)

    return discover_tools().values()


def _declare(one: VerbParameter) -> Any:
    """Return the type of a parameter, annotated with typer's declaration of its `Option`."""
    kind, option = one.kind, one.option
    callback: Any = refuse_empty if kind is str and option.least else None
    callback = whole_number(option.least) if kind in (int, int | None) else callback
    callback = check_amount if kind == float | None else callback
    if not option.is_argument:
        return Annotated[kind, typer.Option(*one.flags, metavar=option.metavar, help=option.help, callback=callback)]
    shown = not (option.metavar or "").startswith("[")
    argument = typer.Argument(metavar=option.metavar, help=option.help, callback=callback, show_default=shown)
    return Annotated[kind, argument]
