"""Diffs for a person: numbers and signs are right, nothing is cut off in silence, nothing gets past the door."""

from __future__ import annotations

import difflib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search import sample

from nexus_cli.text.cells import cells, without_codes
from nexus_cli.text.diff_lines import count_lines, describe_changes, looks_like_diff, parse_diff
from nexus_cli.ui.render.theme import ASCII, Theme
from nexus_cli.ui.render.unified_diff import diff_lines, diff_text

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
    shown = [
        "  ⋮  def f",
        "  9   def add(a, b):",
        " 10 -     return a - b→",
        " 10 +     return a + b",
        " 11 +     and",
        " 12   y",
        "  ⋮",
        "110   z",
        "110 - -- old",
        "111 + ++ new",
        "\\ No newline at end of file",
    ]
    assert diff_lines(DIFF, 60, PLAIN) == shown
    assert diff_lines(DIFF, 60, PLAIN, names=True) == ["x.py  +3 -2", *shown]
    assert count_lines(parse_diff(DIFF)) == (3, 2)


def test_tabs_are_seen_where_other_lines_begin_with_blanks() -> None:
    text = "@@ -1,2 +1,2 @@\n-    a\n+\ta\n \tb\n"
    assert diff_lines(text, 40, PLAIN) == ["1 -     a", "1 + →   a", "2       b"]
    assert diff_lines(text.replace("    a", "\tb"), 40, PLAIN) == ["1 -     b", "1 +     a", "2       b"]


def test_what_a_file_gains_and_loses_is_said_in_few_signs() -> None:
    new, both = "--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    assert describe_changes(new) == "new, +2" and describe_changes(both) == "+1 -1"
    assert describe_changes(both.replace("+b\n", "")) == "-1" and describe_changes("") == "+0"


def test_several_files_are_named_and_what_only_programs_need_is_left_out() -> None:
    text = (
        "diff --git a/x.py b/x.py\nindex 1f..2e 100644\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@ class A:\n-a\n+b\n"
        "diff --git a/old.md b/new.md\nsimilarity index 90%\nrename from old.md\nrename to new.md\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n"
        "Binary files a/p.png and b/p.png differ\n"
    )
    assert diff_lines(text, 60, PLAIN) == [
        "x.py  +1 -1",
        "⋮  class A:",
        "1 - a",
        "1 + b",
        "rename from old.md",
        "rename to new.md",
        "",
        "gone  deleted, -1",
        "1 - z",
        "Binary files a/p.png and b/p.png differ",
    ]


def marked(old: str, new: str, *more: str) -> list[str]:
    body = "".join(f"-{line}\n" for line in old.split("\n")) + "".join(f"+{line}\n" for line in new.split("\n"))
    text = f"--- a/x.txt\n+++ b/x.txt\n@@ -1,{old.count(chr(10)) + 1} +1,{new.count(chr(10)) + 1} @@\n{body}"
    shown = "\n".join(diff_lines(text, 80, Theme(colour=False, attributes=True)))
    return re.findall(r"\x1b\[7m(.*?)\x1b\[0m", shown)


def test_an_empty_file_is_named_too() -> None:
    made = "diff --git a/a b/a\nnew file mode 100644\nindex 0000000..e69de29\n"
    gone = "diff --git a/b c b/b c\ndeleted file mode 100644\nindex e69de29..0000000\n"
    binary = "diff --git a/x b/x\nnew file mode 100644\nindex 0000000..1f2\nBinary files /dev/null and b/x differ\n"
    quoted = made.replace("a/a b/a", '"a/\\303\\251" "b/\\303\\251"')
    assert any("new, +0" in row and "303" in row for row in diff_lines(quoted + gone, 60, PLAIN))
    other = "diff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-1\n+2\n"
    rows = diff_lines(made + gone + binary + other, 60, PLAIN)
    assert [row for row in rows if row][:3] == [
        "a  new, +0",
        "b c  deleted, +0",
        "Binary files /dev/null and b/x differ",
    ]
    assert any(row.startswith("y  +1 -1") for row in rows)


def test_the_words_that_changed_are_marked_in_lines_that_else_stayed() -> None:
    assert marked("def total(names):", "def total(names, discount=0):") == [", discount=0"]
    assert marked("total = 4 + b", "total = 5 + b") == ["4", "5"]
    assert marked("    return a", "        return a") == [], "an indentation is seen without a mark"
    assert marked("something", "quite different words") == []
    assert marked("one(a)", "zero\none(b)\nlast") == ["a", "b"], "the line that is alike is found"
    assert marked("x " * 400, "y " * 400) == [] and marked("a\n" * 100, "a b\n" * 100) == []


