"""Text of `/help`: every command, or one with its whole help; and the keys that it lists."""

from __future__ import annotations

from nexus_cli.core.json_value import JsonObject
from nexus_cli.reports.text.lines import Lines, apart, filled
from nexus_cli.text.cells import one_line

WIDEST = 36
"""Most columns of the names; what explains a longer one stands below it."""
KEYS = (
    ("Enter", "sends; during a turn: after its step; picks a menu entry"),
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


def help_text(value: JsonObject, width: int) -> Lines:
    """List every command with its summary, or show one with its whole help."""
    if value.get("command"):
        yield from _one(value["command"], width)
        return
    commands = [command for group in value["groups"] for command in group["commands"]]
    keys = [(one_line(names), explanation) for names, explanation in value.get("keys", ())]
    names = [*map(_call, commands), *(name for name, _ in keys)]
    size = min(WIDEST, max(map(len, names), default=0) + 4)
    for place, group in enumerate(value["groups"]):
        if group["name"]:
            yield from [*([""] if place else []), *filled(f"{group['name']}:", width)]
        for command in group["commands"]:
            yield from _columns(f"  {_call(command)}", command["summary"], size, width)
    if keys:
        yield from ["", "keys:"]
        for name, explanation in keys:
            yield from _columns(f"  {name}", explanation, size, width)
    if value.get("more"):
        yield ""
        for group in value["more"]:
            yield from filled(" ".join(group["names"]), width, " " * 10, f"{group['name']}:".ljust(10))
        foot = "/help NAME explains a command; /help all explains all commands and the keys."
        foot += " ? on an empty line lists the keys; " if value.get("has_keys", True) else " "
        yield from apart(f"{foot}nexus docs WORDS in a shell searches the docs.", width)


def _call(command: JsonObject) -> str:
    return f"/{command['name']} {command['usage']}".rstrip()


def _columns(name: str, text: str, size: int, width: int) -> Lines:
    """Return a name and its explanation side by side, or below each other if there is no room."""
    if size + 20 > width or len(name) + 2 > size:
        return [*filled(name.strip(), width, "    ", "  "), *filled(text, width, "      ")]
    return filled(text, width, " " * size, name.ljust(size))


def _one(command: JsonObject, width: int) -> Lines:
    yield from filled(_call(command), width, "    ", "")
    if command["aliases"]:
        yield from filled("also " + ", ".join(f"/{name}" for name in command["aliases"]), width)
    for paragraph in command["help"].split("\n\n"):
        yield from apart(paragraph, width)
    options = command.get("options", ())
    size = min(WIDEST, max((len(name) for name, _ in options), default=0) + 4)
    if options:
        yield ""
    for name, explanation in options:
        yield from _columns(f"  {name}", explanation, size, width)
    if command["idle"]:
        yield from apart("During a turn, the command waits until the turn ends.", width)
