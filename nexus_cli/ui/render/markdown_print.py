"""Print finished blocks of Markdown with rich, which is imported with this module: at the first block.

Text is sanitized again after entities are decoded; rich's markup is never interpreted. `markdown_elements` draws lists,
code and tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from io import StringIO

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from rich.console import Console, RenderableType
from rich.markdown import Markdown as RichMarkdown
from rich.text import Text
from rich.theme import Theme as RichTheme

from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.render.markdown_blocks import Block
from nexus_cli.ui.render.markdown_elements import ELEMENTS, ThemedTable, render_fence, widen_head
from nexus_cli.ui.render.theme import Theme

DEEPEST = 40
"""Deepest nesting that is rendered; a deeper block is shown as source."""
_PARSER = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST + 10})
"""Without HTML, images and link definitions, so that `Vec<String>` and addresses stay visible."""
_PARSER.enable(["strikethrough", "table"]).disable(["image", "reference"])
_PYTHON_NAME = re.compile(r"__[A-Za-z]\w*__")


def _keep_python_name(state: StateInline, silent: bool) -> bool:
    """Keep the underscores of names such as `pkg/__init__.py`, which CommonMark takes for strong emphasis."""
    match = _PYTHON_NAME.match(state.src, state.pos)
    if match is None:
        return False
    state.pending += "" if silent else match[0]
    state.pos = match.end()
    return True


_PARSER.inline.ruler.before("emphasis", "python_name", _keep_python_name)


@cache
def _rich_theme(name: str) -> RichTheme:
    """Return rich's styles of Markdown elements for a background."""
    return RichTheme(dict(Theme(name).markdown_styles))


class _Themed(RichMarkdown):
    elements = RichMarkdown.elements | ELEMENTS | {"table_open": ThemedTable}
    theme: Theme


def print_block(block: Block, width: int, theme: Theme) -> str:
    """Return the text of a block in at most `width` columns, ready for a terminal."""
    printed = StringIO()
    console = Console(
        file=printed,
        width=width,
        force_terminal=theme.codes,
        color_system="standard" if theme.codes else None,
        no_color=not theme.colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        theme=_rich_theme(theme.name),
        _environ={},
    )
    language = block.info if block.begins else block.info.partition(" ")[0]
    console.print(render_fence(block.text, language, theme) if block.fence else _prose(block, theme))
    return "\n".join(line.rstrip() for line in printed.getvalue().split("\n"))


def _prose(block: Block, theme: Theme) -> RenderableType:
    if block.torn:  # one paragraph, whatever its beginning looks like
        tokens = [Token("paragraph_open", "p", 1), *_PARSER.parseInline(block.text), Token("paragraph_close", "p", -1)]
    else:
        tokens = _PARSER.parse(widen_head(block.text))
    if max((token.level for token in tokens), default=0) >= DEEPEST:
        return Text(block.text, overflow="fold")
    _clean(tokens)
    prose = _Themed("", hyperlinks=False)
    prose.theme = theme
    prose.parsed = _dressed(tokens, theme)
    return prose


def _clean(tokens: Iterable[Token]) -> None:
    """Sanitize the text that the parser has decoded from entities."""
    for token in tokens:
        token.content = sanitize(token.content)
        token.info = sanitize(token.info)
        for name, value in token.attrs.items():
            if isinstance(value, str):
                token.attrs[name] = sanitize(value)
        if token.children:
            _clean(token.children)


def _dressed(tokens: list[Token], theme: Theme) -> list[Token]:
    """Return `tokens` with task boxes for bullets, addresses once, backquotes around code without colour."""
    for place, token in enumerate(tokens):
        if token.type != "inline" or not token.children:
            continue
        token.children = _links(token.children)
        for child in token.children:
            if child.type == "code_inline" and not theme.colour:
                child.content = f"`{child.content}`"
        item = tokens[place - 2] if place > 1 else token
        first = token.children[0]
        box = first.content[:4] if first.type == "text" and item.type == "list_item_open" else ""
        if box in ("[ ] ", "[x] ", "[X] "):
            item.meta["box"] = box.lower().rstrip() if box != "[ ] " else "[ ]"
            first.content = first.content[4:]
    return tokens


def _links(children: list[Token]) -> list[Token]:
    kept: list[Token] = []
    skip = 0
    for place, token in enumerate(children):
        if skip:
            skip -= 1
            continue
        after = children[place + 1 : place + 3]
        plain = token.type == "link_open" and [next_token.type for next_token in after] == ["text", "link_close"]
        if plain and str(token.attrs.get("href", "")).removeprefix("mailto:") == after[0].content:
            kept.append(after[0])
            skip = 2
        else:
            kept.append(token)
    return kept
