"""Read the MCP servers of a person and of a trusted project from their files. Starts nothing.

Personal: the tables `[mcp.NAME]` of config.toml, and `mcp.json` beside it. Of plugins: those that were accepted. Of a
project, once each is trusted: the same two in `.nexus`, `.mcp.json`, and `.vscode/mcp.json`. A plugin's or project's
server never takes the name of one before it, and gets no key of a provider.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nexus_cli.config.foreign_items import NO_SERVERS, PARENT_PREFIX, PLUGIN_ROOT, SERVERS
from nexus_cli.config.load_settings import read_settings_text
from nexus_cli.config.paths import places, project_root, with_tilde
from nexus_cli.config.project_items import trusted_folders
from nexus_cli.config.trust import Configuration
from nexus_cli.config.trust_beside import UNREAD
from nexus_cli.config.trust_files import FOLDER
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonDict, JsonObject, is_number, parse_nested
from nexus_cli.core.shared_types import Environ
from nexus_cli.mcp.server_values import ServerEntry
from nexus_cli.plugins.installed_plugins import InstalledPlugin, installed_plugins
from nexus_cli.provider.endpoint import is_provider_key

ServerSource = Literal["personal", "plugin", "project"]
SETTINGS, FILE = "config.toml", "mcp.json"
SCHEMES = ("https://", "http://")
"""The beginnings of a server's URL."""
MAX_SERVERS = 200
"""Most servers of one file."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,49}", re.ASCII)
_VARIABLE = re.compile(r"\$\{([^{}]*)\}")
_ENV_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_UNSENDABLE = re.compile(r"[^A-Za-z0-9_-]")
"""Characters that no name of a tool may have."""
UNCHECKED = "is skipped: a file named in its command is too large or unreadable, so changes to it would go unnoticed"
_HIDDEN = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The servers that are in effect in a folder."""

    entries: Mapping[str, ServerEntry] = field(default_factory=dict)
    """By name, sorted."""
    problems: tuple[str, ...] = ()
    """One line for each entry that is left out, and each file that cannot be read."""

    def explain_missing(self, plugin: str, server: str) -> str:
        """Return the reason that a server of a plugin is not in effect, "" if it is."""
        name, file = name_server(plugin, server), f"plugin {plugin}"
        if name in self.entries and self.entries[name].file == file:
            return ""
        label = _describe_server(name, file)
        why = (line.removeprefix(label).partition(": ")[2] for line in self.problems if line.startswith(label))
        return next(why, "the server is disabled in its entry")


def read_servers(
    cwd: Path,
    environ: Environ = os.environ,
    added: Iterable[ServerEntry] = (),
    plugins: Iterable[InstalledPlugin] | None = None,
) -> ServerFiles:
    """Return the servers for work in `cwd`, with those that an editor has `added`. `plugins` are those that are
    installed, unless given. Never raises."""
    entries: dict[str, ServerEntry] = {}
    problems: list[str] = []
    owners: dict[str, str] = {}
    """Source of each name as rules have it; one that is switched off or invalid is taken too."""
    for source, file, table, folder in _find_tables(cwd, installed_plugins() if plugins is None else plugins, problems):
        if table is None:
            if source == "personal":  # it may name any of a project's
                break
            continue
        for name, value in list(table.items())[:MAX_SERVERS]:
            label = _describe_server(name, file)
            owner = file if source == "plugin" else source
            known_owner = owners.setdefault(make_tool_name(name), owner)
            twin = next(
                (known_name for known_name in entries if make_tool_name(known_name) == make_tool_name(name)), None
            )
            if known_owner != owner:
                problems.append(f"{label} is skipped: another server has this name")
            elif twin not in (None, name):
                problems.append(
                    f"{label} is skipped: its tool names would be the same as those of {twin}; rename one of them"
                )
            if known_owner != owner or twin is not None:
                continue
            try:
                entry = parse_entry(name, value, environ, source, file, folder)
            except ValueError as error:
                problems.append(f"{label} is skipped: {one_line(str(error))}")
                continue
            if entry is not None:
                entries[entry.name] = entry
    for server_entry in added:  # a rule for one of yours must not allow calls of the editor's
        if (holder := owners.get(make_tool_name(server_entry.name))) is not None:
            whose = "the project has" if holder == "project" else "you have"
            problems.append(
                f"{_describe_server(server_entry.name, server_entry.file)} is skipped: {whose} a server with this name"
            )
        else:
            entries[server_entry.name] = server_entry
    return ServerFiles(dict(sorted(entries.items())), tuple(problems))


def _describe_server(name: str, file: str) -> str:
    return f"MCP server {one_line(name)[:64]} ({file})"


def name_server(plugin: str, server: str) -> str:
    """Return the name of a plugin's server, as Claude Code has it."""
    return f"plugin_{plugin}_{server}"


