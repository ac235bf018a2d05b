"""Offer the tools of MCP servers to the model: each by itself while their schemas are small, else through one tool.

A tool is called `mcp__SERVER__TOOL`. Those that are not sent can still be called, by name or through `mcp`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from nexus_cli.context.untrusted_text import neutralize
from nexus_cli.core.elide import plural
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.services import ServerTools
from nexus_cli.core.tool import COMMAND, Effect, Tool, ToolContext
from nexus_cli.core.wire import canonical
from nexus_cli.mcp.server_entries import ServerFiles, fit_name, read_servers
from nexus_cli.mcp.server_values import ServerEntry, ServerPrompt, ServerTool
from nexus_cli.mcp.tool_cache import ToolList, read_list

MOST_TOKENS = 2000
"""Tokens of all schemas up to which each tool is sent by itself."""
PREFIX, ONE = "mcp__", "mcp"
LONGEST_NAME = 64
"""Most characters of a tool's name that every provider takes; that of its server is never cut."""
MOST_DESCRIPTION = 2000
"""Most characters of a description."""
MOST_DEEP = 40
"""Most levels of a schema."""
MOST_FOUND, MOST_NAMED = 30, 20
"""Most tools of a search, and servers in the description of `mcp`."""
_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""A name of an argument that every provider takes."""
_REFUSED_KEYS = ("oneOf", "anyOf", "allOf", "enum", "not")
"""Keys that providers refuse at the top of a schema."""
_WORD = re.compile(r"[a-z0-9]+")


@dataclass
class Catalogue:
    """The servers of a folder, with the tools of those that have been asked for them."""

    files: ServerFiles
    lists: dict[str, ToolList] = field(default_factory=dict)
    """By name of the server."""

    @classmethod
    def read(cls, cwd: Path, added: Iterable[ServerEntry] = ()) -> Catalogue:
        """Read entries and stored lists, with the servers that an editor has `added`. Blocks."""
        files = read_servers(cwd, added=added)
        found = {name: read_list(entry) for name, entry in files.entries.items()}
        return cls(files, {name: one for name, one in found.items() if one is not None})

    @property
    def entries(self) -> Mapping[str, ServerEntry]:
        return self.files.entries

    @property
    def tokens(self) -> int:
        """Tokens of all schemas."""
        return sum(one.tokens for one in self.lists.values())

    @property
    def unlisted(self) -> list[ServerEntry]:
        """The servers whose tools are not known yet."""
        return [entry for name, entry in self.entries.items() if name not in self.lists]

    def named(self) -> Iterator[tuple[str, str, ServerTool]]:
        """Yield name for the model, server and tool of each, sorted. Of two with the same name the first stays."""
        taken = set()
        for server, listed in sorted(self.lists.items()):
            for tool in listed.tools:
                if (name := name_tool(server, tool.name)) not in taken:
                    taken.add(name)
                    yield name, server, tool

    def prompts(self) -> dict[str, tuple[str, ServerPrompt]]:
        """Return server and prompt by the name of its slash command. Of two with the same name the first stays."""
        found: dict[str, tuple[str, ServerPrompt]] = {}
        for server, listed in sorted(self.lists.items()):
            for prompt in listed.prompts:
                found.setdefault(name_tool(server, prompt.name), (server, prompt))
        return found

    def tools(self) -> list[Tool]:
        """Return all tools, in an order that depends on nothing but their names; () without servers."""
        if not self.entries:
            return []
        each = self.tokens <= MOST_TOKENS
        made = [_make_tool(name, server, tool, offered="" if each else "never") for name, server, tool in self.named()]
        return [*made, self._one_tool("never" if each and not self.unlisted else "")]

    def find(self, wanted: str) -> str:
        """Return the name for the model of a tool, given that or its own name if only one server has it; else ""."""
        names = [(name, tool.name) for name, _, tool in self.named()]
        own = [name for name, tool in names if tool == wanted]
        return next((name for name, _ in names if name == wanted), own[0] if len(own) == 1 else "")

    def _one_tool(self, offered: str) -> Tool:
        servers = [
            f"{name} ({plural(len(self.lists[name].tools), 'tool')})" if name in self.lists else f"{name} (starting)"
            for name in self.entries
        ]
        more = f" and {len(servers) - MOST_NAMED} more" if len(servers) > MOST_NAMED else ""
        return Tool(
            ONE,
            {
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": ["search", "describe", "call"]},
                    "query": {"type": "string", "description": "search: words; none lists all"},
                    "tool": {"type": "string", "description": "describe, call: a name that search printed"},
                    "arguments": {"type": "object", "description": "call: as describe printed them"},
                },
                "required": ["action"],
                "additionalProperties": False,
            },
            _run_one,
            Effect.NONE,
            "action",
            shows=("query", "tool"),
            needs=(ServerTools,),
            offered=offered,
            ordered=True,
            stands_for=self._stands_for,
            description=f"Tools of the MCP servers {', '.join(servers[:MOST_NAMED])}{more}: search, describe, call.",
        )

    def _stands_for(self, call: ToolCall) -> ToolCall | None:
        if call.raw or call.arguments.get("action") != "call":
            return None
        name, given = self.find(str(call.arguments.get("tool", ""))), call.arguments.get("arguments", {})
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except (ValueError, RecursionError):
                return None
        return ToolCall(call.id, name, given) if name and isinstance(given, dict) else None

    def search(self, query: str) -> str:
        """Return a line for each tool that has a word of `query`, those with the most words first."""
        words = set(_WORD.findall(query.lower()))
        scored = [
            (sum((word in name.lower()) * 2 + (word in tool.description.lower()) for word in words), name, tool)
            for name, _, tool in self.named()
        ]
        found = sorted((one for one in scored if one[0] or not words), key=lambda one: (-one[0], one[1]))
        lines = [f"{name}: {_first_line(_clean(tool.description))}" for _, name, tool in found[:MOST_FOUND]]
        if len(found) > MOST_FOUND:
            lines.append(f"[{len(found) - MOST_FOUND} more: search with other words]")
        return "\n".join(lines)

    def describe(self, wanted: str) -> str:
        """Return description and arguments of a tool, "" if there is none."""
        name = self.find(wanted)
        found = next((tool for one, _, tool in self.named() if one == name), None)
        if found is None:
            return ""
        schema = json.dumps(object_schema(found.parameters), ensure_ascii=False, indent=1)
        return f"{name}: {_clean(found.description)}\nArguments: {schema}"

    def nearest(self, wanted: str) -> str:
        """Return a hint such as ` Did you mean X?`, or ""."""
        names = [name for name, _, _ in self.named()]
        near = difflib.get_close_matches(wanted, names, 1, 0.5) or [one for one in names if wanted and wanted in one]
        return f" Did you mean {near[0]}?" if near else ""


def list_resources(cwd: Path) -> list[str]:
    """Return `SERVER:URI` of each resource whose server has been listed. Blocks; starts no server."""
    lists = Catalogue.read(cwd).lists.items()
    return [f"{server}:{uri}" for server, listed in lists for uri, _ in listed.resources]


def describe_arguments(prompt: ServerPrompt) -> str:
    """Return the arguments in the form of `/help`: `FILE [DEPTH]`."""
    return " ".join(name.upper() if required else f"[{name.upper()}]" for name, required in prompt.arguments)


def read_tools(cwd: Path, added: Iterable[ServerEntry] = ()) -> list[Tool]:
    """Return the tools for a session in `cwd`. Blocks."""
    return Catalogue.read(cwd, added).tools()


def name_tool(server: str, tool: str) -> str:
    """Return the name of a tool for the model and for rules, at most `LONGEST_NAME` characters."""
    name = f"{PREFIX}{fit_name(server)}__{fit_name(tool)}"
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 7]}_{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def is_server_tool(name: str) -> bool:
    """Return True for `mcp` and the names of `name_tool`."""
    return name == ONE or name.startswith(PREFIX)


def object_schema(parameters: Any) -> dict[str, Any]:
    """Return a schema that providers take: an object with properties. What is none is replaced by one without any."""
    is_object = isinstance(parameters, Mapping) and parameters.get("type", "object") == "object"
    if not is_object or _is_deep(parameters, MOST_DEEP):
        return {"type": "object", "properties": {}}
    properties, required = parameters.get("properties"), parameters.get("required")
    kept = {key: value for key, value in parameters.items() if key not in ("$schema", "required", *_REFUSED_KEYS)}
    named = properties if isinstance(properties, Mapping) else {}
    properties = {key: value for key, value in named.items() if _ARGUMENT.fullmatch(key)}
    if isinstance(required, list) and all(isinstance(one, str) for one in required):
        kept["required"] = [one for one in required if one in properties or one not in named]
    return {**_clean_schema(kept), "type": "object", "properties": _clean_schema(properties)}


def _clean_schema(value: Any) -> Any:
    """Return a part of a schema with its words for the model as those of a description are."""
    if isinstance(value, Mapping):
        said = {key: _clean(one) for key, one in value.items() if key in ("description", "title") and type(one) is str}
        return {key: said[key] if key in said else _clean_schema(one) for key, one in value.items()}
    return [_clean_schema(one) for one in value] if isinstance(value, list) else value


def _describe_rest(parameters: Any) -> str:
    """Return the parts that `object_schema` leaves out of a schema because providers refuse every request with it, as a
    line of the description; "" if nothing."""
    if not isinstance(parameters, Mapping) or _is_deep(parameters, MOST_DEEP):
        return ""
    properties = parameters.get("properties")
    rest = {key: parameters[key] for key in _REFUSED_KEYS if key in parameters}
    named = properties.items() if isinstance(properties, Mapping) else ()
    if unfit := {key: value for key, value in named if not _ARGUMENT.fullmatch(key)}:
        rest |= {"properties": unfit, "required": parameters.get("required", [])}
    return f"\nIts arguments also have: {canonical(rest).decode()}" if rest else ""


def _is_deep(value: Any, most: int) -> bool:
    if not isinstance(value, Mapping | list | tuple):
        return False
    inner: Sequence[Any] = list(value.values()) if isinstance(value, Mapping) else value
    return most == 0 or any(_is_deep(one, most - 1) for one in inner)


def _make_tool(name: str, server: str, tool: ServerTool, offered: str) -> Tool:
    schema = object_schema(tool.parameters)
    texts = [
        key for key, one in schema["properties"].items() if isinstance(one, Mapping) and one.get("type") == "string"
    ]
    first = [key for key in (*schema.get("required", ()), *texts) if key in texts and key != COMMAND]
    return Tool(
        name,
        schema,
        partial(_run_tool, server, tool.name),
        Effect.RUN,
        first[0] if first else "",
        needs=(ServerTools,),
        server=server,
        only_reads=tool.hints.get("readOnlyHint", False),
        offered=offered,
        description=_clean(tool.description + _describe_rest(tool.parameters)),
    )


async def _run_tool(server: str, tool: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    servers: ServerTools = context.services[ServerTools]
    return await servers.call(server, tool, arguments, context)


async def _run_one(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    servers: ServerTools = context.services[ServerTools]
    return await servers.look_up(arguments["action"], arguments.get("query", ""), arguments.get("tool", ""))


def _clean(text: str) -> str:
    """Return words of a server without forms of ours and invisible characters, cut to their bound."""
    text = neutralize(
        "".join(char for char in text[: 2 * MOST_DESCRIPTION] if unicodedata.category(char) != "Cf")
    ).strip()
    return text if len(text) <= MOST_DESCRIPTION else f"{text[:MOST_DESCRIPTION]}..."


def _first_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else f"{line[:160]}..."
