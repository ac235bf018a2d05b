"""The last exchange of a session with its answer rendered as it was when it came; the rest is its text form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexus_cli.ui.render.markdown import Markdown
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.reports.last import ANSWER, head, tail
from nexus_cli.ui.reports.lines import shortened
from nexus_cli.ui.terminal_sanitizer import sanitize


def last_exchange(value: Mapping[str, Any], width: int, theme: Theme) -> str:
    """Ready for a terminal: the codes in it are the theme's."""
    lines = sanitize("\n".join(head(value, width))).split("\n")
    answer = str(value.get("assistant") or "").strip()
    if answer and value.get("entries"):
        made = Markdown(width, colour=theme.colour, theme=theme)
        rendered = (made.feed(answer) + made.flush()).strip("\n").split("\n")
        lines += ["", *shortened(rendered, ANSWER, width, tail=True)]
    return "\n".join([*lines, *sanitize("\n".join(tail(value, width))).split("\n")]).rstrip("\n")
