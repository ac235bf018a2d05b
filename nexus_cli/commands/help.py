"""`/help`, `/reload` and `/exit`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Annotated

from nexus_cli.commands import find
from nexus_cli.commands.arguments import apply_settings
from nexus_cli.commands.command import GROUPS, Command, CommandContext, usage_error
from nexus_cli.commands.model import describe_cache_miss
from nexus_cli.commands.verb import Authority, Noun, Verb
from nexus_cli.core.json_value import JsonDict, JsonObject, to_json_value
from nexus_cli.core.option import Argument
from nexus_cli.reports.text.blocks import Blocks, Pair, Paragraph
from nexus_cli.text.cells import one_line

WIDEST = 36
"""Most columns of the names; what explains a longer one stands below it."""
KEYS = (
    ("Enter", "sends (in a turn: after its step); picks a menu entry"),
    ("Shift+Enter, \\ Enter", "new line (Ctrl+J)"),
    ("Alt+Enter", "adds a line; during a turn: queues the message"),
    ("Esc", "interrupts; twice: goes back to an earlier message"),
    ("Up", "shows earlier and queued messages"),
    ("Ctrl+C", "stops or clears; twice: exits"),
    ("Ctrl+D", "exits on an empty line"),
    ("Shift+Tab", "cycles ask, edit, auto, plan"),
    ("Tab", "completes /commands and @files"),
    ("Ctrl+R", "searches earlier messages"),
    ("Ctrl+G", "edits the text in your editor"),
    ("Ctrl+V", "pastes an image"),
    ("Ctrl+B", "moves work to the background"),
    ("Ctrl+T, Ctrl+O", "shows thinking / the last output (again: transcript)"),
    ("!COMMAND", "runs a shell command; !!COMMAND hides it from the model"),
    ("@FILE", "attaches a file or an image"),
)
LINE_KEYS = ("Ctrl+C", "Ctrl+D", "!COMMAND", "@FILE")
"""Those that work on a terminal without cursor control too."""


def help_text(value: JsonObject) -> Blocks:
    """List every command with its summary, or show one with its whole help."""
    if value.get("command"):
        yield from _explained_command(value["command"])
        return
    commands = [command for group in value["groups"] for command in group["commands"]]
    keys = [(one_line(names), explanation) for names, explanation in value.get("keys", ())]
    names = [*map(_call, commands), *(name for name, _ in keys)]
    size = min(WIDEST, max(map(len, names), default=0) + 4)
    for place, group in enumerate(value["groups"]):
        if group["name"]:
            yield from [*([""] if place else []), f"{group['name']}:"]
        for command in group["commands"]:
            yield Pair(f"  {_call(command)}", command["summary"], size)
    if keys:
        yield from ["", "keys:"]
        yield from (Pair(f"  {name}", explanation, size) for name, explanation in keys)
    if value.get("more"):
        yield ""
        for group in value["more"]:
            yield Paragraph(" ".join(group["names"]), " " * 10, f"{group['name']}:".ljust(10))
        keys_hint = "? for keys; " if value.get("has_keys", True) else ""
        yield from ["", f"More: /help NAME or /help all; {keys_hint}nexus docs WORDS in a shell."]


def _call(command: JsonObject) -> str:
    return f"/{command['name']} {command['usage']}".rstrip()


def _explained_command(command: JsonObject) -> Blocks:
    yield Paragraph(_call(command), "    ", "")
    if command["aliases"]:
        yield "also " + ", ".join(f"/{name}" for name in command["aliases"])
    for paragraph in command["help"].split("\n\n"):
        yield from ["", paragraph]
    options = command.get("options", ())
    size = min(WIDEST, max((len(name) for name, _ in options), default=0) + 4)
    if options:
        yield ""
    yield from (Pair(f"  {name}", explanation, size) for name, explanation in options)
    if command["idle"]:
        yield from ["", "During a turn, the command waits until the turn ends."]


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
    groups = _group(command for command in context.commands.values() if not command.is_first)
    other_groups = [{"name": group, "names": [command.name for command in commands]} for group, commands in groups]
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
    value: JsonDict = to_json_value(command)
    if verb in verbs_by_name:
        chosen = verbs_by_name[verb]
        value["options"] = [
            (parameter.label, parameter.option.help) for parameter in chosen.parameters if parameter.option.help
        ]
        idle = command.idle and chosen.waits and chosen.authority is not Authority.READS
        verb_fields = {"usage": chosen.usage, "summary": "", "aliases": [], "idle": idle, "help": chosen.help}
        value |= verb_fields if verb else {}
    elif verb:
        verb_names = ", ".join(filter(None, reversed(verbs_by_name)))
        why = f"must be one of {verb_names}" if verb_names else "has no subcommands"
        raise usage_error("help", f"{command.name} {verb}", why, f"See `/help {command.name}`")
    return value


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
    if context.session.ledger.log(context.session.id).step():
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
