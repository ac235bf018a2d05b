"""The READMEs of `nexus_cli/context` and `sections`: the table of contributors, and files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nexus_cli.context
from nexus_cli.sections.contributor import contributor_names, discover

ROOM = Path(nexus_cli.context.__file__).parent
TABLE = (ROOM.parent / "sections" / "contributors" / "README.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (system|event) \| (\w+) ([\d to]+(?:on)?) \| (\d+)(, sticky)? \|", re.MULTILINE)


@pytest.mark.parametrize("name", contributor_names())
def test_every_contributor_stands_in_the_table_with_its_layer(name: str) -> None:
    rows = {row[0]: row for row in ROW.findall(TABLE)}
    assert rows[name][1] == str(discover()[name].layer)


def test_the_table_names_no_contributor_that_is_not_there() -> None:
    assert {row[0] for row in ROW.findall(TABLE)} == set(contributor_names())


def test_the_table_of_files_has_every_file_beside_the_folders() -> None:
    readme = (ROOM / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"`(\w+\.py)`", readme.partition("## The files beside the folders")[2].partition("\n## ")[0])
    assert sorted(listed) == sorted(path.name for path in ROOM.glob("*.py"))
