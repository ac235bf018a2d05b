"""Read the settings: files are checked key by key, and merged with defaults and environment.

Precedence, lowest first: the defaults (`nexus_cli.config.settings`), the personal `config.toml`, `NEXUS_MODEL`
(`nexus docs settings`). Options of the command line are applied in `nexus_cli.cli`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from nexus_cli.config.paths import MAX_SETTINGS, Places, places
from nexus_cli.config.setting_rules import Rule, SettingValue, TablesRule
from nexus_cli.config.setting_tables import (
    DEFAULTS,
    LEDGER_URL,
    NAMED_TABLES,
    OPEN_TABLES,
    REMOVED_TABLES,
    SETTINGS,
    TABLES,
)
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError, suggest_name
from nexus_cli.core.json_value import JsonDict, parse_nested
from nexus_cli.core.real_files import read_beginning

LONGEST_SHOWN = 24
"""Most characters of an invalid value in an error; a longer one may be a key, and is not shown."""


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings, and the origin of every key that has a value."""

    settings: Settings
    origins: Mapping[str, str]
    """`default`, the path of the personal file, or `environment NEXUS_MODEL`."""
    values: Mapping[str, SettingValue]
    """The same settings by dotted key, with parts quoted by `quote_part`."""


def quote_part(part: str) -> str:
    """Quote `part` of a dotted key unless it is a plain word."""
    plain = part and part.isascii() and part.replace("_", "").replace("-", "").isalnum()
    return part if plain else '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'


def join_key(parts: Sequence[str]) -> str:
    """Return the dotted key of unquoted parts."""
    return ".".join(map(quote_part, parts))


def split_key(key: str) -> list[str]:
    """Split a dotted key into unquoted parts. Names that the person chose may contain dots."""
    table, _, inner_key = key.partition(".")
    of_folder = table == "rules" and inner_key.startswith(('"', "'"))
    if not inner_key or not (of_folder or table in (*NAMED_TABLES, *OPEN_TABLES)):
        return [table, *key.split(".")[1:]]
    if of_folder or table in NAMED_TABLES:
        name, dot, last = inner_key.rpartition(".")
        parts = [table, name, last] if dot else [table, inner_key]
    else:
        parts = [table, inner_key]
    return [_unquote_part(part) for part in parts]


def _unquote_part(part: str) -> str:
    name = part[1:-1]
    if part == f"'{name}'":
        return name
    return name.replace('\\"', '"').replace("\\\\", "\\") if part == f'"{name}"' else part


def rule_for(parts: list[str]) -> Rule | None:
    """Return the rule of a key, None for an unknown key."""
    if len(parts) == 2 and parts[0] in OPEN_TABLES:
        return OPEN_TABLES[parts[0]].rule
    if len(parts) == 3 and parts[0] in NAMED_TABLES:
        setting = NAMED_TABLES[parts[0]].settings.get(parts[2])
    elif len(parts) == 3 and is_rule_folder(parts[:2]):
        setting = SETTINGS.get(f"rules.{parts[2]}")
    else:
        setting = SETTINGS.get(".".join(parts))
    return setting.rule if setting else None


def is_rule_folder(parts: Sequence[str]) -> bool:
    """Return True for a table `[rules."/FOLDER"]` or `[rules."~/FOLDER"]`, with rules for projects in that folder."""
    return len(parts) == 2 and parts[0] == "rules" and parts[1].startswith(("/", "~/"))


def unknown_key_error(key: str, source: str = "") -> NexusError:
    """Return the error for an unknown key, with the most similar known one; for a table, with the keys in it."""
    parts = split_key(key)
    is_named = len(parts) == 2 and parts[0] in NAMED_TABLES
    if is_named or key in TABLES:
        keys = [join_key([*parts, name]) for name in NAMED_TABLES[parts[0]].settings] if is_named else []
        keys = keys or [name for name in SETTINGS if name.startswith(f"{key}.")] or [f"{key}.NAME"]
        return NexusError("config", key, "this is a table of settings", f"Name one of its settings: {', '.join(keys)}")
    if parts[0] in REMOVED_TABLES:
        return NexusError("config", source or "the settings", f"{key} is no longer supported", "Remove it")
    stem = f"{parts[0]}.{quote_part(parts[1])}." if len(parts) == 3 and parts[0] in NAMED_TABLES else ""
    candidates = [stem + name for name in NAMED_TABLES[parts[0]].settings] if stem else [*SETTINGS, *TABLES]
    hint = suggest_name(key, candidates, "`nexus docs settings` describes all settings")
    return NexusError("config", source or "the settings", f"unknown setting {key}", hint)


