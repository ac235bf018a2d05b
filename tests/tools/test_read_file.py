"""`read_file` over real files: text in many encodings, ranges, folders, and what is no text."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from images import first_row, png
from tools.documents import SCANNED, make_notebook, make_pdf

from nexus_cli.core.image_check import describe_bad_image
from nexus_cli.tools import documents, editor_texts, files
from nexus_cli.tools.builtin import read_file
from nexus_cli.tools.files import ToolError


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
        (b"a\r\nb\r\n", "[CRLF line endings]\na\nb\n"),
        (b"a\r\nb\n", "[mixed line endings]\na\nb\n"),
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
def test_images_and_binary_files_are_told_apart_and_images_are_in_the_record_of_the_work(
    desk: Any, data: bytes, kind: str
) -> None:
    desk.write("a", data)
    result = desk.run("read_file", path="a")
    if kind == "binary":
        assert result.error == f"a: cannot be read as text ({len(data):,} bytes)" and not result.images
    else:
        assert result.success and [given for _, given in result.images] == [data] and not result.file
    assert [how for _, how in desk.memory.notes] == ["read"] * (kind != "binary")


def test_images_among_several_parts_keep_their_order(desk: Any) -> None:
    for name, data in (("one.png", png(1)), ("two.txt", b"words\n"), ("three.png", png(2))):
        desk.write(name, data)
    result = desk.run("read_file", path="one.png", more=["two.txt", "three.png"])
    assert [data for _, data in result.images] == [png(1), png(2)]
    assert "[one.png]" in result.output and "words" in result.output and "[three.png]" in result.output


def test_a_folder_is_listed(desk: Any) -> None:
    desk.write("d/b.txt", "")
    desk.write("d/A/x", "")
    desk.write("d/.hidden", "")
    (desk.project / "d/loop").symlink_to("loop")
    (desk.project / "d/to_a").symlink_to("A")
    assert desk.run("read_file", path="d").output == ".hidden\nA/\nb.txt\nloop\nto_a/"
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
    with open(desk.project / "large", "wb") as large:
        large.truncate(5 << 30)
    for tool, more in (("read_file", {}), ("grep", {"pattern": "x"}), ("write_file", {"content": "x"})):
        assert desk.run(tool, path="pipe", **more).error == "pipe: is a FIFO, not a regular file"
        assert desk.run(tool, path="socket", **more).error == "socket: is a socket, not a regular file"
        assert desk.run(tool, path="/dev/zero", **more).error == "/dev/zero: is a device, not a regular file"
    with open(desk.project / "large.png", "wb") as large:
        large.write(b"\x89PNG\r\n\x1a\n")
        large.truncate(65 << 20)
    assert desk.run("read_file", path="large.png").error == "large.png: is a PNG image over 64 MiB"
    assert desk.run("grep", path="large", pattern="x").error == "large: is over 64 MiB: it is not searched"
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with open(reading, "rb", buffering=0) as file, pytest.raises(ToolError, match="reading more would block"):
        files._read_ready(file, 1)  # as /proc/kmsg, which is called a regular file
    os.close(writing)


def test_what_is_not_there_is_an_error_with_the_cause(desk: Any) -> None:
    (desk.project / "loop").symlink_to("loop")
    desk.write("f", "")
    assert desk.run("read_file", path="gone").error == "gone: No such file or directory"
    assert "links" in desk.run("read_file", path="loop").error
    assert desk.run("read_file", path="f/x").error == "f/x: Not a directory"


def test_beyond_the_hard_limit_bytes_are_counted_and_not_kept(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert files.HARD_LIMIT == 64 * 1024 * 1024
    monkeypatch.setattr(editor_texts, "read_real_file", lambda path: files.read_real_file(path, 1000))
    desk.write("a", "x" * 1000 + "y" * 234)
    result = desk.run("read_file", path="a")
    assert result.output.endswith("; bytes that were not read: 234]\n" + "x" * 1000)
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


def test_the_parts_of_one_call_have_one_limit_and_each_file_is_read_once(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    threads: list[threading.Thread] = []
    read, join = files.read_real_file, read_file._join_parts

    def read_noted(path: Path) -> files.FileContent:
        opened.append(path.name)
        return read(path)

    def join_noted(*parts: Any) -> Any:
        threads.append(threading.current_thread())
        return join(*parts)

    monkeypatch.setattr(read_file, "HARD_LIMIT", 1000)
    monkeypatch.setattr(editor_texts, "read_real_file", read_noted)
    monkeypatch.setattr(read_file, "_join_parts", join_noted)
    desk.write("big", b"x" * 9 + b"\n" + b"y" * 590 + b"\n")
    desk.write("other", b"z" * 700)
    result = desk.run("read_file", path="big", more=["big:1-,1-1", "other", "big:2-"])
    assert result.text.count("y" * 590) == 1 and "zz" not in result.text, result.text
    assert result.text.count("x" * 9) == 2, "what still fits is read"
    assert result.text.count("not read") == 3 and result.success, result.text
    assert opened == ["big", "other", "big"] and threads[0] is not threading.main_thread()


def test_several_ranges_and_files_are_read_in_one_call(desk: Any) -> None:
    desk.write("a.py", "".join(f"line {n}\n" for n in range(1, 101)))
    desk.write("b.txt", "b\r\n")
    desk.write("c:3-4", "named so\n")
    desk.write("d/e", "")
    result = desk.run("read_file", path="a.py", offset=2, limit=1, more=["a.py:50-51,99-", "b.txt", "a.py:7", "d"])
    assert result.output == (
        "[a.py; lines 2-2 of 100]\nline 2\n\n[a.py; lines 50-51 of 100]\nline 50\nline 51\n\n"
        "[a.py; lines 99-100 of 100]\nline 99\nline 100\n\n[b.txt; CRLF line endings]\nb\n\n"
        "[a.py; lines 7-7 of 100]\nline 7\n\n[d]\ne\n"
    )
    assert result.counts == {"lines": 7, "entries": 1} and not result.error
    assert desk.run("read_file", path="c:3-4").output == "named so\n", "`path` is a name, whatever it ends in"
    mixed = desk.run("read_file", path="a.py", limit=1, more=["no.py", "a.py:9-3"])
    assert (
        "no.py: No such file" in mixed.output and "a.py: the last line of a range is before its first" in mixed.output
    )
    assert desk.run("read_file", path="no", more=["no.py:1"]).error.count("No such file") == 2
    assert desk.run("read_file", path="a.py", more=["a.py"] * 50).error


SOURCES = {
    "a.py": "import os\n\nclass A(B):\n    async def m(self):\n        x = 1\n\ndef f(): pass\n",
    "a.ts": "import x\nexport default class A {\n  private get(a: b): void {\n    if (a) {\n    }\n  }\n}\n"
    "export const f = async (a) => {\n",
    "a.go": "package m\n\nfunc (s *S) M() error {\n\treturn nil\n}\ntype S struct {\n}\n",
    "a.rs": "use x;\npub(crate) struct S;\nimpl S {\n    pub async fn m(&self) {\n    }\n}\n",
    "A.java": "package a;\nfinal class A {\n    private int x = f(1);\n    public static void main(String[] a) {\n",
    "A.cs": "namespace N {\n    public record R(int A);\n    internal async Task<int> M(int a)\n    {\n",
    "a.kt": "data class A(val b: Int)\nfun f() = 1\nval x = f()\n",
    "a.scala": "object A {\n  def f(x: Int) = 1\n  val y = f(1)\n}\n",
    "a.swift": "struct A {\n    func f() {\n    }\n    init(a: Int) {\n    }\n}\n",
    "a.cpp": "#include <x>\nstruct S {\n};\nint main(int argc) {\n  return f(1);\n}\nint f(int);\n",
    "a.rb": "module M\n  class A\n    def f\n      1\n    end\n",
    "a.php": "<?php\nabstract class A {\n    public function f() {\n        return g();\n",
    "a.sh": "set -e\nfunction f {\n  g x\n}\nh() {\n",
    "a.md": "# One\ntext # no\n```sh\n# comment\n```\n## Two\n",
}
ROWS = {
    "a.py": [3, 4, 7],
    "a.ts": [2, 3, 8],
    "a.go": [3, 6],
    "a.rs": [2, 3, 4],
    "A.java": [2, 4],
    "A.cs": [1, 2, 3],
    "a.kt": [1, 2],
    "a.scala": [1, 2],
    "a.swift": [1, 2, 4],
    "a.cpp": [2, 4],
    "a.rb": [1, 2, 3],
    "a.php": [2, 3],
    "a.sh": [2, 5],
    "a.md": [1, 6],
}


@pytest.mark.parametrize("name", SOURCES)
def test_an_outline_has_the_lines_of_definitions_and_headings(desk: Any, name: str) -> None:
    desk.write(name, SOURCES[name])
    head, *rows = desk.run("read_file", path=name, limit=0).output.splitlines()
    assert head == f"[outline of {SOURCES[name].count(chr(10))} lines]"
    assert [int(row.partition(":")[0]) for row in rows] == ROWS[name], rows
    assert not desk.memory.files, "an outline is no reading of the file"


def test_an_outline_of_many_definitions_leaves_out_the_deeper_ones_and_counts_them(desk: Any) -> None:
    desk.write("a.py", "".join(f"class A{n}:\n    def m(self):\n        pass\n" for n in range(150)))
    rows = desk.run("read_file", path="a.py", limit=0).output.splitlines()
    assert len(rows) == 152 and rows[-1] == "[150 more]" and not any("def" in row for row in rows)
    desk.write("flat.py", "def f(): pass\n" * 1000)
    assert len(desk.run("read_file", path="flat.py", limit=0).output.splitlines()) == 202
    desk.write("x.dat", "text\n")
    assert desk.run("read_file", path="x.dat", limit=0).output.endswith("no definitions or headings are recognized]")


@pytest.mark.matrix
def test_outlining_hostile_lines_takes_no_time(desk: Any) -> None:
    lines = (
        "(" * 400,
        "a " * 200,
        "public " * 60,
        "const x" + " " * 390,
        "a<" * 200,
        "template <" + "<" * 390,
        "a, " * 130,
    )
    for name in (*SOURCES, "a.sql", "a.toml", "a.lua"):
        desk.write(name, "".join(f"{line}\n" for line in lines * 100))
        begun = time.process_time()
        desk.run("read_file", path=name, limit=0)
        assert time.process_time() - begun < 60, name


@pytest.mark.matrix
def test_a_pdf_comes_by_its_pages(desk: Any) -> None:
    desk.write("s.pdf", make_pdf(["One\nfirst", "Two (2)", ""]))
    assert desk.run("read_file", path="s.pdf").output == (
        "[PDF; pages 3]\n[page 1]\nOne\nfirst\n\n[page 2]\nTwo (2)\n\n[page 3]\n(no text)"
    )
    assert [how for _, how in desk.memory.notes] == ["read"], "the record of the work names it"
    part = desk.run("read_file", path="s.pdf", offset=2, limit=1)
    assert part.output == "[PDF; pages 2-2 of 3]\n[page 2]\nTwo (2)" and part.counts == {"pages": 1}
    assert desk.run("read_file", path="s.pdf", limit=0).output == "[PDF; pages 3]\n1: One\n2: Two (2)\n3: (no text)"
    assert desk.run("read_file", path="s.pdf", offset=4).error == "s.pdf: has only 3 pages"
    assert len(desk.memory.notes) == 2, "an outline is no reading"
    desk.write("late.pdf", b"\n" + make_pdf(["One"]))
    assert "One" in desk.run("read_file", path="late.pdf").output
    desk.write("hyphen.pdf", make_pdf(["run it with --no-\nsandbox"]))
    assert "--no-\nsandbox" in desk.run("read_file", path="hyphen.pdf").output
    desk.write("notes.txt", "\n%PDF- begins a PDF\n")
    assert desk.run("read_file", path="notes.txt").output == "\n%PDF- begins a PDF\n"
    desk.write("bad.pdf", b"%PDF-1.4\nnothing")
    assert desk.run("read_file", path="bad.pdf").error.startswith(
        "bad.pdf: is a PDF that cannot be read: it is broken: Failed to load"
    )


@pytest.mark.matrix
def test_pages_of_a_pdf_are_pictures_too_for_a_model_that_takes_some(desk: Any) -> None:
    desk.write("s.pdf", make_pdf(["One", SCANNED, "Three"]))
    assert not desk.run("read_file", path="s.pdf").images
    desk.pictures = 3
    result = desk.run("read_file", path="s.pdf")
    assert result.output.endswith("Three\n[images of pages 1, 2, 3]"), result
    assert [kind for kind, _ in result.images] == ["image/png"] * 3
    assert not [bad for _, data in result.images if (bad := describe_bad_image(data))]
    width, height, row = first_row(result.images[1][1])
    assert (width, height) == (943, 1220) and row == b"\xff\x80\0" * width
    assert first_row(result.images[0][1]) == (943, 1220, b"\xff" * width), "a page without colour is grey"
    assert not desk.run("read_file", path="s.pdf", limit=0).images

    desk.pictures = 2
    result = desk.run("read_file", path="s.pdf")
    assert "\n[image of page 2]\n[no image of 2 pages: read at most 2 pages" in result.text
    assert len(result.images) == 1
    result = desk.run("read_file", path="s.pdf", offset=2)
    assert len(result.images) == 2 and "[no picture" not in result.text
    result = desk.run("read_file", path="s.pdf", offset=1, limit=1, more=["s.pdf:2-3"])
    assert len(result.images) == 2 and "image of page 1]" in result.text and "image of page 2]" in result.text

    base = make_pdf(["One"])
    for sides, wanted in ((b"[0 0 14400 14400]", (1073, 1073)), (b"[0 0 9 9999]", (2, 1568)), (b"[0 0 9 9]", (36, 36))):
        desk.write("odd.pdf", base.replace(b"[0 0 612 792]", sides))
        assert first_row(desk.run("read_file", path="odd.pdf").images[0][1])[:2] == wanted, sides


@pytest.mark.matrix
def test_a_page_that_cannot_be_drawn_keeps_its_text(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.pictures = 2
    failing = documents._PDF_WORKER.replace("page.get_size()", "page.get_size() if number == 2 else os.abort()")
    monkeypatch.setattr(documents, "_PDF_WORKER", failing.replace("import math", "import math\nimport os"))
    desk.write("s.pdf", make_pdf(["One", "Two"]))
    result = desk.run("read_file", path="s.pdf")
    assert result.output.endswith("Two\n[no image of pages 1, 2: not rendered]") and not result.images


@pytest.mark.matrix
def test_a_pdf_that_blows_up_or_never_ends_is_stopped(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("bomb.pdf", make_pdf(["boom", "after"], blow_up=1 << 28))
    result = desk.run("read_file", path="bomb.pdf")
    assert "after" in result.text or "stopped after page" in result.text or result.error, result
    assert len(result.text) < 10_000
    desk.write("long.pdf", make_pdf(["x" * 80] * 300))
    monkeypatch.setattr(documents, "_PDF_WORKER", "while True: pass")
    monkeypatch.setattr(documents, "PDF_SECONDS", 0.1)
    assert "within 0 s" in desk.run("read_file", path="long.pdf").error


@pytest.mark.matrix
def test_a_notebook_of_too_many_values_is_read_as_text_and_says_so(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("many.ipynb", '{"cells":[' + ",\n".join(["{}"] * 2_000_000) + "]}")
    parsed: list[int] = []
    monkeypatch.setattr(documents, "json", SimpleNamespace(loads=lambda text: parsed.append(len(text))))
    real, counted_in = documents.has_too_many_values, list[threading.Thread]()

    def counts(data: bytes) -> bool:
        counted_in.append(threading.current_thread())
        return real(data)

    monkeypatch.setattr(documents, "has_too_many_values", counts)
    monkeypatch.setattr(read_file, "has_too_many_values", counts)
    result = desk.run("read_file", path="many.ipynb", limit=2)
    assert counted_in and threading.main_thread() not in counted_in, "the loop goes on meanwhile"
    assert result.output.startswith(
        "[the JSON of a notebook that is too large to show its cells; lines 1-2 of 2000000]"
    )
    assert not parsed and result.output.endswith('\n{"cells":[{},\n{},\n'), result.output


@pytest.mark.matrix
def test_the_text_of_a_notebook_stops_at_a_bound(desk: Any) -> None:
    image = {"data": {"image/png": "A" * 8_000_000}}
    outputs = [{"text": "\n" * 60 + "x"}] * 40_000
    desk.write("a.ipynb", make_notebook([("code", "plot", [image]), *[("code", "y" * 90_000, [])] * 10]))
    desk.write("b.ipynb", make_notebook([("code", "print", outputs)]))
    pages = desk.run("read_file", path="a.ipynb").output
    assert "[image/png]" in pages and pages.endswith("\n[stopped after cell 6: the text is too long]")
    assert pages.startswith("[notebook; edits apply to its JSON; cells 1-6 of 11]")
    assert "cells 7-11 of 11" in desk.run("read_file", path="a.ipynb", offset=7).output.splitlines()[0]
    long = desk.run("read_file", path="b.ipynb").output
    assert long.endswith("[more output]") and len(long) < 500_000 and "[41 more lines]" in long


def test_the_pictures_of_a_notebook_are_seen(desk: Any) -> None:
    desk.pictures = 2
    drawn = [{"data": {"image/png": base64.b64encode(png(extra=at)).decode()}} for at in range(3)]
    broken = {"data": {"image/png": "none"}, "text": ["kept"]}
    desk.write("a.ipynb", make_notebook([("code", "first", [broken, drawn[0]]), ("code", "second", drawn[1:])]))
    result = desk.run("read_file", path="a.ipynb")
    assert result.images == (("image/png", png()), ("image/png", png(extra=1))), "at most two"
    assert desk.run("read_file", path="a.ipynb", offset=2).images[0] == ("image/png", png(extra=1))
    assert not desk.run("read_file", path="a.ipynb", limit=0).images


def test_a_file_called_a_notebook_that_is_none_is_text(desk: Any) -> None:
    for text in ("{", "[]", '{"cells": 1}', '{"cells": ["a"]}', '{"cells": ' * 5000):
        desk.write("a.ipynb", text)
        assert desk.run("read_file", path="a.ipynb").output == text
    odd = {"cells": [{"cell_type": 5, "source": [1, None], "outputs": [{"data": 4}, 7, {"text": {}}]}, {}]}
    desk.write("a.ipynb", json.dumps(odd))
    assert "[cell 2, raw]" in desk.run("read_file", path="a.ipynb").output
    assert desk.run("read_file", path="a.ipynb", offset=3).error == "a.ipynb: has only 2 cells"
