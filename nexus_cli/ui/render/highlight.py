"""Highlight code in the sixteen colours of every terminal. Loads pygments; used only with colours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pygments.lexers import get_lexer_by_name
from pygments.token import _TokenType
from pygments.util import ClassNotFound
from rich.color import ColorSystem
from rich.style import Style
from rich.syntax import ANSI_DARK, ANSI_LIGHT, ANSISyntaxTheme

_BLANK: dict[tuple[str, ...], Style] = {("Text", "Whitespace"): Style()}
_ON_LIGHT: dict[tuple[str, ...], Style] = {
    ("Literal", "String"): Style(color="green"),
    ("Name", "Tag"): Style(color="blue"),
    ("Generic", "Deleted"): Style(color="red"),
    ("Generic", "Error"): Style(color="red"),
}
_CYAN = Style(color="cyan").color
_CYAN_IS_BLUE = {
    token: style + Style(color="blue") if style.color == _CYAN else style for token, style in ANSI_LIGHT.items()
}
_THEMES = {
    "dark": ANSISyntaxTheme({**ANSI_DARK, **_BLANK}),
    "light": ANSISyntaxTheme({**_CYAN_IS_BLUE, **_ON_LIGHT, **_BLANK}),
}
"""rich's own colours, without yellow, cyan and bright colours on a light background, and without coloured blanks."""
LONGEST = 4096
"""Longest line that is highlighted: longer ones are minified code, which is slow to lex."""
_NAMES = {
    "bzl": "python",
    "cc": "cpp",
    "cjs": "js",
    "cxx": "cpp",
    "dockerfile": "docker",
    "ex": "elixir",
    "exs": "elixir",
    "gemspec": "ruby",
    "h": "c",
    "hh": "cpp",
    "hpp": "cpp",
    "htm": "html",
    "hxx": "cpp",
    "ipynb": "json",
    "kt": "kotlin",
    "kts": "kotlin",
    "makefile": "make",
    "mjs": "js",
    "mk": "make",
    "pyi": "python",
    "pyw": "python",
    "svg": "xml",
    "tf": "hcl",
    "vue": "html",
    "yml": "yaml",
}
"""Names of languages by file suffix, if the suffix is not a name."""
_PARAMETERS = re.compile(r"\x1b\[([0-9;]+)m")


def code_parameters(lines: Sequence[str], language: str, theme_name: str) -> list[list[str]]:
    """Return the SGR parameters of each character of `lines`, "" for none; empty lists if no lexer fits. `language` is
    its name or the suffix of its files."""
    lexer = _lexer(language)
    if lexer is None or max(map(len, lines), default=0) > LONGEST:
        return [[] for _ in lines]
    rows: list[list[str]] = [[]]
    for token, value in lexer.get_tokens("\n".join(lines)):
        parameters = _token_parameters(token, theme_name)
        first, *later = value.split("\n")
        rows[-1] += [parameters] * len(first)
        rows += [[parameters] * len(part) for part in later]
    rows += [[] for _ in range(len(lines) - len(rows))]
    # If a lexer loses or adds a character, the colours are misplaced.
    return [codes if len(codes) == len(line) else [] for line, codes in zip(lines, rows, strict=False)]


@lru_cache(256)
def _lexer(name: str) -> Any:
    # By name, not by file name, which takes 70 ms for the first comparison with all patterns.
    try:
        return get_lexer_by_name(_NAMES.get(name, name), stripnl=False)
    except ClassNotFound:
        return None


@lru_cache(1024)
def _token_parameters(token: _TokenType, theme_name: str) -> str:
    style = _THEMES[theme_name].get_style_for_token(token)
    match = _PARAMETERS.match(style.render("x", color_system=ColorSystem.STANDARD))
    return match[1] if match else ""
