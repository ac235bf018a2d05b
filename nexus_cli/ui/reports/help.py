"""`/help`: the commands by group, or one of them."""

from __future__ import annotations

from nexus_cli.ui.reports.lines import Value, filled


def help_text(value: Value, width: int) -> str:
    """Return every command with its line, or one with all of its help."""
    if value.get("command"):
        return _one(value["command"], width)
    lines: list[str] = []
    commands = [command for group in value["groups"] for command in group["commands"]]
    size = max((len(_call(command)) for command in commands), default=0) + 4
    for group in value["groups"]:
        lines += [*([""] if lines else []), *filled(f"{group['name']}:", width)]
        for command in group["commands"]:
            lines += _line(f"  {_call(command)}", command["summary"], size, width)
    if value.get("keys"):
        lines += ["", "keys:"]
        for keys, what in value["keys"]:
            lines += _line(f"  {keys}", what, size, width)
    return "\n".join(lines)


def _call(command: Value) -> str:
    return f"/{command['name']} {command['usage']}".rstrip()


def _line(left: str, text: str, size: int, width: int) -> list[str]:
    """Return a name and its explanation side by side; one below the other where there is no room."""
    if size + 20 > width or len(left) + 2 > size:
        return [*filled(left.strip(), width, "    ", "  "), *filled(text, width, "      ")]
    return filled(text, width, " " * size, left.ljust(size))


def _one(command: Value, width: int) -> str:
    lines = filled(_call(command), width, "    ", "")
    if command.get("aliases"):
        lines += filled("also " + ", ".join(f"/{name}" for name in command["aliases"]), width)
    lines.append("")
    for paragraph in str(command["help"]).split("\n\n"):
        lines += [*filled(paragraph, width), ""]
    if command.get("idle"):
        lines += filled("During a turn it waits, and runs when that has ended.", width)
    return "\n".join(lines).rstrip("\n")
