"""Draw reports for the REPL: those with more than lines of text in their own way, else in their text form."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nexus_cli.commands import use_slash_names
from nexus_cli.commands.diff import diff_text
from nexus_cli.commands.forms import find_form
from nexus_cli.core.json_value import JsonObject
from nexus_cli.reports.text.blocks import lay_out
from nexus_cli.reports.text.command_names import FRONT_END_COMMANDS
from nexus_cli.ui.render.markdown import Markdown
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.render.unified_diff import diff_lines

LINES = 1000
"""Most lines of a diff that are shown."""
_ENDS = re.compile(r"(?m)^[-+ ].*?(\r?)$")


def draw_in_theme(form: str, value: JsonObject, width: int, theme: Theme) -> str:
    """Return a report as text that cannot harm a terminal, without a newline at its end."""
    if form == "diff":
        return "\n".join(folder_diff_lines(value, width, theme))
    door = FRONT_END_COMMANDS.set(use_slash_names)
    try:
        return _draw(form, value, width, theme)
    finally:
        FRONT_END_COMMANDS.reset(door)


def _draw(form: str, value: JsonObject, width: int, theme: Theme) -> str:
    if form != "reflection" or not value["text"].strip():
        return find_form(form)(value, width, theme.look)
    prose = Markdown(lambda: width, theme)
    body = prose.feed(value["text"]) + prose.flush()
    figures = find_form(form)({**value, "text": None}, width)
    return "\n".join([body.rstrip("\n"), *([figures] if figures else [])])


def folder_diff_lines(value: JsonObject, width: int, theme: Theme) -> Iterator[str]:
    """Draw `/diff`: the diff in its own way, the rest in its text form."""
    if text := str(value.get("text") or "").rstrip("\n"):
        is_cut, value = bool(value.get("cut")), {**value, "text": None}
        yield from diff_lines(mark_line_ends(text + "\n"), width, theme, most_lines=LINES, names=True, is_cut=is_cut)
    yield from lay_out(diff_text(value), width)


def mark_line_ends(text: str) -> str:
    """Mark the `\\r` at the end of each line as `^M` in hunks in which only some lines have one."""
    return "".join(
        re.sub(r"\r(?=\n|\Z)", "^M", hunk) if len(set(_ENDS.findall(hunk))) > 1 else hunk
        for hunk in re.split(r"(?m)^(?=@@ )", text)
    )
