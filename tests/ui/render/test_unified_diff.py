"""Diffs for a person: numbers and signs are right, nothing is cut off in silence, nothing gets past the door."""

from __future__ import annotations

import difflib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nexus_cli.ui.cells import cells, without_codes
from nexus_cli.ui.render.theme import ASCII, Theme
from nexus_cli.ui.render.unified_diff import count_changes, diff_lines, diff_text, looks_like_diff, parse_diff

PLAIN = Theme(colour=False)
DIFF = """--- a/x.py
+++ b/x.py
@@ -9,4 +9,5 @@ def f
 def add(a, b):
-\treturn a - b\t
+\treturn a + b
+\tand
 y
@@ -109,2 +110,2 @@
 z
--- old
+++ new
\\ No newline at end of file
"""
CODES = re.compile(r"\x1b\[[0-9;]*m")


def test_lines_have_the_number_of_the_file_they_are_in() -> None:
    assert [(line.role, line.number) for line in parse_diff(DIFF)][3:8] == [
        ("", 9),
        ("removed", 10),
        ("added", 10),
        ("added", 11),
        ("", 12),
    ]
    assert diff_lines(DIFF, 60, PLAIN) == [
        "--- a/x.py",
        "+++ b/x.py",
        "@@ -9,4 +9,5 @@ def f",
        "  9   def add(a, b):",
        " 10 - →   return a - b→",
        " 10 + →   return a + b",
        " 11 + →   and",
        " 12   y",
        "@@ -109,2 +110,2 @@",
        "110   z",
        "110 - -- old",
        "111 + ++ new",
        "\\ No newline at end of file",
    ]
    assert count_changes(DIFF) == (3, 2)


def test_blanks_at_the_end_of_a_changed_line_are_seen_and_others_are_not() -> None:
    text = "@@ -1,2 +1,2 @@\n-a  \n+a\t\n b  \n"
    assert [line.rstrip() for line in diff_lines(text, 40, Theme(colour=False, signs=ASCII))][1:] == [
        "1 - a~~",
        "1 + a>",
        "2   b",
    ]


def test_a_long_line_is_folded_and_all_of_it_is_there() -> None:
    long = "x" * 95 + "漢" * 20
    lines = diff_lines(f"@@ -1 +1 @@\n+{long}\n", 30, PLAIN)
    assert all(cells(without_codes(line)) <= 30 for line in lines) and len(lines) > 4
    assert "".join(line[4:] for line in lines[1:]) == long


def test_what_is_left_out_is_counted() -> None:
    text = "@@ -0,0 +1,100 @@\n" + "".join(f"+{n}\n" for n in range(100))
    short = diff_lines(text, 40, PLAIN, most_lines=10)
    assert len(short) == 11 and short[-1] == "... 91 more lines" and short[1].endswith("+ 0")
    both = diff_text(text, 40, PLAIN, most_lines=10).split("\n")
    assert len(both) == 11 and both[-1].endswith("+ 99") and "... 91 more lines" in both
    assert diff_text(text, 40, PLAIN).count("\n") == 100
    assert diff_text(text, 40, PLAIN, most_lines=101) == diff_text(text, 40, PLAIN)


def test_one_endless_line_takes_no_more_than_the_limit() -> None:
    lines = diff_lines("@@ -1 +1 @@\n+" + "y" * 100_000 + "\n z\n", 40, PLAIN, most_lines=10)
    assert len(lines) <= 12 and lines[-1].startswith("... ")


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (DIFF, True),
        ("@@ -1 +1 @@\n-a\n+b", True),
        ("diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n", True),
        ("", False),
        ("rm -rf /", False),
        ("echo @@ -1 +1 @@", False),
        ("--- a heading\ntext", False),
        ("@@ -" + "9" * 5000 + " +1 @@", False),
    ],
)
def test_a_diff_is_told_from_a_command(text: str, is_one: bool) -> None:
    assert looks_like_diff(text) is is_one


lines_ = st.lists(st.text("ab \t漢", max_size=8), max_size=12)


@given(lines_, lines_, st.integers(20, 60))
@settings(max_examples=50)
def test_a_real_diff_has_its_signs_and_fits(old: list[str], new: list[str], width: int) -> None:
    text = "\n".join(difflib.unified_diff(old, new, "a", "b", lineterm=""))
    shown = diff_lines(text, width, Theme())
    assert all(cells(without_codes(line)) <= width for line in shown)
    expected = [line[0] for line in text.split("\n")[2:] if line[:1] in ("+", "-")]
    assert count_changes(text) == (expected.count("+"), expected.count("-"))


@given(st.text(), st.integers(4, 80), st.booleans())
@settings(max_examples=100)
def test_no_text_reaches_the_terminal_but_through_the_door(text: str, width: int, colour: bool) -> None:
    for made in (text, f"@@ -1,9 +1,9 @@\n+{text}\n-{text}"):
        shown = "\n".join(diff_lines(made, width, Theme(colour=colour), most_lines=20))
        bare = CODES.sub("", shown) if colour else shown
        assert not [char for char in bare if (ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0]
