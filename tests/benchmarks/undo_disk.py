"""The disk that undo takes after many turns of one session: 10,000 with an edit of a file and a command, 1,000 with ten
edits."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from benchmarks.row import Benchmark, Row

from nexus_cli.undo.follow_changes import ChangeJournal, StepOwner
from nexus_cli.undo.retention import count_used

FILES = 50
LINES = 200


def rows(times: int) -> Iterator[Row]:
    """Files of about 10,000 bytes, of which each turn changes some by edits and perhaps one by a command.

    Nothing is synced: that changes no byte.
    """
    for turns, edits, has_command in ((10_000, 1, True), (1_000, 10, False)):
        yield from _follow(turns, edits, has_command)


def _follow(turns: int, edits: int, has_command: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as place, patch("os.fsync", lambda descriptor: None):
        root, data = Path(os.path.realpath(place), "project"), Path(place, "data")
        root.mkdir()
        lines = {
            number: [f"line {line} of file {number}, as it was at first\n" for line in range(LINES)]
            for number in range(FILES)
        }
        for number, first_lines in lines.items():
            (root / f"f{number}.txt").write_text("".join(first_lines))
        journal, seconds = ChangeJournal(data), []
        for turn in range(1, turns + 1):
            owner, began = StepOwner("benchmark", turn), time.perf_counter()
            for number in range(turn * edits, (turn + 1) * edits):
                path, text = _change(root, lines, number)
                before = journal.read_targets([path])
                edit = journal.begin_edit(owner, f"edit_file {path.name}", "c1", root, before)
                path.write_text(text)
                journal.record_edit(root, edit)
            if has_command:
                begun = journal.begin(owner, "bash make", "c2", root)
                path, text = _change(root, lines, turn + 7)
                path.write_text(text)
                journal.end(begun)
            seconds.append(time.perf_counter() - began)
        journal.close()
        size = sum(one.stat().st_size for one in (data / "undo").glob("*.jsonl"))
        disk = sum(one.stat().st_blocks for one in (data / "undo").rglob("*")) * 512
        what = f"{turns:,} turns of {edits} edit{'s' if edits > 1 else ' and a command'}"
        yield Row(f"copies after {what}", count_used(data) / 1e6, "MB", most=2000.0)
        yield Row(f"the journal after {what}", size / 1e6, "MB")
        own = sum(one.stat().st_size for one in root.iterdir()) / 1e6
        yield Row(f"blocks of the disk after {what}", disk / 1e6, "MB", own, "the files themselves")
        part = min(500, turns // 4)
        first, last = (statistics.median(one) * 1000 for one in (seconds[:part], seconds[-part:]))
        yield Row(f"following one of {what}, the last against the first, without syncs", last, "ms", first, "the first")


def _change(root: Path, lines: dict[int, list[str]], turn: int) -> tuple[Path, str]:
    number = turn % FILES
    lines[number][turn % LINES] = f"line {turn % LINES} of file {number}, as changed in turn {turn}\n"
    return root / f"f{number}.txt", "".join(lines[number])


BENCHMARK = Benchmark("the disk that undo takes after many turns", rows)