def make_tool_name(name: str) -> str:
    """Return the name of a server or a tool in the form that names of tools and rules use."""
    return _UNSENDABLE.sub("_", name)


def parse_entry(
    name: str,
    value: Any,
    environ: Environ,
    source: ServerSource = "personal",
    file: str = "",
    folder: Path | None = None,
) -> ServerEntry | None:
    """Return the server that an entry describes, None if it is switched off; raise `ValueError` with the reason if it
    is invalid. `folder` is the one of a project's file, or of a plugin."""
    plugin: dict[str, str] = {}
    if source == "plugin":  # a compiled file in its folder would be a change of the plugin
        plugin, folder = {PLUGIN_ROOT: str(folder), "PYTHONDONTWRITEBYTECODE": "1"}, None
        environ = {**environ, **plugin}
    if not isinstance(value, Mapping):
        raise ValueError("the entry is not a table")
    if value.get("disabled") is True or value.get("enabled") is False:
        return None
    if not _NAME.fullmatch(name):
        raise ValueError(
            "a name can have at most 50 letters, digits, `-`, `_` and `.`, and must begin with a letter or digit"
        )
    if "__" in make_tool_name(name) or name.endswith(("_", ".")):  # where a tool's name begins must be certain
        raise ValueError("a name must not end with `_` or `.`, or contain two of them in a row")

    def expand(text: object, label: str) -> str:
        if not isinstance(text, str):
            raise ValueError(f"{label} must be a string")
        if source != "personal":
            _refuse_keys(_VARIABLE.findall(text), label)
        if _HIDDEN.search(expanded := _VARIABLE.sub(lambda match: _find_value(match[1], environ, folder), text)):
            raise ValueError(f"{label} contains control characters")
        return expanded

    command, url = _read_command(value, expand), value.get("url", value.get("serverUrl", ""))
    if bool(command) == bool(url):
        raise ValueError("the entry must have either `command` or `url`")
    url = expand(url, "url") if url else ""
    if url and not url.startswith(SCHEMES):
        raise ValueError("url must begin with https:// or http://")
    if "sse" in (value.get("type"), value.get("transport")):
        raise ValueError("the transport sse is obsolete: use the server's HTTP address, with type http")
    names, values = _read_environment(value.get("env"), expand)
    headers = _read_headers(value.get("headers"), environ)
    if source != "personal":
        _refuse_keys(names, "env")
        _refuse_keys([name for text in headers.values() for name in _VARIABLE.findall(text)], "headers")
    words = [*_make_list(value.get("command")), *_make_list(value.get("args"))]
    target = value.get("url") or value.get("serverUrl") or " ".join(map(str, words))
    cwd = expand(value["cwd"], "cwd") if value.get("cwd") else str(folder or "")
    return ServerEntry(
        name,
        command,
        url,
        names,
        {**plugin, **values},
        headers,
        os.path.join(folder or "", os.path.expanduser(cwd)),
        _read_seconds(value, "start_seconds", 10.0),
        _read_seconds(value, "call_seconds", 60.0),
        source,
        file,
        one_line(str(target)),
    )


def _make_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value] if value else []


def _refuse_keys(names: Iterable[str], label: str) -> None:
    """Raise `ValueError` if one of the names, with or without a default, is the variable of a provider's key."""
    for name in names:
        plain = name.partition(":-")[0].removeprefix("env:")
        if is_provider_key(plain.upper()):
            raise ValueError(f"{label} refers to {plain}: only your own servers can get a provider key")


def _find_value(name: str, environ: Environ, folder: Path | None) -> str:
    """Return the value of `NAME` or `NAME:-DEFAULT`."""
    name, has_default, default = name.partition(":-")
    if name == "workspaceFolder":
        return str(folder or ".")
    name = name.removeprefix("env:")
    if not _ENV_NAME.fullmatch(name):
        raise ValueError(f"`${{{one_line(name)[:40]}}}` is not the name of an environment variable")
    if environ.get(name):
        return environ[name]
    if not has_default:
        raise ValueError(f"the variable {name} has no value")
    return default


def _read_command(value: JsonObject, expand: Callable[[object, str], str]) -> tuple[str, ...]:
    command, arguments = value.get("command", ()), value.get("args", ())
    if isinstance(command, str):
        words: list[Any] = [command] if "args" in value or os.path.exists(command) else shlex.split(command)
    else:
        words = list(command) if isinstance(command, list | tuple) else [None]
    if not isinstance(arguments, list | tuple):
        raise ValueError("args must be a list of strings")
    expanded = tuple(expand(word, "command") for word in (*words, *arguments))
    if expanded and not expanded[0].strip():
        raise ValueError("command is empty")
    return (os.path.expanduser(expanded[0]), *expanded[1:]) if expanded else ()


