"""Make the shell command of a noun (`nexus_cli.commands.verb`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from inspect import Parameter, Signature
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer

from nexus_cli.cli.command_options import JSON, SESSION, declare
from nexus_cli.cli.opened_ledger import open_ledger
from nexus_cli.cli.print_report import print_diff, print_for_consent, print_json, print_original, print_text, text_width
from nexus_cli.cli.start_table import COMPLETED_BY
from nexus_cli.commands.verb import Authority, Noun, Report, Source, Verb
from nexus_cli.config.host_environment import IN_SESSION
from nexus_cli.config.paths import project_root, working_folder
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.ui.print.progress_bar import progress_bar
from nexus_cli.ui.print.stream import Stream, write_stderr_line

if TYPE_CHECKING:
    from nexus_cli.core.approval import Approver
    from nexus_cli.core.run import Run
    from nexus_cli.ledger import Ledger


def make_command(noun: Noun) -> Any:
    """Return the click command of a noun, whose verbs are those of the shell."""
    app, verbs = typer.Typer(add_completion=False, rich_markup_mode=None), noun.verbs
    if all(verb.name for verb in verbs):
        app.info.help = noun.summary
    for verb in verbs:
        if verb.name or len(verbs) == 1:
            takes_rest = any(parameter.option.takes_rest for parameter in verb.parameters)
            settings = {"ignore_unknown_options": takes_rest, "allow_interspersed_args": not takes_rest}
            decorator = app.command(verb.name or noun.name, context_settings=settings)
            decorator(_make_function(noun, verb))
        else:
            takes_words = any(parameter.option.is_argument for parameter in verb.parameters)
            group = _ArgumentGroup if takes_words else None
            app.callback(cls=group, invoke_without_command=True)(_make_function(noun, verb))
    if len(verbs) == 1 and verbs[0].name:
        app.callback()(_do_nothing)  # else typer makes the only verb the command itself
    command = typer.main.get_command(app)
    command.name = noun.name
    return command


class _ArgumentGroup(typer.core.TyperGroup):
    """The command of a noun that alone takes an argument too: a first word that is no verb."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give the verb as the argument too, which then nobody reads; without one let options follow the argument."""
        place = next((place for place, word in enumerate(args) if not word.startswith("-")), len(args))
        verb = [word for word in args[place : place + 1] if word in self.commands]
        ctx.allow_interspersed_args = not verb
        return super().parse_args(ctx, [*args[:place], *verb, *args[place:]])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Take no verb behind the argument."""
        if ctx.allow_interspersed_args:
            ctx.fail(f"got unexpected extra argument(s) ({' '.join(args)})")
        return super().resolve_command(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Leave the argument out of the usage of a verb."""
        return super().get_params(ctx) if ctx.command is self else []


def _do_nothing() -> None:
    """Run before the verb of a noun that has one alone."""


def _make_function(noun: Noun, verb: Verb) -> Any:
    """Build the function of a shell command; typer reads its signature and docstring."""

    def run(context: typer.Context, *, session: str = "", json: bool = False, **options: Any) -> int | None:
        before, as_json = context.obj or ("", False)
        session, json = context.obj = session or before, json or as_json
        if context.invoked_subcommand:
            return None
        if not any(parameter.option.only_shows and options[parameter.name] for parameter in verb.parameters):
            _refuse_in_session(noun, verb)
        opened = partial(open_ledger, verb.opens)
        source = ShellSource(
            opened, verb.run.__module__, session_name=session, of_session=verb.of_session, is_json=json
        )
        if verb.opens != "nothing":
            source.ledger  # noqa: B018  (opened before the bar, which its notices would cut)
        with progress_bar(verb.busy):
            result = verb.run(source, **options)
        if verb.opens in ("write", "create"):
            source.ledger.close()
        return source.print_result(result)

    parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    parameters += [declare(SESSION)] if verb.of_session else []
    first = next((parameter for parameter in verb.parameters if parameter.option.is_argument), None)
    for parameter in verb.parameters:
        values: Sequence[str] = ()
        if parameter is first and not (parameter.option.values or verb.at_terminal):
            values = [f"{COMPLETED_BY}{noun.name} {verb.name}".rstrip()] if callable(verb.complete) else verb.complete
        parameters.append(declare(parameter, values))
    parameters += [declare(JSON)] if verb.has_report else []
    run.__doc__ = verb.help
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _refuse_in_session(noun: Noun, verb: Verb) -> None:
    """Raise `NexusError("denied", ...)` for a verb that permits or approves, if a command or hook of a session gives
    it."""
    if (verb.authority is Authority.PERMITS or verb.approves) and os.environ.get(IN_SESSION):
        why = "commands and hooks of a session cannot change what is permitted, or approve"
        hint = f"Run it in your own shell ({IN_SESSION} is set here)"
        raise NexusError("denied", f"{noun.name} {verb.name}".rstrip(), why, hint)


