"""What a project has for Claude and nexus does not apply is named with what to do instead."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from nexus_cli.config.unsupported import find_unsupported
from nexus_cli.reports.foreign_gaps import list_gaps
from nexus_cli.sections import skills


def test_odd_files_are_named_and_never_raise(tmp_path: Path) -> None:
    assert list_gaps(tmp_path) == []
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
    assert ".claude/settings.json: env LD_A is not set: a project cannot set it" in lines
    settings.write_text(json.dumps({"permissions": {"deny": [f"Task(a{number})" for number in range(90)]}}))
    assert list_gaps(tmp_path)[-1].startswith("50 more")


def test_settings_are_read_through_links_inside_the_project_alone(tmp_path: Path) -> None:
    project, settings = tmp_path / "project", tmp_path / "project/.claude/settings.json"
    settings.parent.mkdir(parents=True)
    for place in (project / "shared.json", tmp_path / "outside.json"):
        place.write_text(json.dumps({"outputStyle": "x"}))
    settings.symlink_to("../shared.json")
    assert list_gaps(project) == [
        ".claude/settings.json: outputStyle is not applied: put style instructions in NEXUS.md"
    ]
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
    monkeypatch.setattr(skills, "MOST_NAMES", 300)
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
