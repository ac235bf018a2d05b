"""The types and ranges that settings have, and the declaration of one."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from nexus_cli.core.limits import LEVELS, MAX_INT, Limits, parse_level
from nexus_cli.core.shared_types import T

SettingValue = str | int | float | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """The type and range of one key."""

    kind: type[str | int | float | bool | tuple[str, ...]]
    expected: str
    """Completes `expected ...`."""
    test: Callable[[Any], bool] = lambda value: True
    stored: Callable[[str], str] = str
    """Converts text as typed to the value that it names."""

    def read(self, value: Any) -> SettingValue | None:
        """Validate and convert `value`: a list to a tuple, an integer to a float if needed; None if it is invalid,
        or `ValueError` with the reason."""
        if self.kind is float and type(value) is int:
            value = float(value) if value.bit_length() < 1024 else math.inf
        if self.kind is str and isinstance(value, str):
            value = self.stored(value)
        if self.kind is tuple and isinstance(value, list) and all(isinstance(item, str) for item in value):
            value = tuple(map(str, value))
        fits = type(value) is self.kind and self.test(value)
        fit: SettingValue | None = value if fits else None
        return fit


@dataclass(frozen=True, slots=True)
class ServersRule(Rule):
    """The rule of `[mcp.NAME]`: the names of the tables. `nexus_cli.mcp.server_entries` reads what is in them."""

    def read(self, value: Any) -> SettingValue | None:
        is_table = isinstance(value, Mapping) and all(isinstance(server, Mapping) for server in value.values())
        return tuple(sorted(map(str, value))) if is_table else None


@dataclass(frozen=True, slots=True)
class TablesRule(Rule):
    """The rule of `[[check]]` and `[[hook]]`: a list of tables, held as one line of JSON each."""

    parse: Callable[[object], Any] = lambda table: None
    """Returns the dataclass of a table; raises `ValueError` with what is wrong in it."""

    def read(self, value: Any) -> SettingValue | None:
        return tuple(json.dumps(asdict(self.parse(table))) for table in value) if isinstance(value, list) else None

    def decode(self, lines: Iterable[str]) -> tuple[Any, ...]:
        """Return the dataclasses of lines that `read` returned."""
        return tuple(self.parse(json.loads(line)) for line in lines)


def number(least: float, most: float) -> Rule:
    """Return the rule of a number in a range."""
    return Rule(float, f"a number from {least:g} to {most:g}", lambda value: least <= value <= most)


def whole_number(least: int, most: int, unit: str = "") -> Rule:
    """Return the rule of a whole number in a range."""
    return Rule(int, f"a whole number{unit} from {least} to {most}", lambda value: least <= value <= most)


def one_of(*words: str) -> Rule:
    """Return the rule of a text that is one of `words`."""
    return Rule(str, "one of " + ", ".join(f'"{word}"' for word in words), lambda value: value in words)


def is_key_name(text: str) -> bool:
    """Return True for the name of a variable, such as `HOOK_SECRET`, in the form that no secret has."""
    return len(text) <= 64 and re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+", text) is not None


LEVEL = replace(one_of(*LEVELS), stored=parse_level)
TEXT = Rule(str, "a quoted string")
NAME = Rule(str, "a model's name in quotes", lambda value: bool(value.strip()))
KEY_OF_FOLDER = Rule(
    str,
    'the name of a stored key in lower case, such as "work"',
    lambda value: bool(re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", value)),
)
COUNT = whole_number(1, MAX_INT)
SECONDS = Rule(float, "a number of seconds above 0", lambda value: 0 < value < float("inf"))
NAMES = Rule(tuple, 'a list of variable names, such as ["NPM_TOKEN"]', lambda value: all(map(str.strip, value)))
PATHS = Rule(
    tuple,
    'a list of absolute paths, or of paths that begin with "~/"',
    lambda value: all(path.startswith(("/", "~/")) for path in value),
)
TEXTS = Rule(tuple, "a list of quoted strings")
YES_OR_NO = Rule(bool, "true or false")
PRICE = Rule(float, "a price per million tokens, 0 or more", lambda value: 0 <= value < float("inf"))
MEGABYTES = whole_number(0, 10**6, " of megabytes")
DOLLARS = Rule(float, "dollars, above 0", lambda value: 0 < value < float("inf"))
FOLDER = Rule(str, 'an absolute path, or one that begins with "~/"', lambda value: value.startswith(("/", "~/")))
KEY_NAME = Rule(
    str,
    'the name of a variable or stored key, in capitals with "_", such as "HOOK_SECRET"; never the secret itself',
    is_key_name,
)
HEADER = Rule(str, 'a header name, such as "X-Api-Key"', lambda value: bool(re.fullmatch(r"[A-Za-z0-9-]{1,64}", value)))
CONDITIONS = Rule(
    tuple,
    'a list of FIELD=VALUE conditions, such as ["action=completed"]',
    lambda value: all("=" in element.lstrip("!=") for element in value),
)


KEYS_OF_ACTIONS: Mapping[str, str] = {
    "newline": "c-j",
    "queue": "escape enter",
    "back": "escape",
    "stop": "c-c",
    "leave": "c-d",
    "level": "s-tab",
    "search": "c-r",
    "editor": "c-g",
    "image": "c-v",
    "background": "c-b",
    "thinking": "c-t",
    "output": "c-o",
    "clear": "c-l",
    "suspend": "c-z",
}
"""What a key of `[bindings]` can do, and the key that does it without such a table."""
ACTION = Rule(
    str,
    f'a command such as "/compact", or one of {", ".join(KEYS_OF_ACTIONS)}',
    lambda value: value in KEYS_OF_ACTIONS or (value.startswith("/") and len(value) > 1),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """The declaration of a setting: the check of its value, its part of the commented file, what a project may do."""

    default: Any
    """None if it has no value unless a person sets one."""
    rule: Rule
    help: str
    """What it does, with its unit."""
    example: Any = None
    """A value to show where there is no default; for a setting whose value is tables, a heading and one of them."""
    in_projects: Literal["", "replaces", "adds", "adds unless off", "either", "both", "stricter"] = ""
    """How the value of a trusted project is combined with that of the person; "" if a project cannot set it. `either`
    is the person's value unless it is empty or false, `both` is true if both are, `stricter` is that of `Limits`. `adds
    unless off` leaves an empty list of the person empty: it turns the setting off."""

    def combine(self, name: str, mine: Any, theirs: Any) -> Any:
        """Return the value in force of the person's value and a project's; `name` is that of a limit."""
        if mine is None or self.in_projects == "replaces":
            return theirs
        if self.in_projects == "adds unless off" and not mine:
            return mine
        if self.in_projects.startswith("adds"):
            return mine + tuple(element for element in theirs if element not in mine)
        if self.in_projects == "stricter":
            return getattr(Limits(**{name: mine}) & Limits(**{name: theirs}), name)
        return mine and theirs if self.in_projects == "both" else mine or theirs


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table of tables with names that the person chooses: `[models."openai/x"]`."""

    help: str
    name: str
    """A name to show, as in TOML."""
    settings: Mapping[str, Setting]


def declare(default: T, rule: Rule, text: str, **details: Any) -> T:
    """Declare a field of a settings class: its default, range and meaning. `details` are fields of `Setting`."""
    declared: T = field(default=default, metadata={"setting": Setting(default, rule, text, **details)})
    return declared


def is_database_url(value: str) -> bool:
    """Return True for a PostgreSQL URL or an empty value."""
    return not value or value.startswith(("postgresql://", "postgres://"))
