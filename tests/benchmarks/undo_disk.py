"""The disk that undo takes after 10,000 turns of one session, each with an edit of a file and a command."""

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

TURNS = 10_000
FILES = 50
LINES = 200


def rows(times: int) -> Iterator[Row]:
    """Files of about 10,000 bytes, of which each turn changes one by an edit and one by a command.

    Nothing is synced: that changes no byte.
    """
    with tempfile.TemporaryDirectory() as place, patch("os.fsync", lambda descriptor: None):
        root, data = Path(os.path.realpath(place), "project"), Path(place, "data")
        root.mkdir()
        lines = {
            number: [f"line {line} of file {number}, as it was at first\n" for line in range(LINES)]
            for number in range(FILES)
        }
        for number, text in lines.items():
            (root / f"f{number}.txt").write_text("".join(text))
        journal, seconds = ChangeJournal(data), []
        for turn in range(1, TURNS + 1):
            owner, began = StepOwner("benchmark", turn), time.perf_counter()
            path = _change(root, lines, turn)
            before = journal.read_targets([path])
            path.write_text("".join(lines[turn % FILES]))
            journal.record_edit(owner, f"edit_file {path.name}", "c1", root, before)
            begun = journal.begin(owner, "bash make", "c2", root)
            path = _change(root, lines, turn + 7)
            path.write_text("".join(lines[(turn + 7) % FILES]))
            journal.end(begun)
            seconds.append(time.perf_counter() - began)
        journal.close()
        size = sum(one.stat().st_size for one in (data / "undo").glob("*.jsonl"))
        yield Row(f"copies after {TURNS:,} turns", count_used(data) / 1e6, "MB", most=2000.0)
        yield Row(f"the journal after {TURNS:,} turns", size / 1e6, "MB")
        first, last = (statistics.median(part) * 1000 for part in (seconds[:500], seconds[-500:]))
        yield Row("following a turn, the last 500 against the first, without syncs", last, "ms", first, "the first 500")


def _change(root: Path, lines: dict[int, list[str]], turn: int) -> Path:
    number = turn % FILES
    lines[number][turn % LINES] = f"line {turn % LINES} of file {number}, as changed in turn {turn}\n"
    return root / f"f{number}.txt"


BENCHMARK = Benchmark("the disk that undo takes after many turns", rows)
