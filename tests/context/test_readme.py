"""The tables of `nexus_cli/context/README.md`: each contributor stands there as it is, each file named is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nexus_cli.context
from nexus_cli.context.sections.contributor import contributor_names, discover

README = Path(nexus_cli.context.__file__).with_name("README.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (system|event) \| (\w+) ([\d to]+(?:on)?) \| (\d+)(, sticky)? \|", re.MULTILINE)


@pytest.mark.parametrize("name", contributor_names())
def test_every_contributor_stands_in_the_table_with_its_layer(name: str) -> None:
    rows = {row[0]: row for row in ROW.findall(README)}
    assert rows[name][1] == str(discover()[name].layer)


def test_the_table_names_no_contributor_that_is_not_there() -> None:
    assert {row[0] for row in ROW.findall(README)} == set(contributor_names())


def test_every_file_of_this_room_that_is_named_is_there() -> None:
    folder = Path(nexus_cli.context.__file__).parent
    tables = README.partition("## The layers")[0]
    for file in re.findall(r"`([a-z_/]+\.py)`", tables):
        assert (folder / file).is_file(), file
