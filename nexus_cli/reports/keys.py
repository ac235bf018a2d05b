"""Show the names of keys."""

from __future__ import annotations

from typing import TypedDict

from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.reports.text.blocks import Blocks, Table


class KeyObject(TypedDict):
    name: str
    """The variable; its value is never shown."""
    key_name: str
    """The name of one of several keys (`--as`); may be empty."""
    place: str
    """`environment`, `keyring`, or the path of a file."""


class KeysReport(VersionedReport):
    """The names of keys, never their values."""

    keys: list[KeyObject]


def keys_text(value: JsonObject) -> Blocks:
    """List the keys with their places."""
    none = "No keys. `nexus login PROVIDER` stores a key."
    return [Table({"key": "name", "name": "key_name", "place": "place"}, value["keys"], none)]
