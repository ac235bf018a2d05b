"""What a compaction and a replay read from disk is bounded in time, and what hangs there holds up nothing."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from search import sample
from session.played import Played, opened

from nexus_cli.conversation.compaction.work_record import WorkRecord
from nexus_cli.conversation.compaction.work_sources import make_record
from nexus_cli.core.daemon_task import DaemonTask
from nexus_cli.core.real_files import read_regular
from nexus_cli.engine.compaction import file_states

Stuck = Callable[[], None]


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    """Blocks whoever calls it until the test is over; whether somebody had to be freed before fails the test."""
    free, late = threading.Event(), threading.Event()

    def freed() -> None:
        late.set()
        free.set()

    rescue = threading.Timer(300, freed)
    rescue.start()
    yield free.wait  # type: ignore[misc]


def reading(*names: str) -> Any:
    """A model that reads these files."""
    calls = [("read_file", {"path": name}) for name in names]
    return Played(lambda request: "done" if request.messages[-1]["role"] == "tool" else calls)


def looked(folder: Path, *names: str, act: Callable[[], None] = lambda: None, by: Played | None = None) -> WorkRecord:
    """The record of a session that reads these files, after what is done to them then."""
    session = opened(by or reading(*names), folder)

    async def live() -> WorkRecord:
        try:
            _ = [event async for event in session.run("look")]
            engine = session.engine
            await engine.read_work()
            act()
            return await file_states.look_at_files(make_record(engine.conversation, engine.work))
        finally:
            await session.aclose()

    return asyncio.run(live())


def module(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text(f"def {path.stem}() -> None: ...\n")
    return path


def lines(record: WorkRecord) -> list[str]:
    return sorted(item.text for item in record.items)


def test_files_stand_as_they_are_now(tmp_path: Path) -> None:
    paths = [module(tmp_path, f"{name}.py") for name in "abc"]

    def change() -> None:
        paths[1].write_text("def other() -> None: ...\n")
        paths[2].unlink()

    found = lines(looked(tmp_path, "a.py", "b.py", "c.py", act=change))
    assert found == ["- a.py (read)", "- b.py (read, changed on disk since)", "- c.py (read, deleted since)"]


def test_a_changed_file_has_the_lines_of_its_edits(tmp_path: Path) -> None:
    functions = "".join(f"def first_{n}() -> int:\n    return {n}\n\n\n" for n in range(100))
    for name in ("edited.py", "inside.py", "by_command.py"):
        (tmp_path / name).write_text(functions)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": "edited.py", "limit": 40}),
        (
            "edit_file",
            {"path": "edited.py", "edits": [{"old": "def first_60()", "new": "ADDED = 1\n\n\ndef renamed()"}]},
        ),
        ("edit_file", {"path": "edited.py", "edits": [{"old": "    return 2\n", "new": ""}]}),
        ("edit_file", {"path": "inside.py", "edits": [{"old": "return 70\n", "new": "return 71\n"}]}),
        ("write_file", {"path": "made.py", "content": "def made() -> None: ...\n"}),
        ("bash", {"command": "echo '# end' >> by_command.py"}),
    ]
    played = Played(lambda request: "done" if request.messages[-1]["role"] == "tool" else calls)
    assert lines(looked(tmp_path, by=played)) == [
        "- by_command.py (changed while a command ran)",
        "- echo '# end' >> by_command.py -> exit 0",
        "- edited.py (read 1-39, 240-243 of 402; changed 9, 240-243)",
        "- inside.py (read 282 of 400; changed 282)",
        "- made.py (created)",
    ]


@pytest.mark.matrix
def test_however_many_files_there_are_each_stands_as_it_is_now(tmp_path: Path) -> None:
    names = [f"f{number:02}.py" for number in range(40)]
    for name in names:
        module(tmp_path, name)

    def change() -> None:
        for name in names:
            (tmp_path / name).write_text("other = 1\n")

    found = lines(looked(tmp_path, *names, act=change))
    assert found == [f"- {name} (read, changed on disk since)" for name in names]


@pytest.mark.matrix
def test_files_are_read_up_to_a_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_states, "MAX_BYTES", 100)
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("x" * 60)

    def change() -> None:
        for name in "ab":
            (tmp_path / f"{name}.txt").write_text("y" * 60)

    found = lines(looked(tmp_path, "a.txt", "b.txt", act=change))
    assert sorted(found) == ["- a.txt (read)", "- b.txt (read, changed on disk since)"] or sorted(found) == [
        "- a.txt (read, changed on disk since)",
        "- b.txt (read)",
    ]


@pytest.mark.matrix
def test_two_files_never_have_one_name(tmp_path: Path) -> None:
    names = ["a b.txt", "a\nb.txt", "a\\nb.txt", '"a\\nb.txt"', "[nexus: a.txt", "(nexus: a.txt", "\x1bb.txt"]
    for name in names:
        (tmp_path / name).write_text("x")

    def change() -> None:
        (tmp_path / "a b.txt").write_text("y")

    found = lines(looked(tmp_path, *names, act=change))
    assert len(set(found)) == len(names) and all(len(line.splitlines()) == 1 for line in found)
    assert "- a b.txt (read, changed on disk since)" in found and r'- "a\nb.txt" (read)' in found
    assert not any("[nexus:" in line for line in found)


@pytest.mark.parametrize("strange", sample(["link", "pipe", "folder", "huge"], 2))
def test_what_has_taken_the_place_of_a_file_is_not_read(tmp_path: Path, strange: str) -> None:
    path = module(tmp_path, "a.py")

    def replace() -> None:
        path.unlink()
        if strange == "link":
            path.symlink_to("/dev/zero")
        elif strange == "pipe":
            os.mkfifo(path)
        elif strange == "folder":
            path.mkdir()
        else:
            path.write_bytes(b"\n" * (file_states.MAX_BYTES + 1))

    assert lines(looked(tmp_path, "a.py", act=replace)) == ["- a.py (read)"]


@pytest.mark.matrix
def test_a_read_that_hangs_costs_its_time_and_what_was_read_before_stays(
    tmp_path: Path, stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        module(tmp_path, f"{name}.py")
    real, read, tasks = read_regular, [], list[DaemonTask[None]]()

    def make_task(call: Callable[[], None], limit: float) -> DaemonTask[None]:
        tasks.append(DaemonTask(call, 3600.0))
        return tasks[-1]

    def slow(path: str, most: int) -> Any:
        read.append(path)
        if len(read) == 2:
            tasks[-1].limit = 0.0
            stuck()
        return real(path, most)

    monkeypatch.setattr(file_states, "read_regular", slow)
    monkeypatch.setattr(file_states, "DaemonTask", make_task)

    def change() -> None:
        for name in "ab":
            (tmp_path / f"{name}.py").write_text("other = 1\n")

    assert lines(looked(tmp_path, "a.py", "b.py", act=change)) in (
        ["- a.py (read)", "- b.py (read, changed on disk since)"],
        ["- a.py (read, changed on disk since)", "- b.py (read)"],
    )
    assert len(read) == 2


def test_the_record_says_which_lines_of_a_file_were_read(tmp_path: Path) -> None:
    names = "".join(f"def part_{number}() -> None: ...\n" for number in range(1, 901))
    for file in ("some.py", "many.py"):
        (tmp_path / file).write_text(names)
    (tmp_path / "whole.py").write_text("".join(names.splitlines(keepends=True)[:40]))
    (tmp_path / "cut.py").write_text("".join(f"value_{number} = {number} * 7919 + 17\n" for number in range(9_000)))

    def part(file: str, first: int, lines: int) -> tuple[str, dict[str, Any]]:
        return "read_file", {"path": file, "offset": first, "limit": lines}

    calls = [part("some.py", 840, 50), part("some.py", 10, 5), part("some.py", 15, 1)]
    calls += [("read_file", {"path": "cut.py"})]
    calls += [part("many.py", number, 1) for number in range(1, 30, 3)]
    calls += [part("whole.py", 20, 21), part("whole.py", 1, 19)]
    provider = Played(lambda request: "done" if request.messages[-1]["role"] == "tool" else calls)
    found = lines(looked(tmp_path, by=provider))
    assert found[1:] == [
        "- many.py (read 10 of 900 lines)",
        "- some.py (read 10-15, 840-889 of 900)",
        "- whole.py (read)",
    ]
    [(first, last), (again, end)] = re.findall(r"(\d+)-(\d+)", found[0])
    assert found[0].startswith("- cut.py (read 1-") and found[0].endswith(" of 9,000)")
    assert (first, end) == ("1", "9000") and 1 < int(last) < int(again) - 1_000
