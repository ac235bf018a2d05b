"""Changes of a worktree come to the project by a three-way merge of bytes; whatever the person has stays theirs."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from search import SEARCHES, sample
from worktrees.repository import git, make_project, make_worktree, put_link, read_tree

from nexus_cli.config.worktree_record import WorktreeRecord, read_record
from nexus_cli.core.errors import NexusError
from nexus_cli.tree import write_state
from nexus_cli.worktrees import apply_worktree as applying
from nexus_cli.worktrees.apply_worktree import (
    ApplyResult,
    apply_worktree,
    list_unapplied,
)
from nexus_cli.worktrees.inspect_worktree import inspect_worktree
from nexus_cli.worktrees.worktrees import UnappliedError, describe_worktree, enter_worktree, remove_worktree

Act = Callable[[Path], object]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def applied(project: Path, there: Act, here: Act = lambda folder: None) -> tuple[ApplyResult, WorktreeRecord]:
    """Work in a worktree and, after it was made, in the project; then apply it."""
    record, _ = make_worktree(project, "fix")
    there(record.folder)
    here(project)
    index = (project / ".git/index").read_bytes()
    result = apply_worktree(record)
    assert (project / ".git/index").read_bytes() == index
    assert not list(project.rglob(".nexus-*"))
    again = read_record(record.folder)
    assert again is not None
    return result, again


def put(name: str, content: str | bytes) -> Act:
    def act(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return act


def all_of(*acts: Act) -> Act:
    return lambda folder: [act(folder) for act in acts]


def delete(name: str) -> Act:
    return lambda folder: (folder / name).unlink()


def edit(line: int, text: str) -> Act:
    def act(folder: Path) -> None:
        lines = (folder / "app.py").read_text().splitlines(keepends=True)
        lines[line] = text + "\n"
        (folder / "app.py").write_text("".join(lines))

    return act


def relink(folder: Path) -> None:
    put_link(folder / "link", "run.sh")


def file_to_folder(folder: Path) -> None:
    (folder / "old.txt").unlink()
    put("old.txt/inside", "x")(folder)


def folder_to_file(folder: Path) -> None:
    (folder / "sub/data.bin").unlink()
    (folder / "sub").rmdir()
    (folder / "sub").write_text("x")


def folder_to_link(folder: Path) -> None:
    (folder / "sub/data.bin").unlink()
    (folder / "sub").rmdir()
    (folder / "sub").symlink_to("run.sh")


def file_into_folder_of_its_name(folder: Path) -> None:
    text = (folder / "app.py").read_text()
    (folder / "app.py").unlink()
    put("app.py/inner.py", text)(folder)


CHANGES: dict[str, Act] = {
    "text": edit(3, "changed"),
    "binary": put("sub/data.bin", b"\x00\x01\x02"),
    "new file in a new folder": put("a/b/c.txt", "new"),
    "empty file": put("empty", b""),
    "deletion": delete("sub/data.bin"),
    "mode": lambda folder: (folder / "run.sh").chmod(0o755),
    "link": relink,
    "link becomes a file": all_of(delete("link"), put("link", "text")),
    "file becomes a link": lambda folder: put_link(folder / "old.txt", "x"),
    "rename": lambda folder: (folder / "app.py").rename(folder / "sub/moved.py"),
    "rename by git, committed": lambda folder: (
        git(folder, "mv", "app.py", "moved.py"),
        git(folder, "commit", "-qm", "x"),
    ),
    "commit with later work over it": all_of(
        edit(2, "first"), lambda folder: git(folder, "commit", "-qam", "x"), edit(2, "second")
    ),
    "file becomes a folder": file_to_folder,
    "file moves into a folder of its name": file_into_folder_of_its_name,
    "folder becomes a file": folder_to_file,
    "folder becomes a link": folder_to_link,
    "odd names": all_of(put("a \u00e9\n\t\"'.txt", "x"), put(os.fsdecode(b"\xff\xfe"), "y"), put("-rf", "z")),
    "line ends": put("app.py", "line 0\r\nline 1\r\n"),
    "large": put("large.bin", os.urandom(3 << 20)),
}


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("kind", "dirty"),
    sample([*zip(CHANGES, cycle([True, False])), *(zip(CHANGES, cycle([False, True])) if SEARCHES else ())], 4),
)
def test_every_kind_of_change_arrives(project: Path, kind: str, dirty: bool) -> None:
    if dirty:  # carried over, and no part of what is applied
        put("mine.txt", "mine")(project)
        edit(15, "dirty")(project)
    result, record = applied(project, CHANGES[kind])
    assert not result.conflicts and result.written
    assert read_tree(project) == read_tree(record.folder)
    assert apply_worktree(record).nothing_new
    told = remove_worktree(record)
    assert "its commits:" in told if "commit" in kind else told == ""
    assert not record.folder.exists()


@pytest.mark.matrix
def test_a_conflict_is_marked_with_both_versions(project: Path) -> None:
    result, record = applied(project, edit(2, "theirs"), edit(2, "mine"))
    text = (project / "app.py").read_text()
    assert [(one.path, one.is_marked) for one in result.conflicts] == [("app.py", True)]
    assert "<<<<<<< yours\nmine\n=======\ntheirs\n>>>>>>> worktree fix\n" in text
    assert apply_worktree(record).nothing_new and (project / "app.py").read_text() == text


@pytest.mark.matrix
def test_later_work_is_not_merged_into_a_conflict_that_is_not_resolved(project: Path) -> None:
    _, record = applied(project, edit(2, "theirs"), edit(2, "mine"))
    text = (project / "app.py").read_text()
    edit(2, "theirs, later")(record.folder)
    (conflict,) = apply_worktree(record).conflicts
    assert conflict.why.startswith("resolve the conflict markers in the file first") and not conflict.is_marked
    assert (project / "app.py").read_text() == text
    (project / "app.py").write_text("".join(text.partition("<<<<<<< yours\n")[::2]).replace("mine\n=======\n", ""))
    (project / "app.py").write_text((project / "app.py").read_text().replace(">>>>>>> worktree fix\n", ""))
    assert not apply_worktree(record).conflicts and "theirs, later\n" in (project / "app.py").read_text()


def move_out(folder: Path) -> None:
    (folder / "sub").rename(folder.parent / "out")
    put_link(folder / "sub", folder.parent / "out")


def put_pipe(folder: Path) -> None:
    (folder / "old.txt").unlink()
    os.mkfifo(folder / "old.txt")


CLASHES: dict[str, tuple[Act, Act, str]] = {
    "new in both": (put("made", "theirs"), put("made", "mine"), "made"),
    "new, and ignored by the person": (put("made.txt", "theirs"), put("made.txt", "x"), "made.txt"),
    "binary": (put("sub/data.bin", b"\x00theirs"), put("sub/data.bin", b"\x00mine"), "sub/data.bin"),
    "deleted there, changed here": (delete("old.txt"), put("old.txt", "mine"), "old.txt"),
    "changed there, deleted here": (edit(1, "x"), delete("app.py"), "app.py"),
    "link": (relink, lambda folder: put_link(folder / "link", "mine"), "link"),
    "a file where a folder is": (put("place", "theirs"), put("place/mine", "mine"), "place"),
    "a folder where a file is": (put("place/theirs", "x"), put("place", "mine"), "place/theirs"),
    "a link in the way": (put("way/theirs", "x"), lambda folder: put_link(folder / "way", folder.parent), "way/theirs"),
    "a link out of the project in the way of a change": (put("sub/data.bin", b"x"), move_out, "sub/data.bin"),
    "renamed onto a file": (
        lambda folder: (folder / "app.py").rename(folder / "moved.py"),
        put("moved.py", "mine"),
        "moved.py",
    ),
    "renamed there, deleted here": (
        lambda folder: (folder / "app.py").rename(folder / "moved.py"),
        delete("app.py"),
        "moved.py",
    ),
    "a special file": (put("old.txt", "theirs"), put_pipe, "old.txt"),
}


@pytest.mark.matrix
@pytest.mark.parametrize("kind", sample(CLASHES, 4))
def test_what_cannot_be_merged_stays_as_the_person_has_it(project: Path, kind: str) -> None:
    there, here, path = CLASHES[kind]
    outside = project.parent / "out/data.bin"
    here_first = make_project(project.parent / "copy")
    here(here_first)
    is_odd = "special" in kind or "link" in kind  # a pipe cannot be read, and the link leads to the other copy
    expected = {} if is_odd else read_tree(here_first)
    if outside.parent.exists():
        (project.parent / "out").rename(project.parent / "first")
    result, record = applied(project, all_of(there, put("also.txt", "arrives")), here)
    assert [(one.path, one.is_marked) for one in result.conflicts] == [(path, False)]
    assert "also.txt" in result.written
    found = {} if is_odd else read_tree(project)
    assert {name: found.get(name) for name in expected} == expected
    if outside.exists():
        assert outside.read_bytes() == bytes(range(256)) * 8
    again = apply_worktree(record)
    assert [one.path for one in again.conflicts] == [path] and not again.written and not again.nothing_new
    with pytest.raises(NexusError, match="the worktree has unapplied changes"):
        remove_worktree(record)


@pytest.mark.matrix
def test_a_rename_follows_into_a_file_that_the_person_changed(project: Path) -> None:
    result, _ = applied(
        project,
        all_of(edit(2, "theirs"), lambda folder: (folder / "app.py").rename(folder / "moved.py")),
        edit(17, "mine"),
    )
    text = (project / "moved.py").read_text()
    assert not result.conflicts and "theirs" in text and "mine" in text and not (project / "app.py").exists()


@pytest.mark.matrix
@pytest.mark.parametrize("text", sample(["", "mine"], 2))
def test_a_file_that_moves_keeps_the_rights_that_the_person_gave_it(project: Path, text: str) -> None:
    def close(folder: Path) -> None:
        if text:
            edit(17, text)(folder)
        (folder / "app.py").chmod(0o600)

    applied(project, lambda folder: (folder / "app.py").rename(folder / "moved.py"), close)
    assert stat.S_IMODE((project / "moved.py").stat().st_mode) == 0o600 and not (project / "app.py").exists()


def test_modes_and_contents_are_merged_apart(project: Path) -> None:
    (project / "run.sh").chmod(0o640)
    result, _ = applied(project, lambda folder: (folder / "run.sh").chmod(0o750), put("run.sh", "#!/bin/sh\nmine\n"))
    assert not result.conflicts and (project / "run.sh").read_text() == "#!/bin/sh\nmine\n"
    assert stat.S_IMODE((project / "run.sh").stat().st_mode) == 0o750


@pytest.mark.matrix
def test_what_is_there_already_is_no_conflict(project: Path) -> None:
    same = all_of(edit(2, "same"), put("new", "same"), delete("old.txt"))
    result, record = applied(project, same, same)
    assert not result.conflicts and not result.written and len(result.there) == 3
    assert remove_worktree(record) == ""


@pytest.mark.matrix
def test_later_work_is_applied_on_top_of_what_was(project: Path) -> None:
    _, record = applied(project, edit(2, "first"))
    edit(17, "mine")(project)
    edit(3, "second")(record.folder)
    with pytest.raises(NexusError, match="the worktree has unapplied changes"):
        remove_worktree(record)
    result = apply_worktree(record)
    text = (project / "app.py").read_text()
    assert not result.conflicts and all(word in text for word in ("first", "second", "mine"))
    assert "<<<" not in text


@pytest.mark.matrix
def test_work_that_was_taken_back_after_it_was_applied_is_taken_back(project: Path) -> None:
    before = read_tree(project)
    _, record = applied(project, all_of(edit(2, "x"), put("made", "x"), delete("old.txt")))
    git(record.folder, "checkout", "-q", ".")
    (record.folder / "made").unlink()
    assert not apply_worktree(record).conflicts and read_tree(project) == before


@pytest.mark.matrix
def test_an_error_half_way_loses_nothing_and_is_gone_on_with(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, _ = make_worktree(project, "fix")
    for number in range(4):
        put(f"made{number}", "theirs\n")(record.folder)
    edit(2, "theirs")(record.folder)
    edit(17, "mine")(project)
    real, calls = applying._write_result, list[Any]()

    def fail(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        real(*arguments)

    monkeypatch.setattr(applying, "_write_result", fail)
    with pytest.raises(NexusError) as told:
        apply_worktree(record)
    assert "Free some space" in told.value.line and told.value.exit_status == 1
    monkeypatch.undo()
    with pytest.raises(NexusError, match="the worktree has unapplied changes"):
        remove_worktree(record)
    result = apply_worktree(record)
    assert not result.conflicts and {path.name for path in project.glob("made*")} == {f"made{n}" for n in range(4)}
    text = (project / "app.py").read_text()
    assert "theirs" in text and "mine" in text and "<<<" not in text


@pytest.mark.matrix
def test_a_file_that_changes_while_it_is_applied_is_not_overwritten(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, _ = make_worktree(project, "fix")
    edit(2, "theirs")(record.folder)
    real = applying._take_step

    def interfere(*arguments: Any) -> bool:
        edit(9, "typed just now")(project)
        return real(*arguments)

    monkeypatch.setattr(applying, "_take_step", interfere)
    result = apply_worktree(record)
    assert "meanwhile" in result.conflicts[0].why and "typed just now" in (project / "app.py").read_text()
    monkeypatch.undo()
    assert not apply_worktree(record).conflicts and "theirs" in (project / "app.py").read_text()


@pytest.mark.matrix
def test_a_project_that_is_gone_is_told(project: Path) -> None:
    record, _ = make_worktree(project, "fix")
    edit(2, "theirs")(record.folder)
    project.rename(project.parent / "elsewhere")
    with pytest.raises(NexusError, match="project no longer exists") as told:
        apply_worktree(record)
    assert told.value.exit_status == 2
    with pytest.raises(NexusError):
        remove_worktree(record)
    assert "theirs" in (record.folder / "app.py").read_text()


@pytest.mark.matrix
def test_a_worktree_of_a_worktree_is_applied_to_that_one(project: Path) -> None:
    outer = enter_worktree(project, "outer")
    edit(2, "outer")(outer.record.folder)
    inner, _ = make_worktree(outer.record.folder, "inner")
    assert "outer" in (inner.folder / "app.py").read_text()
    edit(9, "inner")(inner.folder)
    assert not apply_worktree(inner).conflicts and "inner" not in (project / "app.py").read_text()
    assert inspect_worktree(outer.record).counts.added == 2
    assert not apply_worktree(outer.record).conflicts and "inner" in (project / "app.py").read_text()


@pytest.mark.matrix
def test_a_file_takes_the_place_of_a_folder_out_of_which_a_changed_one_moved(project: Path) -> None:
    (project / "box").mkdir()
    (project / "app.py").rename(project / "box/app.py")
    record, _ = make_worktree(project, "fix")
    (record.folder / "box/app.py").rename(record.folder / "moved.py")
    (record.folder / "box").rmdir()
    put("box", "x")(record.folder)
    (project / "box/app.py").write_text((project / "box/app.py").read_text() + "mine\n")
    assert not apply_worktree(record).conflicts
    assert (project / "box").read_text() == "x" and (project / "moved.py").read_text().endswith("mine\n")


@pytest.mark.matrix
@pytest.mark.parametrize("kind", sample(["text", "deletion", "large"], 3))
def test_what_is_typed_while_a_file_is_written_is_not_overwritten(
    project: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    record, _ = make_worktree(project, "fix")
    CHANGES[kind](record.folder)
    name = {"text": "app.py", "deletion": "sub/data.bin", "large": "large.bin"}[kind]
    real = write_state._check

    def interfere(*arguments: Any) -> None:
        put(name, "typed just now")(project)
        real(*arguments)

    monkeypatch.setattr(write_state, "_check", interfere)
    result = apply_worktree(record)
    assert [one.path for one in result.conflicts] == [name] and not result.written
    assert (project / name).read_text() == "typed just now" and not list(project.rglob(".nexus-*"))


@pytest.mark.matrix
def test_a_private_file_is_private_while_it_is_written(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, _ = make_worktree(project, "fix")
    edit(2, "theirs")(record.folder)
    (project / "app.py").chmod(0o600)
    real, modes = write_state._set_rights, list[int]()

    def look(place: Any, *arguments: Any) -> list[str]:
        modes.append(stat.S_IMODE(os.stat(place).st_mode))
        return real(place, *arguments)

    monkeypatch.setattr(write_state, "_set_rights", look)
    apply_worktree(record)
    assert modes == [0o600] and stat.S_IMODE((project / "app.py").stat().st_mode) == 0o600


@pytest.mark.matrix
def test_another_state_than_the_reviewed_one_is_not_applied(project: Path) -> None:
    record, _ = make_worktree(project, "fix")
    edit(2, "theirs")(record.folder)
    seen = inspect_worktree(record).tree
    edit(3, "not seen")(record.folder)
    before = read_tree(project)
    with pytest.raises(NexusError, match="since you reviewed it"):
        apply_worktree(record, reviewed=seen)
    assert read_tree(project) == before
    apply_worktree(record, reviewed=inspect_worktree(record).tree)
    assert "not seen" in (project / "app.py").read_text()


@pytest.mark.matrix
def test_a_reviewed_state_of_which_a_part_was_applied_meanwhile_is_not_applied(project: Path) -> None:
    record, _ = make_worktree(project, "fix")
    edit(2, "theirs")(record.folder)
    apply_worktree(record)  # by a person, while it is reviewed
    (record.folder / "app.py").write_bytes((project / "app.py").read_bytes() + b"more\n")
    seen, before = list_unapplied(record), read_tree(project)
    with pytest.raises(NexusError, match="since you reviewed it"):
        apply_worktree(record, reviewed=seen.tree)
    assert read_tree(project) == before
    assert not apply_worktree(read_record(record.folder) or record, reviewed=seen.tree).conflicts


@pytest.mark.matrix
def test_a_folder_that_was_emptied_deletes_nothing(project: Path) -> None:
    record, _ = make_worktree(project, "fix")
    shutil.rmtree(record.folder)
    record.folder.mkdir()
    before = read_tree(project)
    with pytest.raises(NexusError, match="is empty"):
        apply_worktree(record)
    assert read_tree(project) == before


@pytest.mark.matrix
@pytest.mark.parametrize("most", sample(range(9), 3))
def test_one_that_is_killed_at_any_step_is_gone_on_with(
    project: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    for number in range(4):
        put(f"file{number}", f"mine {number}\n" * 5)(project)
    record, _ = make_worktree(project, "fix")
    for number in range(3):
        (record.folder / f"file{number}").rename(record.folder / f"moved{number}")
    all_of(put("file3", "theirs"), delete("old.txt"))(record.folder)
    real, left = applying._take_step, [most]

    def stop(*arguments: Any) -> bool:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(applying, "_take_step", stop)
    monkeypatch.setattr(applying, "_record_applied", lambda *_, **__: None)
    with suppress(KeyboardInterrupt):
        apply_worktree(record)
    for number in range(3):
        assert (project / f"file{number}").exists() or (project / f"moved{number}").exists()
    monkeypatch.undo()
    assert not apply_worktree(record).conflicts and read_tree(project) == read_tree(record.folder)


@pytest.mark.matrix
def test_a_rename_to_another_name_of_the_same_file_deletes_nothing(project: Path) -> None:
    def link(folder: Path) -> None:
        (folder / "OLD.txt").hardlink_to(folder / "old.txt")

    result, _ = applied(project, lambda folder: (folder / "old.txt").rename(folder / "OLD.txt"), link)
    assert [one.path for one in result.conflicts] == ["OLD.txt"] and (project / "old.txt").read_text() == "old\n"


@pytest.mark.matrix
def test_names_that_differ_in_case_alone_are_two_files_whatever_git_was_told(project: Path) -> None:
    git(project, "config", "core.ignorecase", "true")
    (project / "a.txt").write_text("first\n" * 30)
    git(project, "add", "-A")
    git(project, "commit", "-qm", "a")
    record, _ = make_worktree(project, "fix")
    (record.folder / "a.txt").rename(record.folder / "A.txt")
    put("A.txt", "first\n" * 30 + "w\n")(record.folder)
    assert "A.txt" in inspect_worktree(record).describe() or inspect_worktree(record).counts.removed == 0
    with pytest.raises(NexusError, match="the worktree has unapplied changes"):
        remove_worktree(record)
    assert not apply_worktree(record).conflicts
    assert (project / "A.txt").read_text().endswith("w\n") and not (project / "a.txt").exists()


@pytest.mark.matrix
@pytest.mark.parametrize("mode", sample([0o600, 0o640, 0o700, 0o644, 0o755], 3))
def test_a_new_file_has_no_more_rights_than_in_the_worktree(project: Path, mode: int) -> None:
    def make(folder: Path) -> None:
        put("sub/key", "private\n")(folder)
        (folder / "sub/key").chmod(mode)

    applied(project, make)
    assert stat.S_IMODE((project / "sub/key").stat().st_mode) == mode & ~0o022


@pytest.mark.matrix
def test_what_was_taken_back_after_an_apply_can_be_applied_again(project: Path) -> None:
    def work(folder: Path) -> None:
        all_of(edit(2, "theirs"), put("new", "new\n"), delete("old.txt"))(folder)
        (folder / "run.sh").rename(folder / "go.sh")

    _, record = applied(project, work)
    assert apply_worktree(record).nothing_new and list_unapplied(record).paths == []
    git(project, "checkout", "-q", "app.py", "old.txt")
    (project / "new").write_text("new\nand more of the person\n")
    assert list_unapplied(record).paths == ["app.py", "old.txt"]
    assert apply_worktree(record).written == ["app.py", "old.txt"]
    assert "theirs" in (project / "app.py").read_text() and not (project / "old.txt").exists()
    assert (project / "new").read_text() == "new\nand more of the person\n"
    git(project, "checkout", "-q", ".")
    (project / "new").unlink()
    (project / "go.sh").unlink()
    assert apply_worktree(record).written == ["app.py", "go.sh", "new", "old.txt", "run.sh"]
    written = [path.stat().st_mtime_ns for path in record.home.glob("*.json")]
    assert written and apply_worktree(record).nothing_new
    assert written == [path.stat().st_mtime_ns for path in record.home.glob("*.json")], "nothing to write"


@pytest.mark.matrix
@pytest.mark.parametrize("line", (2, 17), ids=("conflict", "merged"))
def test_a_merge_that_the_person_took_back_is_work_that_is_not_applied(project: Path, line: int) -> None:
    record, _ = make_worktree(project, "fix")
    edit(2, "theirs")(record.folder)
    edit(line, "mine")(project)
    mine = (project / "app.py").read_bytes()

    def state() -> str:
        return str(describe_worktree(read_record(record.folder) or record)["state"])

    apply_worktree(record)
    both = (project / "app.py").read_bytes()
    assert state() == "applied" and (b"<<<" in both) == (line == 2)
    (project / "app.py").write_bytes(mine)
    assert state() == "changed"
    with pytest.raises(UnappliedError, match=r"no longer has the applied changes \(app\.py\)") as caught:
        remove_worktree(read_record(record.folder) or record)
    assert f"To apply its changes: nexus worktree apply {record.name}." in caught.value.hint
    apply_worktree(record)
    assert (project / "app.py").read_bytes() == both
    edit(2, "resolved")(project)
    assert state() == "applied"


@pytest.mark.matrix
@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_a_replaced_file_keeps_its_owner_and_attributes(project: Path) -> None:
    os.chown(project / "app.py", 12_345, 54_321)
    (project / "app.py").chmod(0o640)
    with suppress(OSError):
        os.setxattr(project / "app.py", "user.mine", b"kept")
    attributes = os.listxattr(project / "app.py")
    _, _ = applied(project, lambda folder: edit(2, "theirs")(folder))
    about = (project / "app.py").stat()
    assert (about.st_uid, about.st_gid, stat.S_IMODE(about.st_mode)) == (12_345, 54_321, 0o640)
    assert os.listxattr(project / "app.py") == attributes and "theirs" in (project / "app.py").read_text()
