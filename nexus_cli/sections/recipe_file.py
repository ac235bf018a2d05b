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

Beside: TypeAlias = "Callable[[str], str | None]"
"""Returns the text of a file beside the recipe, None if it does not exist."""

KEYS = ("description", "contributors", "multipliers", "overrides", "section_budget", "limits", "signals")
WHOLE = ("max_steps", "max_total_tokens", "max_iterations")
CHOICES = {"allow": LEVELS, "mode": MODES}
MOST_BYTES = 64 * 1024
"""Most bytes of a text beside a recipe."""
FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.(md|txt)")
WIDENING = ("contributors", "overrides")
"""Keys with which a project could remove or replace instructions of the person or of nexus."""
KEPT_PHASES = ("constraint", "persona", "event")
KEPT = (
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
LEAST_BUDGET = 8_192
"""Least tokens that a project must leave for the static sections, so that those in `KEPT` fit."""
LARGEST = 100
"""Largest factor of a score."""


def read_recipe(text: str, where: str, beside: Beside) -> JsonDict:
    """Return the fields of a recipe but its name; raise `NexusError("config", ...)` with `where` and the key."""
    table = _toml(text, where)
    _only(where, "", table, KEYS)
    description, signals = table.get("description", ""), table.get("signals", False)
    _expect(where, "description", isinstance(description, str), "a text")
    _expect(where, "signals", isinstance(signals, bool), "true or false")
    budget = table.get("section_budget")
    _expect(where, "section_budget", budget is None or _number(budget, (int,)), "a whole number above 0")
    for key in ("limits", "multipliers", "overrides"):
        _expect(where, key, isinstance(table.get(key, {}), Mapping), "a table")
    return {
        "description": description,
        "contributors": _contributors(where, table.get("contributors")),
        "multipliers": _multipliers(where, table.get("multipliers", {})),
        "overrides": _overrides(where, table.get("overrides", {}), beside),
        "section_budget": budget,
        "limits": _limits(where, table.get("limits", {})),
        "signals": signals,
    }


def read_project_recipe(text: str, where: str) -> JsonDict:
    """Return the fields of a project's recipe, which can only tighten: it replaces no text, takes no room from `KEPT`,
    and puts nothing before it."""
    table = _toml(text, where)
    _only(where, "", table, KEYS)
    for key in WIDENING:
        if key in table:
            raise NexusError("config", where, f"a project's recipe cannot set {key}", "Remove it")
    recipe = read_recipe(text, where, lambda name: None)
    for key, factor in recipe["multipliers"].items():
        kept = key.partition(".")[0] in KEPT
        if factor < 1 if kept else factor > 1:
            verb = "lower" if kept else "raise"
            why = f"a project's recipe cannot {verb} multipliers.{one_line(key)}"
            raise NexusError("config", where, why, "Remove it")
    budget = recipe["section_budget"]
    if budget is not None and budget < LEAST_BUDGET:
        why = f"a project's recipe cannot set section_budget below {LEAST_BUDGET}"
        raise NexusError("config", where, why, "Increase it, or remove it")
    return recipe


def _toml(text: str, where: str) -> JsonDict:
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise NexusError("config", where, str(error), "Correct the file") from error


def _contributors(where: str, chosen: Any) -> tuple[str, ...] | None:
    if chosen is None:
        return None
    _expect(where, "contributors", _words(chosen), "a list of names")
    _only(where, "contributors: ", chosen, contributor_names())
    return tuple(chosen)


def _multipliers(where: str, table: JsonObject) -> dict[str, float]:
    flat = _flat(table)
    known = [*(phase.label for phase in Phase), *contributor_names()] if flat else []
    _only(where, "multipliers.", [key.partition(".")[0] for key in flat], known)
    for key, value in flat.items():
        good = is_number(value) and 0 <= value <= LARGEST
        _expect(where, f"multipliers.{key}", good, f"a number from 0 to {LARGEST}")
    return {key: float(value) for key, value in flat.items()}


def _overrides(where: str, table: JsonObject, beside: Beside) -> dict[str, str]:
    flat = _flat(table, "file")
    _only(where, "overrides.", [key.partition(".")[0] for key in flat], contributor_names() if flat else ())
    return {key: _text(where, f"overrides.{key}", value, beside) for key, value in flat.items()}


def _text(where: str, key: str, value: Any, beside: Beside) -> str:
    named = value.get("file") if isinstance(value, Mapping) and set(value) == {"file"} else None
    if isinstance(named, str):
        _expect(where, f"{key}.file", bool(FILE.fullmatch(named)), "the name of an .md or .txt file beside the recipe")
        value = beside(named)
        if value is None:
            raise NexusError(
                "config",
                where,
                f"{key}: there is no file {named} next to the recipe",
                "Add it, or name another file",
            )
    _expect(where, key, isinstance(value, str) and bool(value.strip()), 'a text, or { file = "NAME.md" }')
    return str(value).strip()


def _flat(table: JsonObject, leaf: str = "") -> JsonDict:
    """Flatten section ids, whose dots TOML reads as tables: `instructions.project = 0` becomes one key again."""
    flat: JsonDict = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and value and leaf not in value:
            flat |= {f"{key}.{rest}": inner for rest, inner in _flat(value, leaf).items()}
        else:
            flat[key] = value
    return flat


def _limits(where: str, table: JsonObject) -> Limits:
    _only(where, "limits.", table, [f.name for f in fields(Limits)])
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
            good = _number(value, (int,) if key in WHOLE else (int, float))
            form = "a whole number above 0" if key in WHOLE else "a number above 0"
        _expect(where, f"limits.{key}", good, form)
    _only(where, "limits.categories: ", table.get("categories", ()), CATEGORIES)
    values: JsonDict = {key: frozenset(value) if key in SETS else value for key, value in table.items()}
    return Limits(**values)


def _number(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, int | float) and type(value) in kinds and 0 < value < sys.float_info.max


def _words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _only(where: str, prefix: str, keys: Iterable[str], known: Collection[str]) -> None:
    for key in keys:
        if key not in known:
            hint = suggest_name(key, known, f"Known are: {', '.join(known)}")
            raise NexusError("config", where, f"unknown key {one_line(prefix + key)!r}", hint)


def _expect(where: str, key: str, good: bool, form: str) -> None:
    if not good:
        raise NexusError("config", where, f"{one_line(key)} must be {form}", "Correct the file")
