"""Options that `nexus` and `nexus ask` share (`nexus docs commands`), and what makes options of a dataclass."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from nexus_cli.config.paths import working_folder
from nexus_cli.core.effort import DEFAULT_EFFORT, EFFORTS
from nexus_cli.core.errors import UsageError
from nexus_cli.core.limits import MAX_INT, require_level
from nexus_cli.core.option import TEXTS, Allow, Directory, Effort, Option, Recipe, VerbParameter, read_parameters
from nexus_cli.plugins.installed_plugins import switched_off

CD_HINT = "Run `cd DIR` first"
"""The hint if --cd is given to a command without it."""


def refuse_empty(context: typer.Context, option: typer.CallbackParam, value: Any) -> Any:
    """Return `value`, a text or several; raise `UsageError` if one is given but empty. A callback of
    typer."""
    is_given = str(context.get_parameter_source(option.name or "")).endswith("COMMANDLINE")
    if is_given and not all(text.strip() for text in ([value] if isinstance(value, str) else value)):
        metavar = option.human_readable_name.partition(" ")[0].strip("[].")
        name = option.opts[0] if option.opts[0].startswith("-") else metavar
        hint = "Give a value" if option.required else f"Give a value, or omit {name}"
        raise UsageError(name, "the value is empty", hint)
    return value


def check_whole_number(least: int = 1, most: int = MAX_INT) -> Any:
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


def declare(parameter: VerbParameter, values: Sequence[str] = ()) -> Parameter:
    """Return a parameter of a function that typer reads. The `values`, else those of its option, complete it
    (`cli/completion.py`)."""
    option = parameter.option
    kind: Any = parameter.kind
    callback: Any = refuse_empty if kind in TEXTS and option.least else None
    callback = check_whole_number(option.least, option.most) if kind in (int, int | None) else callback
    callback = check_amount if kind in (float, float | None) else callback
    settings: dict[str, Any] = {
        "metavar": option.metavar,
        "help": option.help,
        "callback": callback,
        "autocompletion": lambda: values or option.values,
    }
    if option.is_argument:
        shows_default = not (option.metavar or "").startswith("[")
        declared = typer.Argument(show_default=shows_default, **settings)
    else:
        declared = typer.Option(*parameter.flags, rich_help_panel=option.panel, **settings)
    return Parameter(
        parameter.name, Parameter.KEYWORD_ONLY, default=parameter.default, annotation=Annotated[kind, declared]
    )


PICK_SESSION = "?"
"""The value of --resume without an ID: the person picks a session from a list."""
NoPlugins = Annotated[
    bool, typer.Option("--no-plugins", help="Start without plugins.", callback=_switch_plugins, expose_value=False)
]
SESSION = VerbParameter(
    "session",
    str,
    "",
    Option(
        "ID",
        "Session id (or its start or end) or name; default: the newest of this folder.",
        values=("?sessions show",),
    ),
)
JSON = VerbParameter("json", bool, False, Option(None, "Print one JSON object."))
Json = Annotated[bool, JSON.option]


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """The options that `nexus` and `nexus ask` share. A default value means that the option was not given."""

    model: Annotated[str, Option("NAME", "A litellm model, or an alias.", "--model -m", values=("?model show",))] = ""
    effort: Effort = ""
    newest: Annotated[
        bool,
        Option(
            None,
            "Resume the newest interactive session of this folder; with nexus ask, the newest of any kind.",
            "--continue -c",
        ),
    ] = False
    resume: Annotated[
        str,
        Option(
            "ID",
            "Resume a session; no ID: list, but not with `nexus ask`. ID is an id, its start or end, or a name.",
            "--resume -r",
            values=("?sessions show",),
        ),
    ] = ""
    directory: Directory = ""
    recipe: Recipe = ""
    no_tools: Annotated[bool, Option(None, "Refuse every tool call.")] = False
    allow: Allow = ""
    worktree: Annotated[
        str,
        Option(
            "NAME",
            "Work in a git worktree; a new worktree starts from the project's current state.",
            "--worktree -w",
            values=("?worktree diff",),
        ),
    ] = ""
    add_dirs: Annotated[
        list[str] | None,
        Option("DIR", "Also work in DIR (same access as the project). Repeatable.", "--add-dir", least=0),
    ] = None
    rules: Annotated[
        list[str] | None,
        Option(
            "RULE",
            "Also allow calls that match RULE, such as 'bash(git push *)', and let them run outside the sandbox if the "
            "model requests that. Repeatable.",
            "--rule",
            least=0,
        ),
    ] = None
    no_save: Annotated[bool, Option(None, "Do not save the session.")] = False
    verbose: Annotated[bool, Option(None, "Print more on stderr.", "--verbose -v")] = False
    quiet: Annotated[bool, Option(None, "Print only errors on stderr.", "--quiet -q")] = False

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
    def given_flags(self) -> list[str]:
        """The long names of the options that were given."""
        kind: Any = type(self)
        return [option.flag for option in read_parameters(kind) if getattr(self, option.name) != option.default]

    @property
    def folder(self) -> Path:
        """The working folder of the run as an absolute path."""
        return working_folder(self.directory)


def expand_dataclasses(function: Callable[..., int | None], without: Collection[str] = ()) -> Any:
    """Return the function that typer calls in place of one with dataclass parameters, such as `SharedOptions`: it has
    an option for each field except those in `without`. An option given before the command applies unless it is repeated
    after the command."""
    groups: dict[str, tuple[Any, list[VerbParameter]]] = {}
    parameters: list[Parameter] = []
    own_options = {option.name: option for option in read_parameters(function)}
    for name, parameter in signature(function, eval_str=True).parameters.items():
        kind: Any = parameter.annotation
        if is_dataclass(parameter.annotation):
            options = [option for option in read_parameters(kind) if option.name not in without]
            groups[name] = kind, options
            parameters += map(declare, options)
        elif name in own_options:
            parameters.append(declare(own_options[name]))
        else:
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    def run(context: typer.Context, **values: Any) -> int | None:
        for name, (kind, options) in groups.items():
            option_values = {option.name: values.pop(option.name) for option in options if option.name in values}
            values[name] = kind(
                **{option: value or getattr(context.obj, option, value) for option, value in option_values.items()}
            )
        return function(context, **values)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = function.__doc__
    return run
