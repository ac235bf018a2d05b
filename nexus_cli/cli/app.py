"""The entry point of the command line: the table of commands, plain `nexus`, error reporting.

The module of a command is imported when the command is used. Every error becomes one line on stderr and an exit status
(`nexus docs exit-status`).
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from nexus_cli.cli import process
from nexus_cli.cli.command_options import CD_HINT, PICK_SESSION, NoPlugins, SharedOptions, expand_dataclasses
from nexus_cli.cli.signal_result import json_form
from nexus_cli.config.program_words import split_arguments
from nexus_cli.core.errors import LONGEST_VALUE, NexusError, UsageError, nearest_name
from nexus_cli.core.option import Option
from nexus_cli.core.surrogates import replace_surrogates
from nexus_cli.ui.print.stream import ReaderClosed, Stream, write_stderr_line

if TYPE_CHECKING:
    from nexus_cli.commands.verb import Noun

GROUPS = {
    "Run": ("ask", "map", "undo", "redo", "diff", "worktree", "schedule", "runs", "space"),
    "Content and cost of requests": ("context", "drops", "cache", "usage", "why", "replay", "memory"),
    "Sessions": ("sessions", "timeline", "export", "import"),
    "Setup": ("model", "login", "logout", "config", "rules", "trust", "skill", "plugin", "mcp", "status", "doctor"),
    "Serve": ("serve", "acp", "ledger"),
    "Learn": ("tour", "docs"),
}
"""Commands in the order of the help. A module of `FOLDERS` declares a `NOUN`, or `VERBS` that a noun of
`nexus_cli.commands` has in the shell alone. Nouns that are not here come last in their section."""
SECTIONS = {
    "run": "Run",
    "context": "Content and cost of requests",
    "sessions": "Sessions",
    "setup": "Setup",
}
"""Sections of these nouns, by group."""
FIRST = {
    "-c": "resume the newest session",
    'ask "why ...?"': "one turn; stdin is added",
    "undo, diff": "undo or show changes",
    "sessions": "list, show, search, delete",
    "context, cache, usage": "content and cost of requests",
    "model, login": "models and keys",
    "config, rules, trust": "settings and permissions",
    "tour, doctor": "a demo; check the setup",
    "docs WORDS": "search the documentation",
}
"""What the page of `nexus --help` names first."""
FIRST_OPTIONS = ("model", "resume", "directory", "worktree", "allow")
"""Options on this page, with the first words of their help."""
COMMANDS = tuple(name for names in GROUPS.values() for name in names)
FOLDERS = (".run", ".sessions", ".setup", ".serve")
"""Folders of this package with the modules of commands, as the help lists them."""
MODULES = {"import": "import_setup"}
"""Modules of commands whose name is no name in Python."""
TYPED = ("ask", "map")
"""Commands that are typer functions: a cold `nexus ask` loads no verbs."""
FORMER = {"plan": "schedule", "permissions": "rules", "rule": "rules", "drop": "drops"}
"""Former and further names of commands: accepted, not listed."""
PEER_WORDS = {
    "-p": 'nexus ask "..."',
    "--print": 'nexus ask "..."',
    "exec": 'nexus ask "..."',
    "prompt": 'nexus ask "..."',
    "run": 'nexus ask "..."`, or for unattended runs `nexus runs',
    "chat": "nexus",
    "code": "nexus",
    "start": "nexus",
    "--yolo": "--allow all",
    "--dangerously-bypass-approvals-and-sandbox": "--allow all",
    "--dangerously-skip-permissions": "--allow all",
    "--ask-for-approval": "--allow LEVEL",
    "--permission-mode": "--allow LEVEL",
    "--sandbox": "--allow LEVEL",
    "-s": "--allow LEVEL",
    "--full-auto": "--allow auto",
    "--allowedTools": "--rule RULE",
    "--allowed-tools": "--rule RULE",
    "--disallowedTools": "nexus rules add 'deny RULE'",
    "--disallowed-tools": "nexus rules add 'deny RULE'",
    "--tools": "--recipe NAME",
    "--output-format": "nexus ask --json` or `nexus ask --stream-json",
    "--json-schema": "nexus ask --schema FILE",
    "--output-schema": "nexus ask --schema FILE",
    "--max-turns": "nexus ask --max-steps N",
    "--max-budget-usd": "nexus ask --max-cost USD",
    "--image": "nexus ask --file PATH",
    "-i": "nexus ask --file PATH",
    "-o": "nexus ask ... > FILE",
    "--output-last-message": "nexus ask ... > FILE",
    "--session": "-r ID",
    "--last": "-c",
    "--mcp-config": "nexus mcp add",
    "--list-models": "nexus model list",
    "--export": "nexus export",
    "--thinking": "--effort LEVEL",
    "--ephemeral": "--no-save",
    "--no-session": "--no-save",
    "--no-session-persistence": "--no-save",
    "--fork": "nexus sessions fork ID",
    "--fork-session": "nexus sessions fork ID",
    "fork": "nexus sessions fork ID",
    "delete": "nexus sessions delete ID",
    "completion": "nexus --install-completion",
    "help": "nexus --help",
    "resume": "nexus -r ID",
    "version": "nexus --version",
}
"""Commands and options of other agents without a counterpart of the same name, and their replacement here."""
PEER_PATHS = ("nexus", "nexus ask", "nexus map")
"""Commands whose options other agents have; only there does another command stand in for an option."""
MORE = {"recipe", "no_tools", "no_save", "no_plugins", "verbose", "quiet", "connect", "token_file"}
"""Options that the help lists under "More options"."""
MIN_SIMILARITY = 0.7
"""Least similarity (0 to 1) to a command that counts as misspelt."""

MIN_FILES = 16
"""Least limit of open files: with fewer, libraries fail while they are imported."""
_UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT, errno.EBADF)
"""Error numbers of a failed write of the help; all other output goes through `Stream`."""


def find_module(name: str) -> str:
    """Return the module of this package that has verbs of a command, "" if there is none."""
    folders = FOLDERS if f".{name}" in FOLDERS else ("", *FOLDERS)
    return next(filter(find_spec, (f"nexus_cli.cli{folder}.{MODULES.get(name, name)}" for folder in folders)), "")


@cache
def find_noun(name: str) -> Noun | None:
    """Return the noun of this name with the verbs that it has in the shell, None if there is none."""
    added = import_module(module) if name in COMMANDS and (module := find_module(name)) else None
    noun: Noun | None = getattr(added, "NOUN", None)
    if noun is None and name.isidentifier() and find_spec(f"nexus_cli.commands.{name}"):
        noun = getattr(import_module(f"nexus_cli.commands.{name}"), "NOUN", None)
    if noun is None or noun.name != name:
        return None
    verbs = (*noun.list_verbs("shell"), *getattr(added, "VERBS", ()))
    return replace(noun, verbs=verbs) if verbs else None


@cache
def load_command(name: str) -> Any:
    """Return the click command of this name."""
    if name in TYPED:
        return typer.main.get_command(import_module(find_module(name)).app)
    from nexus_cli.cli.shell_command import make_command  # noqa: PLC0415  (a cold `nexus ask` needs no verbs)

    noun = find_noun(name)
    assert noun is not None
    return make_command(noun)


@cache
def find_command(word: str) -> str:
    """Return the name of the command that a word names, also by a former name or an alias; "" if there is none."""
    name = FORMER.get(word, word)
    return name if name in COMMANDS or find_noun(name) else _find_in_table(word, "alias")


def _find_in_table(word: str, kind: str) -> str:
    """Return the command that a word names as its `alias`, or as that of a `slash` command; "" if there is none."""
    from nexus_cli.cli.start_table import read_rows  # noqa: PLC0415  (only for words that name no shell command)

    return next((value for *kind_and_names, value, _ in read_rows("") if kind_and_names == [kind, word]), "")


def list_verbs(name: str) -> list[str]:
    """Return the verbs of a command, its default verb first; none for a command without verbs."""
    noun = None if name in TYPED else find_noun(find_command(name))
    names = [verb.name for verb in noun.verbs] if noun else [""]
    return [] if "" in names else names


@cache
def list_help_lines() -> dict[str, dict[str, str]]:
    """Return the commands of each section with their help lines, as the start table has them."""
    from nexus_cli.cli.start_table import read_rows  # noqa: PLC0415  (only where all commands are listed)

    sections: dict[str, dict[str, str]] = {}
    lines: dict[str, str] = {}
    for kind, name, _, text in read_rows(""):
        if kind == "section":
            lines = sections[name] = {}
        elif kind == "command":
            lines[name] = text
    return sections


class LazyGroup(TyperGroup):
    """A command group that imports the module of a command when the command is used."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except EOFError as error:  # typer would take it for the end of an answer, and end with an empty line
            raise _bug(error) from error

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for lines in list_help_lines().values() for name in lines]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        name = find_command(cmd_name)
        return load_command(name) if name else None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, the less common ones in a section of their own, then the commands."""
        parts: dict[str, list[tuple[str, str]]] = {"Options": [], "More options": []}
        for param in self.get_params(ctx):
            if record := param.get_help_record(ctx):
                parts["More options" if param.name in MORE else "Options"].append(record)
        for title, rows in parts.items():
            with formatter.section(title):
                formatter.write_dl(rows)
        for title, commands in list_help_lines().items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and not find_command(args[0]):
            raise _unknown_command(args[0], self.list_commands(ctx))
        further = args[1] if len(args) > 1 else "--"
        is_bare = further.startswith("-") and further not in ("-h", "--help")
        verbs = list_verbs(args[0]) if args and is_bare else []
        if further == "--json" and args[2:] and args[2] in verbs:
            args = [args[0], args[2], further, *args[3:]]
        elif verbs:
            args = [args[0], verbs[0], *args[1:]]
        return super().resolve_command(ctx, args)


def _unknown_command(word: str, commands: list[str]) -> NexusError:
    hint = f"Use `{PEER_WORDS[word]}`" if word in PEER_WORDS else ""
    if not hint and (slash := _find_in_table(word, "slash")):
        hint = f"/{slash} works only in a session: start one with `nexus`"
    if not hint and (near := nearest_name(word, commands, MIN_SIMILARITY)):
        hint = f"Did you mean `nexus {near}`?"
    is_plain = " " in word and len(word) <= LONGEST_VALUE and not set(word) & set('"$`\\!')
    quoted = f'"{word}"' if is_plain else '"..."'
    hint = hint or f"To send a prompt: nexus ask {quoted}"
    return UsageError("wrong usage", f"no such command '{word}'", hint)


def root(
    context: typer.Context,
    shared: SharedOptions,
    no_plugins: NoPlugins = False,
    connect: Annotated[
        str, Option("URL", "Connect to a server (nexus serve); -r ID selects an agent or session.")
    ] = "",
    token_file: Annotated[
        str, Option("PATH", "File with the token for --connect; default: the token of your own server.")
    ] = "",
    version: Annotated[bool, Option(None, "Print the version and exit.")] = False,
) -> int | None:
    """A coding agent for the terminal whose context you can see, trust and afford.

    Without a command it starts a session in the terminal; with piped stdin it runs nexus ask. A text of several words
    in place of the command is the first message of this session.
    """
    if version:
        from nexus_cli.cli.version import version_line  # noqa: PLC0415  (nothing else needs it)

        sys.stdout.write(version_line())
        raise typer.Exit(0)
    if connect:
        if context.invoked_subcommand:
            raise UsageError("--connect", "cannot be used with a command", "Omit the command")
        from nexus_cli.cli.serve.run_remote import run_remote  # noqa: PLC0415  (a command like the others)

        return run_remote(connect, token_file, shared, context.obj or "")
    if context.invoked_subcommand == "ask":
        context.obj = shared
        return None
    if context.invoked_subcommand:
        if shared.given_flags:
            raise _misplaced_error(context, shared.given_flags)
        return None
    if os.isatty(0):
        from nexus_cli.cli.run.run_repl import run_repl  # noqa: PLC0415  (a command like the others)

        return run_repl(shared, context.obj or "")
    from nexus_cli.cli.run.ask import ask  # noqa: PLC0415  (a command like the others)
    from nexus_cli.cli.run.ask_options import AskOptions  # noqa: PLC0415  (as above)

    return ask(context, shared, options=AskOptions())


def _misplaced_error(context: typer.Context, options: list[str]) -> NexusError:
    """Return the error for shared options before a command that takes them after its name, or not at all."""
    name = str(context.invoked_subcommand)
    group: Any = context.command
    command = group.get_command(context, name)
    parts = [command, *getattr(command, "commands", {}).values()]
    has = {option for part in parts for param in part.params for option in param.opts}
    why = next((f"`{name}` has no {option}" for option in options if option not in has), "")
    hint = CD_HINT if why.endswith(" --cd") else f"See `nexus {name} --help`"
    return UsageError("wrong usage", why or f"options must follow the command `{name}`", hint)


@cache
def build(*, completion: bool) -> Any:
    """Build the click command; with `completion`, add the options that install the completion of a shell."""
    app = typer.Typer(
        cls=LazyGroup,
        name="nexus",
        add_completion=completion,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        invoke_without_command=True,
        context_settings={"help_option_names": ["--help", "-h"]},
        short_help="A coding agent for the terminal. Without a command it starts a session here, "
        'nexus "fix the tests" with this message.',
        epilog="Shell completion: nexus --install-completion",
    )
    app.callback()(expand_dataclasses(root))
    return typer.main.get_command(app)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit status. Errors are printed, not raised."""
    completion = "_NEXUS_COMPLETE" in os.environ or any(a.endswith("-completion") for a in arguments[:1])
    usage_error: Any = typer.BadParameter.__mro__[1]
    if arguments[-1:] in (["-r"], ["--resume"]) and os.isatty(0) and split_arguments(arguments)[0] not in COMMANDS:
        arguments = [*arguments, PICK_SESSION]
    try:
        if 0 < (file_limit := os.sysconf("SC_OPEN_MAX")) < MIN_FILES:
            raise UsageError("the open file limit is too low", f"{file_limit} files", "Raise it: ulimit -n 256")
        prompt, arguments = extract_prompt(arguments)
        status = build(completion=completion).main(arguments, prog_name="nexus", standalone_mode=False, obj=prompt)
        return status if isinstance(status, int) else 0
    except NexusError as error:
        return _print_failure(error, arguments)
    except usage_error as error:
        return _print_failure(_usage(error), arguments)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 0
    except (ReaderClosed, BrokenPipeError):
        return 0
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            file_name = str(error.filename or "a name")
            return _print_failure(
                UsageError(f"{file_name[:80]}...", "this file name is too long", "Check the name"), arguments
            )
        if error.filename is None and error.errno in _UNWRITABLE:
            why = str(error.strerror)
            write_stderr_line(
                NexusError("internal", "stdout cannot be written", why, "Check the redirection of stdout").line
            )
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (flushing its buffer at exit would fail again)
        else:
            write_stderr_line(_bug(error).line)
        return 1
    except UnicodeEncodeError as error:
        return _print_failure(_describe_encoding(error, arguments), arguments)
    except Exception as error:  # the outermost handler: report it as a bug
        if "--verbose" in arguments or "-v" in arguments:
            sys.excepthook(type(error), error, error.__traceback__)
        return _print_failure(_bug(error), arguments)


