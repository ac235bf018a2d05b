"""Split a project's configuration into items that are trusted separately, each with its own hash.

A change revokes the trust of that item alone. The settings are one item, and so is each rule, hook and server (with the
files in the project that its command names), recipe, command, agent, skill (with all its files) and identity file. What
no item covers never takes effect.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nexus_cli.config.codex_rules import read_codex_rules
from nexus_cli.config.foreign_items import (
    AGENTS,
    CODEX_RULES,
    COMMANDS,
    HOOKS,
    NO_SERVERS,
    PARENT_PREFIX,
    RULES,
    SERVERS,
    SKILLS,
    command_line,
    find_scripts,
    is_guide_file,
    list_rules,
    list_variables,
    read_hooks,
    read_json,
    read_servers,
    server_line,
)
from nexus_cli.config.trust_beside import read_scripts
from nexus_cli.config.trust_files import LeftOut
from nexus_cli.core.json_value import JsonDict, JsonObject, parse_nested
from nexus_cli.core.wire import as_table

SETTINGS, OWN_SERVERS = "config.toml", "mcp.json"
GUIDE = "SKILL.md"
_RULE_KINDS = ("allow", "ask", "deny")
_FOLDERS = {
    "recipes": "recipe",
    "commands": "command",
    "skills": "skill",
    "agents": "agent",
    **{PARENT_PREFIX + folder: "command" for folder in COMMANDS},
    **{PARENT_PREFIX + folder: "skill" for folder in SKILLS},
    **{PARENT_PREFIX + folder: "agent" for folder in AGENTS},
}
"""Folders with items that are whole files, and the kind of these."""
_WHOLE_FILE_KINDS = {*_FOLDERS.values(), "identity"}
_SERVER_FILES = {
    OWN_SERVERS: ("mcpServers", "servers"),
    **{PARENT_PREFIX + path: (key,) for path, key in SERVERS.items()},
}
"""Files of servers, and the keys that these may be below."""
_SPLIT = {SETTINGS, *_SERVER_FILES, *(PARENT_PREFIX + path for path in HOOKS)}
"""Files of which each part is an item, beside the rules of codex."""


@dataclass(frozen=True, slots=True)
class TrustItem:
    """A part of the configuration that is trusted by itself."""

    kind: str
    """`settings`, `rule`, `hook`, `server`, `servers`, `recipe`, `command`, `skill`, `agent` or `identity`."""
    name: str
    """Its name, unique within its kind; "" for settings and servers as a whole."""
    parts: Mapping[str, bytes]
    """Its content by file name: whole files, or its part of a file in a canonical form."""
    file: str = ""
    """The one of `parts` that defines it; the others are files that its command names, or that its folder has."""

    @property
    def key(self) -> str:
        """Return kind and name, the item's key in the record."""
        return item_key(self.kind, self.name)

    @property
    def definition(self) -> str:
        """Return the text of the part that defines it; "" if it has none."""
        return self.parts.get(self.file, b"").decode("utf-8", "replace")

    @property
    def sha256(self) -> str:
        """Return the hash of its key, the names of its parts and their content."""
        digest = hashlib.sha256()
        for name, data in [(self.key, b""), *sorted(self.parts.items())]:
            raw = os.fsencode(name)
            digest.update(b"%d:%d:" % (len(raw), len(data)) + raw + data)
        return digest.hexdigest()


class _Entry(NamedTuple):
    """An item that is a part of a file."""

    kind: str
    name: str
    part: bytes
    """The part in a canonical form."""
    line: str = ""
    """The command line of a hook or server, whose scripts are parts of its item."""


def item_key(kind: str, name: str) -> str:
    """Return the key of an item in the record."""
    return f"{kind} {name}".rstrip()


def split_items(
    files: Mapping[str, bytes], project: Path
) -> tuple[dict[str, bytes], dict[str, TrustItem], list[LeftOut]]:
    """Return the files of a project with the scripts that its hooks and servers name, their items by key, in the order
    of the files, and the parts that are left out."""
    left_out: list[LeftOut] = []
    split = [name for name in files if name in _SPLIT or Path(name).match(f"{PARENT_PREFIX}{CODEX_RULES}/*.rules")]
    entries = {name: [*_read_entries(name, files[name], left_out)] for name in split}
    scripts = read_scripts((item.line for entry in entries.values() for item in entry), project)
    files = dict(sorted({**scripts, **files}.items()))
    items: dict[str, TrustItem] = {}
    for name, data in files.items():
        if name in entries:
            trust_items = [_make_item(entry, name, files) for entry in entries[name]]
        else:
            trust_items = [*_add_file(name, data, items)]
        items |= {item.key: item for item in trust_items}
    return files, items, left_out