class ShellSource(Source):
    """The ledger, and the session that a shell command names."""

    def __init__(
        self,
        opened: Callable[[], Ledger],
        module: str = "",
        *,
        session_name: str = "",
        of_session: bool = False,
        is_json: bool = False,
    ) -> None:
        """`opened` opens the ledger; with `of_session` the session is the one of `session_name`, or the newest here.
        `module` is that of the verb."""
        super().__init__(opened)
        self._file, self.session_name, self._of_session = module.rpartition(".")[2], session_name, of_session
        self.is_json, self.is_piped = is_json, not Stream(1).terminal
        self.confirm = _find_confirm()
        self.ask_hidden = _ask_hidden if os.isatty(0) else None

    def session(self) -> str:
        return self.find(self.session_name) if self._of_session else ""

    def find(self, key: str) -> str:
        if key:
            return self.ledger.find_session(key).id
        newest = self.ledger.newest_session(str(working_folder()))
        if newest is None:
            hint = "`nexus sessions list --all` lists the sessions of other folders"
            if self.ledger.newest_session(root := str(project_root(working_folder()))):
                hint = f"For the newest one of the project: cd {quote(root)}"
            raise UsageError("no session", "this folder has no saved session", hint)
        return newest.id

    def say(self, line: str) -> None:
        write_stderr_line(f"nexus: {line}")

    def show(self, report: Report[Any]) -> None:
        """Print a report before a question; of JSON on stderr."""
        from nexus_cli.commands.forms import find_form  # noqa: PLC0415  (where a report is drawn)

        print_for_consent(partial(find_form(report.form, self._file), report.value), is_json=self.is_json)

    def print_result(self, result: Report[Any] | int | None) -> int:
        """Print what a verb returned; return the exit status."""
        if not isinstance(result, Report):
            return result or 0
        if self.is_json:
            print_json(result.value)
        elif result.line:
            print_original((result.line, "\n"))
        elif result.form == "diff":
            print_diff(result.value)
        elif result.form == "text":
            text = result.value["text"]
            print_original((text,) if isinstance(text, str) else text)
        elif result.form:
            from nexus_cli.commands.forms import find_form  # noqa: PLC0415  (where a report is drawn)

            print_text(find_form(result.form, self._file)(result.value, text_width(uncut=result.uncut)))
        if result.note and not self.is_json:
            self.say(result.note)
        return int(result.status)

    def approver(self) -> Approver | None:
        from nexus_cli.cli.run.drive_run import make_approver  # noqa: PLC0415  (few commands ask for approvals)

        return make_approver(Stream(2))

    def read_stdin(self) -> str:
        if os.isatty(0):
            raise UsageError("no message", "neither TEXT nor piped input was given", "Add TEXT, or pipe the message")
        from nexus_cli.ui.input.piped import Reader  # noqa: PLC0415  (where something is piped)

        return Reader(0, "stdin").read().text.rstrip("\n")

    def read_raw(self, least: int) -> bytes:
        from nexus_cli.ui.input.piped import Reader  # noqa: PLC0415  (where something is piped)

        return Reader(0, "stdin").read_raw(least)

    def save(self, name: str, default: str, pieces: Iterable[str]) -> str:
        from nexus_cli.reports.export import save_in  # noqa: PLC0415  (few commands write a file)

        return str(save_in(working_folder(), name, default, pieces, beside=False))

    def drive(self, run: Run) -> Report[Any]:
        from nexus_cli.cli.run.drive_run import drive_run  # noqa: PLC0415  (few commands drive a run)

        return drive_run(self, run)


def _find_confirm() -> Callable[[str], bool] | None:
    if not (os.isatty(0) and os.isatty(2)):  # the questions are on stderr, because stdout may be read by a program
        return None
    from nexus_cli.cli.confirm import confirm  # noqa: PLC0415  (loads asyncio, where a person can be asked)

    return confirm


def _ask_hidden(text: str, prompt: str) -> str:
    from nexus_cli.cli.setup.offer_login import ask_hidden  # noqa: PLC0415  (few commands ask for a key)

    return ask_hidden(text, prompt)