def extract_prompt(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the first message of a session, which stands in place of a command, and the other arguments; "" and all of
    them where a word is a command, the text is a `!` line, or there is no terminal."""
    prompt, _ = split_arguments(arguments)
    others = arguments.copy()
    is_prompt = len(prompt.split()) > 1 and not prompt.lstrip().startswith("!")
    if is_prompt and "--" not in arguments and os.isatty(0) and os.isatty(1):
        others.remove(prompt)
        if not split_arguments(others)[0]:
            return replace_surrogates(prompt), others
    return "", arguments


def _describe_encoding(error: UnicodeEncodeError, arguments: list[str]) -> NexusError:
    """Return the error for a name of the command line that is not UTF-8, so that no ledger has it; else that of a bug.
    A prompt or a path may be any bytes."""
    argument = next((text for text in arguments if not text.isascii() and replace_surrogates(text) != text), None)
    if argument is None:
        return _bug(error)
    return UsageError(replace_surrogates(argument)[:80], "is not valid UTF-8", "Check the name")


def _bug(error: Exception) -> NexusError:
    from nexus_cli.config.crash_report import report_bug  # noqa: PLC0415  (only on the way to an error message)

    return report_bug(error)


def _print_failure(error: NexusError, arguments: list[str]) -> int:
    """Print `error` on stderr, with --json also the result object on stdout; return the exit status."""
    error = _without_keys(error)
    if error.what == "no model":
        hint = f"{error.hint}; `nexus tour` works without a key"
        error = NexusError(error.kind, error.what, error.why, hint)
    if option := json_form(arguments):
        from nexus_cli.core.event_json import failure_result  # noqa: PLC0415  (only with --json)
        from nexus_cli.ui.print import json_renderer as form  # noqa: PLC0415

        process.drop_signal_result()
        kind = form.JsonLinesRenderer if option == "--stream-json" else form.JsonRenderer
        with suppress(ReaderClosed, NexusError):
            kind(Stream(1)).end(failure_result(error))
    write_stderr_line(error.line)
    return error.exit_status


def _without_keys(error: NexusError) -> NexusError:
    """Return `error` with keys redacted: its text may quote an argument or a setting."""
    from nexus_cli.core.redact_secrets import redact  # noqa: PLC0415  (only on the way to an error message)

    subject, why, hint = map(redact, (error.what, error.why, error.hint))
    return NexusError(error.kind, subject, why, hint, exit_status=error.exit_status)


def _usage(error: Any) -> NexusError:
    path = error.ctx.command_path if error.ctx else "nexus"
    hint = f"See `{path} --help`"
    option = getattr(error, "option_name", "")
    why = (
        error.format_message()
        .replace("a valid float", "a number")
        .replace("a valid integer", "a whole number")
        .replace("a valid int", "a whole number")
    )
    if hasattr(error, "possibilities"):
        known_options = [o for p in error.ctx.command.params for o in p.opts] if error.ctx else []
        names = {name.lstrip("-"): name for name in known_options if len(name) > 2}  # dashes make any two alike
        near = nearest_name(option.lstrip("-"), names)
        hint = f"Did you mean {names[near]}? {hint}" if near else hint
        hint += "; put -- before files whose names begin with -, or write ./NAME" * (path == "nexus map")
        hint = CD_HINT if option in ("-C", "--cd") else hint
        substitute = PEER_WORDS.get(option, "")
        is_command = substitute.startswith("nexus")
        is_known = path in PEER_PATHS if is_command else substitute.split(" ")[0] in known_options
        hint = f"Use `{substitute}`" if is_known else hint
        why = f"no such option: {option}"
        if path == "nexus" and option in {name for param in load_command("ask").params for name in param.opts}:
            why, hint = f"{option} is an option of `nexus ask`", f"Use `nexus ask {option}`"
    commands = getattr(error.ctx.command, "commands", {}) if error.ctx else {}
    if commands and why.startswith("Missing command"):
        why, hint = "the command is missing", f"Commands: {', '.join(f'{path} {name}' for name in commands)}"
    if commands and why.startswith("No such command '"):
        name = why.partition("'")[2].partition("'")[0]
        why, near = f"no such command '{name}'", nearest_name(name, commands)
        hint = f"Did you mean `{path} {near}`?" if near else f"Commands: {', '.join(commands)}"
        if not near and "add" in commands and " " in name:  # a text, as behind the slash
            hint = f"To add text: {path} add TEXT"
    return UsageError("wrong usage", f"{why[:1].lower()}{why[1:]}", hint)