def check_value(key: str, value: Any, source: str = "") -> SettingValue:
    """Validate and convert `value` for `key`; raise `NexusError("config", ...)` if either is invalid."""
    rule = rule_for(split_key(key))
    if rule is None and key not in TABLES:
        raise unknown_key_error(key, source)
    folder = split_key(key)[-1] if key.startswith("folder_keys.") else "/"
    if not folder.startswith(("/", "~/")):  # it would name another one in each folder that nexus is started in
        raise NexusError(
            "config", source or "the settings", f"{key} is not an absolute path", "Use an absolute path or ~/..."
        )
    try:
        fit = rule.read(value) if rule else None
    except ValueError as error:
        raise NexusError("config", source or "the settings", f"{key}: {error}", "Correct the value") from error
    if fit is None:
        literal = f'"{value}"' if isinstance(value, str) else str(value)
        if len(literal) > LONGEST_SHOWN:
            literal = f"a value of {len(literal)} characters"
        expected = rule.expected if rule else f"a table [{key}]"
        raise NexusError(
            "config", source or "the settings", f"{key} is {literal}, expected {expected}", "Correct the value"
        )
    return fit


def find_line(text: str, parts: list[str]) -> int:
    """Return the line number of a dotted key in a TOML text, 0 if not found. A heuristic without a parser."""
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line.startswith("["):
            key = table = _split_key(line.strip("[]").partition("#")[0].rstrip("] "))
        elif "=" in line:
            key = table + _split_key(line.partition("=")[0])
        else:
            continue
        if key[: len(parts)] == parts:
            return number
    return 0


def _split_key(text: str) -> list[str]:
    """Return the parts of a dotted key without their quotes."""
    return ["".join(part) for part in re.findall(r"\"([^\"]*)\"|'([^']*)'|([^.\s]+)", text)]


