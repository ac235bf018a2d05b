"""Command lines and the decision that each must get: `rules.tsv`, with the deny rules that its header names."""

from __future__ import annotations

from pathlib import Path

import pytest
from rules.rows import decide, read_rows


@pytest.mark.parametrize("name", ["rules.tsv", "further.tsv"])
def test_every_row_gets_its_decision(name: str, tmp_path: Path) -> None:
    rows = read_rows(name)
    found = {command: decide(command, tmp_path) for command, *_ in rows}
    wrong = [
        f"{command[:100]!r}: {found[command].decision} ({found[command].why}), not {expected}"
        for command, expected, *_ in rows
        if found[command].decision != expected
    ]
    assert not wrong, "\n".join(wrong)
    assert len(rows) >= 150
