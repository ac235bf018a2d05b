"""What a person is shown before an edit: a diff that tells the truth, made without touching anything."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nexus_cli.core.limits import Limits
from nexus_cli.core.tool import Effect, Tool
from nexus_cli.permission.approvals import call_detail
from nexus_cli.text.diff_lines import describe_changes
from nexus_cli.tools import edit_preview
from nexus_cli.tools.edit_preview import LARGEST, MOST, unified_diff


def tool(desk: Any, name: str) -> Tool:
    found: Tool = desk.registry.get(name)
    return found


def seen(desk: Any, name: str, **arguments: Any) -> str:
    preview = tool(desk, name).preview
    assert preview is not None
    return preview(arguments, desk.context()).diff


def test_an_edit_is_previewed_and_nothing_is_touched(desk: Any) -> None:
    path = desk.write("a.py", "".join(f"line {i}\n" for i in range(1, 30)))
    edits = [{"old": "line 15\n", "new": "line fifteen\n"}]
    shown = seen(desk, "edit_file", path="a.py", edits=edits)
    assert shown == (
        "--- a/a.py\n+++ b/a.py\n@@ -12,7 +12,7 @@\n line 12\n line 13\n line 14\n-line 15\n+line fifteen\n"
        " line 16\n line 17\n line 18\n"
    )
    assert "line 15\n" in path.read_text() and not desk.memory.notes
    assert desk.run("edit_file", path="a.py", edits=edits).diff == shown


def test_an_absolute_path_has_one_slash_in_the_header() -> None:
    assert unified_diff("a\n", "b\n", "/etc/x").startswith("--- a/etc/x\n+++ b/etc/x\n")


def test_a_new_file_and_a_whole_new_content_are_previewed(desk: Any) -> None:
    assert seen(desk, "write_file", path="new/b", content="x\ny") == (
        "--- /dev/null\n+++ b/new/b\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file\n"
    )
    assert not (desk.project / "new").exists()
    assert desk.run("write_file", path="new/b", content="x\ny").diff.startswith("--- /dev/null\n+++ b/new/b\n")
    assert seen(desk, "write_file", path="new/b", content="x\nz\n").endswith(
        "@@ -1,2 +1,2 @@\n x\n-y\n\\ No newline at end of file\n+z\n"
    )
    assert desk.run("write_file", path="new/b", content="x\nz\n").diff.endswith("+z\n")
    assert seen(desk, "write_file", path="new/b", content="x\nz\n") == ""


@pytest.mark.parametrize("data", [b"\0\1\2", b"\x89PNG\r\n\x1a\n\0", b"x" * (LARGEST + 1)])
def test_where_nothing_can_be_told_the_preview_is_empty(desk: Any, data: bytes) -> None:
    desk.write("a", data)
    (desk.project / "folder").mkdir()
    os.mkfifo(desk.project / "pipe")
    for path in ("a", "folder", "pipe", "", "\0", "a/b", "gone"):
        assert seen(desk, "edit_file", path=path, edits=[{"old": "x", "new": "y"}]) == ""
    for path in ("a", "folder", "pipe", "", "\0", "a/b"):
        assert seen(desk, "write_file", path=path, content="y") == ""


@pytest.mark.matrix
def test_a_preview_that_is_too_long_says_that_it_was_cut(desk: Any) -> None:
    shown = seen(desk, "write_file", path="new", content="y\n" * LARGEST)
    assert "of this diff omitted: +" in shown[-60:]


def test_what_was_written_over_something_large_or_binary_has_no_diff(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit_preview, "LARGEST", 4000)
    large = ("a" * 99 + "\n") * 41
    desk.write("a", large)
    desk.run("read_file", path="a")
    result = desk.run("edit_file", path="a", edits=[{"old": large, "new": "b\n"}])
    assert result.success and result.diff == "" and result.output
    desk.write("b", b"\0\1")
    desk.memory.note(str((desk.project / "b").resolve()), hashlib.sha256(b"\0\1").hexdigest(), "read")
    assert desk.run("write_file", path="b", content="x\n").diff == ""


def test_line_ends_and_marks_that_change_are_seen_and_others_are_not() -> None:
    assert unified_diff("a\r\nb\r\n", "a\nb\n", "x").endswith("@@ -1,2 +1,2 @@\n-a^M\n-b^M\n+a\n+b\n")
    assert unified_diff("a\r\nb\n", "a\r\nb\r\n", "x").endswith("@@ -1,2 +1,2 @@\n a^M\n-b\n+b^M\n")
    assert unified_diff("a\r\nb\r\n", "a\r\nc\r\n", "x").endswith("@@ -1,2 +1,2 @@\n a\n-b\n+c\n")
    assert unified_diff("a\n", "\ufeffa\n", "x").endswith("-a\n+<U+FEFF>a\n")
    assert unified_diff(None, "a\r\n", "x").endswith("+a^M\n")
    assert unified_diff("a\n", "a", "x").endswith("-a\n+a\n\\ No newline at end of file\n")


def test_what_is_written_in_other_line_ends_is_previewed_and_told(desk: Any) -> None:
    desk.write("a", "one\ntwo\n")
    desk.run("read_file", path="a")
    assert seen(desk, "write_file", path="a", content="one\r\ntwo\n").endswith(" two\n")
    assert "-one\n+one^M\n" in seen(desk, "write_file", path="a", content="one\r\ntwo\n")
    result = desk.run("write_file", path="a", content="one\r\ntwo\r\n")
    assert result.output == "replaced a, 2 lines; line endings: CRLF (before: LF)"
    assert "+one^M\n+two^M\n" in result.diff
    assert seen(desk, "write_file", path="a", content="one\ntwo\n") == "", "the file keeps its line ends"
    edit = [{"old": "one\ntwo", "new": "1\ntwo"}]
    assert seen(desk, "edit_file", path="a", edits=edit).endswith("-one\n+1\n two\n")


def test_stray_bytes_can_be_stored_and_names_are_one_line() -> None:
    unified_diff("a\n", "a\n\udcff\n", "x").encode()
    assert unified_diff("a\n", "b\n", "na\nme\x1b").startswith("--- a/na me\x1b\n")


@pytest.mark.matrix
def test_a_diff_is_bounded_in_length_and_in_work(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = ("".join(f"{word} {n}\n" for n in range(20_000)) for word in ("old", "new"))

    def never(*_: object, **__: object) -> None:
        raise AssertionError("matching so many lines takes minutes")

    monkeypatch.setattr("difflib.SequenceMatcher", never)
    shown = unified_diff("same\n" + old, "same\n" + new, "x")
    assert len(shown) <= MOST + 100 and "more lines of this diff omitted: +" in shown[-80:]
    made = unified_diff(None, new, "y")
    assert describe_changes(shown) == "+20,000 -20,000" and describe_changes(made) == "new, +20,000"
    assert describe_changes(made + shown) == "new, +40,000 -20,000", "the diff of each file is cut"
    assert shown.split("\n")[2:5] == ["@@ -1,20001 +1,20001 @@", " same", "-old 0"]
    assert len(unified_diff(None, "x" * 900_000, "x")) <= 3 * MOST


texts = st.lists(st.tuples(st.text("ab", max_size=2), st.sampled_from(["\n", "\n", ""])), max_size=25).map(
    lambda lines: "".join(text + end for text, end in lines)
)


@given(texts, texts, st.sampled_from([-1, 20, 4_000_000]))
@settings(max_examples=25, deadline=None)
def test_patch_makes_the_one_out_of_the_other(
    tmp_path_factory: pytest.TempPathFactory, old: str, new: str, compared: int
) -> None:
    folder = tmp_path_factory.mktemp("patch")
    (folder / "x").write_text(old)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nexus_cli.tools.edit_preview._COMPARED", compared)
        made = unified_diff(old, new, "x")
    assert (made == "") == (old == new)
    if made:
        command = ["git", "apply", "-"] if shutil.which("git") else ["patch", "-p1"]
        done = subprocess.run(command, cwd=folder, input=made.encode(), capture_output=True)
        assert done.returncode == 0, done.stderr
        assert (folder / "x").read_text() == new


def test_a_question_shows_the_diff_the_command_or_readable_arguments(new_desk: Callable[[], Any]) -> None:
    desk = new_desk()
    desk.write("a", "one\n")
    edit = tool(desk, "edit_file")
    shown, before = call_detail(edit, {"path": "a", "edits": [{"old": "one", "new": "two"}]}, desk.context(), Limits())
    assert "-one\n+two\n" in shown and before == hashlib.sha256(b"one\n").hexdigest()
    gone = {"path": "gone", "edits": [{"old": "a\nb", "new": "c", "all": True}]}
    told, before = call_detail(edit, gone, desk.context(), Limits())
    assert before == ""
    assert told == "path: gone\nedits: \n- \n  old: \na\nb\n  new: c\n  all: true"
    assert (
        call_detail(tool(desk, "bash"), {"command": "ls\npwd", "timeout": 3}, desk.context(), Limits())[0] == "ls\npwd"
    )
    assert tool(desk, "bash").effect is Effect.RUN