def filter_trusted_files(
    files: Mapping[str, bytes], items: Mapping[str, TrustItem], kept_items: Mapping[str, TrustItem]
) -> dict[str, bytes]:
    """Return the whole files of those of `items` that are in `kept_items`, and the settings. Settings that are not kept
    whole lack rules, hooks and servers: these are read as items."""
    whole_files = {
        name: data
        for item in kept_items.values()
        if item.kind in _WHOLE_FILE_KINDS
        for name, data in item.parts.items()
    }
    if not any(item.file == SETTINGS for item in kept_items.values()):
        return whole_files
    table = _read_toml(files[SETTINGS])
    if table is None or all(key in kept_items for key, item in items.items() if item.file == SETTINGS):
        return {**whole_files, SETTINGS: files[SETTINGS]}
    import tomlkit  # noqa: PLC0415  (slow, and only where part of a file is trusted)

    remaining_table = _separate_items(table)[0] if "settings" in kept_items else {}
    return {**whole_files, SETTINGS: tomlkit.dumps(remaining_table).encode()}


def _make_item(entry: _Entry, file: str, files: Mapping[str, bytes]) -> TrustItem:
    """Return the item of a part of `file`, with the files in the project that its command names."""
    script_paths = (PARENT_PREFIX + path for path in find_scripts(entry.line))
    scripts = {name: files[name] for name in script_paths if name in files}
    return TrustItem(entry.kind, entry.name, {**scripts, file: entry.part}, file)


def _add_file(name: str, data: bytes, items: Mapping[str, TrustItem]) -> Iterator[TrustItem]:
    """Yield the item of a whole file, with what `items` have of it; none for a script that only hooks name."""
    place = next((place for place in _FOLDERS if f"{name}/".startswith(f"{place}/")), "")
    if not place and name.startswith(PARENT_PREFIX):
        return
    path = name[len(place) + 1 :] if place else name
    kind, is_beside = _FOLDERS.get(place, "identity"), place.startswith(PARENT_PREFIX)
    item_name, is_guide = path, is_guide_file(name)
    if kind == "skill":
        item_name, _, inner = path.partition("/")
        is_guide = inner == GUIDE
    elif place:
        item_name = path.rpartition(".")[0] or path
    item_name = f"{place.removeprefix(PARENT_PREFIX)}/{item_name}" if is_beside else item_name
    before = items.get(item_key(kind, item_name))
    file = name if is_guide else before.file if before else ""
    yield TrustItem(kind, item_name, {**(before.parts if before else {}), name: data}, file)


def _read_entries(name: str, data: bytes, left_out: list[LeftOut]) -> Iterator[_Entry]:
    """Yield the items of a file that has several; add what cannot be one to `left_out`."""
    path = name.removeprefix(PARENT_PREFIX)
    mark = f"{path}: " if name != path else ""
    if name == SETTINGS:
        yield from _read_settings(data, left_out)
    elif name in _SERVER_FILES:
        servers = read_servers(data, *_SERVER_FILES[name])
        if servers is None and not mark:
            yield _Entry("servers", "", data)
        elif servers is None:
            left_out.append(LeftOut(name, NO_SERVERS))
        yield from (_server_entry(mark + server, entry) for server, entry in (servers or {}).items())
    elif path not in HOOKS:
        codex_rules, problems = read_codex_rules(data)
        left_out += [LeftOut(name, why) for why in problems]
        if any(kind == "allow" for kind, _ in codex_rules):
            left_out.append(LeftOut(name, "has rules that allow calls: a project cannot allow calls"))
        yield from (_rule_entry(mark, kind, f"Bash({command})") for kind, command in codex_rules if kind != "allow")
    else:
        hooks, reasons = read_hooks(data)
        left_out += [LeftOut(name, why) for why in reasons]
        yield from (_hook_entry(mark, event, matcher, hook, (event, matcher, hook)) for event, matcher, hook in hooks)
        table = read_json(data)
        if path in RULES and isinstance(table, dict):
            yield from (_rule_entry(mark, kind, text) for kind, text in list_rules(table.get("permissions")))
            for variable, value in list_variables(table.get("env")).items():
                yield _Entry("variable", f"{mark}{variable}={value}", _encode(f"{variable}={value}"))


