"""Colours and glyphs by their meaning. The caller assigns the meanings to text.

Only the sixteen standard colours and the terminal's foreground are used, so that its palette applies. A glyph or a word
always has the same meaning as the colour.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from nexus_cli.reports.text.style import PLAIN, ReportStyle
from nexus_cli.text.cells import cut

RESET = "\x1b[0m"
BAR = 20
"""Cells of a progress bar."""


@dataclass(frozen=True, slots=True)
class Glyphs:
    """Glyphs of one cell each, except `ok` without UTF-8."""

    person: str = "▌"
    """Before each line of the person's message."""
    running: str = "●"
    waiting: str = "○"
    ok: str = "✓"
    error: str = "✗"
    warn: str = "!"
    added: str = "+"
    removed: str = "-"
    bullet: str = "•"
    quote: str = "│"
    rule: str = "─"
    cut: str = "…"
    skip: str = "⋮"
    """Lines that a diff skips."""
    dot: str = "·"
    tab: str = "→"
    space: str = "·"
    """A blank at the end of a line."""
    levels: str = " ▁▂▃▄▅▆▇█"
    """A cell of a plot, from empty to full."""
    shades: str = "█▓▒░"
    """The cells of a bar with four parts."""
    below: str = "▔"
    """Marks a cell of the bar above."""
    frames: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    """The frames of the spinner."""


UNICODE = Glyphs()
ASCII = Glyphs(
    person=">",
    running="*",
    waiting="-",
    ok="ok",
    error="x",
    bullet="*",
    quote="|",
    rule="-",
    cut="~",
    skip=":",
    dot="|",
    tab=">",
    space="~",
    levels=PLAIN.levels,
    shades=PLAIN.shades,
    below=PLAIN.below,
    frames="|/-\\",
)

DARK: Mapping[str, str] = {
    "person": "1;36",
    "dim": "2",
    "error": "91",
    "ok": "32",
    "warn": "33",
    "added": "32",
    "removed": "91",
    "added word": "7;32",
    "removed word": "7;91",
    "hunk": "36",
    "tool": "1",
    "accent": "36",
    "bold": "1",
    "system": "36",
    "tools": "35",
    "history": "32",
}
LIGHT: Mapping[str, str] = {
    **DARK,
    "person": "1;34",
    "error": "31",
    "warn": "35",
    "removed": "31",
    "removed word": "7;31",
    "hunk": "34",
    "accent": "34",
    "system": "34",
}
"""SGR parameters by role. Yellow, white, cyan and all bright colours are hard to read on white."""
_ATTRIBUTES = frozenset({"1", "2", "4", "7"})
"""Bold, faint, underlined, reversed: attributes that remain without colours."""


@dataclass(slots=True)
class Theme:
    """The style of each role. One is shared by all that draws; its name may change while they do."""

    name: str = "dark"
    """`dark` or `light`: the background that the colours are for."""
    colour: bool = True
    """True if colours and attributes are wanted."""
    signs: Glyphs = field(default=UNICODE)
    links: bool = False
    """True if the terminal is known to support links (OSC 8)."""
    attributes: bool = False
    """True if attributes such as bold are wanted without colours (`NO_COLOR` in a terminal)."""

    def parameters(self, role: str) -> str:
        """Return the SGR parameters of `role`, "" if none are wanted."""
        code = (LIGHT if self.name == "light" else DARK).get(role, "")
        if self.colour or not code:
            return code
        return ";".join(part for part in code.split(";") if part in _ATTRIBUTES) if self.attributes else ""

    def paint(self, role: str, text: str) -> str:
        """Return `text` with the codes of `role` around each of its lines; unchanged if none are wanted."""
        code = self.parameters(role)
        if not code:
            return text
        start = f"\x1b[{code}m"
        return "\n".join(
            start + line.replace(RESET, RESET + start) + RESET if line else line for line in text.split("\n")
        )

    def cut(self, text: str, width: int) -> str:
        """Return as much of `text` as fits `width` cells, with a glyph at the end if something is missing."""
        return cut(text, width, self.signs.cut)

    @property
    def dot(self) -> str:
        """Return the separator of facts on one line."""
        return f" {self.signs.dot} "

    def join(self, facts: Iterable[tuple[str, str]]) -> str:
        """Return facts, each a text and its role, on one line."""
        return self.paint("dim", self.dot).join(self.paint(role, text) for text, role in facts)

    def link(self, text: str, address: str) -> str:
        """Return `text`, one line, as a link to the URI `address`; unchanged if links are not wanted."""
        if not (self.links and text and address):
            return text
        return f"\x1b]8;;{address}\x1b\\{text}\x1b]8;;\x1b\\"

    def bar(self, share: float) -> str:
        """Return a bar for the share of work that is done, from 0 to 1."""
        full = round(share * BAR)
        return f"{self.signs.shades[0] * full}{self.signs.shades[-1] * (BAR - full)} {share:.0%}"

    @property
    def codes(self) -> bool:
        """True if any control codes are wanted."""
        return self.colour or self.attributes

    @property
    def look(self) -> ReportStyle:
        """The colours and bars of reports."""
        return ReportStyle(self.paint, self.signs.levels, self.signs.shades, self.signs.below)

    @property
    def markdown_styles(self) -> Mapping[str, str]:
        """Styles by rich's names of Markdown elements, for this background."""
        accent = "blue" if self.name == "light" else "cyan"
        return {
            "markdown.code": accent,
            "markdown.block_quote": "dim",
            "markdown.hr": "dim",
            "markdown.item.bullet": accent,
            "markdown.link": "underline",
            "markdown.link_url": accent,
            "markdown.table.border": "dim",
            "markdown.table.header": "bold",
            "markdown.h1": "bold underline",
            "markdown.h2": "bold",
            "markdown.h3": f"bold {accent}",
            "markdown.h4": accent,
            "markdown.h5": "italic",
            "markdown.h6": "italic dim",
        }


