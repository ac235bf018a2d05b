"""Make shell commands from the `TWINS` of slash commands (`nexus_cli.commands.command`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_args, get_type_hints

import typer

from nexus_cli.cli.command_options import Json, SessionKey, refuse_empty, whole_number, working_folder
from nexus_cli.cli.print_report import print_report
from nexus_cli.cli.session_lookup import find_session_id, open_ledger
from nexus_cli.commands.command import Source, Twin
from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.config.settings import own_settings
from nexus_cli.core.tool import Tool
from nexus_cli.ledger import Ledger
from nexus_cli.reports.forms import find_form


def add_twins(app: typer.Typer, name: str) -> typer.Typer:
    """Add the twins of the slash command `name` to `app`, which may have other commands; return `app`."""
    twins: tuple[Twin, ...] = import_module(f"nexus_cli.commands.{name}").TWINS
    for twin in twins:
        if twin.verb or len(twins) == 1:
            app.command(twin.verb or name)(_make_function(twin))
        else:
            app.callback(invoke_without_command=True)(_make_function(twin))
    return app


def _make_function(twin: Twin) -> Any:
    """Build the function of a shell command; typer reads its signature and docstring."""

    def run(context: typer.Context, *, session: str = "", json: bool = False, **options: Any) -> int | None:
        before, as_json = context.obj or ("", False)
        session, json = context.obj = session or before, json or as_json
        if context.invoked_subcommand:
            return None
        ledger = Ledger.open(ledger_place()) if twin.opens == "create" else open_ledger(writes=twin.opens == "write")
        report = twin.build(
            make_source(ledger, lambda: find_session_id(ledger, session) if twin.of_session else "", bool(session)),
            **options,
        )
        if twin.opens != "read":
            ledger.close()
        return print_report(report.value, find_form(report.form), json=json, whole=report.whole)

    own, hints = signature(twin.build).parameters, get_type_hints(twin.build, include_extras=True)
    given = {name: (_declare(hints[name]), own[name].default) for name in list(own)[1:]}
    every: dict[str, Any] = {"context": (typer.Context, Parameter.empty)}
    every |= ({"session": (SessionKey, "")} if twin.of_session else {}) | given | {"json": (Json, False)}
    kind = Parameter.KEYWORD_ONLY
    parameters = [Parameter(name, kind, default=default, annotation=hint) for name, (hint, default) in every.items()]
    run.__doc__ = twin.build.__doc__
    run.__annotations__ = {name: hint for name, (hint, _) in every.items()}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def make_source(ledger: Ledger, find_session: Callable[[], str] = str, is_named: bool = False) -> Source:
    """Return the source of a report of a shell command; `find_session` returns the id of its session."""
    return Source(
        ledger,
        find_session,
        own_settings,
        _load_tools,
        working_folder,
        "nexus ",
        is_named,
    )


def _load_tools() -> Iterable[Tool]:
    from nexus_cli.tools.registry import discover_tools  # noqa: PLC0415  (few reports name arguments of tools)

    return discover_tools().values()


def load_subjects() -> dict[str, str]:
    """Return the names of the tools' main arguments, by tool."""
    return {tool.name: tool.subject for tool in _load_tools()}


def _declare(hint: Any) -> Any:
    """Return the type of a parameter, annotated with typer's declaration of its `Option`."""
    kind, option = get_args(hint)
    callback = refuse_empty if kind is str and option.least else None
    callback = whole_number(option.least) if kind in (int, int | None) else callback
    if not option.is_argument:
        names = [option.name] if option.name else []
        return Annotated[kind, typer.Option(*names, metavar=option.metavar, help=option.help, callback=callback)]
    shown = not option.metavar.startswith("[")
    argument = typer.Argument(metavar=option.metavar, help=option.help, callback=callback, show_default=shown)
    return Annotated[kind, argument]
