"""Split a project's configuration into items that are trusted separately, each with its own hash.

A change revokes the trust of that item alone. The settings are one item, and so is each rule, hook and server (with the
files in the project that its command names), recipe, command, skill (with all its files) and identity file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nexus_cli.config import foreign_items

SETTINGS, SERVERS = "config.toml", "mcp.json"
RULE_KINDS = ("allow", "ask", "deny")
_KINDS = {"recipes": "recipe", "commands": "command", "skills": "skill"}


@dataclass(frozen=True, slots=True)
class TrustItem:
    """A part of the configuration that is trusted by itself."""

    kind: str
    """`settings`, `rule`, `hook`, `server`, `servers`, `recipe`, `command`, `skill` or `identity`."""
    name: str
    """Its name, unique within its kind; "" for settings and servers as a whole."""
    parts: Mapping[str, bytes]
    """Its content by file name: whole files, or its part of a file in a canonical form."""
    file: str = ""
    """The one of `parts` that defines a hook or server; the others are files that its command names."""

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
            found = _split_settings(data, files)
        elif name == SERVERS:
            found = _split_servers(data, files)
        elif name.startswith(foreign_items.ABOVE):
            found = _split_beside(name, data, files, items)
        else:
            found = _add_part(*_file_owner(name), name, data, items)
        items |= {item.key: item for item in found}
    return items


def keep_items(files: Mapping[str, bytes], items: Mapping[str, TrustItem], keys: frozenset[str]) -> dict[str, bytes]:
    """Return `files`, which are split into `items`, reduced to those with these keys."""
    if keys.issuperset(items):
        return dict(files)
    kept = {name: data for key, item in items.items() if key in keys for name, data in item.parts.items()}
    split = (
        SETTINGS,
        SERVERS,
        *(foreign_items.ABOVE + name for name in (*foreign_items.HOOKS, *foreign_items.SERVERS)),
    )
    whole = {name: data for name, data in kept.items() if name not in split}
    return {**whole, **_keep_settings(files, keys), **_keep_servers(files, keys), **_keep_beside(files, keys)}


def _add_part(kind: str, name: str, file: str, data: bytes, items: Mapping[str, TrustItem]) -> Iterator[TrustItem]:
    before = items.get(f"{kind} {name}")
    yield TrustItem(kind, name, {**(before.parts if before else {}), file: data})


def _split_beside(
    name: str, data: bytes, files: Mapping[str, bytes], items: Mapping[str, TrustItem]
) -> Iterator[TrustItem]:
    """Yield the items of a file beside `.nexus`; a script that hooks name is a part of theirs, and none by itself."""
    path = name.removeprefix(foreign_items.ABOVE)
    for folder in foreign_items.SKILLS:
        if path.startswith(f"{folder}/"):
            skill = path.removeprefix(f"{folder}/").partition("/")[0]
            yield from _add_part("skill", f"{folder}/{skill}", name, data, items)
    for folder in foreign_items.COMMANDS:
        if path.startswith(f"{folder}/"):
            yield from _add_part("command", path.removesuffix(".md"), name, data, items)
    if path in foreign_items.HOOKS:
        for event, matcher, hook in foreign_items.read_hooks(data)[0]:
            yield _hook_item(f"{path}: {_name_hook(event, matcher, hook)}", name, (event, matcher, hook), files)
    for kind, text in foreign_items.read_permissions(data) if path in foreign_items.RULES else ():
        part = f"{kind} {text}\n".encode("utf-8", "surrogatepass")
        yield TrustItem("rule", f"{path}: {kind} {text}", {name: part})
    if path in foreign_items.SERVERS:
        for server, entry in (_read_servers(data, foreign_items.SERVERS[path]) or {}).items():
            yield _server_item(f"{path}: {server}", name, entry, files)


def _keep_beside(files: Mapping[str, bytes], keys: frozenset[str]) -> dict[str, bytes]:
    """Return the files beside `.nexus` that have several items, reduced to those with these keys."""
    reduced: dict[str, bytes] = {}
    for path in foreign_items.HOOKS:
        name = foreign_items.ABOVE + path
        kept = [one for one in _hooks_of(files, path) if f"hook {path}: {_name_hook(*one)}" in keys]
        rules = foreign_items.read_permissions(files.get(name, b""))
        chosen_rules = [(kind, text) for kind, text in rules if f"rule {path}: {kind} {text}" in keys]
        if kept or chosen_rules:
            reduced[name] = foreign_items.write_settings(kept, chosen_rules)
    for path, key in foreign_items.SERVERS.items():
        name = foreign_items.ABOVE + path
        servers = _read_servers(files.get(name, b""), key) or {}
        chosen = {server: entry for server, entry in servers.items() if f"server {path}: {server}" in keys}
        if chosen:
            reduced[name] = json.dumps({key: chosen}).encode()
    return reduced


def _name_hook(event: str, matcher: str, hook: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (event, matcher, str(hook.get("command") or _value(hook)))))


def _hook_item(name: str, file: str, definition: Any, files: Mapping[str, bytes]) -> TrustItem:
    """Return the item of a hook: its definition, and the files in the project that its command names."""
    hook = definition[-1] if isinstance(definition, tuple) else definition
    scripts = _pick_scripts(foreign_items.command_line(hook), files)
    return TrustItem("hook", name, {**scripts, file: f"{_value(definition)}\n".encode("utf-8", "surrogatepass")}, file)


def _server_item(name: str, file: str, entry: Any, files: Mapping[str, bytes]) -> TrustItem:
    """Return the item of a server, which runs without a sandbox: its entry, and the files as for a hook."""
    text = json.dumps(entry, indent=2, sort_keys=True, ensure_ascii=False, default=repr) + "\n"
    scripts = _pick_scripts(foreign_items.server_line(entry), files)
    return TrustItem("server", name, {**scripts, file: text.encode("utf-8", "surrogatepass")}, file)


def _pick_scripts(line: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    names = [foreign_items.ABOVE + path for path in foreign_items.find_scripts(line)]
    return {name: files[name] for name in names if name in files}


def _keep_settings(files: Mapping[str, bytes], keys: frozenset[str]) -> dict[str, bytes]:
    if SETTINGS not in files:
        return {}
    table = _read_toml(files[SETTINGS])
    if table is None:
        return {SETTINGS: files[SETTINGS]} if "settings" in keys else {}
    rest, rules, hooks, servers = _take_items(table)
    here = rest if "settings" in keys else {}
    for kind, entry in rules:
        if f"rule {_name_rule(kind, entry)}" in keys:
            here.setdefault("rules", {}).setdefault(kind, []).append(entry)
    for hook in hooks:
        if f"hook {_name_own_hook(hook)}" in keys:
            here.setdefault("hook", []).append(hook)
    for name, server in servers.items():
        if f"server {SETTINGS}: {name}" in keys:
            here.setdefault("mcp", {})[name] = server
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


def _split_settings(data: bytes, files: Mapping[str, bytes]) -> Iterator[TrustItem]:
    table = _read_toml(data)
    if table is None:  # invalid TOML: the error is reported once it is trusted
        yield TrustItem("settings", "", {SETTINGS: data})
        return
    rest, rules, hooks, servers = _take_items(table)
    if rest or not (rules or hooks or servers):
        yield TrustItem("settings", "", {SETTINGS: "".join(sorted(_lines(rest))).encode()})
    for kind, entry in rules:
        name = _name_rule(kind, entry)
        yield TrustItem("rule", name, {SETTINGS: f"{name}\n".encode()})
    for hook in hooks:
        yield _hook_item(_name_own_hook(hook), SETTINGS, hook, files)
    for name, server in servers.items():
        yield _server_item(f"{SETTINGS}: {name}", SETTINGS, server, files)


def _split_servers(data: bytes, files: Mapping[str, bytes]) -> Iterator[TrustItem]:
    servers = _read_servers(data)
    if servers is None:
        yield TrustItem("servers", "", {SERVERS: data})
        return
    for name, server in servers.items():
        yield _server_item(name, SERVERS, server, files)


def check_hooks(data: bytes) -> list[str]:
    """Return a reason for each part of a project's settings that is left out of its hooks."""
    table = _read_toml(data)
    if table is None:
        return ["is no valid TOML: none of its hooks counts"]
    hooks, listed = _take_items(table)[2], table.get("hook", [])
    is_whole = isinstance(listed, list) and len(hooks) == len(listed)
    return [] if is_whole else ["has a `hook` that is no table [[hook]]"]


