"""What a project has for Claude and nexus does not apply is named with what to do instead."""

from __future__ import annotations

import json
from pathlib import Path

from nexus_cli.reports.foreign_gaps import list_gaps


def test_odd_files_are_named_and_never_raise(tmp_path: Path) -> None:
    assert list_gaps(tmp_path) == []
    (tmp_path / ".claude").mkdir()
    settings = tmp_path / ".claude/settings.json"
    for text in ("{", "[1]", "null", "[" * 100_000, json.dumps({"permissions": 3, "env": {"A": "1"}, "x\x1b[31m": 1})):
        settings.write_text(text)
        lines = list_gaps(tmp_path)
        assert not any("\x1b" in line or "\n" in line for line in lines), lines
    assert ".claude/settings.json: env variables are not set for commands" in lines
    settings.write_text(json.dumps({"permissions": {"deny": [f"Task(a{number})" for number in range(90)]}}))
    assert list_gaps(tmp_path)[-1].startswith("50 more")
