"""`/help`, `/reload` and `/exit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nexus_cli.commands import find
from nexus_cli.commands.arguments import apply_settings, has_sent_request
from nexus_cli.commands.command import GROUPS, Command, CommandContext, usage_error
from nexus_cli.commands.model import describe_cache_miss
from nexus_cli.reports.help import KEYS

ALL = "all"


async def show_help(context: CommandContext, rest: str) -> None:
    """List the commands and keys, or explain a command.

    Without an argument, explain the ten most used commands and name the others; `all` explains all commands and keys.
    NAME VERB explains a verb with its options.
    """
    commands = list(context.commands.values())
    if rest.casefold() == ALL:
        by_group = [(group, [one for one in commands if one.group == group]) for group in GROUPS]
        groups = [{"name": group, "commands": list(map(_value, found))} for group, found in by_group if found]
        context.show("help", {"version": 1, "groups": groups, "keys": KEYS})
    elif rest:
        name, _, verb = rest.removeprefix("/").partition(" ")
        context.show("help", {"version": 1, "command": _explain(find(name, context.commands), verb.strip())})
    else:
        first = [one for one in commands if one.is_first]
        others = [
            (group, [one.name for one in commands if one.group == group and one not in first]) for group in GROUPS
        ]
        groups = [{"name": "", "commands": [_value(one) | {"usage": ""} for one in first]}]
        more = [{"name": group, "names": names} for group, names in others if names]
        context.show("help", {"version": 1, "groups": groups, "more": more})


def _value(command: Command) -> dict[str, Any]:
    return {
        "name": command.name,
        "usage": command.usage,
        "summary": command.summary,
        "help": command.help,
        "aliases": list(command.aliases),
        "idle": command.idle,
    }


def _explain(command: Command, verb: str) -> dict[str, Any]:
    """Return the value of one command, or of one of its verbs; raise `NexusError("usage", ...)` for another word."""
    known = {one.name: one for one in command.verbs if one.name}
    if not verb:
        return _value(command)
    if verb not in known:
        why = f"its verbs are {', '.join(known)}" if known else "it has no verbs"
        raise usage_error("help", f"{command.name} {verb}", why, f"/help {command.name}")
    chosen = known[verb]
    options = [(one.shown, one.option.help) for one in chosen.parameters if one.option.help]
    shown = {"name": command.name, "usage": chosen.usage, "summary": "", "aliases": [], "idle": command.idle}
    return shown | {"help": chosen.help, "options": options}


def _complete_help(context: CommandContext) -> Sequence[str]:
    verbs = [f"{one.name} {verb.name}" for one in context.commands.values() for verb in one.verbs if verb.name]
    return [ALL, *context.commands, *verbs]


async def reload(context: CommandContext, rest: str) -> None:
    """Read settings and instructions again.

    Reads config.toml and NEXUS.md (or AGENTS.md) again; changes apply from the next request on. Model and effort of the
    session stay the same.
    """
    if await apply_settings(context):
        context.say("Settings reloaded.")
    if has_sent_request(context):
        context.session.reload()
        context.say(f"Instructions reloaded. {await describe_cache_miss(context)}".rstrip())
    else:
        context.say("Instructions will be loaded with your first message.")


async def leave(context: CommandContext, rest: str) -> None:
    """Leave nexus; the session is kept.

    A running turn is stopped first.
    """
    context.leave()


COMMANDS = (
    Command("help", "setup", show_help, "[all | COMMAND [VERB]]", complete=_complete_help, at_terminal=True),
    Command("reload", "setup", reload, idle=True),
    Command("exit", "sessions", leave, aliases=("quit", "q"), at_terminal=True),
)
