"""Name the files for agents that a project has beside `.nexus`; read and write the hooks of Claude and codex."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from nexus_cli.config.paths import places
from nexus_cli.core.elide import name_first, one_line
from nexus_cli.core.json_value import JsonObject, parse_nested
from nexus_cli.core.wire import as_table

PLUGIN_ROOT = "CLAUDE_PLUGIN_ROOT"
"""The variable with a plugin's folder, in its hooks, servers and guides."""
UNSET = re.compile(r"\$\{user_config\.[\w-]+\}|\bCLAUDE_PLUGIN_DATA\b(?!=)", re.ASCII)
"""What Claude fills into hooks, servers and guides of a plugin, and nexus does not have."""
PARENT_PREFIX = "../"
"""Before the path of a file beside `.nexus`."""
SKILLS = (".agents/skills", ".claude/skills", ".codex/skills")
COMMANDS = (".claude/commands",)
CODEX_AGENTS = ".codex/agents"
AGENTS = (".agents/agents", ".claude/agents", CODEX_AGENTS)
GUIDES = (*SKILLS, *COMMANDS, *AGENTS)
"""Folders whose entries are items."""
HOOKS = (".claude/settings.json", ".claude/settings.local.json", ".codex/hooks.json")
RULES = HOOKS[:2]
"""Settings of Claude, of which `permissions.deny` and `permissions.ask` count."""
CODEX_RULES = ".codex/rules"
"""The folder of codex's rules, of which those that forbid or ask count."""
SERVERS: Mapping[str, str] = {".mcp.json": "mcpServers", ".vscode/mcp.json": "servers"}
"""Files with MCP servers, and the key that they are below."""
SERVER_KEYS = frozenset(
    """
    type transport command args env url serverUrl headers cwd disabled enabled start_seconds call_seconds description
    """.split()
)
"""Keys of a server's entry that are read, or change nothing."""
PATHS: Mapping[str, tuple[str, ...]] = {
    "hook": HOOKS,
    "server": tuple(SERVERS),
    "skill": SKILLS,
    "command": COMMANDS,
    "agent": AGENTS,
    "rule": (*RULES, CODEX_RULES),
    "variable": RULES,
}
"""Files and folders of each kind of item, in the order in which they are read."""
KINDS = frozenset(PATHS)
_COMMAND = re.compile(
    r"""
    ^[ \t]*(?P<longer>`{4,})[^`\n]*$ (?:\n(?![ \t]*(?P=longer)`*[ \t]*$).*)* (?:\n.*)?
    | (?: (?<![\w`])!(?P<tick>`) | ^[ \t]*```![ \t]*\n )
      (?P<command> (?(tick)[^`\n]+|(?:(?![ \t]*```).*\n)*) )
      (?(tick)`|[ \t]*```[ \t]*$)
    """,
    re.MULTILINE | re.VERBOSE,
)
"""A command that runs when a guide is called, in a line or in a fenced block of its own; or a block with a longer
fence, which shows how a guide is written: nothing in it runs."""
NO_SERVERS = "is not a JSON object with servers: nexus ignores the file"
"""The reason that a file of servers is left out."""
MAX_HOOKS = 200
"""Most hooks of one file."""
VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
"""The name of a variable; one of a function that bash exports has other signs."""
LOADER_VARIABLES = ("LD_", "DYLD_", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH")
"""Beginnings of variables that decide what a program loads, also one that starts the sandbox: a project sets none."""
MAX_KEYS = 10
"""Most keys of an entry that a line names."""
MAX_WORDS = 40
"""Most words of a hook's command that are looked for in the project."""
_FOLDERS = "(?:CLAUDE_PROJECT_DIR|NEXUS_PROJECT_DIR|PWD)"
_PROJECT = re.compile(rf"[\"']?\$(?:\{{{_FOLDERS}[^}}]*\}}|{_FOLDERS}\b)[\"']?/?")
"""The project's folder, as hooks name it."""
_WORD = re.compile(r"[\w@%+=:,.~/-]+")
_OUTPUT_REDIRECT = re.compile(r"(?<!<)&?>{1,2}[|&]?\s*[\"']?[\w@%+=:,.~/-]+|\btee\b(?:\s+[\"']?[\w@%+=:,.~/-]+[\"']?)+")
"""The files that a line only writes: by a redirect, or by tee."""


def is_guide_file(path: str) -> bool:
    """Return True if a file with this path, in a folder of guides, can be one: TOML for agents of codex."""
    return path.endswith(".toml" if f"{CODEX_AGENTS}/" in path else ".md")


def split_commands(text: str) -> list[str]:
    """Return the text of a guide before its first command, that command, the text up to the next one, and so on."""
    parts, end = list[str](), 0
    for match in _COMMAND.finditer(text):
        if command := (match["command"] or "").strip():
            parts += [text[end : match.start()], command]
            end = match.end()
    return [*parts, text[end:]]


def may_have_servers(cwd: Path) -> bool:
    """Return True if a plugin or a file around `cwd` may name MCP servers. Parses none: most folders have none."""
    config_folder, names = places().config, (*SERVERS, ".nexus/mcp.json", ".nexus/config.toml")
    around = (f"{folder}/{name}" for folder in (cwd, *cwd.parents) for name in names)
    if any(os.path.isfile(path) for path in (f"{config_folder}/mcp.json", f"{places().data}/plugins.json", *around)):
        return True
    try:
        with open(f"{config_folder}/config.toml", "rb") as file:
            return b"mcp" in file.read()
    except OSError:
        return False


def read_json(data: bytes) -> Any:
    """Return the value of JSON, None if it is invalid or nested too deeply."""
    try:
        value = parse_nested(json.loads, data.decode("utf-8-sig"))
        json.dumps(value)  # fails for a number that is too long
        return value
    except ValueError:
        return None


def read_servers(data: bytes, *keys: str) -> JsonObject | None:
    """Return the servers of a file, below the first of `keys` that it has; None if it is invalid."""
    value = read_json(data)
    if not isinstance(value, dict):
        return None
    servers = value.get(next(filter(value.__contains__, keys), ""), {})
    return servers if isinstance(servers, dict) else None


def describe_unread(entry: object) -> str:
    """Return the keys of a server's entry that nexus does not read, such as `envFile, timeout: not read`; "" for
    nothing."""
    keys = [key for key in entry if key not in SERVER_KEYS] if isinstance(entry, dict) else []
    return f"{one_line(name_first(keys, MAX_KEYS))}: not read" if keys else ""


def read_hooks(data: bytes) -> tuple[list[tuple[str, str, JsonObject]], list[str]]:
    """Read a file of hooks as Claude and codex have it: event, matcher, definition of each; reasons for the rest."""
    left_out: list[str] = []
    value = read_json(data)
    if value is None:
        return [], ["is not valid JSON: nexus ignores its hooks"]
    table = value.get("hooks") if isinstance(value, dict) else value
    hooks = [*_find_hooks(table, left_out)] if table is not None else []
    if len(hooks) > MAX_HOOKS:
        left_out.append(f"has more than {MAX_HOOKS} hooks: nexus ignores the others")
    return hooks[:MAX_HOOKS], left_out


def _find_hooks(table: Any, left_out: list[str]) -> Iterator[tuple[str, str, JsonObject]]:
    """Yield the valid hooks of the value of `hooks`; add a reason to `left_out` for each invalid part."""
    if not isinstance(table, dict):
        left_out.append("is not a JSON object with an object `hooks`: nexus ignores its hooks")
        return
    for event, groups in table.items():
        if not isinstance(groups, list):
            left_out.append(f"has hooks.{one_line(event)}, which is not a list")
            continue
        for number, group in enumerate(groups):
            label = f"hooks.{one_line(event)}[{number}]"
            matcher = (group.get("matcher") or "") if isinstance(group, dict) else None
            hooks = group.get("hooks") if isinstance(group, dict) else None
            if not isinstance(matcher, str) or not isinstance(hooks, list):
                left_out.append(f"has {label}, which is not an object with a string `matcher` and a list `hooks`")
                continue
            yield from ((event, matcher, hook) for hook in hooks if isinstance(hook, dict))
            left_out += [
                f"has {label}.hooks[{place}], which is not an object"
                for place, hook in enumerate(hooks)
                if not isinstance(hook, dict)
            ]


def list_variables(table: object) -> dict[str, str]:
    """Return the variables of the table `env` that a project may set, values that are no text as JSON."""
    pairs = table.items() if isinstance(table, dict) else ()
    texts = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in pairs
        if VARIABLE.fullmatch(name)
    }
    return {name: text for name, text in texts.items() if not name.startswith(LOADER_VARIABLES) and "\0" not in text}


