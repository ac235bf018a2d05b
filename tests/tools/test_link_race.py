"""A file or a folder that turns into a link while a call runs: nothing outside of the project is read or written.

Owns the time between the decision and the use of a path. A thread swaps all the while; a call that is not granted is
not run.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from search import sample

from nexus_cli.core.message import ToolResult
from nexus_cli.permission.permission import decide, resolve_targets
from nexus_cli.tools import listing
from nexus_cli.tools.files import ToolError

SECRET = "outside-secret"
MAX_ROUNDS = 100
"""Times that the calls are repeated until one met a link and one did not."""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the project, whose files nobody may see or change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "a.txt").write_text(f"{SECRET} in a\n")
    (folder / f"{SECRET}.txt").write_text(f"{SECRET}\n")
    return folder


@contextmanager
def swapping(place: Path, link_to: Path) -> Iterator[None]:
    """Replace what is at `place` by a link to `link_to` and back, as fast as it goes, for as long as the body runs."""
    away, link = place.with_name("away.tmp"), place.with_name("link.tmp")
    link.symlink_to(link_to)
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            # A file that a call has just written over the link stays where it is: then there is nothing to put back.
            with suppress(OSError):
                os.rename(place, away)
                os.rename(link, place)
            with suppress(OSError):
                os.rename(place, link)
                os.rename(away, place)
            # A folder that a call has just made anew is in the way of the one that was moved.
            if away.is_dir() and place.is_dir() and not place.is_symlink():
                shutil.rmtree(away, ignore_errors=True)
            if not link.is_symlink():
                with suppress(OSError):
                    link.unlink()
                link.symlink_to(link_to)

    thread = threading.Thread(target=swap)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(interval)


def run_racing(desk: Any, name: str, rounds: int, **arguments: Any) -> Counter[str]:
    """Decide and run a call again and again; return how often it was asked about, failed and succeeded."""
    tool = desk.registry.get(name)
    ends: Counter[str] = Counter()

    async def race() -> None:
        for _ in range(rounds):
            try:
                targets = resolve_targets(tool, arguments, desk.project)
            except ToolError:
                ends["failed"] += 1
                continue
            granted = decide(tool, arguments, allow="edit", cwd=desk.project, project=desk.project, targets=targets)
            if not granted.is_granted:
                ends["asked"] += 1
                continue
            desk.memory.files.clear()
            result: ToolResult = await tool.run(arguments, replace(desk.context(), targets=targets))
            assert SECRET not in f"{result.text} {result.diff}"
            ends["ran" if result.success else "failed"] += 1

    asyncio.run(race())
    return ends


def content(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}


CALLS: dict[str, dict[str, Any]] = {
    "read_file": {},
    "edit_file": {"edits": [{"old": "a", "new": "b", "all": True}]},
    "write_file": {"content": "ours\n"},
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", sample(CALLS, 3))
@pytest.mark.parametrize("part", ["file", "folder"])
def test_a_link_that_is_swapped_in_is_never_followed(desk: Any, outside: Path, name: str, part: str) -> None:
    file = desk.write("d/a.txt", "a a a\n")
    before = content(outside)
    swapped, link_to = (file, outside / "a.txt") if part == "file" else (file.parent, outside)
    ends: Counter[str] = Counter()
    with swapping(swapped, link_to):
        for _ in range(MAX_ROUNDS):
            rounds = settings().max_examples * (2 if part == "file" else 1)
            ends += run_racing(desk, name, rounds, path="d/a.txt", **CALLS[name])
            if ends["asked"] and ends["ran"] + ends["failed"]:
                break
    assert content(outside) == before
    assert ends["asked"] and ends["ran"] + ends["failed"], ends


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["write_file", "read_file"])
def test_folders_that_are_made_or_missing_lead_nowhere_else(desk: Any, outside: Path, name: str) -> None:
    (desk.project / "d").mkdir()
    before = content(outside)
    with swapping(desk.project / "d", outside):
        for number in range(settings().max_examples // 2):
            run_racing(desk, name, 1, path=f"d/new{number}/{SECRET[:-1]}.txt", **CALLS[name])
            run_racing(desk, name, 1, path=f"d/{SECRET[:-1]}.tx", **CALLS[name])
    assert content(outside) == before


@pytest.mark.matrix
@pytest.mark.parametrize("with_git", sample([False, True], 3))
@pytest.mark.parametrize("name", ["glob", "grep"])
def test_a_search_names_and_shows_nothing_behind_a_swapped_link(
    desk: Any, outside: Path, monkeypatch: pytest.MonkeyPatch, name: str, with_git: bool
) -> None:
    if not with_git:
        monkeypatch.setattr(listing, "find_program", lambda program, project: None)
    desk.write("d/a.txt", "inside\n")
    pattern = "**/*.txt" if name == "glob" else "secret|inside"
    rounds = settings().max_examples * (2 if (name, with_git) == ("glob", False) else 1) // 2
    with swapping(desk.project / "d", outside):
        for path in (".", "d"):
            run_racing(desk, name, rounds, path=path, pattern=pattern)


@pytest.mark.matrix
def test_a_search_of_a_file_that_becomes_a_link_shows_nothing_of_it(desk: Any, outside: Path) -> None:
    file = desk.write("a.txt", "inside\n")
    with swapping(file, outside / "a.txt"):
        run_racing(desk, "grep", settings().max_examples, path="a.txt", pattern="secret|inside")


@pytest.mark.matrix
def test_a_link_inside_the_project_still_works_where_nothing_is_swapped(desk: Any) -> None:
    desk.write("real/a.txt", "a\n")
    (desk.project / "link").symlink_to("real")
    calls: dict[str, Callable[[], ToolResult]] = {
        "read_file": lambda: desk.run("read_file", path="link/a.txt"),
        "edit_file": lambda: desk.run("edit_file", path="link/a.txt", edits=[{"old": "a", "new": "b"}]),
        "glob": lambda: desk.run("glob", path="link", pattern="*.txt"),
        "grep": lambda: desk.run("grep", path="link", pattern="b"),
        "write_file": lambda: desk.run("write_file", path="link/new/b.txt", content="x"),
    }
    assert [name for name, call in calls.items() if not call().success] == []
    assert (desk.project / "real/new/b.txt").read_text() == "x"
