"""An argument or option of a verb or a command, declared once for shells and sessions.

A parameter of a function, or a field of a dataclass, is one: its type is `Annotated` with an `Option`, or with an
`Argument`. Both a slash command (`nexus_cli.commands.slash_command`) and typer (`nexus_cli.cli.command_options`) read
the declaration. Several commands and verbs share the options at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, partial
from inspect import Parameter, signature
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

from nexus_cli.core.effort import DEFAULT_EFFORT, EFFORTS
from nexus_cli.core.limits import LEVELS, MAX_INT

LISTS = (list[str], list[str] | None)
"""Types of a parameter that takes several texts."""
TEXTS = (str, str | None, *LISTS)
"""Types of a parameter that takes a text, or several."""


@dataclass(frozen=True, slots=True)
class Option:
    """An argument or option; its value type is that of its parameter or field."""

    metavar: str | None = None
    help: str = ""
    name: str = ""
    """Its names, separated by spaces, if they differ from the parameter's: `--model -m`."""
    is_argument: bool = False
    least: int = 1
    """The least value of a whole number. For a text, 0 permits an empty one."""
    most: int = MAX_INT
    """The greatest value of a whole number."""
    is_text: bool = False
    """True if it takes the rest of a slash command as it stands, with words that look like options. An option takes the
    quoted text behind it, else the rest of the line."""
    is_message: bool = False
    """True of a text that may have several lines."""
    values: Sequence[str] = ()
    """Values that completion offers; `?NOUN VERB` stands for those of the first argument of a verb. An argument of a
    slash command takes no other, in any case."""
    is_positional: bool = False
    """True if a slash command also takes it without its name: a number as the first word, `7` or `#7`, a text as the
    word behind the arguments."""
    is_repeated: bool = False
    """True if an argument says the same: the usage of a slash command leaves it out."""
    permits: bool = False
    """True if a verb that is given it has the effect `Authority.PERMITS`."""
    only_shows: bool = False
    """True if a verb that is given it changes nothing: a command of a session may then give it."""
    takes_rest: bool = False
    """True if it takes the rest of a shell command, with words that look like options."""
    panel: str | None = None
    """The heading of its group in the help of a shell command."""


Argument = partial(Option, is_argument=True)
"""An argument of a verb."""


class VerbParameter(NamedTuple):
    """One argument or option, with its name, type and default."""

    name: str
    kind: Any
    """The type of its value: `str`, `int`, `int | None`, `float`, `float | None`, `bool`, or one of `LISTS`."""
    default: Any
    """`inspect.Parameter.empty` if it is required."""
    option: Option

    @property
    def flags(self) -> tuple[str, ...]:
        """Its names on a command line, such as `--last`; none for an argument."""
        if self.option.is_argument:
            return ()
        return tuple(self.option.name.split()) or (f"--{self.name.replace('_', '-')}",)

    @property
    def flag(self) -> str:
        """The first of its names, or the word that stands for an argument."""
        return next(iter(self.flags), self._metavar)

    @property
    def _metavar(self) -> str:
        return self.option.metavar or "|".join(self.option.values) or self.name.upper()

    @property
    def is_first(self) -> bool:
        """True if a slash command takes it as the first word."""
        return self.option.is_positional and self.kind not in TEXTS

    @property
    def label(self) -> str:
        """Its form in help: `ID`, `--last N`, `--all`."""
        return self.flag if self.kind is bool or self.option.is_argument else f"{self.flag} {self._metavar}"

    @property
    def usage(self) -> str:
        """Its form in the usage line of a slash command: `ID`, `[ID]`, `[--last N]`, `[--all]`."""
        if self.option.is_positional:
            return f"[{self._metavar}]"
        is_required = self.option.is_argument and self.default is Parameter.empty
        return self.label if is_required or self.label.startswith("[") else f"[{self.label}]"


@cache
def read_parameters(declaration: Any) -> tuple[VerbParameter, ...]:
    """Return the parameters of a function, or the fields of a dataclass, that are declared as arguments or options."""
    hints = get_type_hints(declaration, include_extras=True)
    if is_dataclass(declaration):  # its signature may be made at its first call
        defaults = {field.name: field.default for field in fields(declaration)}
    else:
        defaults = {name: parameter.default for name, parameter in signature(declaration).parameters.items()}
    declared = ((name, get_args(hints.get(name)), default) for name, default in defaults.items())
    return tuple(
        VerbParameter(name, parts[0], Parameter.empty if default is MISSING else default, parts[-1])
        for name, parts, default in declared
        if parts and isinstance(parts[-1], Option)
    )


Allow = Annotated[
    str,
    Option(
        "|".join(LEVELS),
        "What runs without asking: ask = reads in the project, edit = also edits, auto = also sandboxed commands, "
        "all = everything.",
        values=LEVELS,
    ),
]
Directory = Annotated[str, Option("DIR", "Work in DIR.", "--cd -C", permits=True)]
Effort = Annotated[
    str,
    Option(
        "LEVEL",
        f"Reasoning effort: {', '.join(EFFORTS)}, or {DEFAULT_EFFORT}.",
        values=(*EFFORTS, DEFAULT_EFFORT),
    ),
]
Model = Annotated[str, Option("NAME", "A litellm model name, or an alias.", "--model -m", values=("?model show",))]
Recipe = Annotated[str, Option("NAME", "The recipe, which sets limits and context sections.")]
