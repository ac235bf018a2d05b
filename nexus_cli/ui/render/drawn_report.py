"""Draw reports for the REPL: those with more than lines of text in their own way, else in their text form."""

from __future__ import annotations

from nexus_cli.reports.forms import draw_report
from nexus_cli.reports.text.lines import Value
from nexus_cli.ui.render.folder_diff import folder_diff_lines
from nexus_cli.ui.render.markdown import Markdown
from nexus_cli.ui.render.theme import Theme


def draw_in_theme(form: str, value: Value, width: int, theme: Theme) -> str:
    """Return a report as text that cannot harm a terminal, without a newline at its end."""
    if form == "diff":
        return "\n".join(folder_diff_lines(value, width, theme))
    if form != "reflection" or not value["text"].strip():
        return draw_report(form, value, width, theme.look)
    prose = Markdown(width, colour=theme.colour, theme=theme)
    said = prose.feed(value["text"]) + prose.flush()
    rest = draw_report(form, {**value, "text": None}, width, theme.look)
    return "\n".join([said.rstrip("\n"), *([rest] if rest else [])])
