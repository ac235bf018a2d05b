"""Text of spaces for people: the list, and the messages of one, with names and local times."""

from __future__ import annotations

import shlex

from nexus_cli.core.clock import format_local_minute
from nexus_cli.core.elide import name_first
from nexus_cli.core.json_value import JsonObject
from nexus_cli.reports.text.blocks import Blocks, OneLine, Table, Wrapped, paragraphs
from nexus_cli.reports.text.door import name_commands
from nexus_cli.reports.text.lines import cut_line, plural, when
from nexus_cli.text.cells import cells, one_line
from nexus_cli.text.terminal_sanitizer import sanitize

NONE = "No spaces. `nexus space create NAME` creates a space."
SILENT = "No messages yet."
NEW = "new"
"""Text of the line between read and new messages."""
MOST_NAMED = 20
"""Most members that are named."""
LONGEST = 60
"""Characters of the members' names in a list."""


def spaces_text(value: JsonObject) -> Blocks:
    """Return a line for each space."""
    columns = {
        "id": "id",
        "name": lambda space: cut_line(space["name"], LONGEST),
        "new": "new",
        "newest": lambda space: when(space["newest"]) or "-",
        "members": _names,
    }
    return [Table(columns, value["spaces"], NONE)]


def space_messages_text(value: JsonObject, width: int) -> Blocks:
    """List the messages of a space below its name, with a line where the new ones begin."""
    space, messages = value["space"], value["messages"]
    yield f"{space['name']}: {_names(space)}"
    if not messages:
        yield from ["", SILENT]
        return
    if before := value["unread_before"]:
        yield f"{plural(before, 'earlier message')} unread: --last {before + len(messages)}"
    day, parted = "", not any(message["seen"] for message in messages)
    for message in messages:
        if (today := format_local_minute(message["at"], "%Y-%m-%d")) != day:
            day = today
            yield from ["", day]
        if not parted and not message["seen"]:
            parted = True
            yield new_line(width)
        yield from message_lines(message, width)


def agent_goals_text(value: JsonObject) -> Blocks:
    """Return a line for each goal of an agent."""
    columns = {
        "id": "id",
        "priority": lambda goal: str(goal["priority"]),
        "": lambda goal: f"done {when(goal['done'])}" if goal["done"] else "long-term" if goal["long_term"] else "",
        "goal": "text",
    }
    name = value["agent"]["name"]
    how = name_commands(f"nexus space goal {shlex.quote(name)} add TEXT")
    return [Table(columns, value["goals"])] if value["goals"] else [f"{name} has no goals. To add a goal: {how}"]


def new_line(width: int) -> str:
    """Return the line between read and new messages."""
    side = "-" * max(2, min(width, 60) // 2 - 3)
    return f"{side} {NEW} {side}"[:width]


def message_lines(message: JsonObject, width: int) -> Blocks:
    """Return a message: time and name, then its text, on the same line if it fits."""
    sender = message["sender"]
    kind = " (agent)" if sender["type"] == "agent" else ""
    head = f"{format_local_minute(message['at'], '%H:%M')} {one_line(sender['name'])}{kind}"
    text = sanitize(message["text"].strip("\n"))
    notes = [message["quiet"]] if message["quiet"] else []
    if message["facts"]:
        notes.append(f"{message['run']}: {', '.join(message['facts'])}")
    below = paragraphs((f"[{one_line(note)}]" for note in notes), "  ")
    whole = f"{head}: {text.strip()}"
    if text.strip() and "\n" not in text and cells(whole) <= width:
        return [Wrapped(whole), *below]
    return [OneLine(f"{head}:"), Wrapped(text, "  "), *below]


def _names(space: JsonObject) -> str:
    member_names = [member["name"] + (" (agent)" if member["type"] == "agent" else "") for member in space["members"]]
    return name_first(member_names, MOST_NAMED)
