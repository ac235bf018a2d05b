"""Text of `/help`: every command, or one with its whole help; and the keys that it lists."""

from __future__ import annotations

from nexus_cli.core.json_value import JsonObject
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
        yield from _one(value["command"])
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


def _one(command: JsonObject) -> Blocks:
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
