"""What deny rules for files name in a folder, which walls hide from commands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rules.rows import decide
from search import sample

from nexus_cli.core.limits import Decision
from nexus_cli.rules import denied_files
from nexus_cli.rules.denied_files import DeniedFiles, find_denied_files
from nexus_cli.rules.rule_set import RuleSet, parse_rule
from nexus_cli.tools.registry import discover_tools

TOOLS = discover_tools()
INPUTS = (
    "cat < secret/key",
    "{ cat; } < secret/key",
    "for f in a b; do cat; done < secret/key",
    "if true; then cat; fi < secret/key",
    "awk '{print}' < secret/key",
    "cat 0< ./secret/../secret/key",
    "cd secret && cat < key && cd ..",
    "wc < secret/key; cd a",
    "cat a/x | sort - < secret/key",
    "python3 -c 1 < secret/key",
)
LEVELS: tuple[str, ...] = ("ask", "edit", "auto")


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
    monkeypatch.setattr(denied_files, "MAX_FILES", 1)
    found = find(project, "read_file(.env)")
    assert found.paths == (project / ".env",) and not found.is_whole
    monkeypatch.undo()
    monkeypatch.setattr(denied_files, "MAX_ENTRIES", 12)
    found = find(project, "read_file(.env)")
    assert not found.is_whole and set(found.paths) == {project / ".env", project / "a" / ".ENV"}


@pytest.mark.matrix
@pytest.mark.parametrize("line", sample(INPUTS, 3))
def test_a_redirect_names_a_file_as_a_word_does(tmp_path: Path, line: str) -> None:
    for name in ("secret", "a"):
        (tmp_path / name).mkdir()
    strengths: tuple[Decision, ...] = ("ask", "deny")
    for decision in strengths:
        rules = RuleSet((parse_rule(decision, "read_file(secret/**)", TOOLS),))
        found = {level: decide(line, tmp_path, level, rules) for level in LEVELS}
        assert {one.decision for one in found.values()} == {decision}, line
        assert not any(one.prefixes for one in found.values()), "what is stored would ask again"
        assert decide(line, tmp_path, "all", rules).decision == ("deny" if decision == "deny" else "allow")
    assert decide(line.replace("secret", "open"), tmp_path, "all", rules).decision == "allow"


def test_an_input_that_no_rule_names_is_free(tmp_path: Path) -> None:
    rules = RuleSet((parse_rule("deny", "read_file(secret/**)", TOOLS),))
    assert decide("cat < open", tmp_path, "ask", rules).decision == "allow"
    assert decide("cat < *", tmp_path, "ask", rules).decision == "ask"


@pytest.mark.parametrize(
    "line", ["git show :secret.txt", "git --no-pager show HEAD:secret.txt", "git diff -- secret.txt"]
)
def test_git_that_reads_a_denied_file_is_refused(tmp_path: Path, line: str) -> None:
    rules = RuleSet((parse_rule("deny", "read_file(secret.txt)", TOOLS),))
    assert decide(line, tmp_path, "ask", rules).decision == decide(line, tmp_path, "all", rules).decision == "deny"
    for rest in (
        "add secret.txt",
        "diff --stat secret.txt",
        "log --author secret.txt",
        "grep x secret.txt",
    ):
        assert decide(f"git {rest}", tmp_path, "ask", rules).decision == "ask", "it may not show the file"
    assert decide("git add secret.txt", tmp_path, "all", rules).decision == "allow"
