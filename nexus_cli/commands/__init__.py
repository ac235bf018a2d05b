"""The slash commands: a file of this folder exports a `NOUN`, a tuple `NOUNS`, or both, and is found by itself."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from importlib import import_module

from nexus_cli.commands.command import GROUPS, Command
from nexus_cli.core.errors import UsageError, nearest_name

_LINE = re.compile(r"/+([\w-]*(?::[\w-]+)*)/?(?:[ \t]+(.*))?")
_MESSAGE = re.compile(r"/+([\w-]+)\s+(.*)", re.DOTALL)
SHARED = {"command", "arguments", "forms", "own_guides", "slash_command", "verb"}
"""Files of this folder that declare no command."""
_UNDO = "/undo reverts a turn's changes to files, /rewind returns to an earlier message, with or without files"
_MENTION = "The model reads files itself; @FILE in a message attaches a file"
_SHELL = "!COMMAND runs a shell command and shares its output, !!COMMAND keeps it private"
_MODES = "Type your task; Shift+Tab sets the permission level; /plan is read-only"
_LEVEL = "Shift+Tab sets the permission level; /permissions shows what runs without asking"
_PERSONAL = "See `nexus docs personal`: theme, keys, status line, title"
_THEME = "/config ui.theme dark (or light) sets the theme"
_VI = "/config ui.keys vi turns on vi keys"
_REPORT = "`nexus doctor --json` in a shell prints details for a bug report"
MIN_SIMILARITY = 0.7
"""Least similarity (0 to 1) to a command that counts as misspelt. High, because different names are short and alike."""
PEER_COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("revert", "restore"), _UNDO),
    **dict.fromkeys(("add", "ls", "map", "mention", "read-only"), _MENTION),
    "drop": f"/drops lists content left out of requests. {_MENTION}",
    **dict.fromkeys(("test", "lint", "git", "terminal"), _SHELL),
    "run": f"/runs lists unattended runs. {_SHELL}",
    "pr-comments": "!gh pr view --comments shares the comments with the model",
    "commit": "!git commit -am MESSAGE commits; or ask the model to commit",
    **dict.fromkeys(("ask", "code", "architect", "chat-mode"), _MODES),
    **dict.fromkeys(("theme", "themes"), _THEME),
    **dict.fromkeys(("sandbox", "yolo", "auto-approve"), _LEVEL),
    **dict.fromkeys(("statusline", "output-style", "keybindings", "keymap", "title"), _PERSONAL),
    "tree": "/rewind goes back to an earlier message, /fork continues in a copy of the session",
    "clone": "/fork continues in a copy of the session",
    "name": "/rename names this session",
    **dict.fromkeys(("delete", "archive"), "/sessions delete ID deletes another session"),
    "subagents": "/agents lists the workers and agents",
    "memories": "/memory lists what nexus remembers",
    "hotkeys": "/help lists the commands, and ? on an empty line the keys",
    "terminal-setup": "Ctrl+J, Alt+Enter, or \\ and Enter start a new line",
    "background": "Ctrl+B moves the running command to the background, /jobs lists such commands",
    "batch": "`nexus map` in a shell runs one prompt for each file",
    **dict.fromkeys(("reload-plugins", "reload-skills"), "/reload reads skills, agents and settings again"),
    "stop": "Esc stops the turn, /jobs stop ID stops a command, /agents stop ID stops a worker",
    "loop": "/schedule add schedules recurring work",
    "ide": "`nexus acp` connects an editor; see `nexus docs editors`",
    "tools": "/status tools lists the tools and their tokens; `nexus docs tools` describes them",
    "history": "/transcript shows the conversation, `/sessions list` shows other sessions",
    "files": "/diff shows the changes, /context shows the content of the next request",
    **dict.fromkeys(("btw", "side"), "/fork continues in a copy of the session"),
    "security-review": "/review reviews the changes; for security: /review security",
    **dict.fromkeys(("share", "unshare"), "/export writes the session to a file"),
    **dict.fromkeys(("details", "verbose"), "Ctrl+O shows the newest output in full, then the transcript"),
    **dict.fromkeys(("thinking", "think"), "Ctrl+T shows thinking, /effort sets the reasoning effort"),
    "paste": "Ctrl+V pastes an image",
    **dict.fromkeys(("vim", "vi"), _VI),
    **dict.fromkeys(("todo", "todos"), "The model maintains its own list of steps; /goal sets a goal"),
    **dict.fromkeys(("bug", "feedback"), _REPORT),
    **dict.fromkeys(
        ("chat", "save"), "Sessions are saved automatically: /resume opens another session, /rename names this session"
    ),
    "directory": "/add-dir DIR lets tools work in another folder",
    "web": "The model fetches pages itself with the fetch tool; see `nexus docs network`",
    **{name: f"Available only in a shell; see `nexus {name} --help`" for name in ("import", "serve", "ledger", "acp")},
}
"""Commands of other agents without a counterpart of the same name, and their replacement here."""


@cache
def discover() -> dict[str, Command]:
    """Return every command by name, ordered by group and name."""
    from nexus_cli.commands.slash_command import make_slash_command  # noqa: PLC0415  (a shell command makes none)

    files = [module.name for module in pkgutil.iter_modules(__path__) if module.name not in SHARED]
    declared = [vars(import_module(f"{__name__}.{name}")) for name in files]
    nouns = [noun for module in declared for noun in (*filter(None, (module.get("NOUN"),)), *module.get("NOUNS", ()))]
    commands = sorted(map(make_slash_command, nouns), key=lambda command: (GROUPS.index(command.group), command.name))
    return {command.name: command for command in commands}


DIFFERENT_IN_SHELL = ("plan",)
"""Slash commands that are others than the shell commands of their name."""


IS_CLIENT: ContextVar[bool] = ContextVar("is_client", default=False)
"""True in a client of a server, where the slash commands that a client may not give are shell commands there."""


@cache
def _shell_names(*, is_client: bool = False) -> re.Pattern[str]:
    """Return the pattern of a shell command that a session has too, up to its name, and of words of others."""
    names = []
    for command in discover().values():
        usable_verbs = [verb for verb in command.verbs if verb.is_served or verb.at_terminal or not is_client]
        verbs = "|".join(verb.name for verb in usable_verbs if verb.name)
        alone = r"(?![\w-]| [a-z])" if command.verbs[1:] else r"(?![\w-])"
        forms = [rf" (?:{verbs})\b"] * bool(verbs) + [alone] * (command.verbs[0] in usable_verbs)
        further = f"(?:{'|'.join(forms)})"
        is_shared = forms and command.name not in DIFFERENT_IN_SHELL
        names += [alias + further for alias in command.names] if is_shared else []
    return re.compile(
        r"^(?:job|\|) .*|(?<!\w)'[^'\n]*'"  # lines of jobs and programs, quoted words
        r"|(?<![\w/.-])(?<!\w\()(?<![&|] )nexus (?="
        r"(?!login (?:github-copilot|chatgpt)\b)"  # /login takes no subscription
        rf"(?:{'|'.join(names)})"
        r"(?![^`\n;]*--(?:session|json)\b|[^.;\n]*\bin (?:a shell|another terminal)\b))",
        re.MULTILINE,
    )


@cache
def _refused_names() -> re.Pattern[str]:
    """Return the pattern of a slash command that a client of a server may not give."""
    refused = [command for command in discover().values() if not (command.is_served or command.at_terminal)]
    names = "|".join(name for command in refused for name in command.names)
    return re.compile(rf"(?<![\w/])/(?:(?:{names})(?![\w:/-])|config [\w.]+ \w)")


def use_slash_names(text: str) -> str:
    """Return one of our own sentences with `/NOUN VERB` for each shell command that a session has too. For a client it
    also says where the other commands, and the slash commands that a client may not run, are available."""

    def shorten(match: re.Match[str]) -> str:
        return "/" if match[0] == "nexus " else match[0]

    is_client = IS_CLIENT.get()
    renamed = _shell_names(is_client=is_client).sub(shorten, text)
    is_on_other_machine = is_client and _shell_names().sub(shorten, renamed) != renamed
    place = "shell" if is_on_other_machine else "session" if is_client and _refused_names().search(renamed) else ""
    end = renamed[len(renamed.rstrip(". \n")) :]
    return f"{renamed.removesuffix(end)} (in a {place} on the server's machine){end}" if place else renamed


def parse(text: str) -> tuple[str, str] | None:
    """Return name and arguments of a line that begins with `/`; None for text: several lines, a path.

    A line that begins with a space is always text. Several lines are a command only if it takes a message.
    """
    line = text.rstrip()
    if match := _LINE.fullmatch(line):
        return match[1], (match[2] or "").strip()
    match = _MESSAGE.fullmatch(line)
    message_commands = [command for command in discover().values() if command.takes_message] if match else []
    is_message = match and any(match[1].casefold() in command.names for command in message_commands)
    return (match[1], match[2].strip()) if match and is_message else None


def find(name: str, commands: Mapping[str, Command]) -> Command:
    """Return the command of this name or alias in any case; raise `UsageError` with a suggestion."""
    commands_by_name = dict(commands)
    for command in commands.values():
        commands_by_name |= {alias: command for alias in command.aliases if alias not in commands}
    if match := commands_by_name.get(name.casefold()):
        return match
    typed = name.casefold()
    near = next(
        (known_name for known_name in commands_by_name if typed and known_name.startswith(typed)), ""
    ) or nearest_name(typed, commands_by_name, MIN_SIMILARITY)
    hint = PEER_COMMANDS.get(typed) or (f"Did you mean /{near}?" if near else "/help lists the commands")
    raise UsageError(f"/{name}", "there is no such command", hint)