def list_values(table: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> list[tuple[list[str], Any]]:
    """Return the parts of each key in the tables of a settings file, with its value."""
    flat: list[tuple[list[str], Any]] = []
    for key, value in table.items():
        parts = (*prefix, key)
        is_table_entry = (parts[0] in NAMED_TABLES and len(parts) < 3) or is_rule_folder(parts)
        if isinstance(value, Mapping) and (is_table_entry or ".".join(parts) in TABLES):
            flat += list_values(value, parts)
        else:
            flat.append((list(parts), value))
    return flat


def read_values(path: Path, notices: list[str] | None = None) -> dict[str, SettingValue]:
    """Return the settings of one file by dotted key, {} if the file does not exist.

    Removed tables are accepted, with a line in `notices`. Raises `NexusError("config", ...)` with file and
    line if the file is unreadable or no TOML, or a key or value is invalid.
    """
    return parse_values(read_settings_text(path), path, notices)


def read_settings_text(path: Path) -> str:
    """Return the text of the file, "" if it does not exist; raise `NexusError("config", ...)` if it is unreadable."""
    try:
        if not path.is_file() and path.exists():
            raise NexusError("config", str(path), "is not a file", "Move it away; `nexus config set` creates the file")
        data = read_beginning(path, MAX_SETTINGS + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise NexusError("config", str(path), f"cannot be read ({error.strerror})", "Check its permissions") from error
    if len(data) > MAX_SETTINGS:
        raise NexusError("config", str(path), f"has more than {MAX_SETTINGS:,} bytes", "Move it away, or shorten it")
    return decode_settings(data, path)


def decode_settings(data: bytes, path: Path | str) -> str:
    """Return the text of a settings file; raise `NexusError("config", ...)` with line if it is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _raise_broken(path, error.object[: error.start].count(b"\n") + 1, "is not UTF-8")


def parse_tables(text: str, path: Path | str) -> JsonDict:
    """Return the tables of a settings file; raise `NexusError("config", ...)` with line if it is not TOML."""
    import tomllib  # noqa: PLC0415  (a command that reads no settings does not pay for it)

    try:
        table = parse_nested(tomllib.loads, text)
        str(table)  # fails where an error could not show a value: a number is too long
    except ValueError as error:
        why, _, place = str(error).partition(" (at ")
        line = "".join(c for c in place.partition(",")[0] if c.isdigit())
        _raise_broken(path, int(line) if line else text.count("\n") + 1, f"not valid TOML: {why[:1].lower()}{why[1:]}")
    return table


def parse_values(text: str, path: Path, notices: list[str] | None = None) -> dict[str, SettingValue]:
    """Return the settings in `text` by dotted key; raise `NexusError("config", ...)` with `path` and line."""
    table = parse_tables(text, path)
    for removed in REMOVED_TABLES.keys() & table.keys():
        del table[removed]
        if notices is not None:
            location = f"{path}, line {find_line(text, [removed])}"
            notices.append(f"{location}: [{removed}] is no longer supported; {REMOVED_TABLES[removed]}")
    values: dict[str, SettingValue] = {}
    for parts, value in list_values(table):
        key = join_key(parts)
        try:
            values[key] = check_value(key, value)
        except NexusError:
            line_number = find_line(text, parts)
            check_value(key, value, f"{path}, line {line_number}" if line_number else str(path))
            raise
    return values


def _raise_broken(path: Path | str, line: int, why: str) -> NoReturn:
    raise NexusError("config", f"{path}, line {line}", why, "Correct that line, or move the file away") from None


def build_settings(values: Mapping[str, SettingValue]) -> Settings:
    """Build the settings from validated dotted keys; missing ones get the defaults of their class, tables none."""
    tree: JsonDict = {}
    for key, value in values.items():
        if key == LEDGER_URL:
            continue  # of `config.ledger_place` alone: it may have a password
        *tables, last = split_key(key)
        level = tree
        for name in tables:
            level = level.setdefault(name, {})
        level[last] = value
    arguments: JsonDict = {}
    if "warn_cost" in tree.get("limits", {}):  # bounds nothing, unlike the other keys of its table
        arguments["warn_cost"] = tree["limits"].pop("warn_cost")
    for f in fields(Settings):
        if f.name in tree:
            maker: Any = type(f.default)
            arguments[f.name] = maker(**tree[f.name]) if is_dataclass(f.default) else tree[f.name]
    for name in arguments:
        rule = SETTINGS[name].rule if name in SETTINGS else None
        if isinstance(rule, TablesRule):
            arguments[name] = rule.decode(arguments[name])
    return Settings(**arguments)


def own_settings() -> Settings:
    """Return the person's settings, without those of a project; raises as `load_settings` does."""
    return load_settings(places()).settings


def load_settings(places: Places) -> LoadedSettings:
    """Merge defaults, the personal file, then `NEXUS_MODEL`; raise as `read_values` for an invalid file."""
    notices: list[str] = []
    personal = read_values(places.settings, notices)
    if url := str(personal.get(LEDGER_URL, "")):
        from nexus_cli.config.database_url import hide_password  # noqa: PLC0415  (few settings name a server)

        personal[LEDGER_URL] = hide_password(url)
    values = {**DEFAULTS, **personal}
    origins = {**dict.fromkeys(DEFAULTS, "default"), **dict.fromkeys(personal, str(places.settings))}
    if model := os.environ.get("NEXUS_MODEL", "").strip():
        values["model"] = model
        origins["model"] = "environment NEXUS_MODEL"
    settings = check_consistency(build_settings(values), places.settings)
    return LoadedSettings(replace(settings, notices=tuple(notices)), origins, values)


def check_consistency(settings: Settings, path: Path) -> Settings:
    """Return `settings`; raise `NexusError("config", ...)` if two of them contradict each other."""
    low = max(settings.compact.to, settings.compact.overflow_to)
    if settings.compact.at <= low:
        why = f"compact.at ({settings.compact.at:g}) must be above compact.to and compact.overflow_to ({low:g})"
        raise NexusError("config", str(path), why, "Change one of them")
    return settings
