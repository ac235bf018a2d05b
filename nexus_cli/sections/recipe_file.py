"""Parse a recipe's TOML file. An unknown or invalid key is an error of one line with file and key."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeAlias

from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError, suggest_name
from nexus_cli.core.json_value import JsonDict, JsonObject, is_number
from nexus_cli.core.limits import BINDS_WHEN, CATEGORIES, LEVELS, MODES, SETS, Limits, parse_level
from nexus_cli.sections.contributor import contributor_names
from nexus_cli.sections.section import Phase

ReadSibling: TypeAlias = "Callable[[str], str | None]"
"""Returns the text of a file beside the recipe, None if it does not exist."""

KEYS = ("description", "contributors", "multipliers", "overrides", "section_budget", "limits", "signals")
INTEGER_LIMITS = ("max_steps", "max_total_tokens", "max_iterations")
CHOICES = {"allow": LEVELS, "mode": MODES}
MAX_BYTES = 64 * 1024
"""Most bytes of a text beside a recipe."""
FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.(md|txt)")
WIDENING = ("contributors", "overrides")
"""Keys with which a project could remove or replace instructions of the person or of nexus."""
KEPT_PHASES = ("constraint", "persona", "event")
PROTECTED_PHASES = (
    *KEPT_PHASES,
    "contract",
    "identity",
    "preferences",
    "instructions",
    "environment",
    "user_memory",
    "clock",
    "notices",
    "session_start",
    "trigger",
)
"""Phases, and their contributors, that a project may not shrink."""
MIN_BUDGET = 8_192
"""Least tokens that a project must leave for the static sections, so that those in `PROTECTED_PHASES` fit."""
LARGEST = 100
"""Largest factor of a score."""


def read_recipe(text: str, location: str, beside: ReadSibling) -> JsonDict:
    """Return the fields of a recipe but its name; raise `NexusError("config", ...)` with `location` and the key."""
    table = _toml(text, location)
    _only(location, "", table, KEYS)
    description, signals = table.get("description", ""), table.get("signals", False)
    _expect(location, "description", isinstance(description, str), "a text")
    _expect(location, "signals", isinstance(signals, bool), "true or false")
    budget = table.get("section_budget")
    _expect(location, "section_budget", budget is None or _number(budget, (int,)), "a whole number above 0")
    for key in ("limits", "multipliers", "overrides"):
        _expect(location, key, isinstance(table.get(key, {}), Mapping), "a table")
    return {
        "description": description,
        "contributors": _contributors(location, table.get("contributors")),
        "multipliers": _multipliers(location, table.get("multipliers", {})),
        "overrides": _overrides(location, table.get("overrides", {}), beside),
        "section_budget": budget,
        "limits": _limits(location, table.get("limits", {})),
        "signals": signals,
    }


def read_project_recipe(text: str, location: str) -> JsonDict:
    """Return the fields of a project's recipe, which can only tighten: it replaces no text, takes no room from
    `PROTECTED_PHASES`, and puts nothing before them."""
    table = _toml(text, location)
    _only(location, "", table, KEYS)
    for key in WIDENING:
        if key in table:
            raise NexusError("config", location, f"a project's recipe cannot set {key}", "Remove it")
    recipe = read_recipe(text, location, lambda name: None)
    for key, factor in recipe["multipliers"].items():
        is_kept = key.partition(".")[0] in PROTECTED_PHASES
        if factor < 1 if is_kept else factor > 1:
            verb = "lower" if is_kept else "raise"
            why = f"a project's recipe cannot {verb} multipliers.{one_line(key)}"
            raise NexusError("config", location, why, "Remove it")
    budget = recipe["section_budget"]
    if budget is not None and budget < MIN_BUDGET:
        why = f"a project's recipe cannot set section_budget below {MIN_BUDGET}"
        raise NexusError("config", location, why, "Increase it, or remove it")
    return recipe


def _toml(text: str, location: str) -> JsonDict:
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise NexusError("config", location, str(error), "Correct the file") from error


def _contributors(location: str, chosen: Any) -> tuple[str, ...] | None:
    if chosen is None:
        return None
    _expect(location, "contributors", _words(chosen), "a list of names")
    _only(location, "contributors: ", chosen, contributor_names())
    return tuple(chosen)


def _multipliers(location: str, table: JsonObject) -> dict[str, float]:
    flat = _flat(table)
    known_names = [*(phase.label for phase in Phase), *contributor_names()] if flat else []
    _only(location, "multipliers.", [key.partition(".")[0] for key in flat], known_names)
    for key, value in flat.items():
        good = is_number(value) and 0 <= value <= LARGEST
        _expect(location, f"multipliers.{key}", good, f"a number from 0 to {LARGEST}")
    return {key: float(value) for key, value in flat.items()}


def _overrides(location: str, table: JsonObject, beside: ReadSibling) -> dict[str, str]:
    flat = _flat(table, "file")
    _only(location, "overrides.", [key.partition(".")[0] for key in flat], contributor_names() if flat else ())
    return {key: _text(location, f"overrides.{key}", value, beside) for key, value in flat.items()}


def _text(location: str, key: str, value: Any, beside: ReadSibling) -> str:
    file_name = value.get("file") if isinstance(value, Mapping) and set(value) == {"file"} else None
    if isinstance(file_name, str):
        _expect(
            location,
            f"{key}.file",
            bool(FILE.fullmatch(file_name)),
            "the name of an .md or .txt file beside the recipe",
        )
        value = beside(file_name)
        if value is None:
            raise NexusError(
                "config",
                location,
                f"{key}: there is no file {file_name} next to the recipe",
                "Add it, or name another file",
            )
    _expect(location, key, isinstance(value, str) and bool(value.strip()), 'a text, or { file = "NAME.md" }')
    return str(value).strip()


def _flat(table: JsonObject, leaf: str = "") -> JsonDict:
    """Flatten section ids, whose dots TOML reads as tables: `instructions.project = 0` becomes one key again."""
    flat: JsonDict = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and value and leaf not in value:
            flat |= {f"{key}.{inner_key}": inner for inner_key, inner in _flat(value, leaf).items()}
        else:
            flat[key] = value
    return flat


def _limits(location: str, table: JsonObject) -> Limits:
    _only(location, "limits.", table, [f.name for f in fields(Limits)])
    if isinstance(level := table.get("allow"), str):
        table = {**table, "allow": parse_level(level)}
    for key, value in table.items():
        if key in CHOICES:
            good, form = isinstance(value, str) and value in CHOICES[key], f"one of {', '.join(CHOICES[key])}"
        elif key in SETS:
            good, form = _words(value), "a list of names"
        elif key in BINDS_WHEN:
            good, form = isinstance(value, bool), "true or false"
        else:
            good = _number(value, (int,) if key in INTEGER_LIMITS else (int, float))
            form = "a whole number above 0" if key in INTEGER_LIMITS else "a number above 0"
        _expect(location, f"limits.{key}", good, form)
    _only(location, "limits.categories: ", table.get("categories", ()), CATEGORIES)
    values: JsonDict = {key: frozenset(value) if key in SETS else value for key, value in table.items()}
    return Limits(**values)


def _number(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, int | float) and type(value) in kinds and 0 < value < sys.float_info.max


def _words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _only(location: str, prefix: str, keys: Iterable[str], known_names: Collection[str]) -> None:
    for key in keys:
        if key not in known_names:
            hint = suggest_name(key, known_names, f"Known are: {', '.join(known_names)}")
            raise NexusError("config", location, f"unknown key {one_line(prefix + key)!r}", hint)


def _expect(location: str, key: str, good: bool, form: str) -> None:
    if not good:
        raise NexusError("config", location, f"{one_line(key)} must be {form}", "Correct the file")