def list_rules(permissions: object) -> list[tuple[Literal["deny", "ask"], str]]:
    """Return decision and text of the deny and ask rules in `permissions`."""
    table = as_table(permissions)
    kinds: tuple[Literal["deny", "ask"], ...] = ("deny", "ask")
    return [(kind, text) for kind in kinds for text in list_texts(table.get(kind))]


def list_texts(value: object) -> list[str]:
    """Return the texts of a list; [] for any other value."""
    return [element for element in value if isinstance(element, str)] if isinstance(value, list) else []


def command_line(hook: JsonObject) -> str:
    """Return the command of a hook with its `args`, "" if it has none."""
    args = hook.get("args")
    words = [hook.get("command", ""), *(args if isinstance(args, list) else [])]
    return " ".join(map(str, words))


def server_line(entry: Any) -> str:
    """Return the command line or address of a server in one line, with its folder and the values of its environment."""
    if not isinstance(entry, Mapping):
        return ""
    parts = [entry.get("command"), entry.get("args"), entry.get("cwd"), entry.get("env")]
    values = [value.values() if isinstance(value, Mapping) else value for value in parts]
    lists = [[value] if isinstance(value, str) else value for value in values]
    return " ".join(str(word) for value in lists if isinstance(value, Iterable) for word in value)


def find_scripts(command: str) -> list[str]:
    """Return possible paths in the project in a line of the shell, relative to it, whatever quotes and signs are
    around it. A name in a folder that the line names (`cd .claude && sh ./check.sh`) is there too; a log that the line
    only writes is not."""
    plain = _OUTPUT_REDIRECT.sub(" ", _PROJECT.sub("./", command))
    words = list(dict.fromkeys(_WORD.findall(plain)))[:MAX_WORDS]
    paths: dict[str, None] = {}
    for word in words:
        parts = [part for part in os.path.normpath(word).split("/") if part not in ("", ".", "..", "~")]
        # An absolute path may lead into the project: every end of it is looked for.
        starts = range(len(parts)) if word.startswith(("/", "~", "..")) else range(min(1, len(parts)))
        paths |= dict.fromkeys("/".join(parts[start:]) for start in starts)
    inner = [f"{folder}/{path}" for folder in paths for path in paths if folder != path]
    return [*paths, *inner]
