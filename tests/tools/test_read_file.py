"""`read_file` over real files: text in many encodings, ranges, folders, and what is no text."""

from __future__ import annotations

import hashlib
import os
import socket
from typing import Any

import pytest

from nexus_cli.tools import files
from nexus_cli.tools.builtin import read_file


def test_a_text_file_comes_as_it_is_and_is_remembered(desk: Any) -> None:
    path = desk.write("a.py", "def f():\n\treturn 'é \x1b[31m'\n")
    assert desk.run("read_file", path="a.py").output == "def f():\n\treturn 'é \x1b[31m'\n"
    assert desk.memory.files == {str(path.resolve()): hashlib.sha256(path.read_bytes()).hexdigest()}
    assert desk.memory.notes[0][1] == "read"


def test_a_file_behind_a_link_is_remembered_under_its_own_name(desk: Any) -> None:
    path = desk.write("a.txt", "x")
    (desk.project / "link").symlink_to("a.txt")
    assert desk.run("read_file", path="link").output == "x"
    assert list(desk.memory.files) == [str(path.resolve())]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"offset": 2}, "[lines 2-4 of 4]\nb\nc\nd\n"),
        ({"offset": 2, "limit": 2}, "[lines 2-3 of 4]\nb\nc\n"),
        ({"limit": 1}, "[lines 1-1 of 4]\na\n"),
        ({"offset": 4, "limit": 9}, "[lines 4-4 of 4]\nd\n"),
    ],
)
def test_a_range_of_lines_says_which_it_is(desk: Any, arguments: dict[str, int], shown: str) -> None:
    desk.write("a", "a\nb\nc\nd\n")
    assert desk.run("read_file", path="a", **arguments).output == shown


def test_a_last_line_without_newline_gains_none(desk: Any) -> None:
    desk.write("a", "a\nb")
    assert desk.run("read_file", path="a", offset=2).output == "[lines 2-2 of 2]\nb"


def test_an_offset_behind_the_end_is_told_the_length(desk: Any) -> None:
    desk.write("a", "a\nb\n")
    assert desk.run("read_file", path="a", offset=3).error == "a: has only 2 lines"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"", "[empty file]\n"),
        (b"a\r\nb\r\n", "[CRLF line ends]\na\nb\n"),
        (b"a\r\nb\n", "[mixed line ends]\na\nb\n"),
        (b"\xef\xbb\xbfa\n", "a\n"),
        ("a\u2028é\n".encode("utf-16"), "[utf-16-le]\na\u2028é\n"),
        ("Müller\n".encode("latin-1"), "[cp1252]\nMüller\n"),
        ("日本語のテキストです。これはテスト".encode("shift_jis"), "[cp932]\n日本語のテキストです。これはテスト"),
        (("é" * 20).encode() + b"\xff\n", "[some bytes are not UTF-8]\n" + "é" * 20 + "\ufffd\n"),
    ],
)
def test_encodings_and_line_ends_are_read_and_named(desk: Any, data: bytes, shown: str) -> None:
    desk.write("a", data)
    assert desk.run("read_file", path="a").output == shown


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 20, "a PNG image"),
        (b"\xff\xd8\xff\xe0" + b"\0" * 20, "a JPEG image"),
        (b"GIF89a" + b"\0" * 20, "a GIF image"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "a WebP image"),
        (b"\x7fELF\0\0\0", "binary"),
        (bytes(range(1, 256)) * 8, "binary"),
    ],
)
def test_images_and_binary_files_are_told_apart_and_not_remembered(desk: Any, data: bytes, kind: str) -> None:
    desk.write("a", data)
    result = desk.run("read_file", path="a")
    assert result.error == f"a: is {kind}, {len(data)} bytes: only text can be read"
    assert not desk.memory.files


def test_a_folder_is_listed(desk: Any) -> None:
    desk.write("d/b.txt", "")
    desk.write("d/A/x", "")
    desk.write("d/.hidden", "")
    assert desk.run("read_file", path="d").output == ".hidden\nA/\nb.txt"
    (desk.project / "empty").mkdir()
    assert desk.run("read_file", path="empty").output == "[empty folder]"


def test_what_could_block_or_never_end_is_refused(desk: Any) -> None:
    os.mkfifo(desk.project / "pipe")
    server = socket.socket(socket.AF_UNIX)
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(desk.project)
        server.bind("socket")
    finally:
        os.fchdir(here)
        os.close(here)
        server.close()
    assert desk.run("read_file", path="pipe").error == "pipe: is a FIFO, not a regular file"
    assert desk.run("read_file", path="socket").error == "socket: is a socket, not a regular file"
    assert desk.run("read_file", path="/dev/zero").error == "/dev/zero: is a device, not a regular file"


def test_what_is_not_there_is_an_error_with_the_cause(desk: Any) -> None:
    (desk.project / "loop").symlink_to("loop")
    desk.write("f", "")
    assert desk.run("read_file", path="gone").error == "gone: No such file or directory"
    assert "links" in desk.run("read_file", path="loop").error
    assert desk.run("read_file", path="f/x").error == "f/x: Not a directory"


def test_beyond_the_hard_limit_bytes_are_counted_and_not_kept(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert files.HARD_LIMIT == 64 * 1024 * 1024
    monkeypatch.setattr(read_file, "read_file_at", lambda folder, name: files.read_file_at(folder, name, 1000))
    desk.write("a", "x" * 1000 + "y" * 234)
    result = desk.run("read_file", path="a")
    assert result.output.endswith("234 bytes follow]\n" + "x" * 1000)
    assert result.uncounted == 234
    assert not desk.memory.files, "a digest of a part would be taken for the whole"


def test_a_name_that_is_not_there_is_answered_with_the_nearest_one(desk: Any) -> None:
    desk.write("src/config.py", "x")
    error = desk.run("read_file", path="src/confg.py").error
    assert error.endswith("No such file or directory. Did you mean src/config.py?")
    for tool in ("grep", "glob"):
        assert desk.run(tool, pattern="x", path="scr").error.endswith("Did you mean src?")
    edited = desk.run("edit_file", path="src/confg.py", edits=[{"old": "x", "new": "y"}]).error
    assert "Did you mean src/config.py?" in edited


@pytest.mark.parametrize("path", ["", "  "])
def test_an_empty_path_is_an_error_of_every_tool(desk: Any, path: str) -> None:
    given: dict[str, dict[str, Any]] = {
        "read_file": {},
        "grep": {"pattern": "x"},
        "glob": {"pattern": "x"},
        "write_file": {"content": "x"},
        "edit_file": {"edits": [{"old": "x", "new": "y"}]},
    }
    assert all("must not be empty" in desk.run(tool, path=path, **more).error for tool, more in given.items())
