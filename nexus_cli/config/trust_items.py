"""Split a project's configuration into items that are trusted separately, each with its own hash.

A change revokes the trust of that item alone. The settings are one item, and so is each rule, server, recipe, command,
skill (with all its files) and identity file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SETTINGS, SERVERS = "config.toml", "mcp.json"
RULE_KINDS = ("allow", "ask", "deny")
_KINDS = {"recipes": "recipe", "commands": "command", "skills": "skill"}


@dataclass(frozen=True, slots=True)
class TrustItem:
    """A part of the configuration that is trusted by itself."""

    kind: str
    """`settings`, `rule`, `server`, `servers`, `recipe`, `command`, `skill` or `identity`."""
    name: str
    """Its name, unique within its kind; "" for settings and servers as a whole."""
    parts: Mapping[str, bytes]
    """Its content by file name: whole files, or its part of a file in a canonical form."""

    @property
    def key(self) -> str:
        """Return kind and name, the item's key in the record."""
        return f"{self.kind} {self.name}".rstrip()

    @property
    def sha256(self) -> str:
        """Return the hash of its key, the names of its parts and their content."""
        digest = hashlib.sha256()
        for name, data in [(self.key, b""), *sorted(self.parts.items())]:
            raw = os.fsencode(name)
            digest.update(b"%d:%d:" % (len(raw), len(data)) + raw + data)
        return digest.hexdigest()


def split_items(files: Mapping[str, bytes]) -> dict[str, TrustItem]:
    """Split a project's files into items, by key, in the order of the files."""
    items: dict[str, TrustItem] = {}
    for name, data in files.items():
        if name == SETTINGS:
            found = _split_settings(data)
        elif name == SERVERS:
            found = _split_servers(data)
        else:
            kind, named = _file_owner(name)
            before = items.get(f"{kind} {named}")
            found = iter((TrustItem(kind, named, {**(before.parts if before else {}), name: data}),))
        items |= {item.key: item for item in found}
    return items


def keep_items(files: Mapping[str, bytes], keys: frozenset[str]) -> dict[str, bytes]:
    """Return `files` reduced to the items with these keys."""
    items = split_items(files)
    if keys.issuperset(items):
        return dict(files)
    kept = {name: data for key, item in items.items() if key in keys for name, data in item.parts.items()}
    whole = {name: data for name, data in kept.items() if name not in (SETTINGS, SERVERS)}
    return {**whole, **_keep_settings(files, keys), **_keep_servers(files, keys)}


def _keep_settings(files: Mapping[str, bytes], keys: frozenset[str]) -> dict[str, bytes]:
    if SETTINGS not in files:
        return {}
    table = _read_toml(files[SETTINGS])
    if table is None:
        return {SETTINGS: files[SETTINGS]} if "settings" in keys else {}
    rest, rules = _take_rules(table)
    here = rest if "settings" in keys else {}
    for kind, entry in rules:
        if f"rule {_name_rule(kind, entry)}" in keys:
            here.setdefault("rules", {}).setdefault(kind, []).append(entry)
    import tomlkit  # noqa: PLC0415  (slow, and only where part of a file is trusted)

    return {SETTINGS: tomlkit.dumps(here).encode()} if here else {}


def _keep_servers(files: Mapping[str, bytes], keys: frozenset[str]) -> dict[str, bytes]:
    if SERVERS not in files:
        return {}
    servers = _read_servers(files[SERVERS])
    if servers is None:
        return {SERVERS: files[SERVERS]} if "servers" in keys else {}
    kept = {name: server for name, server in servers.items() if f"server {name}" in keys}
    return {SERVERS: json.dumps({"mcpServers": kept}).encode()} if kept else {}


def _file_owner(name: str) -> tuple[str, str]:
    """Return kind and name of the item of a file that is not split."""
    folder, _, rest = name.partition("/")
    if folder not in _KINDS:
        return "identity", name
    if folder == "skills":
        return "skill", rest.partition("/")[0]
    return _KINDS[folder], rest.rpartition(".")[0] or rest


def _split_settings(data: bytes) -> Iterator[TrustItem]:
    table = _read_toml(data)
    if table is None:  # invalid TOML: the error is reported once it is trusted
        yield TrustItem("settings", "", {SETTINGS: data})
        return
    rest, rules = _take_rules(table)
    if rest or not rules:
        yield TrustItem("settings", "", {SETTINGS: "".join(sorted(_lines(rest))).encode()})
    for kind, entry in rules:
        name = _name_rule(kind, entry)
        yield TrustItem("rule", name, {SETTINGS: f"{name}\n".encode()})


def _split_servers(data: bytes) -> Iterator[TrustItem]:
    servers = _read_servers(data)
    if servers is None:
        yield TrustItem("servers", "", {SERVERS: data})
        return
    for name, server in servers.items():
        text = json.dumps(server, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        yield TrustItem("server", name, {SERVERS: text.encode("utf-8", "surrogatepass")})


def _take_rules(table: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """Separate the settings from the rules; return both, each rule with its kind."""
    rules = table.get("rules")
    if not isinstance(rules, dict):
        return table, []
    listed = {kind: rules[kind] for kind in RULE_KINDS if isinstance(rules.get(kind), list)}
    other = {key: value for key, value in rules.items() if key not in listed}
    rest = {key: value for key, value in table.items() if key != "rules"} | ({"rules": other} if other else {})
    return rest, [(kind, entry) for kind, entries in listed.items() for entry in entries]


def _name_rule(kind: str, entry: Any) -> str:
    return f"{kind} {entry if isinstance(entry, str) else _value(entry)}"


def _lines(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield a table as lines `key = value`, independent of the notation in the file."""
    for key, value in table.items():
        path = prefix + (key if key.isidentifier() else json.dumps(key))
        if isinstance(value, dict) and value:
            yield from _lines(value, f"{path}.")
        else:
            yield f"{path} = {_value(value)}\n"


def _value(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr, ensure_ascii=False)


def _read_toml(data: bytes) -> dict[str, Any] | None:
    import tomllib  # noqa: PLC0415  (see `nexus_cli.config.settings`)

    try:
        table = tomllib.loads(data.decode("utf-8-sig"))
        _value(table)  # raises RecursionError if it is nested too deeply
        return table
    except (ValueError, RecursionError):
        return None


def _read_servers(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
        servers = value.get("mcpServers", {}) if isinstance(value, dict) else None
        _value(servers)
        return servers if isinstance(servers, dict) else None
    except (ValueError, RecursionError):
        return None
