"""A recipe: which sections and which powers a kind of run has (seed D's context type), read from TOML.

Composing its limits with the person's settings is `nexus_cli.core.limits`; choosing sections is the manager's.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from nexus_cli.context import contributors
from nexus_cli.context.decode import read_text
from nexus_cli.context.sysinfo import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import LEVELS, Limits

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
WHOLE = ("max_steps", "max_total_tokens")
NONE = Limits()


@dataclass(frozen=True, slots=True)
class Recipe:
    """One kind of run."""

    name: str
    description: str = ""
    """One line, for a person."""
    contributors: tuple[str, ...] | None = None
    """Ids of the contributors that take part; None: all of them."""
    multipliers: Mapping[str, float] = field(default_factory=dict)
    """Phase label, contributor id or section id to the factor of its score; 0 switches it off. The most exact wins."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Contributor or section id to the text that stands in its place; in a fork it is the appended instruction."""
    section_budget: int | None = None
    """Tokens of all static sections; None: the design's 16,384 and 25 % of the budget. Only ever lowers that."""
    limits: Limits = NONE
    signals: bool = False
    """Pressure and errors bind the limits of the run (seed D), instead of only being reported."""

    def multiplier(self, phase: str, section: str) -> float:
        """The factor of a section's score: that of its id, else of its contributor, else of its phase, else 1."""
        for key in (section, section.partition(".")[0], phase):
            if key in self.multipliers:
                return self.multipliers[key]
        return 1.0

    def admits(self, contributor: str) -> bool:
        """Whether this contributor takes part."""
        return self.contributors is None or contributor in self.contributors


def load_recipe(name: str, folders: Sequence[Path]) -> Recipe:
    """The recipe `NAME.toml` of the first of `folders` that has it.

    `NexusError("usage", ...)` lists what there is when none has it; `NexusError("config", ...)` names file and key
    when it is broken.
    """
    if NAME.fullmatch(name):
        for folder in folders:
            path = folder / f"{name}.toml"
            found = read_text(path)
            if found is not None:
                return _recipe(name, one_line(str(path)), _toml(found.text, path))
    there = recipe_names(folders)
    near = difflib.get_close_matches(name, there, 1)
    hint = (f"Did you mean {near[0]}? " if near else "") + f"There are: {', '.join(there) or 'none'}"
    raise NexusError("usage", f"recipe {one_line(name)}", "there is no such recipe", hint)


def recipe_names(folders: Iterable[Path]) -> list[str]:
    """The names of all recipes in `folders`, sorted."""
    found = {path.stem for folder in folders for path in folder.glob("*.toml") if NAME.fullmatch(path.stem)}
    return sorted(found)


def _toml(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise NexusError("config", one_line(str(path)), str(error), "Correct the file") from error


def _recipe(name: str, where: str, table: Mapping[str, Any]) -> Recipe:
    known = [f.name for f in fields(Recipe) if f.name != "name"]
    _only(where, "", table, known)
    chosen = table.get("contributors")
    if chosen is not None:
        _expect(where, "contributors", _words(chosen), "a list of names")
        _only(where, "contributors: ", chosen, contributors.names())
    description, signals = table.get("description", ""), table.get("signals", False)
    _expect(where, "description", isinstance(description, str), "a text")
    _expect(where, "signals", isinstance(signals, bool), "true or false")
    _expect(where, "limits", isinstance(table.get("limits", {}), Mapping), "a table")
    limits = _limits(where, table.get("limits", {}))
    return Recipe(
        name, description, None if chosen is None else tuple(chosen), limits=limits, signals=signals
    )


def _limits(where: str, table: Mapping[str, Any]) -> Limits:
    _only(where, "limits.", table, [f.name for f in fields(Limits)])
    for key, value in table.items():
        match key:
            case "allow":
                good, form = isinstance(value, str) and value in LEVELS, f"one of {', '.join(LEVELS)}"
            case "tools":
                good, form = _words(value), "a list of names"
            case _:
                kinds = (int,) if key in WHOLE else (int, float)
                good = isinstance(value, kinds) and not isinstance(value, bool) and 0 < value < float("inf")
                form = "a whole number above 0" if key in WHOLE else "a number above 0"
        _expect(where, f"limits.{key}", good, form)
    values: dict[str, Any] = {key: frozenset(value) if key == "tools" else value for key, value in table.items()}
    return Limits(**values)


def _words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _only(where: str, prefix: str, keys: Iterable[str], known: Collection[str]) -> None:
    for key in keys:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"Did you mean {near[0]}" if near else f"Known are: {', '.join(known)}"
            raise NexusError("config", where, f"unknown key {one_line(prefix + key)!r}", hint)


def _expect(where: str, key: str, good: bool, form: str) -> None:
    if not good:
        raise NexusError("config", where, f"{key} has to be {form}", "Correct the file")
