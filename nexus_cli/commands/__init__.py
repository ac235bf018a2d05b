"""The slash commands: each file of this folder exports one `COMMAND` and is found by itself."""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Iterable
from functools import cache
from importlib import import_module

from nexus_cli.commands.command import GROUPS, Command

_NO_COMMAND = {"command"}


@cache
def discover() -> dict[str, Command]:
    """Every command by name, in the order of `GROUPS`, then of names; `ValueError` when two have one name."""
    found: dict[str, Command] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name in _NO_COMMAND:
            continue
        command: Command = import_module(f"{__name__}.{module.name}").COMMAND
        if command.name in found:
            raise ValueError(f"two commands are called /{command.name}")
        found[command.name] = command
    return dict(sorted(found.items(), key=lambda item: (GROUPS.index(item[1].group), item[0])))


def nearest(name: str, names: Iterable[str]) -> str:
    """The one of `names` that a misspelt one most likely means, or ""."""
    known = list(names)
    starts = [one for one in known if name and one.startswith(name)]
    return next(iter(starts or difflib.get_close_matches(name, known, 1, 0.5)), "")
