"""HTML of text that models, tools and files wrote: escaped, sanitized, redacted; nothing in it runs or loads."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from nexus_cli.core.clock import format_local_minute
from nexus_cli.core.redact_secrets import make_redactor
from nexus_cli.text.terminal_sanitizer import sanitize

LONGEST_CODE = 20_000
"""Most characters of a block of code that is coloured: lexers take a second for a megabyte."""
DEEPEST = 50
"""Most levels of lists and quotes; what is deeper is left out by the parser."""
_WEB = re.compile(r"https?://", re.IGNORECASE)
_FORMATTER = HtmlFormatter(nowrap=True)
_DIFF = {"+": "gi", "-": "gd", "@": "gu"}


class Markup:
    """Converts text to HTML; `raw` keeps secrets."""

    def __init__(self, *, raw: bool) -> None:
        redact = make_redactor()
        self.clean: Callable[[str], str] = sanitize if raw else lambda text: sanitize(redact(text))
        """Returns a text without control characters, and without secrets unless `raw`."""
        self.text = lru_cache(maxsize=256)(lambda text: escapeHtml(self.clean(text)))
        """Returns plain text; many are the same (names of models and drops)."""
        self._markdown = _make_markdown(self.clean)

    def prose(self, text: str) -> str:
        """Return Markdown as HTML."""
        # Character references become characters only here: `&#x202e;` is a bidi control again.
        return str(self._markdown.render(self.clean(text), {"entities": "&" in text}))

    def pre(self, text: str) -> str:
        """Return text as a block that keeps its lines."""
        return f"<pre>{self.text(text.strip(chr(10)))}</pre>"

    def time(self, at: str, pattern: str) -> str:
        """Return a time of the ledger, which another program may have written."""
        return self.text(format_local_minute(at, pattern))

    def diff(self, text: str) -> str:
        """Return a unified diff with its changed lines marked."""
        lines = (_diff_line(line) for line in self.clean(text).strip("\n").split("\n"))
        return f'<pre class="diff">{chr(10).join(lines)}</pre>'


def _diff_line(line: str) -> str:
    kind = "" if line.startswith(("+++", "---")) else _DIFF.get(line[:1], "")
    return f'<span class="{kind}">{escapeHtml(line)}</span>' if kind else escapeHtml(line)


def _make_markdown(clean: Callable[[str], str]) -> MarkdownIt:
    def text(self: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
        content = tokens[place].content
        return escapeHtml(clean(content) if env["entities"] else content)

    markdown = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST}).enable(["table", "strikethrough"])
    markdown.validateLink = lambda url: bool(_WEB.match(url))  # type: ignore[method-assign]
    markdown.add_render_rule("text", text)
    markdown.add_render_rule("link_open", _link)
    markdown.add_render_rule("image", _image)
    markdown.add_render_rule("fence", _fence)
    markdown.add_render_rule("code_block", _fence)
    for name in ("heading_open", "heading_close"):
        markdown.add_render_rule(name, _heading)
    return markdown


def _link(self: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    return f'<a href="{escapeHtml(str(tokens[place].attrGet("href")))}" rel="noreferrer">'


def _image(self: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    """Return a link in place of an image, which would be loaded from the network."""
    name = escapeHtml(tokens[place].content or "image")
    return f'<a href="{escapeHtml(str(tokens[place].attrGet("src")))}" rel="noreferrer">{name}</a>'


def _heading(self: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    """Return a heading below those of the page."""
    level = min(6, int(tokens[place].tag[1:]) + 3)
    return f"<{'/' if tokens[place].nesting < 0 else ''}h{level}>"


def _fence(self: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    token = tokens[place]
    lexer = _find_lexer((token.info.split() or [""])[0][:40])
    plain = lexer is None or len(token.content) > LONGEST_CODE
    code = escapeHtml(token.content) if plain else highlight(token.content, lexer, _FORMATTER)
    return f"<pre><code>{code}</code></pre>\n"


@lru_cache(maxsize=64)
def _find_lexer(language: str) -> Any:
    try:
        return get_lexer_by_name(language)
    except ClassNotFound:
        return None
