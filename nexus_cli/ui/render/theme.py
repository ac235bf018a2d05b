"""Colours and signs by what they mean. Which text means what is done by who paints it.

Only the sixteen colours of every terminal and its own foreground are used, so that its palette stays in charge; what a
colour says is always said by a sign or a word too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nexus_cli.reports.text.look import PLAIN, Look

RESET = "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Signs:
    """Signs of one cell each, but for `ok` without UTF-8."""

    person: str = "▌"
    """Before each line of the person's words."""
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
    """Lines that a diff passes over."""
    dot: str = "·"
    tab: str = "→"
    space: str = "·"
    """A blank at the end of a line."""
    levels: str = " ▁▂▃▄▅▆▇█"
    """A cell of a plot, from empty to full."""
    shades: str = "█▓▒░"
    """Cells of a bar of four parts."""
    below: str = "▔"
    """Marks a cell of the bar above it."""
    frames: str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    """The spinner, one character after the other."""


UNICODE = Signs()
ASCII = Signs(
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
"""Role to SGR parameters. Yellow, white, cyan and everything bright is hard to read on white."""
_ATTRIBUTES = frozenset({"1", "2", "4", "7"})
"""Bold, faint, underlined, reversed: what stays where colours are not wanted."""


@dataclass(frozen=True, slots=True)
class Theme:
    """The looks of each role."""

    name: str = "dark"
    """`dark` or `light`: the background that the colours are for."""
    colour: bool = True
    """Colours and attributes are wanted."""
    signs: Signs = field(default=UNICODE)
    links: bool = False
    """The terminal is known to take links (OSC 8)."""
    attributes: bool = False
    """Without colour: bold and the like are wanted (`NO_COLOR` in a terminal)."""

    def parameters(self, role: str) -> str:
        """Return the SGR parameters of `role`, "" where none are wanted."""
        code = (LIGHT if self.name == "light" else DARK).get(role, "")
        if self.colour or not code:
            return code
        return ";".join(part for part in code.split(";") if part in _ATTRIBUTES) if self.attributes else ""

    def paint(self, role: str, text: str) -> str:
        """Return `text` with the codes of `role` around each of its lines; as it is where none are wanted."""
        code = self.parameters(role)
        if not code:
            return text
        start = f"\x1b[{code}m"
        return "\n".join(
            start + line.replace(RESET, RESET + start) + RESET if line else line for line in text.split("\n")
        )

    def link(self, text: str, address: str) -> str:
        """Return `text`, one line, as a link to `address`, which is a URI; as it is where links are not wanted."""
        if not (self.links and text and address):
            return text
        return f"\x1b]8;;{address}\x1b\\{text}\x1b]8;;\x1b\\"

    @property
    def codes(self) -> bool:
        """True if control codes are wanted at all."""
        return self.colour or self.attributes

    @property
    def look(self) -> Look:
        """Colours and bars of reports."""
        return Look(self.paint, self.signs.levels, self.signs.shades, self.signs.below)

    @property
    def markdown_styles(self) -> Mapping[str, str]:
        """rich's names of what Markdown is made of, and how each looks on this background."""
        accent = "blue" if self.name == "light" else "cyan"
        return {
            "markdown.code": accent,
            "markdown.code_block": accent,
            "markdown.block_quote": "dim",
            "markdown.hr": "dim",
            "markdown.item.bullet": accent,
            "markdown.item.number": accent,
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


def choose_theme(setting: str, environ: Mapping[str, str], colour: bool, *, screen: bool = False) -> Theme:
    """Return the theme for `ui.theme` (`auto`, `dark` or `light`); `auto` asks `COLORFGBG` for the background, else
    dark. A dumb terminal gets bars of ASCII.

    On a `screen`, which takes control codes in any case, `NO_COLOR` leaves bold and the like; with colours there are
    links where the terminal is known to take them.
    """
    name = setting if setting in ("dark", "light") else _background(environ.get("COLORFGBG", ""))
    signs = UNICODE if _utf_8(environ) else ASCII
    if environ.get("TERM") == "dumb":
        signs = replace(signs, levels=ASCII.levels, shades=ASCII.shades, below=ASCII.below)
    return Theme(
        name, colour, signs, links=screen and colour and takes_links(environ), attributes=screen and not colour
    )


_LINKING = {
    "TERM_PROGRAM": {"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby", "rio"},
    "TERM": {"xterm-kitty", "xterm-ghostty", "wezterm", "alacritty", "foot", "foot-extra"},
}
"""Values by which a terminal names itself that takes links."""


def takes_links(environ: Mapping[str, str]) -> bool:
    """True if the terminal is known to take links (OSC 8); False in a multiplexer, which may drop or show them."""
    if environ.get("TMUX") or environ.get("STY") or environ.get("TERM", "").startswith(("screen", "tmux")):
        return False
    vte = environ.get("VTE_VERSION", "")
    named = any(environ.get(name) in values for name, values in _LINKING.items())
    others = any(environ.get(name) for name in ("KITTY_WINDOW_ID", "WT_SESSION", "KONSOLE_VERSION"))
    return named or others or (vte.isascii() and vte.isdigit() and int(vte) >= 5000)


def _background(value: str) -> str:
    """Return `0;15` and `0;default;15` name the background last: 7 and 15 are white, 9 to 14 are bright."""
    last = value.rpartition(";")[2]
    return "light" if last.isascii() and last.isdigit() and int(last) in (7, *range(9, 16)) else "dark"


def _utf_8(environ: Mapping[str, str]) -> bool:
    """True if the locale writes UTF-8; where none is named the terminals of today do."""
    named = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "UTF-8")
    return named.lower().replace("-", "").partition("@")[0].endswith("utf8")
