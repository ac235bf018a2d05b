"""Streaming Markdown: finished blocks only, nothing lost, the same however it arrives, harmless to a terminal."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search import sample

from nexus_cli.text.cells import cells, without_codes
from nexus_cli.ui.render.markdown import Markdown
from nexus_cli.ui.render.markdown_blocks import LARGE_BLOCK, LONG_BLOCK, LONG_LINE, Blocks
from nexus_cli.ui.render.markdown_print import DEEPEST, column_widths
from nexus_cli.ui.render.theme import ASCII, Theme

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
    markdown = Markdown(lambda: width, Theme(colour=colour))
    return markdown.feed(text) + markdown.flush()


def test_every_kind_of_block_is_shown() -> None:
    shown = whole(SAMPLE)
    for part in (
        "Title",
        "Vec<String>",
        "<div>",
        "http://x.y",
        " • one",
        "1. nested",
        "more of it",
        "[red]y",
        "half open",
    ):
        assert part in shown
    assert '\ndef f(x):\n\n    return "[bold]x[/bold]"\n' in shown
    assert "```" not in shown and "**" not in shown


@pytest.mark.matrix
@pytest.mark.parametrize("colour", [False, True])
def test_split_at_every_character_it_is_the_same(colour: bool) -> None:
    markdown = Markdown(lambda: 60, Theme(colour=colour))
    pieces = [markdown.feed(char) for char in SAMPLE]
    assert "".join(pieces) + markdown.flush() == whole(SAMPLE, colour=colour)


@given(st.lists(LINES, max_size=12), st.data())
def test_any_cut_of_any_markdown_is_the_same(lines: list[str], data: st.DataObject) -> None:
    text = "\n".join(lines)
    cut = data.draw(st.integers(0, len(text)))
    markdown = Markdown(lambda: 40, Theme(colour=False))
    assert markdown.feed(text[:cut]) + markdown.feed(text[cut:]) + markdown.flush() == whole(text, 40)


@given(st.text(max_size=80), st.booleans())
def test_only_colours_of_our_own_reach_the_terminal(text: str, colour: bool) -> None:
    shown = CODES.sub("", whole(text, colour=colour)) if colour else whole(text)
    assert not [char for char in shown if (ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0]


def test_an_entity_is_no_way_around_the_door() -> None:
    shown = whole("a &#x202e; b &#8203; c")
    assert "<U+202E>" in shown and "<U+200B>" in shown and "\u202e" not in shown


@pytest.mark.matrix
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
    markdown = Markdown(lambda: 60, Theme(colour=False))
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


WIDE = """| name | what it is | n |
|:-----|:----------:|--:|
| alpha | a long cell that has to wrap when the table is wider than the terminal is | 12345 |
| b | supercalifragilisticexpialidocious_and_more_without_blanks | 1 |
| 漢字 | wide | 22 |
"""


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 120, 300])
def test_a_table_fits_and_loses_nothing_at_any_width(width: int) -> None:
    shown = whole(WIDE, width)
    assert all(cells(line) <= width for line in shown.split("\n"))
    wanted, letters = (Counter(char for char in text if char.isalnum()) for text in (WIDE, shown))
    assert not wanted - letters and (letters == wanted or "name: alpha" in shown)


def test_columns_are_aligned_as_the_table_says_and_thin_ones_become_lines() -> None:
    assert whole("| l | c | r |\n|:--|:-:|--:|\n| a | b | c |\n| long one | long two | long three |\n", 40) == (
        "l            c               r\n────────  ────────  ──────────\n"
        "a            b               c\nlong one  long two  long three\n"
    )
    many = whole("|" + "head|" * 12 + "\n|" + "-|" * 12 + "\n|" + "value|" * 12, 40)
    assert many == "head: value\n" * 12
    assert whole("|a|\n|-|\n", 20) == "a\n─\n"


def test_cells_beyond_the_head_of_a_table_are_shown() -> None:
    assert whole("| a | b |\n|---|---|\n| 1 | 2 | 3 | 4 |\n| 5 |\n").split() == [
        *("a", "b"),
        *("─", "─", "─", "─"),
        *("1", "2", "3", "4"),
        "5",
    ]


@pytest.mark.parametrize(
    ("wanted", "least", "room", "given"),
    [
        ([3, 4], [3, 4], 20, [3, 4]),
        ([3, 100], [3, 5], 20, [3, 17]),
        ([100, 100], [5, 5], 21, [10, 11]),
        ([100, 100], [5, 14], 23, [7, 16]),
        ([2, 2, 2], [2, 2, 2], 4, None),
        ([100, 100, 100], [5, 5, 5], 12, None),
        ([], [], 10, []),
        ([0, 5], [1, 5], 6, [1, 5]),
    ],
)
def test_what_columns_share(wanted: list[int], least: list[int], room: int, given: list[int] | None) -> None:
    assert column_widths(wanted, least, room) == given


@pytest.mark.parametrize("width", [40, 60])
def test_no_word_of_a_table_is_broken(width: int) -> None:
    words = ["change", "reason", "configuration", "specification", "demands"]
    row = "| nexus_cli/engine/request.py | configuration replaced | because the specification demands it |"
    table = f"| file | change | reason |\n|---|---|---|\n{row}\n"
    assert set(words) <= set(re.findall(r"[\w.]+", whole(table, width)))


@pytest.mark.matrix
def test_a_very_long_table_repeats_its_head_in_each_part() -> None:
    shown = whole("| head | b |\n|--|--|\n" + "| x | y |\n" * (2 * LONG_BLOCK), 40)
    assert shown.count("x") == 2 * LONG_BLOCK and shown.count("head") == 3 and "|" not in shown


@pytest.mark.parametrize("width", sample([20, 40, 80], 3))
def test_lists_nest_number_and_tick_at_any_width(width: int) -> None:
    text = "- a\n  1. one\n  2. two\n     - deep\n- [ ] open\n- [x] done\n\n9. nine\n10. ten\n"
    assert whole(text, width).rstrip("\n").split("\n") == [
        " • a",
        "   1. one",
        "   2. two",
        "       • deep",
        " [ ] open",
        " [x] done",
        "",
        " 9. nine",
        "10. ten",
    ]
    deep = "".join("   " * level + f"- level{level}\n" for level in range(15))
    assert [f"level{level}" in whole(deep, width).replace("\n", "").replace(" ", "") for level in range(15)] == [
        True
    ] * 15


@pytest.mark.matrix
def test_what_is_nested_too_deep_is_shown_as_it_was_written() -> None:
    for text in ("> " * 3 * DEEPEST + "end", "".join("  " * n + "- x\n" for n in range(300)), "[" * 3000 + "x"):
        shown = whole(text, 80)
        assert shown.count("x") == text.count("x") and ("end" in shown) == ("end" in text)
    for text in ("*" * 3000 + "x" + "*" * 3000, "*a " * 500 + "x" + " a*" * 500):
        assert whole(text, 80).replace("\n", "").count("*") == text.count("*"), "emphasis in emphasis"


@pytest.mark.parametrize("colour", [True, False])
def test_an_address_is_left_out_only_behind_the_same_plain_text(colour: bool) -> None:
    for link, shown in (("[a.py](a.py)", "a.py"), ("[**a.py**](a.py)", "a.py (a.py)")):
        assert without_codes(whole(link, colour=colour)) == f"{shown}\n"
    assert without_codes(whole("[`a.py`](a.py)", colour=colour)).replace("`", "") == "a.py (a.py)\n"


def test_a_heading_in_a_list_may_be_a_task() -> None:
    assert whole("- [x] ## done\n- [ ] open\n  ---\n") == " [x] ## done\n [ ] ## open\n"


def test_a_fence_in_a_list_is_code_and_a_list_after_it_goes_on() -> None:
    shown = whole("1. do\n   ```sh\n   # no heading\n\n   ls\n   ```\n2. then\n```\n- code\n```\n3. last\n", 60)
    assert shown == "1. do\n   # no heading\n\n   ls\n2. then\n\n- code\n\n3. last\n"


def test_a_list_may_follow_a_paragraph_at_once_and_what_a_fence_is_called_is_told() -> None:
    assert whole("Text:\n- a\n- b\n\nmore\n---\n") == "Text:\n\n • a\n • b\n\n## more\n"
    assert whole("```python title=x.py\n1\n```\n```src/a.py\n2\n```\n```c++\n3\n```\n") == (
        "python title=x.py\n1\n\nsrc/a.py\n2\n\n3\n"
    )


def test_definitions_of_links_images_and_html_stay_and_an_address_stands_once() -> None:
    shown = whole("[1]: http://x.y\n\n[a][1] ![alt](i.png) <b>x</b> <http://z.a> [b](http://c)", 100)
    assert shown == "[1]: http://x.y\n\n[a][1] !alt (i.png) <b>x</b> http://z.a b (http://c)\n"


def test_code_is_folded_without_losing_a_blank() -> None:
    line = "x = 1;   " * 12 + "end"
    for colour in (False, True):
        shown = CODES.sub("", whole(f"```python\n{line}\n```", 40, colour=colour))
        assert "".join(part.ljust(40) for part in shown.split("\n")).rstrip() == line.rstrip()


def test_a_width_that_is_asked_for_counts_for_the_next_block() -> None:
    widths = iter([80, 20])
    markdown = Markdown(lambda: next(widths), Theme(colour=False))
    text = "word " * 14
    assert markdown.feed(f"{text}\n\n{text}\n\n").split("\n")[0:3] == [text.rstrip(), "", "word word word word"]


def test_the_open_block_can_be_looked_at() -> None:
    markdown = Markdown(lambda: 40, Theme(colour=False))
    assert not markdown.is_open
    markdown.feed("done\n\nabc")
    assert markdown.is_open and not markdown.in_fence and markdown.tail() == "abc"
    markdown.feed("\n```py\none\ntwo\nth")
    assert markdown.in_fence and markdown.tail() == "one\ntwo\nth" and len(markdown.tail(4)) < 10


def test_signs_and_code_follow_the_theme() -> None:
    text = "- a\n> b\n\n---\n`c`"
    ascii_ = Markdown(lambda: 20, Theme(colour=False, signs=ASCII))
    assert (ascii_.feed(text) + ascii_.flush()).isascii()
    light = Markdown(lambda: 20, Theme("light"))
    assert "\x1b[34mc\x1b[0m" in light.feed(text) + light.flush()


def test_a_torn_line_begins_no_block_in_the_middle() -> None:
    words = "# - 1. > " * (3 * LONG_LINE // 9)
    shown = whole("a " + words + "\n\nend", 80)
    assert shown.replace("\n", " ").split() == ["a", *words.split(), "end"] and "•" not in shown


@pytest.mark.matrix
@pytest.mark.parametrize(
    "text",
    ["word " * 50_000, "x" * 250_000, "- item\n" * 30_000, "```\n" + "code\n" * 40_000, "[" * 200_000, "a\n" * 90_000],
)
def test_a_block_is_never_larger_than_a_fixed_bound(text: str) -> None:
    blocks = Blocks()
    sizes = [
        len(block.text) for start in range(0, len(text), 1000) for block in blocks.feed(text[start : start + 1000])
    ]
    sizes += [len(block.text) for block in blocks.flush()]
    assert max(sizes) <= 2 * LARGE_BLOCK + LONG_LINE and len(sizes) >= len(text) // (2 * LARGE_BLOCK + LONG_LINE)


PROSE = st.lists(
    st.sampled_from(["word", "**bold words**", "`a | b`", "*some*", "[link](http://x.y)", "a_b", "2 * 3", "\n\n"]),
    max_size=40,
).map(" ".join)


@given(PROSE, st.integers(10, 60), st.integers(1, 20))
def test_what_is_given_out_by_lines_has_every_word_and_every_row_fits(text: str, width: int, step: int) -> None:
    made = Markdown(lambda: width, Theme(colour=False), eager=True)
    shown = "".join(made.feed(text[at : at + step]) for at in range(0, len(text), step)) + made.flush()
    bare = re.compile(r"[\s*`|]+")
    assert bare.sub("", shown) == bare.sub("", whole(text, width))
    assert all(cells(line) <= width for line in shown.split("\n"))


def test_lines_that_come_one_by_one_keep_tables_lists_and_code() -> None:
    made = Markdown(lambda: 40, Theme(colour=False), eager=True)
    assert made.feed(SAMPLE.split("After")[0]) + made.flush() == whole(SAMPLE.split("After")[0], 40)
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert made.feed(table) == "" and made.flush().split() == whole(table, 40).split()
    assert made.feed("```\ndef f():\n") == "def f():\n" and made.feed("    return 1\n") == "    return 1\n"


def test_prose_is_no_wider_than_a_line_that_is_read_well_and_code_and_tables_may_be() -> None:
    words, row = "word " * 60, "| " + "cell " * 12 + "| " + "b " * 40 + "|"
    text = f"# {words}\n\n{words}\n\n- {words}\n  - {words}\n\n> {words}\n\n---\n\n```\n{'x' * 150}\n```\n\n"
    for eager in (False, True):
        made = Markdown(lambda: 160, Theme(colour=False), eager=eager)
        lines = (made.feed(text + f"{row}\n|--|--|\n{row}\n") + made.flush()).split("\n")
        prose = [line for line in lines if "word" in line or set(line) == {"─"}]
        assert 100 < max(map(len, prose)) <= 110 and "".join(prose).count("word") == 5 * 60
        assert "x" * 150 in lines and max(len(line) for line in lines if "cell" in line) > 110
    narrow = Markdown(lambda: 60, Theme(colour=False)).feed(words + "\n\n")
    assert max(map(len, narrow.split("\n"))) <= 60


def test_an_address_is_a_link_where_the_terminal_takes_links_also_where_it_is_broken() -> None:
    address = "https://example.org/a/b?c=d&e=(f)#" + "long" * 20
    text = f"See [the page]({address}), <{address}>.\n\n| a |\n|--|\n| (see http://x.y/z.) |\n"
    made = Markdown(lambda: 60, Theme(links=True))
    shown = made.feed(text) + made.flush()
    opened = re.findall(r"\x1b\]8;[^;]*;([^\x1b]*)\x1b\\", shown)
    assert set(opened) == {address, "http://x.y/z", ""} and opened.count(address) >= 4
    plain = Markdown(lambda: 60, Theme(colour=False))
    assert without_codes(shown) == plain.feed(text) + plain.flush()
    assert all(line.count("\x1b]8;") % 2 == 0 for line in shown.split("\n")), "closed on each line"
    without = Markdown(lambda: 60, Theme())
    assert "\x1b]8" not in without.feed(text) + without.flush()


def test_names_of_python_keep_their_underscores() -> None:
    one = Markdown(lambda: 80, Theme(colour=False))
    assert one.feed("pkg/__init__.py, obj.__dict__ and __main__, __in bold__\n\n").strip() == (
        "pkg/__init__.py, obj.__dict__ and __main__, in bold"
    )
