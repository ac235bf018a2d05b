"""The tables of `nexus_cli/context/README.md`: each contributor stands there as it is, each test named there exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nexus_cli.context
from nexus_cli.context.contributors import discover, names

README = Path(nexus_cli.context.__file__).with_name("README.md").read_text(encoding="utf-8")
TESTS = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| `(\w+)` \| (system|event) \| (\w+) ([\d to]+(?:on)?) \| (\d+)(, sticky)? \|", re.MULTILINE)


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", README))
    there = {
        found
        for path in TESTS.rglob("test_*.py")
        for found in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named
    assert sorted(named - there) == []


def test_every_row_of_a_seed_names_a_test_or_a_room() -> None:
    part = README.partition("## Where every part of the seeds is")[2].partition("## Where the seed and the laws")[0]
    rows = [line for line in part.splitlines() if line.startswith("| ") and not line.startswith(("| part", "| field"))]
    assert len(rows) > 80
    assert [row for row in rows if "`test_" not in row.split("|")[3] and "room " not in row.split("|")[3]] == []


@pytest.mark.parametrize("name", names())
def test_every_contributor_stands_in_the_table_with_its_layer(name: str) -> None:
    rows = {row[0]: row for row in ROW.findall(README)}
    assert rows[name][1] == str(discover()[name].layer)


def test_the_table_names_no_contributor_that_is_not_there() -> None:
    assert {row[0] for row in ROW.findall(README)} == set(names())


def test_every_file_of_this_room_that_is_named_is_there() -> None:
    folder = Path(nexus_cli.context.__file__).parent
    tables = README.partition("## The layers")[0]
    for file in re.findall(r"`([a-z_]+\.py)`", tables):
        assert (folder / file).is_file(), file