@pytest.mark.matrix
def test_code_has_the_colours_of_its_language_but_for_removed_lines() -> None:
    text = '--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n import os\n-s = "old"\n+\tdef f(): return "new"\n \n'
    for name, keyword in (("dark", "94"), ("light", "34")):
        context, removed, added, _ = diff_lines(text, 80, Theme(name))
        assert f"\x1b[{keyword}mimport" in context or "mimport" in context
        assert set(re.findall(r"\x1b\[([0-9;]+)m", removed)) == {"0", "91" if name == "dark" else "31"}
        assert f"\x1b[{keyword}mdef\x1b[0m" in added and "\x1b[32m" in added
        assert without_codes(added) == '2 +     def f(): return "new"'
    for odd in ("x.unheard-of", "Makefile", "y.min.js"):
        long = "z" * 5000
        made = diff_lines(f"--- a/{odd}\n+++ b/{odd}\n@@ -1 +1 @@\n-a\n+{long}\n", 80, Theme())
        assert "".join(without_codes(line)[4:] for line in made[1:]) == long


@pytest.mark.parametrize(
    "name", sample(["a.py", "b.ts", "c.go", "d.rs", "e.h", "f.yml", "Makefile", "g.sh", "h.KT", "i.rb", "j.java"], 3)
)
def test_the_languages_of_every_day_are_known(name: str) -> None:
    text = f'--- a/{name}\n+++ b/{name}\n@@ -0,0 +1,2 @@\n+# "text" // 1\n+return "text"\n'
    roles = set(re.findall(r"\x1b\[([0-9;]+)m", "".join(diff_lines(text, 80, Theme()))))
    assert roles - {"0", "32"}, name


@pytest.mark.matrix
def test_the_work_for_a_large_diff_is_bounded() -> None:
    text = "--- /dev/null\n+++ b/x.py\n@@ -0,0 +1,3000 @@\n" + "+x = 1\n" * 3000
    lines = diff_lines(text, 80, Theme())
    assert "94m1" in lines[499] and "94m1" not in lines[500] and without_codes(lines[2999]) == "3000 + x = 1"


def test_blanks_at_the_end_of_a_changed_line_are_seen_and_others_are_not() -> None:
    text = "@@ -1,2 +1,2 @@\n-a  \n+a\t\n b  \n"
    assert [line.rstrip() for line in diff_lines(text, 40, Theme(colour=False, signs=ASCII))] == [
        "1 - a~~",
        "1 + a>",
        "2   b",
    ]


def test_a_long_line_is_folded_and_all_of_it_is_there() -> None:
    long = "x" * 95 + "漢" * 20
    lines = diff_lines(f"@@ -1 +1 @@\n+{long}\n", 30, PLAIN)
    assert all(cells(without_codes(line)) <= 30 for line in lines) and len(lines) > 4
    assert "".join(line[4:] for line in lines) == long


def test_a_long_line_that_is_cut_says_so() -> None:
    text = f"--- a/x.json\n+++ b/x.json\n@@ -1 +1 @@\n-{'old' * 400}\n+{'new' * 400}\n"
    shown = diff_lines(text, 40, PLAIN, most_lines=12, tail=4)
    assert len(shown) == 12 and shown[7] == shown[11] == "... more of this line"


def test_what_is_left_out_is_counted() -> None:
    text = "@@ -0,0 +1,100 @@\n" + "".join(f"+{n}\n" for n in range(100))
    short = diff_lines(text, 40, PLAIN, most_lines=10)
    assert len(short) == 11 and short[-1] == "... 90 more lines" and short[0].endswith("+ 0")
    both = diff_text(text, 40, PLAIN, most_lines=10).split("\n")
    assert len(both) == 11 and both[-1].endswith("+ 99") and "... 90 more lines" in both
    cut = f"{text}\\ 8 more lines of this diff omitted: +7 -1\n"
    assert diff_lines(cut, 40, PLAIN, most_lines=10)[-1] == "... 98 more lines"
    assert diff_text(text, 40, PLAIN).count("\n") == 99
    assert diff_text(text, 40, PLAIN, most_lines=100) == diff_text(text, 40, PLAIN)


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
def test_a_real_diff_has_its_signs_and_fits(old: list[str], new: list[str], width: int) -> None:
    text = "\n".join(difflib.unified_diff(old, new, "a", "b", lineterm=""))
    shown = diff_lines(text, width, Theme())
    assert all(cells(without_codes(line)) <= width for line in shown)
    expected = [line[0] for line in text.split("\n")[2:] if line[:1] in ("+", "-")]
    assert count_lines(parse_diff(text)) == (expected.count("+"), expected.count("-"))


@given(st.text(), st.integers(4, 80), st.booleans())
def test_no_text_reaches_the_terminal_but_through_the_door(text: str, width: int, colour: bool) -> None:
    for made in (text, f"@@ -1,9 +1,9 @@\n+{text}\n-{text}"):
        shown = "\n".join(diff_lines(made, width, Theme(colour=colour), most_lines=20))
        bare = CODES.sub("", shown) if colour else shown
        assert not [char for char in bare if (ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0]
