"""`/diff`: new files too, line ends that change, and nothing left out without a count."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.text.cells import cells, without_codes
from nexus_cli.ui.render.drawn_report import folder_diff_lines
from nexus_cli.ui.render.theme import Theme

PLAIN = Theme(colour=False)


def by_git(text: str, **more: Any) -> dict[str, Any]:
    return {"source": "git", "text": text, "untracked": [], "unread": [], "untracked_count": 0, **more}


def test_line_ends_that_change_are_marked_and_every_untracked_file_is_counted() -> None:
    text = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+a\r\n b\n@@ -9 +9 @@\n-c\r\n+d\r\n"
    value = by_git(text, untracked=["n"] * 500, unread=["n\n.png"] * 60, untracked_count=1900)
    shown = [*folder_diff_lines(value, 80, PLAIN)]
    assert shown[:4] == ["x  +2 -2", "1 - a", "1 + a^M", "2   b"] and shown[4].strip() == "⋮"
    assert shown[5:7] == ["9 - c", "9 + d"]
    rest = "\n".join(shown[7:])
    assert "Not shown (too large, binary, unreadable, or no copy kept):" in rest
    assert "  n\\n.png" in rest and "[10 more files]" in rest
    assert "[and 1,400 untracked files not listed]" in rest


def test_without_git_the_files_of_the_session_are_named() -> None:
    value = {"source": "session", "why": "git is not installed", "files": ["made.txt"]}
    assert [*folder_diff_lines(value, 80, PLAIN)][-1] == "  made.txt"
    assert [*folder_diff_lines(by_git(""), 80, PLAIN)] == ["No uncommitted changes."]
    unkept = "\n".join(folder_diff_lines(by_git("", unread=["a"]), 80, PLAIN))
    assert "No uncommitted" not in unkept and unkept.endswith("no copy kept):\n  a")


@pytest.mark.matrix
@given(st.text(), st.integers(20, 100), st.booleans())
def test_no_line_is_wider_than_the_screen_and_nothing_reaches_it_raw(text: str, width: int, colour: bool) -> None:
    for value in (
        by_git(f"--- a/x\n+++ b/{text}\n@@ -1,9 +1,9 @@\n-{text}\n+{text}x", unread=[text], cut="9 more bytes"),
        {"source": "session", "why": text, "files": [text]},
    ):
        for line in folder_diff_lines(value, width, Theme(colour=colour)):
            bare = without_codes(line) if colour else line
            assert cells(bare) <= width
            assert not [char for char in bare if ord(char) < 32 or 0x7F <= ord(char) < 0xA0]


def test_the_counts_of_a_file_whose_diff_was_cut_are_the_least() -> None:
    whole = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n--- a/b.txt\n+++ b/b.txt\n@@ -1,9 +1,9 @@\n+three\n"
    shown = [*folder_diff_lines({**by_git(whole), "cut": "9 more bytes"}, 80, PLAIN)]
    assert [line for line in shown if ".txt" in line] == ["a.txt  +1 -1", "b.txt  +1 or more"]
    assert not any("or more" in line for line in folder_diff_lines(by_git(whole), 80, PLAIN))
