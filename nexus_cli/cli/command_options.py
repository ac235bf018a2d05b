"""Options that `nexus` and `nexus ask` share (`nexus docs commands`), and what makes options of a dataclass."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from nexus_cli.config.paths import working_folder
from nexus_cli.core.effort import DEFAULT_EFFORT, EFFORTS
from nexus_cli.core.errors import UsageError
from nexus_cli.core.limits import LEVELS, MAX_INT, require_level
from nexus_cli.plugins.installed_plugins import switched_off

CD_HINT = "Run `cd DIR` first"
"""The hint if --cd is given to a command without it."""


def refuse_empty(context: typer.Context, option: typer.CallbackParam, value: Any) -> Any:
    """Return `value`, a text or several; raise `UsageError` if one is given but empty. A callback of
    typer."""
    is_given = str(context.get_parameter_source(option.name or "")).endswith("COMMANDLINE")
    if is_given and not all(text.strip() for text in ([value] if isinstance(value, str) else value)):
        shown = option.human_readable_name.partition(" ")[0].strip("[].")
        name = option.opts[0] if option.opts[0].startswith("-") else shown
        hint = "Give a value" if option.required else f"Give a value, or omit {name}"
        raise UsageError(name, "the value is empty", hint)
    return value


def whole_number(least: int = 1, most: int = MAX_INT) -> Any:
    """Return a typer callback that checks a whole number against `least` and `most`; the help shows no range."""

    def check(context: typer.Context, option: typer.CallbackParam, value: int | None) -> int | None:
        if value is not None and not least <= value <= most:
            name = option.opts[0] if option.opts[0].startswith("-") else option.human_readable_name
            bound = f"at least {least}" if value < least else f"at most {most}"
            raise UsageError(f"{name} {value}", f"must be {bound}", f"See `{context.command_path} --help`")
        return value

    return check


def check_amount(context: typer.Context, option: typer.CallbackParam, value: float | None) -> float | None:
    """Return `value`; raise `UsageError` unless it is above 0 and finite. A callback of typer."""
    if value is not None and not 0 < value < math.inf:
        why = "must be above 0 and finite"
        raise UsageError(f"{option.opts[0]} {value}", why, f"See `{context.command_path} --help`")
    return value


def _switch_plugins(value: bool) -> bool:
    """Switch plugins off for this process. A typer callback."""
    if value:
        switched_off.append(True)
    return value


def text_option(*names: str, metavar: str, help: str, values: Sequence[str] = ()) -> Any:
    """Declare an option whose text must not be empty; a shell completes the `values` (`complete_with`)."""
    completion = complete_with(values)
    return typer.Option(*names, metavar=metavar, help=help, callback=refuse_empty, autocompletion=completion)


def complete_with(values: Sequence[str]) -> Callable[[], list[str]]:
    """Return typer's declaration of the values that complete an option or argument. `?NOUN VERB` stands for those of
    this verb (`cli/completion.py`)."""
    return lambda: [*values]


PICK = "?"
"""The value of --resume without an ID: the person picks a session from a list."""
NoPlugins = Annotated[
    bool, typer.Option("--no-plugins", help="Start without plugins.", callback=_switch_plugins, expose_value=False)
]
SessionKey = Annotated[
    str,
    text_option(
        "--session",
        metavar="ID",
        help="Session id (or its start or end) or name; default: the newest of this folder.",
        values=("?sessions show",),
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """The options that `nexus` and `nexus ask` share. A default value means that the option was not given."""

    model: Annotated[
        str,
        text_option("--model", "-m", metavar="NAME", help="A litellm model, or an alias.", values=("?model show",)),
    ] = ""
    effort: Annotated[
        str,
        text_option(
            "--effort",
            metavar="LEVEL",
            help=f"Reasoning effort: {', '.join(EFFORTS)}, or {DEFAULT_EFFORT}.",
            values=(*EFFORTS, DEFAULT_EFFORT),
        ),
    ] = ""
    newest: Annotated[
        bool,
        typer.Option(
            "--continue",
            "-c",
            help="Resume the newest interactive session of this folder; with nexus ask, the newest of any kind.",
        ),
    ] = False
    resume: Annotated[
        str,
        text_option(
            "--resume",
            "-r",
            metavar="ID",
            help="Resume a session; no ID: list, in `nexus -r` alone. ID is an id, its start or end, or a name.",
            values=("?sessions show",),
        ),
    ] = ""
    directory: Annotated[str, text_option("--cd", "-C", metavar="DIR", help="Work in DIR.")] = ""
    recipe: Annotated[
        str,
        text_option("--recipe", metavar="NAME", help="The recipe, which sets limits and context sections."),
    ] = ""
    no_tools: Annotated[bool, typer.Option("--no-tools", help="Refuse every tool call.")] = False
    allow: Annotated[
        str,
        text_option(
            "--allow",
            metavar="|".join(LEVELS),
            help="What runs without asking: ask = reads in the project, edit = also edits, auto = also sandboxed "
            "commands, all = everything.",
            values=LEVELS,
        ),
    ] = ""
    worktree: Annotated[
        str,
        text_option(
            "--worktree",
            "-w",
            metavar="NAME",
            help="Work in a git worktree; a new worktree starts from the project's current state.",
            values=("?worktree diff",),
        ),
    ] = ""
    add_dirs: Annotated[
        list[str] | None,
        typer.Option("--add-dir", metavar="DIR", help="Also work in DIR (same access as the project). Repeatable."),
    ] = None
    rules: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="RULE",
            help="Also allow calls that match RULE, such as 'bash(git push *)', and let them run outside the sandbox "
            "if the model requests that. Repeatable.",
        ),
    ] = None
    no_save: Annotated[bool, typer.Option("--no-save", help="Do not save the session.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print more on stderr.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors on stderr.")] = False

    def __post_init__(self) -> None:
        """Parse the level; raise `UsageError` if it is unknown."""
        if self.allow:
            object.__setattr__(self, "allow", require_level(self.allow, "--allow"))

    def check(self) -> None:
        """Raise `UsageError` if values contradict each other or are unknown."""
        if self.effort and self.effort not in (DEFAULT_EFFORT, *EFFORTS):
            why = f"must be {', '.join(EFFORTS)} or {DEFAULT_EFFORT}"
            raise UsageError(f"--effort {self.effort[:40]!r}", why, "See `nexus ask --help`")
        if self.newest and self.resume:
            raise UsageError("--continue and --resume", "cannot be used together", "Omit one of them")

    @property
    def given(self) -> list[str]:
        """The long names of the options that were given."""
        parameters = [parameter for parameter in SHARED if getattr(self, parameter.name) != parameter.default]
        return [
            parameter.annotation.__metadata__[0].default for parameter in parameters
        ]  # the first argument of typer's `Option`

    @property
    def folder(self) -> Path:
        """The working folder of the run as an absolute path."""
        return working_folder(self.directory)


def _list_options(kind: Any) -> list[Parameter]:
    """Return the fields of a dataclass as parameters of a function that typer reads."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        Parameter(
            option.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if option.default is MISSING else option.default,
            annotation=hints[option.name],
        )
        for option in fields(kind)
    ]


SHARED = _list_options(SharedOptions)
"""The shared options."""


def take_options(function: Callable[..., int | None], without: Collection[str] = ()) -> Any:
    """Return the function that typer calls in place of one with dataclass parameters, such as `SharedOptions`: it has
    an option for each field except those in `without`. An option given before the command applies unless it is repeated
    after the command."""
    groups: dict[str, tuple[Any, list[Parameter]]] = {}
    parameters: list[Parameter] = []
    for parameter in signature(function, eval_str=True).parameters.values():
        options, kind = [parameter.replace(kind=Parameter.KEYWORD_ONLY)], parameter.annotation
        if is_dataclass(kind):
            options = [option for option in _list_options(kind) if option.name not in without]
            groups[parameter.name] = kind, options
        parameters += options

    def run(context: typer.Context, **values: Any) -> int | None:
        for name, (kind, options) in groups.items():
            given = {option.name: values.pop(option.name) for option in options if option.name in values}
            values[name] = kind(
                **{option: value or getattr(context.obj, option, value) for option, value in given.items()}
            )
        return function(context, **values)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = function.__doc__
    return run
