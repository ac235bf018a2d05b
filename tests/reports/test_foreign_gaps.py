"""What a project has for Claude and nexus does not apply is named with what to do instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nexus_cli.reports.foreign_gaps import list_gaps, translate_rule


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Bash(npm run test:*)", "bash(npm run test *)"),
        ("Bash(git push)", "bash(git push)"),
        ("Bash(git * main)", ""),
        ("Bash", "bash"),
        ("Read(./.env)", "read_file(.env)"),
        ("Read(//etc/**)", "read_file(/etc/**)"),
        ("Edit(~/.zshrc)", "edit_file(~/.zshrc)"),
        ("WebFetch(domain:example.com)", "fetch(example.com)"),
        ("mcp__github__create_issue", "mcp__github__create_issue"),
        ("Task(builder)", ""),
        ("no rule", ""),
    ],
)
def test_a_rule_is_translated_or_named_as_none(theirs: str, ours: str) -> None:
    assert translate_rule(theirs) == ours


def test_odd_files_are_named_and_never_raise(tmp_path: Path) -> None:
    assert list_gaps(tmp_path) == []
    (tmp_path / ".claude").mkdir()
    settings = tmp_path / ".claude/settings.json"
    for text in ("{", "[1]", "null", "[" * 100_000, json.dumps({"permissions": 3, "env": {"A": "1"}, "x\x1b[31m": 1})):
        settings.write_text(text)
        lines = list_gaps(tmp_path)
        assert not any("\x1b" in line or "\n" in line for line in lines), lines
    assert ".claude/settings.json: env variables are not set for commands" in lines
    settings.write_text(json.dumps({"permissions": {"deny": [f"Bash(a{number}:*)" for number in range(90)]}}))
    assert list_gaps(tmp_path)[-1].startswith("50 more")
