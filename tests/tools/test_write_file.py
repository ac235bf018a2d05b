"""`write_file`: creates, replaces what was read, keeps what is the file's own, spares what nobody looked at."""

from __future__ import annotations

import asyncio
import os
import stat
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.tools.atomic_write import replace_file
from nexus_cli.tools.cancellable_thread import StopFlag, ThreadStopped
from nexus_cli.tools.files import ToolError, sha256_hex


def test_a_new_file_is_created_with_its_folders(desk: Any) -> None:
    result = desk.run("write_file", path="a/b/c.txt", content="one\ntwo")
    assert (result.output, result.changed) == ("created a/b/c.txt, 2 lines", ("a/b/c.txt",))
    assert (desk.project / "a/b/c.txt").read_bytes() == b"one\ntwo"


def test_a_new_file_has_the_mode_that_the_umask_leaves(desk: Any) -> None:
    before = os.umask(0o027)
    try:
        desk.run("write_file", path="a", content="")
    finally:
        os.umask(before)
    assert stat.S_IMODE((desk.project / "a").stat().st_mode) == 0o640


def test_an_existing_file_must_have_been_read(desk: Any) -> None:
    path = desk.write("a", "precious")
    assert "read it first" in desk.run("write_file", path="a", content="x").error
    assert path.read_text() == "precious"
    desk.run("read_file", path="a")
    assert desk.run("write_file", path="a", content="x").output == "replaced a, 1 line"


def test_an_empty_file_may_be_filled_unread(desk: Any) -> None:
    desk.write("a", "")
    assert desk.run("write_file", path="a", content="x").success


def test_a_file_that_changed_since_it_was_read_is_left_alone(desk: Any) -> None:
    path = desk.write("a", "old")
    desk.run("read_file", path="a")
    path.write_text("changed by somebody")
    assert "changed on disk" in desk.run("write_file", path="a", content="x").error
    assert path.read_text() == "changed by somebody"


def test_mode_link_encoding_and_line_ends_of_a_replaced_file_stay(desk: Any) -> None:
    path = desk.write("a", "\ufeffa\r\nb\r\n".encode("utf-16-le"))
    path.chmod(0o751)
    (desk.project / "link").symlink_to("a")
    desk.run("read_file", path="link")
    assert desk.run("write_file", path="link", content="é\nc\n").changed == ("a",)
    assert path.read_bytes() == "\ufeffé\r\nc\r\n".encode("utf-16-le")
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert (desk.project / "link").is_symlink()


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"\xef\xbb\xbfa\n", "\ufeffb\n", b"\xef\xbb\xbfb\n"),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        (b"\xef\xbb\xbf", "\ufeffb\n", b"\xef\xbb\xbfb\n"),
        (b"\xef\xbb\xbf" + "é\n".encode() * 9 + b"\xff", "b", b"\xef\xbb\xbfb"),
        ("\ufeffa\r\n".encode("utf-16-be"), "\ufeffb\nc\n", "\ufeffb\r\nc\r\n".encode("utf-16-be")),
        (b"a\r\nb\nc\r\n", "a\nb\nx\nc\n", b"a\r\nb\nx\nc\r\n"),
        (b"a\nb\n", "a\r\nb\n", b"a\r\nb\n"),
        (b"a\rb\r", "a\nc\n", b"a\rc\r"),
    ],
)
def test_a_replaced_file_keeps_its_form(desk: Any, before: bytes, content: str, after: bytes) -> None:
    path = desk.write("a", before)
    desk.memory.note(str(path.resolve()), sha256_hex(before), "read")
    result = desk.run("write_file", path="a", content=content)
    assert result.success, result.error
    assert path.read_bytes() == after


def test_a_letter_that_the_encoding_lacks_is_an_error(desk: Any) -> None:
    desk.write("a", "Müller".encode("latin-1"))
    desk.run("read_file", path="a")
    assert desk.run("write_file", path="a", content="→").error == "a: is cp1252, which has no '→'"


def test_a_folder_or_a_file_in_the_way_is_an_error(desk: Any) -> None:
    desk.write("d/f", "")
    assert "folder" in desk.run("write_file", path="d", content="").error
    assert desk.run("write_file", path="d/f/x", content="").error
    os.mkfifo(desk.project / "pipe")
    assert "FIFO" in desk.run("write_file", path="pipe", content="").error


def test_a_working_folder_that_is_gone_is_not_made_again(desk: Any) -> None:
    desk.project.rmdir()
    assert desk.run("write_file", path="a", content="").error == "a: the working folder no longer exists"
    assert not desk.project.exists()


def test_a_dangling_link_gets_its_target(desk: Any) -> None:
    (desk.project / "link").symlink_to("sub/new")
    assert desk.run("write_file", path="link", content="x").success
    assert (desk.project / "sub/new").read_text() == "x"


def test_a_change_at_the_last_moment_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("new")
    with pytest.raises(ToolError, match="changed on disk"):
        replace_file(path, b"x", StopFlag(), expected=sha256_hex(b"old"))
    with pytest.raises(ToolError, match="changed on disk"):
        replace_file(path, b"x", StopFlag(), expected=None)
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a"]


def test_a_write_that_is_stopped_leaves_the_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    stop = StopFlag()
    stop.press()
    with pytest.raises(ThreadStopped):
        replace_file(path, b"x", stop, expected=sha256_hex(b"old"))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_what_a_killed_process_left_is_removed_by_the_next_write_in_the_folder(desk: Any) -> None:
    killed, fresh, foreign = ".nexus-0123456789abcdef", ".nexus-fedcba9876543210", ".nexus-0123456789abcdef.txt"
    for name in (killed, fresh, foreign):
        desk.write(name, "x")
    for name in (killed, foreign):
        os.utime(desk.project / name, (0, 0))
    folder = desk.project / ".nexus-00000000000000ff"
    folder.mkdir()
    os.utime(folder, (0, 0))
    assert desk.run("write_file", path="a", content="x").success
    assert sorted(os.listdir(desk.project)) == sorted([folder.name, fresh, foreign, "a"])


@pytest.mark.matrix
@pytest.mark.parametrize("steps", range(0, 40, 4))
def test_a_cancelled_write_has_happened_whole_or_not_at_all(desk: Any, steps: int) -> None:
    path = desk.write("a", "o" * 400_000)
    desk.run("read_file", path="a")

    async def interrupted() -> None:
        task = asyncio.create_task(desk.call("write_file", path="a", content="n" * 400_000))
        await asyncio.sleep(steps / 10_000)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(interrupted())
    data = path.read_bytes()
    assert data in (b"o" * 400_000, b"n" * 400_000)
    assert os.listdir(desk.project) == ["a"]
    assert desk.memory.files[str(path.resolve())] == sha256_hex(data), "what is remembered is what is there"


def test_a_name_of_another_spelling_is_the_file_that_is_there(desk: Any) -> None:
    there = desk.write(unicodedata.normalize("NFD", "é a.txt").replace(" ", "\u202f"), "old\n")
    written = unicodedata.normalize("NFC", "é a.txt")
    assert "was not read yet" in desk.run("write_file", path=written, content="new\n").error
    assert desk.run("read_file", path=f"@{written}").output == "old\n"
    assert desk.run("write_file", path=written, content="new\n").success
    assert [path.read_text() for path in desk.project.iterdir()] == ["new\n"] and there.exists()


def test_a_new_file_is_noted_as_created_and_a_former_one_as_changed(desk: Any) -> None:
    for content in ("a", "b"):
        assert desk.run("write_file", path="new.txt", content=content).success
    assert [how for _, how in desk.memory.notes] == ["created", "changed"]
