"""Several parts in one call that exceed the room: the first of them whole, and the lines that are missing named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from engine.test_files_read_whole import results
from laws.world import exact

from nexus_cli.core.budget import TokenBudget

HOLE = re.compile(
    r'\[\.\.\. [\d,]+ tokens \((.+), characters (\d+):(\d+) of \3\) left out: recall\("d\d+", "\2:\3"\) \.\.\.\]'
)
WINDOW = 24_000
RANGES = [(first, first + 60 + first % 7) for first in range(1, 1100, 130)]


def lines(name: str, first: int, last: int) -> str:
    return "".join(f"    {name}_{n} = compute({n}, scale={n % 7})\n" for n in range(first, last + 1))


def asked(name: str, spans: list[tuple[int, int]]) -> list[str]:
    return [f"{name}:{first}-{last}" for first, last in spans]


def test_what_is_missing_of_nine_ranges_is_named_and_comes_when_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "cli.py").write_text(lines("value", 1, 1200))
    call = (
        "read_file",
        {"path": "cli.py", "offset": 1, "limit": 62, "more": [*asked("cli.py", RANGES[1:]), "gone.py:3"]},
    )

    def the_rest(seen: list[str]) -> Any:
        hole = HOLE.search(seen[-1])
        return [("read_file", {"path": "cli.py", "limit": 0, "more": [hole[1]]})] if hole else "read"

    cut, *rest = results(tmp_path, WINDOW, [call], *6 * [the_rest])
    hole = HOLE.search(cut)
    assert hole and exact(cut) <= TokenBudget.of(WINDOW).available // 2
    assert cut.endswith(hole[0]), "what was asked for first comes first, without a hole between"
    name, _, spans = hole[1].partition(":")
    missing = [(int(first), int(last)) for first, last in re.findall(r"(\d+)-(\d+)", spans)]
    assert name == "cli.py" and missing[1:] == RANGES[len(RANGES) - len(missing) + 1 :]
    shown = {n for n in range(1, 1201) if f"value_{n} =" in cut}
    wanted = {n for first, last in RANGES for n in range(first, last + 1)}
    assert shown | {n for first, last in missing for n in range(first, last + 1)} == wanted
    assert all(f"value_{n} =" in "".join(rest) for n in wanted - shown)


@pytest.mark.matrix
def test_missing_parts_of_several_files_are_named_by_the_paths_that_were_asked_for(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.py").write_text(lines(name, 1, 700))
    (cut,) = results(tmp_path, WINDOW, [("read_file", {"path": "a.py", "more": ["./b.py:1-9,11-20", "c.py"]})])
    hole = HOLE.search(cut)
    assert hole and re.fullmatch(r"a\.py:\d+-700, \./b\.py:1-9,11-20, c\.py:1-700", hole[1])
