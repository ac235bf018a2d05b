"""The rows about MCP servers: what the model sees of one, and what its answers become; see `rows.py`."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from images import png
from parity.agent_rows import SERVERS
from parity.rows import Call, Look, Played, Row, blocks, files, marked, pictures, settings

SERVER = """import json, pathlib, sys
says = json.loads(pathlib.Path(__file__).with_name("says.json").read_text())
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    given, method = asked.get("params") or {}, asked["method"]
    named = says.get(f"{method} {given.get('name') or given.get('uri')}")
    if method == "tools/call":
        open("called.txt", "a").write(given["name"] + json.dumps(given["arguments"]))
    told = named or says.get(method) or {"result": {}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **told}), flush=True)
"""
EMPTY = {"type": "object", "properties": {}}
NOTE = {
    "name": "note",
    "description": "Adds a note.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "What to add."}, "n": {"type": "integer"}},
        "required": ["text"],
    },
}
PICTURE = base64.b64encode(png(3, 2)).decode()


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}.", "inputSchema": EMPTY, **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def server(
    *tools: Mapping[str, Any], answers: Mapping[str, Any] | None = None, folder: str = "", **more: Any
) -> dict[str, str]:
    """Return the files of a server with these tools, and answers by method, or by method and what it names."""
    capabilities: dict[str, Any] = {
        "tools": {},
        **({"resources": {}} if any("resources" in one for one in answers or {}) else {}),
    }
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "serverInfo": {"name": "memo", "version": "1"},
        **more,
    }
    says = {"initialize": {"result": hello}, "tools/list": {"result": {"tools": tools}}, **(answers or {})}
    return {f"{folder}server.py": SERVER, f"{folder}says.json": json.dumps(says)}


def served(name: str, look: Look, files_of: Mapping[str, str], *calls: Call, chosen: str = "") -> Row:
    """Return a row in a tree that has the server `memo`."""
    return Row(name, look, {**SERVERS, **SHOWN, **files_of}, calls, level="all", listed="memo", chosen=chosen)


def result(name: str, look: Look, answer: Mapping[str, Any], chosen: str = "") -> Row:
    """Return a row about what the model gets of one answer to a call."""
    tree = server(tool("get"), answers={"tools/call get": answer})
    return served(f"a server answers with {name}", look, tree, ("mcp__memo__get", {}), chosen=chosen)


def tools(played: Played) -> dict[str, Any]:
    """Return the tools of servers that the last request offers, by name."""
    offered = json.loads(played.requests[-1])["tools"]
    return {
        one["name"]: (one["description"], one["input_schema"]) for one in offered if one["name"].startswith("mcp__")
    }


def names(played: Played) -> list[str]:
    return sorted(tools(played))


def failed(played: Played) -> list[bool]:
    """Return of each result whether it is marked as an error."""
    return [bool(one.get("is_error")) for one in blocks(played) if one["type"] == "tool_result"]


RESOURCES = {
    "resources/list": {
        "result": {
            "resources": [
                {"uri": "memo://one", "name": "one", "description": "BEGIN the first END", "mimeType": "text/plain"},
                {"uri": "memo://shot", "name": "shot", "mimeType": "image/png"},
            ]
        }
    },
    "resources/templates/list": {"result": {"resourceTemplates": []}},
    "resources/read memo://one": {"result": {"contents": [{"uri": "memo://one", "text": "BEGIN text of one END"}]}},
    "resources/read memo://shot": {
        "result": {"contents": [{"uri": "memo://shot", "mimeType": "image/png", "blob": PICTURE}]}
    },
}
SHOWN = {
    ".claude/settings.json": settings(enableAllProjectMcpServers=True, env={"ENABLE_TOOL_SEARCH": "false"}),
}
"""Settings with which Claude Code sends the schemas of servers in its first request, as nexus does."""
READ = "ReadMcpResourceTool"
OUR_READER = "mcp__memo__read_resource"
"""The tool of nexus; the model calls that of each program, of which the other one fails."""
STRICT = {**EMPTY, "properties": {"n": {"type": "integer", "minimum": 1}}, "additionalProperties": False}
CHECKED = "`additionalProperties: false` and `minimum` are not sent: nexus refuses a call that breaks them"
UNMARKED = "the words of a result say that the call failed: not every provider has a mark for that"
SERVER_ROWS = (
    served("a server's instructions reach the model", marked, server(NOTE, instructions="BEGIN Note little. END")),
    served("a server's tool has its name, words and schema", tools, server(NOTE)),
    served(
        "a server's tool names with other characters", names, server(tool("a.b"), tool("c d"), tool("e-f"), tool("ü"))
    ),
    served(
        "an invalid schema costs one tool",
        names,
        server(NOTE, tool("broken", inputSchema=None), tool("odd", inputSchema={"type": "string"})),
        chosen="in Claude Code it costs the server",
    ),
    *(
        served(
            f"what a server offers beside a rule that denies {rule}",
            names,
            {
                **server(NOTE, tool("get")),
                ".claude/settings.json": settings(
                    permissions={"deny": [rule]}, enableAllProjectMcpServers=True, env={"ENABLE_TOOL_SEARCH": "false"}
                ),
            },
        )
        for rule in ("mcp__memo__note", "mcp__memo")
    ),
    served("parts of a schema that cost tokens", tools, server(tool("strict", inputSchema=STRICT)), chosen=CHECKED),
    served(
        "a schema with references",
        tools,
        server(
            tool(
                "deep",
                inputSchema={
                    "type": "object",
                    "properties": {"tree": {"$ref": "#/$defs/node"}},
                    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
                },
            )
        ),
    ),
    served(
        "a tool that runs only as a task",
        lambda played: (names(played), played.files("called.txt")),
        server(NOTE, tool("slow", execution={"taskSupport": "required"})),
        ("mcp__memo__slow", {}),
        chosen="such a server refuses a call that is no task: nexus names the tool and leaves it out",
    ),
    served(
        "a tool gets its arguments",
        files("called.txt"),
        server(NOTE),
        ("mcp__memo__note", {"text": "ü", "n": 3}),
    ),
    served(
        "resources are listed",
        marked,
        server(NOTE, answers=RESOURCES),
        ("ListMcpResourcesTool", {"server": "memo"}),
        (OUR_READER, {}),
    ),
    served(
        "a resource is read",
        marked,
        server(NOTE, answers=RESOURCES),
        (READ, {"server": "memo", "uri": "memo://one"}),
        (OUR_READER, {"uri": "memo://one"}),
    ),
    served(
        "a resource that is a picture",
        pictures,
        server(NOTE, answers=RESOURCES),
        (READ, {"server": "memo", "uri": "memo://shot"}),
        (OUR_READER, {"uri": "memo://shot"}),
        chosen="Claude Code saves it as a file and names that",
    ),
    result("several texts", marked, {"result": {"content": [text("BEGIN one END"), text("BEGIN two END")]}}),
    result(
        "a picture", pictures, {"result": {"content": [{"type": "image", "mimeType": "image/png", "data": PICTURE}]}}
    ),
    result(
        "an embedded resource",
        marked,
        {"result": {"content": [{"type": "resource", "resource": {"uri": "memo://x", "text": "BEGIN inner END"}}]}},
    ),
    result(
        "an embedded picture",
        pictures,
        {
            "result": {
                "content": [
                    {"type": "resource", "resource": {"uri": "memo://x", "mimeType": "image/png", "blob": PICTURE}}
                ]
            }
        },
    ),
    result(
        "a link to a resource",
        lambda played: "memo://linked" in played.requests[-1],
        {"result": {"content": [{"type": "resource_link", "uri": "memo://linked", "name": "linked"}]}},
    ),
    result("structured content alone", marked, {"result": {"content": [], "structuredContent": {"a": "BEGIN s END"}}}),
    result(
        "structured content beside a text",
        lambda played: " s " in marked(played),
        {"result": {"content": [text("BEGIN t END")], "structuredContent": {"a": "BEGIN s END"}}},
    ),
    result("an error", marked, {"result": {"isError": True, "content": [text("BEGIN no END")]}}),
    result("an error with its mark", failed, {"result": {"isError": True, "content": [text("no")]}}, UNMARKED),
    result("an error of the protocol", marked, {"error": {"code": -32000, "message": "BEGIN no END"}}),
)
