"""Offer the tools of MCP servers to the model: each by itself while their schemas are small, else behind `use_tool`.

A tool is called `mcp__SERVER__TOOL`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from nexus_cli.core.elide import clip_text
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import ServerTools
from nexus_cli.core.tool import COMMAND, Effect, Tool, ToolContext
from nexus_cli.mcp.server_entries import ServerFiles, make_tool_name, read_servers
from nexus_cli.mcp.server_values import ServerEntry, ServerPrompt, ServerTool
from nexus_cli.mcp.tool_cache import MAX_INSTRUCTIONS, MAX_TOKENS, ToolList, read_list
from nexus_cli.mcp.tool_schema import clean_server_text, describe_rest, object_schema

PREFIX = "mcp__"
LONGEST_NAME = 64
"""Most characters of a tool's name that every provider takes; that of its server is never cut."""
READ_RESOURCE = "read_resource"
_READER_SCHEMA = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": []}


@dataclass(frozen=True, slots=True)
class ServerRow:
    """An MCP server in a list."""

    json_fields: ClassVar = """
        name:entry.name source:entry.source file:entry.file transport:entry.transport target:entry.display_target state
        tools:listed.count tokens:listed.tokens listed:listed.at why left_out
    """
    entry: ServerEntry
    listed: ToolList | None
    """Its tools, as far as they are known."""
    why: str
    """Why it is not available."""

    @property
    def state(self) -> Literal["listed", "not listed", "failed"]:
        """`failed`: not available; `not listed`: not asked for its tools yet."""
        return "failed" if self.why else "listed" if self.listed else "not listed"

    @property
    def left_out(self) -> tuple[str, ...]:
        """One line for each tool that is not offered, with the reason."""
        return self.listed.left_out if self.listed else ()


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
        lists = {name: read_list(entry) for name, entry in files.entries.items()}
        return cls(files, {name: tool_list for name, tool_list in lists.items() if tool_list is not None})

    @property
    def entries(self) -> Mapping[str, ServerEntry]:
        return self.files.entries

    @property
    def tokens(self) -> int:
        """Tokens of all schemas."""
        return sum(tool_list.tokens for tool_list in self.lists.values())

    @property
    def unlisted(self) -> list[ServerEntry]:
        """The servers whose tools are not known yet."""
        return [entry for name, entry in self.entries.items() if name not in self.lists]

    def named_tools(self) -> Iterator[tuple[str, str, ServerTool]]:
        """Yield name for the model, server and tool of each, sorted; no two have the same name."""
        for server, listed in sorted(self.lists.items()):
            for tool in listed.tools:
                yield name_tool(server, tool.name), server, tool

    def prompts(self) -> dict[str, tuple[str, ServerPrompt]]:
        """Return server and prompt by the name of its slash command. Of two with the same name the first stays."""
        by_name: dict[str, tuple[str, ServerPrompt]] = {}
        for server, listed in sorted(self.lists.items()):
            for prompt in listed.prompts:
                by_name.setdefault(name_tool(server, prompt.name), (server, prompt))
        return by_name

    def describe_servers(self, failed: Mapping[str, str]) -> list[ServerRow]:
        """Return the rows of `ServerTools.rows`; `failed` has reasons by hash of the entry."""
        entries = self.entries.items()
        return [ServerRow(entry, self.lists.get(name), failed.get(entry.sha256, "")) for name, entry in entries]

    def instructions(self) -> dict[str, str]:
        """Return the instructions of servers, by name, without forms of ours."""
        texts = {
            server: clean_server_text(listing.instructions, MAX_INSTRUCTIONS)
            for server, listing in sorted(self.lists.items())
        }
        return {server: text for server, text in texts.items() if text}

    def find_changes(self, server: str, since: Catalogue, ignored: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return the texts that a server has changed `since` an earlier catalogue, each before and now: its
        instructions, and parts of tools that both catalogues have and that are not `ignored`."""
        before, after = since.lists[server], self.lists[server]
        changes: dict[str, tuple[str, str]] = {}
        if before.instructions != after.instructions:
            changes["its instructions"] = before.instructions, after.instructions
        earlier_tools = {tool.name: tool for tool in before.tools}
        for now in after.tools:
            then = earlier_tools.get(now.name, now)
            parts = {
                "description": then.description != now.description,
                "arguments": then.parameters != now.parameters,
                "annotations": then.hints != now.hints,
            }
            changed, name = [part for part, differs in parts.items() if differs], name_tool(server, now.name)
            if changed and name not in ignored:
                changes[f"the {' and '.join(changed)} of {name}"] = _define(then), _define(now)
        return changes

    def tools(self) -> list[Tool]:
        """Return all tools, in an order that depends on nothing but their names, then those that read resources."""
        is_sent = self.tokens <= MAX_TOKENS
        keys = {name: entry.sha256 for name, entry in self.entries.items()}
        tools = [
            _make_tool(name, server, keys[server], tool, is_sent=is_sent) for name, server, tool in self.named_tools()
        ]
        tool_names = {tool.name for tool in tools}
        readers = [_make_reader(name, keys[name]) for name, listed in sorted(self.lists.items()) if listed.resources]
        return tools + [reader for reader in readers if reader.name not in tool_names]


def list_resources(cwd: Path) -> list[str]:
    """Return `SERVER:URI` of each resource whose server has been listed. Blocks; starts no server."""
    lists = Catalogue.read(cwd).lists.items()
    return [f"{server}:{uri}" for server, listed in lists for uri, _ in listed.resources if "{" not in uri]


def describe_resources(resources: Iterable[tuple[str, str]]) -> str:
    """Return a line for each resource and template."""
    lines = [_first_line(clean_server_text(f"{uri} - {words}")) for uri, words in resources]
    return "\n".join(lines) or "the server lists no resources"


def read_tools(cwd: Path, added: Iterable[ServerEntry] = ()) -> list[Tool]:
    """Return the tools for a session in `cwd`. Blocks."""
    return Catalogue.read(cwd, added).tools()


def name_tool(server: str, tool: str) -> str:
    """Return the name of a tool for the model and for rules, at most `LONGEST_NAME` characters."""
    name = f"{PREFIX}{make_tool_name(server)}__{make_tool_name(tool)}"
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 7]}_{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def _make_tool(name: str, server: str, key: str, tool: ServerTool, *, is_sent: bool) -> Tool:
    description = clean_server_text(tool.description + describe_rest(tool.parameters))
    schema = object_schema(tool.parameters)
    texts = [
        key
        for key, argument in schema["properties"].items()
        if isinstance(argument, Mapping) and argument.get("type") == "string"
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
        entry=key,
        definition=partial(_define, tool),
        only_reads=tool.hints.get("readOnlyHint", False),
        behind="" if is_sent else _first_line(description) or tool.name,
        description=description,
    )


def _define(tool: ServerTool) -> str:
    """Return the definition of a tool as its server gives it, as lines for a person."""
    write = partial(json.dumps, ensure_ascii=False, sort_keys=True)
    return f"{tool.description}\nannotations: {write(tool.hints)}\n{write(tool.parameters, indent=1)}"


def _make_reader(server: str, key: str) -> Tool:
    """Return the tool that lists and reads the resources of a server. It always stands behind `use_tool`."""
    words = f"List the resources of the MCP server {server}, or read one"
    return Tool(
        name_tool(server, READ_RESOURCE),
        _READER_SCHEMA,
        partial(_read_resource, server),
        Effect.RUN,
        "uri",
        needs=(ServerTools,),
        server=server,
        entry=key,
        definition=partial(str, words),  # a rule for it is none for a tool of the server that has its name later
        only_reads=True,
        counted_as=("resource", "resources"),
        behind=words,
        description=f"{words}. Without `uri`, it lists the resources. In a URI template, replace each part in braces.",
    )


async def _read_resource(server: str, arguments: JsonObject, context: ToolContext) -> ToolResult:
    return await context.service(ServerTools).read_resource(server, str(arguments.get("uri") or ""))


async def _run_tool(server: str, tool: str, arguments: JsonObject, context: ToolContext) -> ToolResult:
    return await context.service(ServerTools).call(server, tool, arguments, context)


def _first_line(text: str) -> str:
    return clip_text(" ".join(text.split()), 160, "...")
