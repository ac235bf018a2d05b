"""`/help`: what can be typed here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nexus_cli.commands import find
from nexus_cli.commands.command import GROUPS, Command, CommandContext

KEYS = (
    ("Enter", "sends; steers a turn that runs"),
    ("Alt+Enter, Ctrl+J", "a new line; Alt+Enter in a turn: for afterwards"),
    ("Esc", "on an empty box takes back what was queued"),
    ("Ctrl+C", "stops what runs, clears the line, twice leaves"),
    ("Ctrl+D", "on an empty line leaves"),
    ("Tab", "completes /commands, @files and ! lines"),
    ("Up, Down, Ctrl+R", "what was typed before"),
    ("Ctrl+G", "edits the text in your editor"),
    ("Ctrl+T, Ctrl+O", "thinking; the last tool output whole"),
    ("!COMMAND", "runs a shell command; !!COMMAND is not shared"),
    ("@FILE", "attaches a file or an image"),
)


async def run(context: CommandContext, rest: str) -> None:
    """List the commands, or tell all about one.

    An unknown name is answered with the nearest one.
    """
    if rest:
        context.show("help", {"version": 1, "command": _value(find(rest.removeprefix("/"), context.commands))})
        return
    groups = [
        {"name": group, "commands": [_value(one) for one in context.commands.values() if one.group == group]}
        for group in GROUPS
    ]
    context.show("help", {"version": 1, "groups": [group for group in groups if group["commands"]], "keys": KEYS})


def _value(command: Command) -> dict[str, Any]:
    return {
        "name": command.name,
        "usage": command.usage,
        "summary": command.summary,
        "help": command.help,
        "aliases": list(command.aliases),
        "idle": command.idle,
    }


def _names(context: CommandContext) -> Sequence[str]:
    return list(context.commands)


COMMAND = Command("help", "nexus", run, "[COMMAND]", complete=_names)
