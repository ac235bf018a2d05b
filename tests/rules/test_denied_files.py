"""What deny rules for files name in a folder, which walls hide from commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nexus_cli.rules import denied_files
from nexus_cli.rules.denied_files import DeniedFiles, find_denied_files
from nexus_cli.rules.rule_set import RuleSet, parse_rule
from nexus_cli.tools.registry import discover_tools

TOOLS = discover_tools()


def find(project: Path, *rules: str, cwd: Path | None = None) -> DeniedFiles:
    return find_denied_files(RuleSet(tuple(parse_rule("deny", rule, TOOLS) for rule in rules)), project, cwd or project)


def names(project: Path, *rules: str) -> set[str]:
    return {os.path.relpath(path, project) for path in find(project, *rules).paths}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    for name in (".env", "a/.ENV", "a/b/c.pem", "secret/deep/key", ".git/c.pem", "open", "node_modules/m/.env"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).touch()
    (made / "link.pem").symlink_to("open")
    (tmp_path / "outside.pem").touch()
    (tmp_path / "home").mkdir()
    return made


def test_patterns_name_what_is_there(project: Path) -> None:
    assert names(project, "read_file(.env)") == {".env", "a/.ENV", "node_modules/m/.env"}
    assert names(project, "read_file(secret/**)") == {"secret"} == names(project, "read_file(secret)")
    assert names(project, "read_file(secret/*/key)") == {"secret/deep/key"}
    assert names(project, "read_file(*.pem)") == {"a/b/c.pem"}, "no link, nothing of git"
    assert names(project, f"read_file({project.parent}/*.pem)") >= {"../outside.pem"}
    assert names(project, f"read_file({project.parent}/outside.pem)") == {"../outside.pem"}
    assert names(project, "read_file(absent/key)", "read_file", "grep(open)", "bash(cat *)") == set()


def test_home_is_looked_up_when_it_is_asked_for(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project.parent))
    assert names(project, "read_file(~/outside.pem)") == {"../outside.pem"}
    monkeypatch.setenv("HOME", str(project.parent / "home"))
    assert names(project, "read_file(~/outside.pem)") == set()


def test_the_folder_that_commands_start_in_is_never_hidden(project: Path) -> None:
    everything = find(project, f"read_file({project.parent}/**)", cwd=project / "a")
    assert not any((project / "a").is_relative_to(path) for path in everything.paths)
    assert project / "a" / "b" in everything.paths and project.parent / "outside.pem" in everything.paths


def test_the_search_is_bounded_begins_at_the_top_and_says_so(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denied_files, "MOST_FILES", 1)
    found = find(project, "read_file(.env)")
    assert found.paths == (project / ".env",) and not found.is_whole
    monkeypatch.undo()
    monkeypatch.setattr(denied_files, "MOST_ENTRIES", 12)
    found = find(project, "read_file(.env)")
    assert not found.is_whole and set(found.paths) == {project / ".env", project / "a" / ".ENV"}
