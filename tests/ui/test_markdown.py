"""Streaming Markdown: finished blocks only, nothing lost, the same however it arrives, harmless to a terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nexus_cli.ui.blocks import LONG_BLOCK, LONG_LINE, Blocks
from nexus_cli.ui.markdown import Markdown

CODES = re.compile(r"\x1b\[[0-9;]*m")
SAMPLE = """# Title

Some *text* with `code`, Vec<String> and <div> & [link](http://x.y).
- one
- two
  1. nested

     more of it

- three

After
```python
def f(x):

    return "[bold]x[/bold]"
```
| a | b |
|---|---|
| 1 | [red]y |

> quoted

~~~
half open"""
LINES = st.sampled_from(
    [
        "",
        "text",
        "# head",
        "- item",
        "  more",
        "1. first",
        "```py",
        "```",
        "~~~",
        "> q",
        "| a | b |",
        "|---|---|",
        "    x",
        "---",
        "**b",
        "\x1b[2J",
    ]
)


def whole(text: str, width: int = 60, *, colour: bool = False) -> str:
    markdown = Markdown(width, colour=colour)
    return markdown.feed(text) + markdown.flush()


def test_every_kind_of_block_is_shown() -> None:
    shown = whole(SAMPLE)
    for part in (
        "Title",
        "Vec<String>",
        "<div>",
        "http://x.y",
        " • one",
        "1 nested",
        "more of it",
        "[red]y",
        "half open",
    ):
        assert part in shown
    assert '    def f(x):\n\n        return "[bold]x[/bold]"\n' in shown
    assert "```" not in shown and "**" not in shown


@pytest.mark.parametrize("colour", [False, True])
def test_split_at_every_character_it_is_the_same(colour: bool) -> None:
    markdown = Markdown(60, colour=colour)
    pieces = [markdown.feed(char) for char in SAMPLE]
    assert "".join(pieces) + markdown.flush() == whole(SAMPLE, colour=colour)


@settings(max_examples=60)
@given(st.lists(LINES, max_size=12), st.data())
def test_any_cut_of_any_markdown_is_the_same(lines: list[str], data: st.DataObject) -> None:
    text = "\n".join(lines)
    cut = data.draw(st.integers(0, len(text)))
    markdown = Markdown(40, colour=False)
    assert markdown.feed(text[:cut]) + markdown.feed(text[cut:]) + markdown.flush() == whole(text, 40)


@given(st.text(max_size=80), st.booleans())
@settings(max_examples=60)
def test_only_colours_of_our_own_reach_the_terminal(text: str, colour: bool) -> None:
    shown = CODES.sub("", whole(text, colour=colour)) if colour else whole(text)
    assert not [char for char in shown if (ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0]


def test_an_entity_is_no_way_around_the_door() -> None:
    shown = whole("a &#x202e; b &#8203; c")
    assert "<U+202E>" in shown and "<U+200B>" in shown and "\u202e" not in shown


@given(st.lists(st.text(st.characters(categories=["Ll"]), min_size=1, max_size=8), min_size=1, max_size=30))
@settings(max_examples=40)
def test_no_word_of_a_text_is_lost(words: list[str]) -> None:
    assert whole(" ".join(words), 30).split() == words


@given(st.lists(LINES, max_size=20))
def test_blocks_hold_every_line_but_fences_and_blanks(lines: list[str]) -> None:
    blocks = Blocks()
    given_out = [*blocks.feed("\n".join(lines)), *blocks.flush()]
    kept = [line for block in given_out for line in block.text.split("\n") if line.strip()]
    rest = iter(lines)
    assert all(line in rest for line in kept)
    assert len(kept) >= sum(1 for line in lines if line.strip() and not line.startswith(("```", "~~~")))


def test_a_block_is_shown_as_soon_as_it_is_finished_and_not_before() -> None:
    markdown = Markdown(60, colour=False)
    assert markdown.feed("one\ntwo") == ""
    assert markdown.feed("\n\nthr") == "one two\n"
    assert markdown.feed("ee") == ""
    assert markdown.flush() == "\nthree\n"


def test_a_line_without_an_end_and_a_fence_without_an_end_are_given_out_in_parts() -> None:
    blocks = Blocks()
    parts = list(blocks.feed("x" * (10 * LONG_LINE + 5)))
    assert len(parts) == 10 and sum(len(part.text) for part in parts) == 10 * LONG_LINE
    assert "".join(part.text for part in blocks.flush()) == "xxxxx"
    fence = list(blocks.feed("```\n" + "code\n" * (2 * LONG_BLOCK)))
    assert [part.begins for part in fence] == [True, False] and all(part.fence for part in fence)
    assert list(blocks.flush()) == []


def test_without_colour_there_is_no_control_code() -> None:
    assert "\x1b" not in whole(SAMPLE) and "\x1b" in whole(SAMPLE, colour=True)


@pytest.mark.parametrize("width", [10, 20, 80])
def test_lines_stay_in_the_width(width: int) -> None:
    assert max(map(len, whole("word " * 100, width).splitlines())) <= width
