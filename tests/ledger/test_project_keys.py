"""The project of a folder in a ledger on a server: looked up once for each state of the repository's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from nexus_cli.ledger import project_keys


@pytest.mark.parametrize("name", ["host/shop#1a2b", "host/sh\nop#1a\n2b"])
def test_a_known_project_needs_no_git_until_the_settings_change(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    stamps, asked = ["one"], list[Path]()

    def look(path: Path) -> str:
        asked.append(path)
        return name

    monkeypatch.setattr(project_keys, "configuration_stamp", lambda path: stamps[0])
    monkeypatch.setattr(project_keys, "repository_key", look)
    monkeypatch.setattr(project_keys, "move_rows", lambda *_: None)
    db = cast(Any, None)
    for number in (1, 1, 2, 2):
        stamps[0] = f"stamp {number}"
        assert project_keys.find_project(db, "postgresql://host/db", "/shop") == name
    assert asked == [Path("/shop")] * 2
