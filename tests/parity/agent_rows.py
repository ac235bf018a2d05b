"""The rows about agents; see `rows.py`."""

from __future__ import annotations

import json
import re

from parity.rows import AGENT, DELEGATE, SKILL, Look, Played, Row, bash, files, has_role

ROLE = "ROLEBEGIN Terse. ROLEEND"
SERVER = """import json, sys
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    made = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "memo", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "note", "description": "Adds a note.", "inputSchema": TEXT}]},
    }.get(asked["method"], {})
    if asked["method"] == "tools/call":
        open("noted.txt", "a").write(asked["params"]["arguments"]["text"])
        made = {"content": [{"type": "text", "text": "noted"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": made}), flush=True)
"""
CODEX = 'name = "{name}"\ndescription = "{says}"\ndeveloper_instructions = "ROLEBEGIN Terse. ROLEEND"\n'
SERVERS = {
    ".mcp.json": json.dumps({"mcpServers": {"memo": {"command": "python3", "args": ["server.py"]}}}),
    ".claude/settings.json": json.dumps({"enableAllProjectMcpServers": True}),
    "server.py": SERVER,
}


def families(played: Played) -> list[str]:
    """Return the families of the models that were sent the role of `AGENT`."""
    models = {json.loads(one)["model"] for one in played.requests if ROLE in one}
    return sorted({found for model in models for found in re.findall("haiku|sonnet|opus", model)})


def model_row(alias: str, look: Look = families, chosen: str = "") -> Row:
    tree = {".claude/agents/reviewer.md": AGENT.format(more=f"model: {alias}")}
    return Row(f"the model of an agent is {alias}", look, tree, (DELEGATE,), chosen=chosen)


def server_row(name: str, more: str) -> Row:
    """Return a row in which an agent calls a tool of an MCP server."""
    tree = SERVERS | {".claude/agents/reviewer.md": AGENT.format(more=more)}
    calls = (("mcp__memo__note", {"text": "by the agent"}),)
    return Row(
        name, lambda played: (has_role(played), played.files("noted.txt")), tree, (DELEGATE,), calls, level="all"
    )


AGENT_ROWS = (
    *map(model_row, ("haiku", "sonnet", "opus", "inherit")),
    model_row("claude-opus-4-8", lambda played: [json.loads(one)["model"] for one in played.requests if ROLE in one]),
    model_row(
        "nonsense",
        lambda played: [json.loads(one)["model"] for one in played.requests if ROLE in one],
        "a model that nobody has is named, and the session's works",
    ),
    server_row("an agent calls a tool of a server that it names", "tools: Read, mcp__memo__note"),
    server_row("an agent that names no tools calls one of a server", "color: blue"),
    server_row("an agent that names other tools calls none of a server", "tools: Read"),
    server_row("an agent names a server for all of its tools", "tools: Read, mcp__memo"),
    server_row("an agent names all tools of a server by a star", "tools: Read, mcp__memo__*"),
    server_row("an agent excludes a tool of a server", "disallowedTools: mcp__memo__note"),
    server_row("an agent excludes another tool", "disallowedTools: Write"),
    Row(
        "an agent works in the background and reports",
        lambda played: (has_role(played), played.files("made")),
        {".claude/agents/reviewer.md": AGENT.format(more="background: true")},
        (DELEGATE,),
        (bash("touch made"),),
    ),
    Row(
        "allowed-tools of an agent takes no tool away",
        lambda played: (has_role(played), played.files("made")),
        {".claude/agents/reviewer.md": AGENT.format(more="allowed-tools: Read")},
        (DELEGATE,),
        (bash("touch made"),),
    ),
    Row(
        "an agent starts another one with tools that it has not",
        files("made"),
        {
            ".claude/agents/reviewer.md": AGENT.format(more="tools: Agent, Read"),
            ".claude/agents/hand.md": "---\nname: hand\ndescription: Runs commands.\ntools: Bash\n---\nRun it.\n",
        },
        (DELEGATE, bash("touch made")),
        (("Agent", {"description": "run", "prompt": "Make the file.", "subagent_type": "hand"}),),
        chosen="what an agent may not do, none that it starts may do",
    ),
    Row(
        "an agent ends after its steps",
        files("first", "second"),
        {".claude/agents/reviewer.md": AGENT.format(more="maxTurns: 1")},
        (DELEGATE,),
        (bash("touch first"), bash("touch second")),
        chosen="with its last step an agent reports what it has",
    ),
    Row(
        "a skill that an agent names comes with its role",
        lambda played: sorted(
            {text for one in played.requests if ROLE in one for text in re.findall("BEGIN Ship", one)}
        ),
        {
            ".claude/agents/reviewer.md": AGENT.format(more="skills: ship"),
            ".claude/skills/ship/SKILL.md": "---\nname: ship\ndescription: Ships it.\n---\nBEGIN Ship at once. END\n",
        },
        (DELEGATE,),
    ),
    Row(
        "hooks in the file of an agent",
        files("ran"),
        {
            ".claude/agents/reviewer.md": AGENT.format(
                more="hooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n        - type: command\n"
                "          command: touch ran"
            )
        },
        (DELEGATE,),
        (bash("true"),),
    ),
    Row(
        "codex: the agents are listed with their descriptions",
        lambda played: [word in played.requests[0] for word in ("Reviews every change.", "Has no role.")],
        {
            ".codex/agents/reviewer.toml": CODEX.format(name="reviewer", says="Reviews every change."),
            ".codex/agents/bad.toml": CODEX.format(name="bad", says="Has no role.").partition("developer")[0],
        },
        peer="codex",
    ),
    Row(
        "codex: a skill in its own folder is listed",
        lambda played: "Ships it." in played.requests[0],
        {".codex/skills/ship/SKILL.md": SKILL},
        peer="codex",
    ),
)
