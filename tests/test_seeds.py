"""The table of `tests/SEEDS.md`: each test that it names exists, and each row names a test or a room to come."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent
TABLE = (TESTS / "SEEDS.md").read_text(encoding="utf-8")


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", TABLE))
    there = {
        found
        for path in TESTS.rglob("test_*.py")
        for found in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named
    assert sorted(named - there) == []


def test_every_row_of_a_seed_names_a_test_or_a_room() -> None:
    rows = [line for line in TABLE.splitlines() if line.startswith("| ") and not line.startswith(("| part", "| field"))]
    assert len(rows) > 80
    assert [row for row in rows if "`test_" not in row.split("|")[3] and "room " not in row.split("|")[3]] == []
