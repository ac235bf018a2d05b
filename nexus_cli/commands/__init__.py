"""The slash commands: each file of this folder exports one `COMMAND` and is found by itself."""

from __future__ import annotations

import difflib
import pkgutil
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module

from nexus_cli.commands.command import GROUPS, Command
from nexus_cli.core.errors import NexusError

_LINE = re.compile(r"/+([\w-]*)/?(?:[ \t]+(.*))?")
_NO_COMMAND = {"command", "arguments"}


@cache
def discover() -> dict[str, Command]:
    """Every command by name, in the order of `GROUPS`, then of names; `ValueError` when two have one name."""
    found: dict[str, Command] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name in _NO_COMMAND:
            continue
        command: Command = import_module(f"{__name__}.{module.name}").COMMAND
        taken = {name for other in found.values() for name in (other.name, *other.aliases)}
        for name in taken.intersection((command.name, *command.aliases)):
            raise ValueError(f"two commands are called /{name}")
        found[command.name] = command
    return dict(sorted(found.items(), key=lambda item: (GROUPS.index(item[1].group), item[0])))


def parse(text: str) -> tuple[str, str] | None:
    """Name and arguments of a line that begins with `/`, None for other words: several lines, a path.

    A line that begins with a space is words, whatever follows.
    """
    found = _LINE.fullmatch(text.rstrip())
    return (found[1], (found[2] or "").strip()) if found else None


def find(name: str, commands: Mapping[str, Command]) -> Command:
    """The command of this name or alias, letter case aside; `NexusError("usage", ...)` that names the nearest where
    there is none."""
    named = {alias: command for command in commands.values() for alias in command.aliases} | dict(commands)
    if found := named.get(name.casefold()):
        return found
    near = nearest(name.casefold(), named)
    hint = f"The nearest is /{near}" if near else "/help lists them"
    raise NexusError("usage", f"/{name}", "there is no such command", hint)


def nearest(name: str, names: Iterable[str]) -> str:
    """The one of `names` that a misspelt one most likely means, or ""."""
    known = list(names)
    starts = [one for one in known if name and one.startswith(name)]
    return next(iter(starts or difflib.get_close_matches(name, known, 1, 0.6)), "")