def _read_environment(value: Any, expand: Callable[[object, str], str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the variables that a server gets from our environment (`NAME`), and those of its own (`NAME=VALUE`)."""
    names: set[str] = set()
    values: dict[str, str] = {}
    if isinstance(value, list | tuple):
        pairs: list[tuple[str, Any]] = [
            (name, text if has_value else f"${{{name}}}")
            for variable in value
            for name, has_value, text in [expand(variable, "env").partition("=")]
        ]
    elif isinstance(value, Mapping):
        pairs = list(value.items())
    elif value is None:
        pairs = []
    else:
        raise ValueError("env must be a table, or a list of variable names")
    for name, text in pairs:
        if not _ENV_NAME.fullmatch(name):
            raise ValueError(f"env: {one_line(str(name))[:40]!r} is not a variable name")
        if text == f"${{{name}}}":
            names.add(name)
        else:
            values[name] = expand(str(text) if isinstance(text, int | float) else text, f"env.{name}")
    return tuple(sorted(names)), values


def _read_headers(value: Any, environ: Environ) -> dict[str, str]:
    """Return headers; `${NAME}` stays in their values, because a value with a key is read only when it is sent."""
    if isinstance(value, list | tuple) and all(isinstance(line, str) and ":" in line for line in value):
        value = {name.strip(): text.strip() for line in value for name, _, text in [line.partition(":")]}
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError('each header must be NAME: VALUE, both strings, such as "Authorization: Bearer ${TOKEN}"')

    def keep(match: re.Match[str]) -> str:
        name, has_default, default = match[1].removeprefix("env:").partition(":-")
        return default if has_default and not environ.get(name) else f"${{{name}}}"

    return {str(name): _VARIABLE.sub(keep, text) for name, text in value.items()}


def _read_seconds(value: JsonObject, key: str, default: float) -> float:
    seconds = value.get(key, default)
    if not is_number(seconds) or not 0 < seconds <= 86400:
        raise ValueError(f"{key} must be a number of seconds above 0 and at most 86400")
    return float(seconds)


def _find_tables(
    cwd: Path, plugins: Iterable[InstalledPlugin], problems: list[str]
) -> Iterator[tuple[ServerSource, str, JsonObject | None, Path | None]]:
    """Yield source and name of each file with servers, its servers (None if it cannot be read), and the folder if it is
    a plugin's or project's."""
    for name in (SETTINGS, FILE):
        yield "personal", with_tilde(places().config / name), _read_personal(name, problems), None
    for plugin in plugins:
        accepted = [item for item, state in plugin.items("server") if state == "active"]
        table = {name_server(plugin.name, item.name): json.loads(item.definition) for item in accepted}
        yield "plugin", f"plugin {plugin.name}", table, plugin.root
    for folder, trusted in trusted_folders(cwd, ("server",)):
        for file in (SETTINGS, FILE, *(PARENT_PREFIX + file_name for file_name in SERVERS)):
            location = os.path.relpath(folder / FOLDER / file, project_root(cwd))
            yield "project", location, _read_trusted(trusted, file, location, problems), folder


def _read_trusted(trusted: Configuration, file: str, location: str, problems: list[str]) -> JsonObject:
    """Return the trusted servers of a project's file, from the bytes that were judged."""
    table: JsonDict = {}
    is_invalid = (file, NO_SERVERS) in trusted.left_out
    for item in (trust_item for trust_item in trusted.items.values() if trust_item.file == file):
        name = item.name if file == FILE else item.name.removeprefix(f"{file.removeprefix(PARENT_PREFIX)}: ")
        if item.kind == "servers":
            is_invalid = bool(item.definition.strip())
        # What cannot be read cannot be compared.
        elif item.kind == "server" and any(data.startswith(UNREAD) for data in item.parts.values()):
            problems.append(f"{_describe_server(name, location)} {UNCHECKED}")
        elif item.kind == "server":
            table[name] = json.loads(item.definition)
    problems += [f"{location} {NO_SERVERS}"] * is_invalid
    return table


def _read_personal(name: str, problems: list[str]) -> JsonObject | None:
    """Return the servers of a file of the person's own; None if it is invalid. The settings report an invalid
    config.toml."""
    path = places().config / name
    try:
        text = read_settings_text(path)
        if name != SETTINGS:
            parsed = parse_nested(json.loads, text) if text.strip() else {}
            parsed = parsed.get("mcpServers", parsed.get("servers", {})) if isinstance(parsed, dict) else None
        elif "mcp" in text:
            import tomllib  # noqa: PLC0415  (where the settings name servers)

            parsed = parse_nested(tomllib.loads, text).get("mcp", {})
        else:
            parsed = {}
    except NexusError as error:
        why = f" {error.why}"
    except ValueError as error:
        if name == SETTINGS:
            return None
        why = f" is not read: {one_line(str(error))}"
    else:
        if isinstance(parsed, dict):
            return parsed
        why = ": the servers must be an object"
    problems.append(with_tilde(path) + why)
    return None
