"""Change the personal config.toml: one setting, keeping comments and order, or the whole text.

The file is locked, and replaced atomically by a valid one only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.load_settings import (
    build_settings,
    check_consistency,
    check_value,
    parse_values,
    read_settings_text,
    read_values,
    rule_for,
    split_key,
    unknown_key_error,
)
from nexus_cli.config.paths import Places, places
from nexus_cli.config.private_file import named_write_errors, replace_private_file
from nexus_cli.config.setting_rules import TEXTS, SettingValue
from nexus_cli.config.setting_tables import DEFAULTS, NAMED_TABLES
from nexus_cli.core.decode import decode
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.real_files import real_path

WAIT = 10.0
"""Seconds to wait for another process's change."""


def parse_value(key: str, text: str) -> SettingValue:
    """Parse `text` as the value of `key`; raise `NexusError("config", ...)` for an unknown key or an invalid value."""
    parts = split_key(key)
    rule = rule_for(parts)
    if rule is None:
        raise unknown_key_error(key)
    if any(part.startswith(("'", '"')) and f".{part}" in key for part in parts):
        raise NexusError("config", key, "a quote in the key is not closed", "Close the quote, or omit it")
    value: Any = text
    if rule.kind is bool:
        value = {"true": True, "false": False}.get(text.lower(), text)
    elif rule.kind is tuple:
        value = _parse_list(text, rule is not TEXTS)
    elif rule.kind is not str:
        try:
            value = int(text.replace("_", "")) if rule.kind is int else float(text)
        except ValueError:
            pass
    return check_value(key, value)


def _parse_list(text: str, by_commas: bool) -> Any:
    """Parse `text` as a TOML list; without brackets split it `by_commas` or take it as the only item.

    Returns `text` itself if the list is not valid TOML.
    """
    import tomllib  # noqa: PLC0415  (only for writing)

    try:
        if text.lstrip().startswith("["):
            return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
    return [part for piece in text.split(",") if (part := piece.strip())] if by_commas else [text]


def write_setting(folders: Places, key: str, text: str | None) -> bool:
    """Set `key` to `text`, or remove it from the file if `text` is None; False if nothing changed. Creates a missing
    file.

    Raises `NexusError("config", ...)` if key, value or file is invalid, kind `internal` if the file cannot be written;
    the file is unchanged then.
    """
    value = None if text is None else parse_value(key, text)
    if rule_for(split_key(key)) is None:
        raise unknown_key_error(key)
    return _change_settings(folders, lambda document: set_value(document, split_key(key), value))


def write_server(name: str, entry: JsonObject | None) -> bool:
    """Write the table `[mcp.NAME]`, or remove it for None; False if nothing changed. Raises as `write_setting`."""
    return _change_settings(places(), lambda document: set_value(document, ["mcp", name], entry))


def change_list(key: str, text: str, *, add: bool) -> bool:
    """Add `text` to the list `key`, or remove it; return False if nothing changed. Raises as `write_setting`."""
    return _change_settings(places(), lambda document: set_listed(document, split_key(key), text, add=add))


def set_listed(document: Any, parts: list[str], text: str, *, add: bool) -> None:
    """Add `text` to the list `parts` of a parsed file, or remove it."""
    table = document
    for name in parts[:-1]:
        table = table.get(name, {})
    listed = table.get(parts[-1])
    if (listed is not None and text in listed) == add:
        return
    if not add:
        listed.remove(text)
    elif listed is None:
        set_value(document, parts, (text,))
    elif "\n" in listed.as_string():
        listed.add_line(text)
    else:
        listed.append(text)


def _change_settings(folders: Places, edit: Callable[[Any], None]) -> bool:
    """Let `edit` change the parsed file, and write it; return False if nothing changed."""
    import tomlkit  # noqa: PLC0415  (only for writing)
    import tomlkit.exceptions  # noqa: PLC0415

    path = real_path(folders.settings)
    with lock_settings(path):
        before = read_settings_text(path)
        try:
            document = tomlkit.parse(before)
        except tomlkit.exceptions.TOMLKitError:
            read_values(path)
            raise
        edit(document)
        text = tomlkit.dumps(document)
        replace_settings(path, text, before)
    return text != before


def require_unchanged(path: Path, before: str) -> None:
    """Raise `UsageError` if the text of the file is no longer `before`."""
    if read_settings_text(path) != before:
        raise UsageError(str(path), "the file has changed in the meantime", "Try again")


@contextmanager
def lock_settings(path: Path) -> Iterator[None]:
    """Lock the file at `path` against other processes; raise `NexusError("internal", ...)` if that fails."""
    with named_write_errors(path):
        lock = FileLock.wait_for(path.with_name(f".{path.name}.lock"), WAIT)
    try:
        yield
    finally:
        lock.release(remove=True)


def replace_settings(path: Path, text: str, before: str) -> None:
    """Replace the text `before` of the file by `text`; raise `NexusError` if `text` is invalid or `before` changed."""
    check_consistency(build_settings({**DEFAULTS, **parse_values(text, path)}), path)
    with named_write_errors(path):
        replace_settings_text(path, text, before)


def set_value(document: Any, parts: list[str], value: SettingValue | JsonObject | None) -> None:
    """Set a value or table of a parsed file, or remove it if it is None."""
    import tomlkit  # noqa: PLC0415

    table = document
    for name in parts[:-1]:
        if name not in table:
            if value is None:
                return
            table.add(name, tomlkit.table(is_super_table=name in (*NAMED_TABLES, "mcp")))
        table = table[name]
    if value is not None:
        table[parts[-1]] = list(value) if isinstance(value, tuple) else value
    elif parts[-1] in table:
        del table[parts[-1]]


def replace_settings_text(path: Path, text: str, before: str | None = None) -> None:
    """Replace the file by `text` atomically (0600), with its mark and line ends, if its text is still `before`."""
    replace_private_file(
        path, _encode_as(path, text), lambda: require_unchanged(path, before) if before is not None else None
    )


def _encode_as(path: Path, text: str) -> bytes:
    """Encode `text` with the byte order mark of the file, and with CRLF if the file has it."""
    old = decode(path.read_bytes()) if path.exists() else None
    if old is None:
        return text.encode()
    if old.is_crlf and "\r\n" in text:
        text = re.sub(r"\r?\n", "\r\n", text)
    return old.bom + text.encode()