def paint_runs(text: str, parameters: Sequence[str]) -> str:
    """Return `text` with the SGR codes of the `parameters` of its characters, unchanged for those that have none."""
    painted, offset = "", 0
    for code, run in groupby(parameters):
        size = len(list(run))
        part = text[offset : offset + size]
        painted += f"\x1b[{code}m{part}\x1b[0m" if code else part
        offset += size
    return painted + text[offset:]


def choose_theme(setting: str, colour: bool, *, screen: bool = False) -> Theme:
    """Return the theme for `ui.theme` (`auto`, `dark` or `light`); `auto` reads the background from `COLORFGBG`, by
    default dark. A dumb terminal gets ASCII bars.

    On a `screen`, which always takes control codes, `NO_COLOR` keeps attributes such as bold. With colours, links are
    on if the terminal is known to support them.
    """
    name = setting if setting in ("dark", "light") else _background(os.environ.get("COLORFGBG", ""))
    signs = UNICODE if _utf_8() else ASCII
    if os.environ.get("TERM") == "dumb":
        signs = replace(signs, levels=ASCII.levels, shades=ASCII.shades, below=ASCII.below)
    return Theme(name, colour, signs, links=screen and colour and takes_links(), attributes=screen and not colour)


_LINKING = {
    "TERM_PROGRAM": {"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby", "rio"},
    "TERM": {"xterm-kitty", "xterm-ghostty", "wezterm", "alacritty", "foot", "foot-extra"},
}
"""Names of terminals that support links."""


def takes_links() -> bool:
    """True if the terminal is known to support links (OSC 8). False in a multiplexer, which may drop or print them."""
    environ = os.environ
    if environ.get("TMUX") or environ.get("STY") or environ.get("TERM", "").startswith(("screen", "tmux")):
        return False
    vte = environ.get("VTE_VERSION", "")
    is_known_terminal = any(environ.get(name) in values for name, values in _LINKING.items())
    is_known_variable = any(environ.get(name) for name in ("KITTY_WINDOW_ID", "WT_SESSION", "KONSOLE_VERSION"))
    return is_known_terminal or is_known_variable or (vte.isascii() and vte.isdigit() and int(vte) >= 5000)


def _background(value: str) -> str:
    """Return `light` or `dark`. Of `0;15` or `0;default;15` the last counts: 7 and 15 white, 9 to 14 bright."""
    last = value.rpartition(";")[2]
    return "light" if last.isascii() and last.isdigit() and int(last) in (7, *range(9, 16)) else "dark"


def _utf_8() -> bool:
    """True if the locale writes UTF-8; without a locale, modern terminals do."""
    locale_name = next((os.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "UTF-8")
    return locale_name.lower().replace("-", "").partition("@")[0].endswith("utf8")
