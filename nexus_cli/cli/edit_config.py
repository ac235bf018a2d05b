"""Writes one setting into the personal config.toml: comments and order stay, and the file is replaced whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from nexus_cli.core.errors import NexusError
from nexus_cli.core.paths import Places, private_dir
from nexus_cli.core.setting_rules import Scalar
from nexus_cli.core.settings import (
    build,
    check,
    consistent,
    parse_values,
    read_values,
    rule_for,
    split_key,
    unknown_key,
)


def scalar(key: str, text: str) -> Scalar:
    """`text` as the value of `key`; `NexusError("config", ...)` for an unknown key or a wrong value."""
    rule = rule_for(split_key(key))
    if rule is None:
        raise unknown_key(key)
    value: Any = text
    if rule.kind is bool:
        value = {"true": True, "false": False}.get(text.lower(), text)
    elif rule.kind is not str:
        try:
            value = int(text.replace("_", "")) if rule.kind is int else float(text)
        except ValueError:
            pass
    return check(key, value)


def write_setting(places: Places, defaults_dir: Path, key: str, text: str | None) -> None:
    """Set `key` to what `text` says, or take it out of the file when `text` is None.

    The file is made when it is missing (folder 0700, file 0600). Raises `NexusError("config", ...)` when key or value
    is wrong, when the file is broken, or when it cannot be written; then it is as it was.
    """
    import tomlkit  # noqa: PLC0415  (only for writing)
    import tomlkit.exceptions  # noqa: PLC0415

    path = Path(os.path.realpath(places.settings))
    if rule_for(split_key(key)) is None:
        raise unknown_key(key)
    value = None if text is None else scalar(key, text)
    try:
        before = path.read_bytes().decode("utf-8-sig") if path.exists() else ""
        document = tomlkit.parse(before)
    except tomlkit.exceptions.TOMLKitError:
        read_values(path)
        raise
    except (OSError, UnicodeDecodeError):
        read_values(path)
        raise
    _edit(document, split_key(key), value)
    after = tomlkit.dumps(document)
    consistent(build(read_values(defaults_dir / "config.toml") | parse_values(after, path)), path)
    try:
        _replace(path, after)
    except OSError as error:
        raise NexusError(
            "config", str(path), f"cannot be written ({error.strerror})", "Check the permissions of its folder"
        ) from error


def _edit(document: Any, parts: list[str], value: Scalar | None) -> None:
    import tomlkit  # noqa: PLC0415

    table = document
    for name in parts[:-1]:
        if name not in table:
            if value is None:
                return
            table.add(name, tomlkit.table(is_super_table=name == "models"))
        table = table[name]
    if value is not None:
        table[parts[-1]] = value
    elif parts[-1] in table:
        del table[parts[-1]]


def _replace(path: Path, text: str) -> None:
    private_dir(path.parent)
    descriptor, name = tempfile.mkstemp(prefix=".config-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
