"""The search of `grep` itself: what it matches, what it holds, and that it follows no link."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.tools import grep_worker


def test_a_link_that_appears_after_the_listing_is_not_followed(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("a/b/c", "x\n")
    monkeypatch.chdir(desk.project)
    assert list(grep_worker.lines_of(b"a/b/c")) == ["x"]
    (desk.project / "l").symlink_to("a")
    (desk.project / "a/l").symlink_to("b")
    (desk.project / "a/b/l").symlink_to("c")
    for path in (b"l/b/c", b"a/l/c", b"a/b/l"):
        with pytest.raises(OSError):
            list(grep_worker.lines_of(path))


@pytest.mark.matrix
def test_a_file_is_searched_line_by_line_and_never_held_whole(desk: Any) -> None:
    path = desk.write("a", "ab\n" * 100_000 + "needle\n")
    job = grep_worker.SearchJob("needle", False, 2, 5, "")
    tracemalloc.start()
    try:
        output = "".join(grep_worker.search(job, [os.fsencode(path)]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert output.endswith("99999-ab\n100000-ab\n100001:needle")
    assert peak < 200_000


def test_lines_after_the_last_match_within_the_limit_are_shown_and_no_more_are_read(desk: Any) -> None:
    hits = grep_worker.FileHits(2, 1)
    lines = iter(["x1", "x2", "b", "c", "d"])
    assert list(hits.rows(lines, re.compile("x"))) == ["1:x1", "2-x2", "3-b"]
    assert (hits.matches, hits.more, list(lines)) == (1, True, ["d"])


words = st.text("ab .(\\é\r", max_size=12)


@given(st.lists(words, max_size=8), st.sampled_from(["a", "a.", "^a", "b$", r"\w b", "é", "[^a]b", r"\s"]))
def test_what_grep_finds_is_what_the_expression_matches_line_by_line(
    new_desk: Callable[[], Any], lines: list[str], pattern: str
) -> None:
    desk = new_desk()
    desk.write("a", "".join(line + "\n" for line in lines))
    job = grep_worker.SearchJob(pattern, False, 0, 1000, "")
    shown = "".join(grep_worker.search(job, [os.fsencode(desk.project / "a")])).split("\n")[1:]
    bare = [line[:-1] if line.endswith("\r") else line for line in lines]
    assert [row for row in shown if row] == [f"{i}:{x}" for i, x in enumerate(bare, 1) if re.search(pattern, x)]


@pytest.mark.matrix
def test_the_search_is_a_program_of_the_standard_library_alone() -> None:
    code = f"import runpy, sys; runpy.run_path({grep_worker.__file__!r}, run_name='x')"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


@pytest.mark.matrix
def test_files_that_could_not_be_searched_before_the_limit_are_a_lower_bound(desk: Any) -> None:
    with open(desk.write("a", ""), "wb") as file:
        file.truncate(grep_worker.HARD_LIMIT + 1)
    desk.write("b", "x\nx\n")
    output = desk.run("grep", pattern="x", limit=1).output
    assert "[the first match; there is 1 more:" in output and "[at least 1 file could not be searched" in output


@pytest.mark.matrix
def test_unreadable_and_huge_files_are_counted(desk: Any) -> None:
    desk.write("a", "x\n")
    with open(desk.project / "huge", "wb") as file:
        file.truncate(grep_worker.HARD_LIMIT + 1)
    output = desk.run("grep", pattern="x").output
    assert output == "a\n1:x\n[1 file could not be searched: unreadable, or over 64 MiB]"


@pytest.mark.matrix
def test_the_matches_beyond_the_limit_are_counted_for_a_bounded_time(desk: Any) -> None:
    desk.write("a", "x\ny\n" * 20)
    desk.write("b", "x\n" * 5)
    desk.write("c.bin", b"x\n\0")
    assert desk.run("grep", pattern="x", limit=3).output.endswith(
        "[the first 3 matches; there are 22 more: narrow the search or raise `limit`]"
    )
    desk.write("b", "aa\n" + "a" * 60 + "b\n")
    desk.write("a", "aa\n" * 10)
    output = desk.run("grep", pattern="^(a+)+$", limit=4).output
    assert output.endswith("[the first 4 matches; there are at least 6 more: narrow the search or raise `limit`]")
