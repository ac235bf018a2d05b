"""Which lines of a file the session knows after reads and edits, and so what `write_file` may replace."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from engine.test_files_read_whole import read, results
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.conversation.read_lines import count_unread, read_lines, read_note
from nexus_cli.core.elide import ElidedText
from nexus_cli.core.entry import Memo
from nexus_cli.core.message import ToolResult
from nexus_cli.tools.edit_preview import describe_edit


def numbered(count: int) -> str:
    return "".join(f"line = {n}\n" for n in range(1, count + 1))


def write(content: str) -> tuple[str, dict[str, Any]]:
    return "write_file", {"path": "big.py", "content": content}


def edit(old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "edit_file", {"path": "big.py", "edits": [{"old": old, "new": new}]}


def test_a_file_of_which_three_lines_were_read_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "big.py").write_text(numbered(3000))
    shown = results(tmp_path, 64_000, [read("big.py", limit=3)], [write("x\n")])
    assert shown[1] == "big.py: 2,997 of its 3,000 lines were not read: read them first, or use edit_file"
    assert (tmp_path / "big.py").read_text() == numbered(3000)


@pytest.mark.matrix
def test_a_file_that_was_read_in_pieces_is_replaced_and_its_former_size_is_told(tmp_path: Path) -> None:
    (tmp_path / "big.py").write_text(numbered(3000))
    pieces = [[read("big.py", offset=first, limit=1000)] for first in (1, 1001, 2001)]
    shown = results(tmp_path, 272_000, *pieces, [write("x\n")], [write("y\n")])
    assert shown[3:] == ["replaced big.py, 3,000 lines -> 1", "replaced big.py, 1 line"]


@pytest.mark.matrix
def test_what_was_cut_from_a_read_was_not_read(tmp_path: Path) -> None:
    text = "".join(f"    value_{n} = compute({n}, scale={n % 7})\n" for n in range(1, 1501))
    (tmp_path / "big.py").write_text(text)
    shown = results(tmp_path, 24_000, [read("big.py")], [write("x\n")])
    assert "of its 1,500 lines were not read" in shown[1]
    assert (tmp_path / "big.py").read_text() == text


@pytest.mark.matrix
def test_an_edit_leaves_the_other_lines_as_unread_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "big.py").write_text(numbered(100))
    first = [read("big.py", limit=40), edit("line = 2\n", "line = 2\nnew = 1\nnew = 2\n")]
    shown = results(tmp_path, 64_000, first, [write("x\n")], [read("big.py", offset=43)], [write("x\n")])
    assert shown[2].startswith("big.py: 60 of its 102 lines were not read")
    assert shown[4] == "replaced big.py, 102 lines -> 1"


@pytest.mark.matrix
def test_an_edit_of_an_unread_file_shows_only_its_own_lines(tmp_path: Path) -> None:
    (tmp_path / "big.py").write_text(numbered(100))
    shown = results(tmp_path, 64_000, [edit("line = 2\n", "line = two\n")], [write("x\n")])
    assert shown[1].startswith("big.py: 99 of its 100 lines were not read")


lines = st.lists(st.sampled_from("abcd"), max_size=9)


@pytest.mark.matrix
@given(lines, st.lists(lines, max_size=4), st.data())
def test_lines_keep_their_state_through_any_edits(text: list[str], edits: list[list[str]], data: Any) -> None:
    memos: list[Memo] = []

    def note(result: ToolResult) -> None:
        memos.extend(Memo(kind, "", 1, value) for kind, value in read_note(result, ElidedText(result.output)).items())

    if text:
        first = data.draw(st.integers(1, len(text)))
        count = data.draw(st.integers(1, len(text) - first + 1))
        counts = {"lines": count, "first": first, "total": len(text)}
        note(ToolResult("\n".join(text[first - 1 :][:count]), file="/f", counts=counts, first_line=first))
        known = [first <= n < first + count for n in range(1, len(text) + 1)]
    else:
        known = []
    for after in edits:
        edit = describe_edit(Path("/f"), "".join(f"{one}\n" for one in text), "".join(f"{one}\n" for one in after))
        note(ToolResult("edited", edits=(edit,)))
        was, known, at = known, [True] * len(after), 0
        for old, old_end, new, new_end in (*edit.changes, (len(text), len(text), len(after), len(after))):
            known[new - (old - at) : new] = was[at:old]
            known[new:new_end] = [True] * (new_end - new)
            at = old_end
        text = after
    if memos:
        spans = read_lines(memos)["/f"].spans
        assert [any(first <= n <= last for first, last in spans) for n in range(1, len(text) + 1)] == known
        conversation: Any = SimpleNamespace(memos=lambda kind: memos)
        assert count_unread(conversation, "/f", len(text)) == known.count(False)


@pytest.mark.parametrize(("old", "new"), [("a\r\nb\r\n", "a\nb\nc\n"), ("a\nb", "a\nc"), ("", "a"), ("a\n", "")])
def test_lines_are_counted_as_a_read_counts_them(old: str, new: str) -> None:
    assert describe_edit(Path("/f"), old, new).total == new.count("\n") + (not new.endswith("\n") and new != "")
