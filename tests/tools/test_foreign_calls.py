"""Calls under the names of other programs: what is translated, what is not, and the patches of `apply_patch`."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.services import SeenFileStore
from nexus_cli.core.tool import Effect, Tool, ToolContext
from nexus_cli.permission.permission import resolve_targets
from nexus_cli.tools import atomic_write, editor_texts
from nexus_cli.tools.foreign_calls import ForeignCalls
from nexus_cli.tools.registry import ToolRegistry, discover_tools, find_tool
from nexus_cli.tools.schema import check_arguments

ADD_A = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
BACKGROUND = {"command": "npm start", "background": True}
X_TO_Y = {"path": "a", "edits": [{"old": "x", "new": "y"}]}
VIEWER = "str_replace_based_edit_tool"
SAME: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("Read", {"file_path": "a", "offset": 3, "limit": 2}, "read_file", {"path": "a", "offset": 3, "limit": 2}),
    ("Read", {"file_path": "a", "offset": None}, "read_file", {"path": "a"}),
    ("read", {"filePath": "a"}, "read_file", {"path": "a"}),
    ("view", {"path": "a"}, "read_file", {"path": "a"}),
    ("view_image", {"path": "a"}, "read_file", {"path": "a"}),
    ("LS", {"path": "src"}, "read_file", {"path": "src"}),
    ("list_dir", {"dir_path": "src"}, "read_file", {"path": "src"}),
    ("Write", {"file_path": "a", "content": "x"}, "write_file", {"path": "a", "content": "x"}),
    (
        "Edit",
        {"file_path": "a", "old_string": "x", "new_string": "", "replace_all": False},
        "edit_file",
        {"path": "a", "edits": [{"old": "x", "new": "", "all": False}]},
    ),
    (
        "edit",
        {"filePath": "a", "oldString": "x", "newString": "y"},
        "edit_file",
        {"path": "a", "edits": [{"old": "x", "new": "y"}]},
    ),
    (
        "edit_file",
        {"path": "a", "old": "x", "new": "y"},
        "edit_file",
        {"path": "a", "edits": [{"old": "x", "new": "y"}]},
    ),
    (
        "edit_file",
        {"file_path": "a", "old_string": "x", "new_string": "y"},
        "edit_file",
        {"path": "a", "edits": [{"old": "x", "new": "y"}]},
    ),
    (
        "edit_file",
        {"path": "a", "old_string": "x", "new_string": "y"},
        "edit_file",
        {"path": "a", "edits": [{"old": "x", "new": "y"}]},
    ),
    ("read_file", {"file_path": "a", "limit": 2}, "read_file", {"path": "a", "limit": 2}),
    (
        "MultiEdit",
        {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y", "replace_all": True}]},
        "edit_file",
        {"path": "a", "edits": [{"old": "x", "new": "y", "all": True}]},
    ),
    (VIEWER, {"command": "view", "path": "a"}, "read_file", {"path": "a"}),
    (
        VIEWER,
        {"command": "view", "path": "a", "view_range": [3, 5]},
        "read_file",
        {"path": "a", "offset": 3, "limit": 3},
    ),
    (VIEWER, {"command": "view", "path": "a", "view_range": [3, -1]}, "read_file", {"path": "a", "offset": 3}),
    (VIEWER, {"command": "create", "path": "a", "file_text": "x"}, "write_file", {"path": "a", "content": "x"}),
    (
        "str_replace_editor",
        {"command": "str_replace", "path": "a", "old_str": "x", "new_str": "y"},
        "edit_file",
        {"path": "a", "edits": [{"old": "x", "new": "y"}]},
    ),
    (
        "Bash",
        {"command": "ls", "timeout": 1500, "description": "List files"},
        "bash",
        {"command": "ls", "timeout": 2},
    ),
    ("shell", {"command": ["bash", "-lc", "ls | wc -l"]}, "bash", {"command": "ls | wc -l"}),
    ("container.exec", {"cmd": ["grep", "a b", "c"]}, "bash", {"command": "grep 'a b' c"}),
    ("local_shell", {"command": ["ls"], "timeout_ms": 10_000}, "bash", {"command": "ls", "timeout": 10}),
    (
        "Grep",
        {"pattern": "x", "output_mode": "content", "-n": True, "-i": True, "-C": 2},
        "grep",
        {"pattern": "x", "ignore_case": True, "context": 2},
    ),
    ("Glob", {"pattern": "*.py"}, "glob", {"pattern": "*.py"}),
    (
        "TodoWrite",
        {"todos": [{"content": "Test", "status": "in_progress", "activeForm": "Testing"}]},
        "todo",
        {"items": [{"text": "Test", "state": "doing"}]},
    ),
    ("WebFetch", {"url": "https://x.org", "prompt": "What?"}, "fetch", {"url": "https://x.org"}),
    ("shell", {"command": ["ls", "-a"], "workdir": "/a b"}, "bash", {"command": "cd '/a b' && ls -a"}),
    ("shell", {"command": ["bash", "-lc", "a || b"], "workdir": "x"}, "bash", {"command": "cd x || exit 1\na || b"}),
    ("shell", {"command": ["bash", "-lc", "a | b 2>&1"], "workdir": "."}, "bash", {"command": "a | b 2>&1"}),
    (
        "shell",
        {"command": ["make"], "with_escalated_permissions": True, "justification": "to build"},
        "bash",
        {"command": "make", "outside": "to build"},
    ),
    ("shell", {"command": ["apply_patch", ADD_A]}, "apply_patch", {"paths": ["a"], "patch": ADD_A}),
    (
        "shell",
        {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{ADD_A}\nEOF\n"]},
        "apply_patch",
        {"paths": ["a"], "patch": f"{ADD_A}\n"},
    ),
    (
        "bash",
        {"command": f'apply_patch <<"EOF"\n{ADD_A}\nEOF'},
        "apply_patch",
        {"paths": ["a"], "patch": f"{ADD_A}\n"},
    ),
    ("run_terminal_cmd", {"command": "npm start", "is_background": True}, "bash", BACKGROUND),
    ("Grep", {"pattern": "x", "output_mode": "files_with_matches", "head_limit": 5}, "grep", {"pattern": "x"}),
    ("search_file_content", {"pattern": "x", "include": "*.py"}, "grep", {"pattern": "x", "glob": "*.py"}),
    ("grep", {"pattern": "x", "include": "*.py"}, "grep", {"pattern": "x", "glob": "*.py"}),
    ("search_replace", {"file_path": "a", "old_string": "x", "new_string": "y"}, "edit_file", X_TO_Y),
    ("edit_file", {"path": "a", "edits": [{"old_string": "x", "new_string": "y"}]}, "edit_file", X_TO_Y),
    ("read_file", {"target_file": "a", "should_read_entire_file": True}, "read_file", {"path": "a"}),
    ("Read", {"file_path": "a.pdf", "pages": "3"}, "read_file", {"path": "a.pdf", "offset": 3, "limit": 1}),
    ("Read", {"file_path": "a.pdf", "pages": "2-5"}, "read_file", {"path": "a.pdf", "offset": 2, "limit": 4}),
    ("KillShell", {"shell_id": "j1"}, "jobs", {"action": "stop", "job": "j1"}),
]
OTHER: list[tuple[str, dict[str, Any]]] = [
    ("Read", {"file_path": "a.pdf", "pages": "1-5,9"}),
    ("Read", {"file_path": "a.pdf", "pages": "5-1"}),
    ("Read", {}),
    ("read", {"filePath": "a", "offset": 10}),
    ("Edit", {"file_path": "a", "old_string": "", "new_string": "x"}),
    ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y", "expected": 2}]}),
    ("MultiEdit", {"file_path": "a", "edits": "x"}),
    ("Grep", {"pattern": "x", "output_mode": "count"}),
    ("Grep", {"pattern": "x", "-A": 3}),
    ("Bash", {"command": "ls", "dangerouslyDisableSandbox": True}),
    ("shell", {"command": ["ls"], "workdir": 3}),
    ("shell", {"command": []}),
    ("bash", {"command": f"apply_patch <<EOF\n{ADD_A}$HOME\nEOF"}),
    ("bash", {"command": f"apply_patch <<'EOF'\n{ADD_A}\nEOF\nrm a"}),
    ("LS", {"path": ".", "ignore": ["*.py"]}),
    (VIEWER, {"command": "undo_edit", "path": "a"}),
    (VIEWER, {"command": "view", "path": "a", "view_range": [5, 3]}),
    ("NotebookEdit", {"notebook_path": "a"}),
]


async def _nothing(_arguments: Any, _context: ToolContext) -> ToolResult:
    return ToolResult("done")


def registry(*names: str) -> ToolRegistry:
    """The built-in tools, with those that another room brings."""
    known = discover_tools()
    made = [Tool(name, {"type": "object"}, _nothing, effect=Effect.NONE, subject="") for name in names]
    offered = [tool for tool in known.values() if not set(tool.needs) - {SeenFileStore} and tool.name not in names]
    return ToolRegistry([*offered, *made], {SeenFileStore: object()})


@pytest.mark.parametrize(("name", "given", "tool", "wanted"), SAME)
def test_a_call_that_says_the_same_becomes_one_of_ours(
    name: str, given: dict[str, Any], tool: str, wanted: dict[str, Any]
) -> None:
    made = ForeignCalls(registry("todo", "fetch", "jobs")).translate(ToolCall("c1", name, given))
    assert (made.id, made.name, made.arguments) == ("c1", tool, wanted)
    if (found := find_tool(tool)) and tool not in ("todo", "fetch", "jobs"):
        assert check_arguments(made.arguments, found.parameters)[1] == []


@pytest.mark.parametrize(("name", "given"), OTHER)
def test_a_call_that_asks_for_more_stays_as_it_is(name: str, given: dict[str, Any]) -> None:
    call = ToolCall("c1", name, given)
    assert ForeignCalls(registry("todo", "fetch", "jobs")).translate(call) is call


def test_the_folder_in_which_commands_run_anyway_is_not_entered() -> None:
    made = ForeignCalls(registry()).translate(ToolCall("c1", "shell", {"command": ["ls"], "workdir": "/p"}), "/p")
    assert (made.name, made.arguments) == ("bash", {"command": "ls"})


def test_our_own_names_win_and_a_tool_that_is_absent_is_not_called() -> None:
    call = ToolCall("c1", "TodoWrite", {"todos": []})
    assert ForeignCalls(ToolRegistry([], {})).translate(call) is call
    own = ToolCall("c2", "Read", {"file_path": "a"})
    assert ForeignCalls(registry("Read")).translate(own) is own
    bare = ToolRegistry([], {})
    assert bare.get("apply_patch") is None and registry().get("apply_patch") is not None
    assert "apply_patch" not in registry().names() and "apply_patch" not in str(registry().get_definitions())


def test_arguments_that_were_cut_off_are_not_completed() -> None:
    cut = ToolCall("c1", "Bash", {}, '{"command": "rm -rf build')
    made = ForeignCalls(registry()).translate(cut)
    assert (made.name, made.arguments, made.raw) == ("bash", {}, cut.raw), "its error names what was cut"
    whole = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
    freeform = ForeignCalls(registry()).translate(ToolCall("c2", "apply_patch", {}, whole))
    assert freeform.arguments == {"paths": ["a"], "patch": whole} and not freeform.raw


def test_a_foreign_name_whose_arguments_do_not_fit_is_answered_with_ours() -> None:
    for name, near in {"shell": "bash", "str_replace_editor": "edit_file", "MultiEdit": "edit_file"}.items():
        assert f"Did you mean {near}?" in registry().describe_unknown(name)


def test_our_name_is_said_once() -> None:
    calls = ForeignCalls(registry())
    told = []
    for number in range(2):
        call = calls.translate(ToolCall(f"c{number}", "Read", {"file_path": "a"}))
        told.append(calls.mention(call.id, call.name))
    assert told == ["[Read is read_file here]", ""]
    call = calls.translate(ToolCall("c3", "Bash", {"command": "x"}))
    assert calls.mention(call.id, call.name) == "[Bash is bash here]"


# -- apply_patch -------------------------------------------------------------------------------------------------------


def patch(desk: Any, *lines: str) -> ToolResult:
    """Run a patch as a model sends it, with the paths that permission would decide on."""
    text = "\n".join(["*** Begin Patch", *lines, "*** End Patch"])
    call = ForeignCalls(desk.registry).translate(ToolCall("c1", "apply_patch", {"input": text}))
    tool = desk.registry.get(call.name)
    targets = resolve_targets(tool, call.arguments, desk.project)
    context = ToolContext(
        desk.project, desk.project, 8000, "c1", lambda _: None, desk.registry.services, targets=targets
    )
    result: ToolResult = asyncio.run(tool.run(call.arguments, context))
    return result


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_bytes().decode() for path in folder.rglob("*") if path.is_file()}


def test_a_patch_adds_updates_moves_and_deletes(desk: Any) -> None:
    desk.write("a.py", "def one():\n    return 1\n\n\ndef two():\n    return 1\n")
    desk.write("old.py", "x = 1\ny = 2\n")
    desk.write("gone.py", "z\n")
    (desk.project / "old.py").chmod(0o755)
    done = patch(
        desk,
        *("*** Update File: a.py", "@@ def two():", "-    return 1", "+    return 2"),
        *("*** Add File: sub/new.py", "+first", "+", "+last"),
        *("*** Update File: old.py", "*** Move to: new_name.py", "@@", " x = 1", "-y = 2", "+y = 3"),
        "*** Delete File: gone.py",
    )
    assert done.success, done.error
    assert files(desk.project) == {
        "a.py": "def one():\n    return 1\n\n\ndef two():\n    return 2\n",
        "new.py": "first\n\nlast\n",
        "new_name.py": "x = 1\ny = 3\n",
    }
    assert (desk.project / "new_name.py").stat().st_mode & 0o111, "a moved file keeps its mode"
    assert set(done.changed) == {"a.py", "sub/new.py", "old.py", "new_name.py", "gone.py"}
    assert "+    return 2" in done.diff and "-z" in done.diff and "deleted gone.py" in done.output


def test_a_patch_changes_or_moves_a_file_that_changed_since_it_was_read_and_does_not_delete_it(desk: Any) -> None:
    path = desk.write("a", "one\ntwo\n")
    desk.run("read_file", path="a")
    path.write_text("one\n2\n")
    assert "changed on disk since" in patch(desk, "*** Delete File: a").error and path.exists()
    assert "changed on disk since" in patch(desk, "*** Update File: a", "@@", "-two", "+zwei").error
    result = patch(desk, "*** Update File: a", "*** Move to: b", "@@", "-one", "+eins")
    assert "moved a to b [the file changed on disk since it was read" in result.output, result
    assert (desk.project / "b").read_text() == "eins\n2\n"
    assert "was not read yet" in desk.run("write_file", path="b", content="all\n").error


def test_line_ends_and_a_missing_last_one_stay(desk: Any) -> None:
    path = desk.write("a", b"one\r\ntwo\r\nthree")
    done = patch(desk, "*** Update File: a", "@@", " two", "-three", "+four", "+five", "*** End of File")
    assert done.success and path.read_bytes() == b"one\r\ntwo\r\nfour\r\nfive", done


def test_an_addition_without_context_is_appended(desk: Any) -> None:
    path = desk.write("a", "one\n")
    assert patch(desk, "*** Update File: a", "@@", "+two").success and path.read_text() == "one\ntwo\n"


REFUSED = {
    "ambiguous": ["*** Update File: b", "@@", "-x", "+y"],
    "part of a line": ["*** Update File: b", "@@", "-ne", "+y"],
    "white space": ["*** Update File: b", "@@", "-  one", "+y"],
    "no such anchor": ["*** Update File: b", "@@ def gone():", "-x", "+y"],
    "left out": ["*** Update File: b", "@@", "-one", "+# ... rest of the code ..."],
    "missing": ["*** Update File: none", "@@", "-x", "+y"],
    "exists": ["*** Add File: b", "+x"],
    "moved onto another": ["*** Update File: b", "*** Move to: a", "@@", "-one", "+y"],
    "twice": ["*** Delete File: b", "*** Delete File: b"],
    "nonsense": ["*** Rename File: b"],
    "nothing": ["*** Update File: b"],
    "binary": ["*** Update File: c", "@@", "-x", "+y"],
    "below a file": ["*** Add File: b/c", "+x"],
    "below another of the patch": ["*** Add File: q", "+x", "*** Add File: q/r", "+x"],
    "above another of the patch": ["*** Add File: q/r", "+x", "*** Add File: q", "+x"],
    "below a deleted file": ["*** Delete File: b", "*** Add File: b/c", "+x"],
    "moved below a file": ["*** Update File: b", "*** Move to: c/d"],
    "delete a link": ["*** Delete File: link"],
    "move a link": ["*** Update File: link", "*** Move to: new"],
}


def test_the_lines_that_a_hunk_may_mean_are_offered(desk: Any) -> None:
    desk.write("a", "first\ndef one():\n\treturn 1\n")
    done = patch(desk, "*** Update File: a", "@@", "-first", "+second", "@@", "-    return 1", "+    return 2")
    offer = (
        "do not occur after line 1 (only white space differs). Use line 3 as the old lines of the hunk:\n\treturn 1\n"
    )
    assert offer in done.error, done


@pytest.mark.parametrize("kind", REFUSED)
def test_a_patch_that_does_not_fit_changes_nothing(desk: Any, kind: str) -> None:
    desk.write("a", "first\n")
    desk.write("b", "one\nx\nx\n")
    desk.write("c", b"x\0\1\2")
    (desk.project / "link").symlink_to("b")
    before = files(desk.project)
    done = patch(desk, "*** Update File: a", "@@", "-first", "+second", *REFUSED[kind])
    assert done.error.endswith("Nothing was changed.") and files(desk.project) == before, done
    assert (desk.project / "link").is_symlink()


def test_a_failed_write_names_its_file(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("a", "x\n")

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(editor_texts, "replace_file", refuse)
    done = patch(desk, "*** Update File: a", "@@", "-x", "+y")
    assert done.error == "a: No space left on device\nNothing was changed.", done


@pytest.mark.matrix
@pytest.mark.parametrize("sign", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r"])
def test_only_line_feeds_end_a_line_of_a_patch(desk: Any, sign: str) -> None:
    kept, path = desk.write("kept", "x\n"), desk.write("a", f"{sign}y = 1\nz\n")
    done = patch(desk, "*** Update File: a", "@@", f"-{sign}y = 1", f"+{sign}y = 2", " z")
    assert done.success and path.read_bytes().decode() == f"{sign}y = 2\nz\n", done
    done = patch(desk, "*** Add File: new", f"+x{sign}*** Delete File: kept")
    assert kept.read_text() == "x\n" and done.changed == ("new",), done
    done = patch(desk, "*** Update File: kept\r", "@@\r", "-x\r", "+y\r")
    assert kept.read_bytes() == b"y\n", done


@pytest.mark.matrix
def test_a_search_for_a_hunk_in_equal_lines_is_linear(desk: Any) -> None:
    """Sizes at which comparing at every line takes ten minutes."""
    path = desk.write("a", "0,0,0,0\n" * 100_000 + "1\n")
    hunk = ["-0,0,0,0"] * 5_000
    assert "do not occur" in patch(desk, "*** Update File: a", "@@", *hunk, "-2", "+x").error
    assert "more than once (lines 1 and 2)" in patch(desk, "*** Update File: a", "@@", *hunk, "+x").error
    assert patch(desk, "*** Update File: a", "@@", *hunk, "-1", "+x", "*** End of File").success
    assert path.read_text() == "0,0,0,0\n" * 95_000 + "x\n"


def test_a_patch_may_touch_only_the_files_that_permission_decided_on(desk: Any) -> None:
    desk.write("a", "x\n")
    text = "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch"
    call = ForeignCalls(desk.registry).translate(ToolCall("c1", "apply_patch", {"paths": ["b"], "patch": text}))
    result = desk.run("apply_patch", **call.arguments)
    assert "a is not one of `paths`" in result.error and files(desk.project) == {"a": "x\n"}


def test_a_file_is_moved_where_no_link_is_possible(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """To another file system, for example; the mode stays."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    desk.write("a", "one\ntwo\n")
    (desk.project / "a").chmod(0o755)
    monkeypatch.setattr(os, "link", refuse)
    result = patch(desk, "*** Update File: a", "*** Move to: other/b", "@@", " one", "-two", "+2")
    assert not result.error and files(desk.project) == {"b": "one\n2\n"}
    assert (desk.project / "other/b").stat().st_mode & 0o777 == 0o755


def test_a_move_that_fails_changes_nothing(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("a", "one\ntwo\n")
    desk.write("folder", "a file\n")
    write = atomic_write._replace_at

    def appear(folder: int, name: str, *rest: Any) -> None:
        (desk.project / "b").write_text("theirs\n")
        write(folder, name, *rest)

    monkeypatch.setattr(atomic_write, "_replace_at", appear)
    result = patch(desk, "*** Update File: a", "*** Move to: b", "@@", " one", "-two", "+2")
    assert "Nothing was changed." in result.error
    assert files(desk.project) == {"a": "one\ntwo\n", "b": "theirs\n", "folder": "a file\n"}
