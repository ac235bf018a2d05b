"""What nexus knows of other tools and does not read is named: once in a project, and again when something is new."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nexus_cli.config.unsupported import (
    PLACES,
    describe_unsupported,
    find_unsupported,
    is_new_line,
    new_unsupported_line,
)
from nexus_cli.core.json_value import to_json_value


def put(project: Path, path: str, text: str = "x") -> None:
    (project / path).parent.mkdir(parents=True, exist_ok=True)
    (project / path).write_text(text)


def test_nothing_is_said_of_a_project_without_any(tmp_path: Path) -> None:
    put(tmp_path, ".claude/settings.json", json.dumps({"model": "x", "hooks": {}}))
    assert not find_unsupported(tmp_path) and new_unsupported_line(tmp_path) == ""


@pytest.mark.parametrize("path", PLACES)
def test_each_place_of_the_table_is_found(path: str, tmp_path: Path) -> None:
    put(tmp_path, path)
    assert [one.path for one in find_unsupported(tmp_path)] == [path] and path in new_unsupported_line(tmp_path)


def test_scripts_read_each_by_path_and_what_it_is(tmp_path: Path) -> None:
    put(tmp_path, ".cursor/rules")
    assert to_json_value(find_unsupported(tmp_path)) == [{"path": ".cursor/rules", "what": "rules"}]


def test_it_is_said_once_and_again_when_something_else_is_there(tmp_path: Path) -> None:
    put(tmp_path, ".claude/commands/fix.md")
    put(tmp_path, ".cursor/mcp.json")
    line = new_unsupported_line(tmp_path)
    assert line.splitlines()[0].startswith("Not active in this project: 1 command (see `nexus trust`)")
    assert line.splitlines()[1:] == ["Found .cursor/mcp.json (MCP servers): not supported (details: `nexus doctor`)"]
    assert new_unsupported_line(tmp_path) == ""
    permissions = {"allow": ["x"], "ask": ["y"], "defaultMode": "plan"}
    put(tmp_path, ".claude/settings.json", json.dumps({"hooks": {"PreToolUse": []}, "permissions": permissions}))
    named = ".cursor/mcp.json (MCP servers), .claude/settings.json (permissions.allow, permissions.defaultMode): not"
    assert named in new_unsupported_line(tmp_path)
    other = tmp_path / "other"
    put(other, ".cursor/mcp.json")
    assert new_unsupported_line(other) and not new_unsupported_line(tmp_path)


def test_files_that_are_none_or_broken_are_no_trouble(tmp_path: Path) -> None:
    put(tmp_path, ".claude/settings.local.json", "[" * 100_000)
    os.mkfifo(tmp_path / ".claude" / "settings.json")
    assert describe_unsupported(find_unsupported(tmp_path)) == ""


def test_a_line_is_news_once_for_its_key_and_again_when_it_changes() -> None:
    told = [is_new_line("names:/a", line) for line in ("", "one", "one", "two")]
    assert told == [False, True, False, True] and is_new_line("names:/b", "two")
