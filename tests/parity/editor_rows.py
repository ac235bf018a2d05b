"""The rows about editors: opencode and nexus as agents of one client of ACP, which is acpx; see `rows.py`."""

from __future__ import annotations

import json
from typing import Any

from parity.rows import Look, Played, Row, Step, files, settings
from parity.server_rows import NOTE, server

ASKS = {"opencode.json": settings(permission={"bash": "ask", "edit": "ask"})}
FILE = {"a.txt": "one\n"}
YES, NO = ("--approve-all",), ("--deny-all",)


def messages(played: Played) -> list[dict[str, Any]]:
    """Return what went between the client and the agent."""
    return [json.loads(line) for line in played.output.splitlines() if line.startswith("{")]


def updates(played: Played, kind: str = "") -> list[dict[str, Any]]:
    """Return the updates of the turn, those of one kind."""
    found = [one["params"]["update"] for one in messages(played) if one.get("method") == "session/update"]
    return [one for one in found if kind in ("", one["sessionUpdate"])]


def answer(played: Played) -> tuple[str, str]:
    """Return what the agent said, and why it stopped."""
    said = "".join(one["content"]["text"] for one in updates(played, "agent_message_chunk"))
    return said, messages(played)[-1]["result"]["stopReason"]


def calls(played: Played) -> list[tuple[str, str]]:
    """Return kind and last state of each call, in their order."""
    found: dict[str, dict[str, Any]] = {}
    for one in updates(played):
        if one["sessionUpdate"] in ("tool_call", "tool_call_update"):
            found.setdefault(one["toolCallId"], {}).update({key: value for key, value in one.items() if value})
    return [(one.get("kind", "other"), one.get("status", "")) for one in found.values()]


def changes(played: Played) -> list[tuple[str, str]]:
    """Return the texts before and after of each change that the editor can show."""
    contents = [part for one in updates(played) if isinstance(one.get("content"), list) for part in one["content"]]
    shown = [(one.get("oldText") or "", one["newText"]) for one in contents if one["type"] == "diff"]
    return list(dict.fromkeys(shown))


def questions(played: Played) -> list[list[str]]:
    """Return of each question which kinds of answers it offers."""
    asked = [one["params"] for one in messages(played) if one.get("method") == "session/request_permission"]
    return [sorted(option["kind"] for option in one["options"]) for one in asked]


def plan(played: Played) -> list[list[tuple[str, str]]]:
    """Return the plans that the agent showed."""
    return [[(row["content"], row["status"]) for row in one["entries"]] for one in updates(played, "plan")]


def edited(name: str, look: Look, *steps: Step, editor: tuple[str, ...] = YES, **more: Any) -> Row:
    tree = FILE | ASKS | more.pop("tree", {})
    return Row(f"editor: {name}", look, tree, steps, peer="opencode", editor=editor, **{"level": "ask", **more})


READ: Step = ("read", {"filePath": "TREE/a.txt"})
EDIT: Step = ("edit", {"filePath": "TREE/a.txt", "oldString": "one", "newString": "two"})
MAKE: Step = ("bash", {"command": "touch made"})
FAIL: Step = ("bash", {"command": "ls nothere"})
TODO: Step = ("todowrite", {"todos": [{"content": "first", "status": "in_progress", "priority": "high"}]})
MEMO = {"mcpServers": [{"name": "memo", "command": "python3", "args": ["TREE/server.py"], "env": []}]}
NOTES: tuple[Step, ...] = (("memo_note", {"text": "x"}), ("mcp__memo__note", {"text": "x"}))
EDITOR_ROWS = (
    edited("words and an answer", answer, "the answer"),
    edited("a command that the person allows", files("made"), MAKE),
    edited("a command that the person declines", files("made"), MAKE, editor=NO),
    edited("a question about a command", questions, MAKE, chosen="nexus also offers to allow for the session alone"),
    edited("an edit that the person declines", files("a.txt"), READ, EDIT, editor=NO),
    edited("the kinds and states of calls", calls, READ, EDIT, MAKE),
    edited("a command that fails", calls, FAIL, chosen="opencode calls a command completed whose status is not 0"),
    edited("an edit is shown as a change", changes, READ, EDIT),
    edited(
        "a plan is shown",
        plan,
        TODO,
        chosen="opencode sends its list as the text of a call, nexus as the plan of the protocol",
    ),
    edited(
        "a server of the editor",
        files("called.txt"),
        *NOTES,
        editor=(*YES, "--mcp-config", "servers.json"),
        tree={"servers.json": json.dumps(MEMO), **server(NOTE)},
    ),
    edited(
        "a skill is a command",
        lambda played: any(
            "ship" in one["name"]
            for each in updates(played, "available_commands_update")
            for one in each["availableCommands"]
        ),
        tree={".claude/skills/ship/SKILL.md": "---\nname: ship\ndescription: Ships it.\n---\nGo.\n"},
    ),
)