def command_lines(files: Mapping[str, bytes]) -> list[str]:
    """Return the commands of all hooks and servers that the files of a project define; none of an invalid file."""
    table = _read_toml(files.get(SETTINGS, b"")) or {}
    _, _, own, servers = _take_items(table)
    hooks = [*own, *(hook for name in foreign_items.HOOKS for _, _, hook in _hooks_of(files, name))]
    entries = [*servers.values(), *(_read_servers(files.get(SERVERS, b"")) or {}).values()]
    for name, key in foreign_items.SERVERS.items():
        entries += (_read_servers(files.get(foreign_items.ABOVE + name, b""), key) or {}).values()
    return [*map(foreign_items.command_line, hooks), *map(foreign_items.server_line, entries)]


def _hooks_of(files: Mapping[str, bytes], name: str) -> list[tuple[str, str, dict[str, Any]]]:
    return foreign_items.read_hooks(files.get(foreign_items.ABOVE + name, b""))[0]


def _take_items(
    table: dict[str, Any],
) -> tuple[dict[str, Any], list[tuple[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """Separate the settings from what is trusted by itself; return them, the rules with their kinds, the hooks and the
    servers by name."""
    rules, hooks, servers = table.get("rules"), table.get("hook"), table.get("mcp")
    rules = rules if isinstance(rules, dict) else {}
    listed = {kind: rules[kind] for kind in RULE_KINDS if isinstance(rules.get(kind), list)}
    other = {key: value for key, value in rules.items() if key not in listed}
    own = [hook for hook in hooks if isinstance(hook, dict)] if isinstance(hooks, list) else []
    named = servers if isinstance(servers, dict) else {}
    rest = dict(table)
    if listed:
        rest |= {"rules": other}
    taken = [key for key, found in (("rules", listed and not other), ("hook", own), ("mcp", named)) if found]
    rest = {key: value for key, value in rest.items() if key not in taken}
    return rest, [(kind, entry) for kind, entries in listed.items() for entry in entries], own, named


def _name_own_hook(hook: Mapping[str, Any]) -> str:
    return _name_hook(str(hook.get("event", "")), str(hook.get("matcher", "")), hook)


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


def _read_servers(data: bytes, key: str = "mcpServers") -> dict[str, Any] | None:
    try:
        value = json.loads(data.decode("utf-8-sig"))
        servers = value.get(key, {}) if isinstance(value, dict) else None
        _value(servers)
        return servers if isinstance(servers, dict) else None
    except (ValueError, RecursionError):
        return None
