"""The count of `task_tokens` cannot lie: what is hidden and needed is read again, and only repeated beginnings are
cached."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.changes import FileChange, Hunk
from benchmarks.task_player import Account, Player, PrefixCache, Script
from benchmarks.task_tokens import MODEL, Choice, choosing, play
from benchmarks.trajectories import Coder, Trajectory

from nexus_cli.core.request import ModelInfo, Request

OTHERS = 6
TEXT = "".join(f"line_{number} = {number}\n" for number in range(200))
CHANGE = FileChange("first.py", 200, (Hunk(3, "line_2 = 2\n", "line_2 = 3\n"),), TEXT.replace("= 2\n", "= 3\n", 1))


def looking(player: Player, folder: Path, others: int) -> Script:
    """Read a file, then so many others, then change the first."""
    yield [("read_file", {"path": "first.py"})]
    for number in range(others):
        yield [("read_file", {"path": f"other{number}.py"})]
    yield from Coder(player, folder)._make(CHANGE)
    return "Done."


def played(folder: Path, window: int) -> Account:
    """Play `looking` in a window of so many tokens."""

    def prepare(folder: Path) -> None:
        (folder / "first.py").write_text(TEXT)
        for number in range(OTHERS):
            (folder / f"other{number}.py").write_text(TEXT.replace("line", f"other{number}"))

    folder.mkdir()
    task = Trajectory(
        "one",
        False,
        prepare,
        lambda player, folder: iter([("Change it.", looking(player, folder, OTHERS))]),
        lambda folder: "" if (folder / "first.py").read_text() == CHANGE.text else "not changed",
    )
    with choosing(Choice("one")) as settings:
        done = asyncio.run(play(task, replace(settings, models={MODEL: {"window": window}}), folder))
    assert done.fault == ""
    return done.account


@pytest.mark.matrix
def test_what_a_rewrite_hides_and_a_task_needs_is_read_again_and_counted(tmp_path: Path) -> None:
    seen, hidden = played(tmp_path / "seen", 200_000), played(tmp_path / "hidden", 16_000)
    assert (seen.rereads, hidden.rereads) == (0, 1)
    assert hidden.requests > seen.requests and hidden.cached / hidden.input < seen.cached / seen.input < 1


def request(*texts: str, tool: str = "a") -> Request:
    messages = [{"role": "user", "content": text} for text in texts]
    return Request("m", messages, [{"type": "function", "function": {"name": tool}}], 100)


def test_only_a_repeated_beginning_is_cached() -> None:
    cache = PrefixCache(len)
    first, cached = cache.send(request("one", "two"))
    assert cached == 0
    second, cached = cache.send(request("one", "two", "three"))
    assert cached == first < second
    _, cached = cache.send(request("one", "TWO", "three"))
    assert 0 < cached < first
    assert cache.send(request("one", "two", "three", tool="b"))[1] == 0
    assert cache.send(request("one", "two", "three", "four"))[1] == second


def test_a_price_bills_what_is_not_cached_as_written() -> None:
    info = ModelInfo("m", "anthropic", 1000, None, 3.0, 15.0, 0.3, 3.75)
    account = Account(2, 1_000_000, 600_000, 100_000)
    assert round(account.dollars(info), 4) == 3.18
