"""The keys that nexus has: those that `nexus login` stored, and those in the environment."""

from __future__ import annotations

import os
from typing import TypedDict

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.config.stored_keys import key_place, stored_names
from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.provider.endpoint import KEY_VARIABLES
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


def build_list(source: Source) -> Report[KeysReport]:
    """List the names of all keys and where they are, never their values. A key in the environment takes precedence."""
    variables = [name for names in KEY_VARIABLES.values() for name in names]
    entries = [(name, "environment") for name in variables if os.environ.get(name, "").strip()]
    entries += [(name, key_place(name).removeprefix("the ")) for name in sorted(stored_names())]
    parts = [(*name.partition("@"), place) for name, place in entries]
    keys: list[KeyObject] = [{"name": name, "key_name": of, "place": place} for name, _, of, place in parts]
    return Report("keys", {"version": 1, "keys": keys}, uncut=True)


NOUN = Noun(
    "key",
    "setup",
    (Verb(build_list, "list", opens="nothing"),),
    "List provider keys, never their values.",
    "/login stores a key, /logout removes a key.",
    aliases=("keys",),
)
