"""Names and files that are no ordinary ones: every tool of files answers, with the right file or with an error."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
from search import sample

from nexus_cli.tools import files

COMPOSED, DECOMPOSED = "caf\u00e9.txt", "cafe\u0301.txt"
ODD = ("a\nb.txt", "\x1b[31mred.txt", "n" * 255, " ", "-rf", "*.txt", "a:1-2", "[x].py", "\u202etxt.exe", "tab\t.txt")


@pytest.mark.matrix
@pytest.mark.parametrize("name", sample(ODD, 3))
def test_a_file_of_an_odd_name_is_read_edited_and_found(desk: Any, name: str) -> None:
    desk.write(f"d/{name}", "needle\nrest\n")
    path = f"d/{name}"
    assert desk.run("read_file", path=path).output == "needle\nrest\n"
    several = desk.run("read_file", path=path, limit=1, more=[f"{path}:2"]).output
    assert several.endswith("lines 2-2 of 2]\nrest\n") and several.count("needle") == 1
    assert not desk.run("edit_file", path=path, edits=[{"old": "rest", "new": "end"}]).error
    assert (desk.project / "d" / name).read_text() == "needle\nend\n"
    assert desk.run("grep", pattern="needle", path="d").output == f"d/{name}\n1:needle"
    assert desk.run("glob", pattern="*", path="d").output == f"d/{name}"
    assert not desk.run("write_file", path=path, content="x\n").error


def test_a_name_that_is_too_long_is_an_error(desk: Any) -> None:
    calls: dict[str, dict[str, Any]] = {"read_file": {}, "grep": {"pattern": "x"}, "write_file": {"content": "x"}}
    for tool, more in calls.items():
        assert "too long" in desk.run(tool, path="n" * 256, **more).error


def test_twins_that_differ_in_composition_are_two_files(desk: Any) -> None:
    desk.write(COMPOSED, "composed\n")
    if (desk.project / DECOMPOSED).exists():
        pytest.skip("one file on this file system")
    assert desk.run("read_file", path=DECOMPOSED).output == "composed\n", "there is only one that can be meant"
    desk.write(DECOMPOSED, "decomposed\n")
    both = desk.run("read_file", path=COMPOSED, more=[f"{DECOMPOSED}:1"]).output
    assert both.index("]\ncomposed") < both.index("]\ndecomposed")
    desk.run("edit_file", path=DECOMPOSED, edits=[{"old": "decomposed", "new": "changed"}])
    assert (desk.project / COMPOSED).read_text() == "composed\n"
    assert (desk.project / DECOMPOSED).read_text() == "changed\n"


@pytest.mark.matrix
def test_links_in_a_circle_are_errors_and_no_endless_search(desk: Any) -> None:
    (desk.project / "loop").symlink_to("pool")
    (desk.project / "pool").symlink_to("loop")
    (desk.project / "deep").mkdir()
    (desk.project / "deep/up").symlink_to("..")
    desk.write("a.txt", "needle\n")
    for tool, more in (("read_file", {}), ("grep", {"pattern": "x"}), ("glob", {"pattern": "*"})):
        assert desk.run(tool, path="loop", **more).error, tool
    assert desk.run("grep", pattern="needle").output == "a.txt\n1:needle"
    assert desk.run("glob", pattern="**").output.split("\n") == ["a.txt", "deep/up", "loop", "pool"]
    assert desk.run("read_file", path="deep/up/deep/up/a.txt").output == "needle\n"


@pytest.mark.matrix
def test_a_file_that_grows_while_it_is_read_ends(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path, over = desk.write("log.txt", "line 0\n" * 1000), threading.Event()
    monkeypatch.setattr(files, "HARD_LIMIT", 1 << 20)

    def grow() -> None:
        with open(path, "a") as file:
            while not over.is_set():
                file.write("another line\n" * 20_000)
                file.flush()
                if file.tell() > 8 << 20:
                    file.truncate(1 << 19)
                    file.seek(0, os.SEEK_END)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        for _ in range(3):
            assert desk.run("read_file", path="log.txt", offset=1, limit=2).output.startswith("[lines 1-2 of ")
            assert desk.run("read_file", path="log.txt", more=["log.txt:5"]).output
            assert "line 0" in desk.run("grep", pattern="line 0", limit=2).text
    finally:
        over.set()
        writer.join()


def test_one_special_file_among_several_does_not_hide_the_others(desk: Any) -> None:
    os.mkfifo(desk.project / "fifo")
    desk.write("a.txt", "text\n")
    result = desk.run("read_file", path="fifo", more=["a.txt", "/dev/zero", "fifo:1-2"])
    assert "[a.txt]\ntext\n" in result.output
    assert result.output.count("fifo: is a FIFO, not a regular file") == 2
    assert "/dev/zero: is a device, not a regular file" in result.output