def _read_settings(data: bytes, left_out: list[LeftOut]) -> Iterator[_Entry]:
    table = _read_toml(data)
    if table is None:  # invalid TOML: the error is reported once it is trusted
        if b"hook" in data:
            left_out.append(LeftOut(SETTINGS, "is not valid TOML: nexus ignores its hooks"))
        yield _Entry("settings", "", data)
        return
    settings, rules, hooks, servers = _separate_items(table)
    listed = table.get("hook", [])
    if not isinstance(listed, list) or len(hooks) != len(listed):
        left_out.append(LeftOut(SETTINGS, "has a `hook` entry that is not a [[hook]] table: nexus ignores that entry"))
    if settings or not (rules or hooks or servers):
        yield _Entry("settings", "", _encode("".join(sorted(_lines(settings)))))
    yield from (_rule_entry("", kind, entry) for kind, entry in rules)
    for hook in hooks:
        yield _hook_entry("", str(hook.get("event", "")), str(hook.get("matcher", "")), hook, hook)
    for name, server in servers.items():
        yield _server_entry(f"{SETTINGS}: {name}", server)


def _rule_entry(mark: str, kind: str, entry: Any) -> _Entry:
    rule = f"{kind} {entry if isinstance(entry, str) else _value(entry)}"
    return _Entry("rule", mark + rule, _encode(f"{rule}\n"))


def _hook_entry(mark: str, event: str, matcher: str, hook: JsonObject, definition: Any) -> _Entry:
    condition = f"if {hook['if']}" if hook.get("if") else ""  # a script may guard several kinds of calls
    name = " ".join(filter(None, (event, matcher, str(hook.get("command") or _value(hook)), condition)))
    return _Entry("hook", mark + name, _encode(f"{_value(definition)}\n"), command_line(hook))


def _server_entry(name: str, entry: Any) -> _Entry:
    """Return the entry of a server, which runs without a sandbox."""
    text = json.dumps(entry, indent=2, sort_keys=True, ensure_ascii=False, default=repr)
    return _Entry("server", name, _encode(f"{text}\n"), server_line(entry))


def _separate_items(
    table: Mapping[str, Any],
) -> tuple[JsonDict, list[tuple[str, Any]], list[JsonDict], JsonDict]:
    """Separate the settings from what is trusted by itself; return them, the rules with their kinds, the hooks and the
    servers by name."""
    rules = as_table(table.get("rules"))
    hooks = table.get("hook")
    listed = {kind: rules[kind] for kind in _RULE_KINDS if isinstance(rules.get(kind), list)}
    hook_entries = [hook for hook in hooks if isinstance(hook, dict)] if isinstance(hooks, list) else []
    server_table = as_table(table.get("mcp"))
    trusted = {"rules": listed, "hook": hook_entries, "mcp": server_table}
    settings = {key: value for key, value in table.items() if not trusted.get(key)}
    if listed and (other_rules := {key: value for key, value in rules.items() if key not in listed}):
        settings["rules"] = other_rules
    return (
        settings,
        [(kind, entry) for kind, entries in listed.items() for entry in entries],
        hook_entries,
        server_table,
    )


def _lines(table: JsonObject, prefix: str = "") -> Iterator[str]:
    """Yield a table as lines `key = value`, independent of the notation in the file."""
    for key, value in table.items():
        path = prefix + (key if key.isidentifier() else json.dumps(key))
        if isinstance(value, dict) and value:
            yield from _lines(value, f"{path}.")
        else:
            yield f"{path} = {_value(value)}\n"


def _value(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr, ensure_ascii=False)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _read_toml(data: bytes) -> JsonObject | None:
    import tomllib  # noqa: PLC0415  (see `nexus_cli.config.settings`)

    try:
        table = parse_nested(tomllib.loads, data.decode("utf-8-sig"))
        _value(table)  # fails for a number that is too long
        return table
    except ValueError:
        return None
