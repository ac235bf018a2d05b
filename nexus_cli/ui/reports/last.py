"""The last exchange of a session, for a person who comes back to it."""

from __future__ import annotations

from nexus_cli.ui.reports.lines import Value, filled, folded, one_line, plural, shortened, when

WORDS, ANSWER = 6, 15
"""Lines that are shown of the person's words, and of the end of the answer."""
OPEN = {True: "outcome unknown, the process ended while it ran", False: "not run yet"}


def last_text(value: Value, width: int) -> str:
    """What was said last, what is still open, and how to go on."""
    lines = head(value, width)
    answer = str(value.get("assistant") or "").strip()
    if answer and value.get("entries"):
        lines += ["", *shortened(folded(answer, width), ANSWER, width, tail=True)]
    return "\n".join([*lines, *tail(value, width)])


def head(value: Value, width: int) -> list[str]:
    """The session and the person's words."""
    if not value.get("entries"):
        return filled("Nothing was said in this session yet.", width)
    title = f"session {value['session']}{' ' + str(value['name']) if value.get('name') else ''}"
    title += f", {plural(int(value['turns']), 'turn')}, last at {when(value['at'])} UTC"
    words = folded(str(value.get("user") or "").strip(), width, "> ") if value.get("user") else []
    return [*filled(title, width), "", *shortened(words, WORDS, width)]


def tail(value: Value, width: int) -> list[str]:
    """What is still open, and how to go on."""
    if not value.get("entries"):
        return []
    calls = value.get("open", [])
    lines = [""] if calls else []
    for call in calls:
        subject = one_line(call.get("subject"), 60)
        said = " ".join(filter(None, (str(call["name"]), subject)))
        lines += filled(f"{said}: {OPEN[bool(call.get('started'))]}", width, "  ", "! ")
    if not value.get("finished", True):
        lines += ["", *filled("The turn is not finished: /continue goes on.", width)]
    return lines
