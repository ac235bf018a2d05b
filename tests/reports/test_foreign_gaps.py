"""What a project has for Claude and nexus does not apply is named with what to do instead."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nexus_cli.config.unsupported import find_unsupported
from nexus_cli.guides import skills
from nexus_cli.reports.foreign_gaps import list_gaps


def test_odd_files_are_named_and_never_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list_gaps(tmp_path) == []
    (tmp_path / ".cursor/rules").mkdir(parents=True)
    assert list_gaps(tmp_path) == [".cursor/rules: rules are not read; put them in .claude/rules"]
    with monkeypatch.context() as at_home:
        at_home.setenv("HOME", str(tmp_path))
        assert list_gaps(tmp_path) == [] and find_unsupported(tmp_path) == (), "there they are the person's own"
    (tmp_path / ".cursor/rules").rmdir()
    (tmp_path / ".claude").mkdir()
    settings = tmp_path / ".claude/settings.json"
    for text in (
        "{",
        "[1]",
        "null",
        "[" * 100_000,
        json.dumps({"permissions": 3, "env": {"LD_A": "1"}, "x\x1b[31m": 1}),
    ):
        settings.write_text(text)
        lines = list_gaps(tmp_path)
        assert not any("\x1b" in line or "\n" in line for line in lines), lines
    assert ".claude/settings.json: env LD_A is ignored: a project cannot set this variable" in lines
    settings.write_text(json.dumps({"permissions": {"deny": [f"Task(a{number}*)" for number in range(90)]}}))
    assert list_gaps(tmp_path)[-1].startswith("50 more")


def test_a_setting_that_a_person_can_set_here_is_named(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    permissions = {"defaultMode": "acceptEdits", "additionalDirectories": ["../lib"], "other": 1}
    settings = {"statusLine": {"type": "command", "command": "status.sh"}, "permissions": permissions}
    (tmp_path / ".claude/settings.json").write_text(json.dumps(settings))
    status, mode, folders, other = list_gaps(tmp_path)
    assert "statusLine" in status and "ui.status_command" in status
    assert "defaultMode" in mode and "--allow LEVEL" in mode and "--add-dir DIR" in folders
    assert other.endswith("permissions.other is ignored")


def test_settings_are_read_through_links_inside_the_project_alone(tmp_path: Path) -> None:
    project, settings = tmp_path / "project", tmp_path / "project/.claude/settings.json"
    settings.parent.mkdir(parents=True)
    for place in (project / "shared.json", tmp_path / "outside.json"):
        place.write_text(json.dumps({"outputStyle": "x"}))
    settings.symlink_to("../shared.json")
    assert list_gaps(project) == [".claude/settings.json: outputStyle is ignored: put style instructions in NEXUS.md"]
    assert [one.what for one in find_unsupported(project)] == ["outputStyle"]
    settings.unlink()
    settings.symlink_to(tmp_path / "outside.json")
    assert list_gaps(project) == [] and find_unsupported(project) == ()
    settings.unlink()
    os.mkfifo(settings)
    assert find_unsupported(project) == (), "a pipe holds nothing up"


def test_commands_that_lead_to_all_of_the_disk_are_looked_at_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders that come and go meanwhile, as in `/proc`, count as empty."""
    monkeypatch.setattr(skills, "MAX_NAMES", 300)
    (tmp_path / "project/.claude").mkdir(parents=True)
    commands = tmp_path / "project/.claude/commands"
    commands.symlink_to("/proc")
    assert list_gaps(tmp_path / "project") == []
    commands.unlink()
    commands.symlink_to(tmp_path / "disk")
    for number in range(40):
        (tmp_path / f"disk/{number}").mkdir(parents=True)
        for name in range(9):
            (tmp_path / f"disk/{number}/{name}.md").write_text("---\nhooks: x\n---\n")
    [line] = list_gaps(tmp_path / "project")
    looked = int(line.partition(" and ")[2].split()[0]) + 1
    assert 250 < looked < 300, "neither the folders nor the files after the bound"


def test_servers_that_are_skipped_and_keys_that_are_not_read_are_named(tmp_path: Path) -> None:
    servers = {
        "old": {"type": "ws", "url": "ws://x"},
        "keys": {"command": "python3", "headersHelper": "./x", "timeout": 5},
        "fine": {"command": "python3", "args": ["-V"], "env": {"A": "b"}},
        "bad": 3,
    }
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    assert list_gaps(tmp_path) == [
        ".mcp.json: server old: skipped: url must begin with https:// or http://",
        ".mcp.json: server keys: headersHelper, timeout: not read",
        ".mcp.json: server bad: skipped: the entry is not a table",
    ]


def test_instructions_that_nexus_md_takes_the_place_of_are_named(tmp_path: Path) -> None:
    for name in ("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md"):
        (tmp_path / name).write_text(f"{name}\n")
    assert list_gaps(tmp_path) == []
    (tmp_path / "NEXUS.md").write_text("See @CLAUDE.md\n")
    assert list_gaps(tmp_path) == [
        "AGENTS.md, CLAUDE.local.md: not read, because of NEXUS.md; to import a file, write @AGENTS.md there"
    ]
    for name in ("AGENTS.md", "CLAUDE.local.md"):
        (tmp_path / name).unlink()
        (tmp_path / name).symlink_to("NEXUS.md")
    assert list_gaps(tmp_path) == [], "a link to it is read"
