"""`/help`, `/reload` and `/exit`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Annotated

from nexus_cli.commands import find
from nexus_cli.commands.arguments import apply_settings, has_sent_request
from nexus_cli.commands.command import GROUPS, Command, CommandContext, usage_error
from nexus_cli.commands.model import describe_cache_miss
from nexus_cli.commands.verb import Authority, Noun, Verb
from nexus_cli.core.json_value import JsonDict, JsonObject, to_json_value
from nexus_cli.core.option import Argument
from nexus_cli.reports.help import KEYS


async def show_help(
    context: CommandContext,
    name: Annotated[str, Argument("COMMAND", "The command to explain.")] = "",
    verb: Annotated[str, Argument("SUBCOMMAND", "Explain this subcommand and its options.")] = "",
) -> None:
    """List the commands and keys, or explain a command.

    /help alone explains the basic commands and lists the others.
    """
    if name:
        command = find(name.removeprefix("/"), context.commands)
        context.show("help", {"version": 1, "command": _explain(command, verb)})
        return
    first = [to_json_value(command) | {"usage": ""} for command in context.commands.values() if command.is_first]
    others = _group(command for command in context.commands.values() if not command.is_first)
    other_groups = [{"name": group, "names": [command.name for command in commands]} for group, commands in others]
    context.show("help", {"version": 1, "groups": [{"name": "", "commands": first}], "more": other_groups})


async def explain_all(context: CommandContext) -> None:
    """Explain every command, and the keys."""
    groups = [
        {"name": name, "commands": [*map(to_json_value, commands)]}
        for name, commands in _group(context.commands.values())
    ]
    context.show("help", {"version": 1, "groups": groups, "keys": KEYS})


def _group(commands: Iterable[Command]) -> Iterable[tuple[str, Iterable[Command]]]:
    """Return the commands of each group that has any."""
    return groupby(sorted(commands, key=lambda command: GROUPS.index(command.group)), lambda command: command.group)


def _explain(command: Command, verb: str) -> JsonObject:
    """Return the value of one command, or of one of its verbs; raise `UsageError` for another word."""
    verbs_by_name = {known_verb.name: known_verb for known_verb in reversed(command.verbs)}
    shown: JsonDict = to_json_value(command)
    if verb in verbs_by_name:
        chosen = verbs_by_name[verb]
        shown["options"] = [
            (parameter.shown, parameter.option.help) for parameter in chosen.parameters if parameter.option.help
        ]
        idle = command.idle and chosen.waits and chosen.authority is not Authority.READS
        verb_fields = {"usage": chosen.usage, "summary": "", "aliases": [], "idle": idle, "help": chosen.help}
        shown |= verb_fields if verb else {}
    elif verb:
        verb_names = ", ".join(filter(None, reversed(verbs_by_name)))
        why = f"must be one of {verb_names}" if verb_names else "has no subcommands"
        raise usage_error("help", f"{command.name} {verb}", why, f"See `/help {command.name}`")
    return shown


def _complete_help(context: CommandContext) -> Sequence[str]:
    verbs = [
        f"{command.name} {verb.name}" for command in context.commands.values() for verb in command.verbs if verb.name
    ]
    return [*context.commands, *verbs]


async def reload(context: CommandContext) -> None:
    """Read settings and instructions again.

    Reads config.toml and NEXUS.md (or AGENTS.md); changes apply from the next request on. The model and effort of the
    session are not changed.
    """
    if await apply_settings(context):
        context.say("Settings reloaded.")
    if has_sent_request(context):
        context.session.reload()
        context.say(f"Instructions reloaded. {await describe_cache_miss(context)}".rstrip())
    else:
        context.say("Instructions will be loaded with your first message.")


async def leave(context: CommandContext) -> None:
    """Leave nexus; the session is kept.

    A running turn is stopped first.
    """
    context.leave()


NOUNS = (
    Noun(
        "help",
        "setup",
        (Verb(show_help, at_terminal=True, complete=_complete_help), Verb(explain_all, "all", at_terminal=True)),
    ),
    Noun("reload", "setup", (Verb(reload, authority=Authority.PERMITS),), is_idle=True),
    Noun("exit", "sessions", (Verb(leave, at_terminal=True),), aliases=("quit", "q")),
)
