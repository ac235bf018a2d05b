"""What asks and what runs by itself (interface.md section 2), judged by where paths lead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.core.limits import LEVELS
from nexus_cli.core.tool import Tool
from nexus_cli.tools.permission import ApprovalNeed, Grant, Verdict, decide
from nexus_cli.tools.registry import discover_tools

TOOLS = discover_tools()
READ, WRITE, BASH, RECALL, GREP = (TOOLS[n] for n in ("read_file", "write_file", "bash", "recall", "grep"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a link out of it, a link to a folder in it, and a neighbour."""
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "a.txt").write_text("a")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s")
    (root / "out").symlink_to(outside)
    (root / "leak").symlink_to(outside / "secret")
    (root / "dangling").symlink_to(outside / "new")
    (root / "in").symlink_to(root / "src")
    (root / "hooks").symlink_to(root / ".git")
    (tmp_path / "project-two").mkdir()
    return root


def _asks(verdict: Verdict, kind: str) -> bool:
    return isinstance(verdict, ApprovalNeed) and verdict.kind == kind


def _decide(project: Path, tool: str, path: str, allow: str) -> Verdict:
    arguments = {"path": path, "content": "", "edits": [], "pattern": "x"}
    return decide(TOOLS[tool], arguments, allow=allow, cwd=project, project=project)


@pytest.mark.parametrize("allow", ["read", "edit"])
@pytest.mark.parametrize("path", ["..", "../x", "/etc/passwd", "~/x", "out/secret", "leak", "src/../../x", "out/new/x",
                                  "../project-two/a", "in/../../x", "dangling"])  # fmt: skip
def test_outside_the_project_is_asked_about(project: Path, path: str, allow: str) -> None:
    assert _asks(_decide(project, "read_file", path, allow), "outside")
    assert _asks(_decide(project, "write_file", path, allow), "outside")
    assert _asks(_decide(project, "grep", path, allow), "outside")


@pytest.mark.parametrize("path", ["a.txt", "src/new/deep.py", ".", "in/x", "./src/../a.txt", "..x", ".git/config"])
def test_reading_inside_the_project_runs(project: Path, path: str) -> None:
    assert _decide(project, "read_file", path, "read") == Grant()
    assert _decide(project, "read_file", str(project / path), "read") == Grant()


@pytest.mark.parametrize("path", ["a.txt", "src/new/deep.py", "in/x", ".gitignore", ".github/x.yml", "notes.md"])
def test_edits_inside_the_project_run_from_the_level_edit(project: Path, path: str) -> None:
    assert _asks(_decide(project, "edit_file", path, "read"), "edit")
    assert _decide(project, "edit_file", path, "edit") == Grant()


@pytest.mark.parametrize("path", [
    ".git/config", ".GIT/hooks/pre-commit", "sub/.git/config", ".git", "hooks/x", ".nexus/config.toml", "src/.Nexus/x",
    "NEXUS.md", "nexus.MD", "src/AGENTS.md", "SOUL.md", "IDENTITY.md", "AGENT.md", "PREFERENCES.md", "CLAUDE.md",
    ".bashrc", "home/.zshrc", ".profile", ".envrc", ".g\u200cit/config", ".git./config", "src/../.git/x",
])  # fmt: skip
def test_protected_places_are_asked_about_when_written(project: Path, path: str) -> None:
    for allow in ("read", "edit"):
        assert _asks(_decide(project, "write_file", path, allow), "protected")
    assert _decide(project, "write_file", path, "all") == Grant()


def test_a_link_to_a_protected_file_is_protected(project: Path) -> None:
    (project / "NEXUS.md").write_text("x")
    (project / "innocent.txt").symlink_to(project / "NEXUS.md")
    assert _asks(_decide(project, "write_file", "innocent.txt", "edit"), "protected")
    (project / "AGENTS.md").symlink_to(project / "a.txt")
    assert _asks(_decide(project, "write_file", "AGENTS.md", "edit"), "protected")


def test_the_configuration_of_nexus_is_protected_inside_a_project_too(project: Path) -> None:
    arguments = {"path": "conf/config.toml", "content": ""}
    verdict = decide(
        WRITE, arguments, allow="edit", cwd=project, project=project, config_dirs=[project / "conf"]
    )
    assert _asks(verdict, "protected")


@pytest.mark.parametrize("tool", [READ, GREP, WRITE], ids=lambda tool: tool.name)
def test_stored_keys_are_protected_in_a_project_that_is_the_home_of_the_person(
    project: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(project / "home"))
    (project / "link").symlink_to(project / "home")
    for path in ("home/data/keys", "home/data/keys/A_KEY", "link/data/keys/A_KEY"):
        for allow in ("read", "edit"):
            verdict = decide(tool, {"path": path, "pattern": "x"}, allow=allow, cwd=project, project=project)
            assert isinstance(verdict, ApprovalNeed) and verdict.kind == "protected" and "stored keys" in verdict.why
    assert decide(READ, {"path": "home/data/other"}, allow="read", cwd=project, project=project) == Grant()


def test_commands_ask_until_the_level_all_and_recall_never_does(project: Path) -> None:
    for allow in ("read", "edit"):
        assert _asks(decide(BASH, {"command": "ls"}, allow=allow, cwd=project, project=project), "run")
    assert decide(BASH, {"command": "ls"}, allow="all", cwd=project, project=project) == Grant()
    assert decide(RECALL, {"id": "d1"}, allow="read", cwd=project, project=project) == Grant()


def test_a_path_is_relative_to_the_working_folder_and_judged_by_the_project(project: Path) -> None:
    inside = decide(READ, {"path": "../a.txt"}, allow="read", cwd=project / "src", project=project)
    assert inside == Grant()
    assert decide(GREP, {"pattern": "x"}, allow="read", cwd=project / "src", project=project) == Grant()
    assert _asks(decide(GREP, {"pattern": "x"}, allow="read", cwd=project.parent, project=project), "outside")


def test_a_project_reached_through_a_link_is_the_same_project(project: Path, tmp_path: Path) -> None:
    door = tmp_path / "door"
    door.symlink_to(project)
    assert decide(READ, {"path": "a.txt"}, allow="read", cwd=door, project=door) == Grant()
    assert decide(READ, {"path": str(project / "a.txt")}, allow="read", cwd=door, project=door) == Grant()


@pytest.mark.parametrize("path", ["", "\0", "a\0b"])
def test_what_is_no_path_is_never_granted_below_all(project: Path, path: str) -> None:
    assert isinstance(_decide(project, "read_file", path, "edit"), ApprovalNeed)


def test_the_reason_is_one_line(project: Path) -> None:
    verdict = _decide(project, "read_file", "../a\nb\rc", "read")
    assert isinstance(verdict, ApprovalNeed)
    assert "\n" not in verdict.why and "\r" not in verdict.why


def test_an_unknown_level_is_an_error(project: Path) -> None:
    with pytest.raises(ValueError):
        _decide(project, "read_file", "a", "everything")


pieces = st.sampled_from(["..", ".", "src", "out", "in", ".git", "NEXUS.md", "a.txt", "~", "", "hooks", ".Bashrc", "x"])
paths = st.lists(pieces, min_size=1, max_size=5).map("/".join)


@given(st.sampled_from(sorted(TOOLS)), paths)
def test_more_is_never_less(tool: str, path: str) -> None:
    project = Path(os.path.realpath(os.curdir))
    verdicts = [
        isinstance(
            decide(
                TOOLS[tool],
                {"path": path, "command": "ls", "id": "d1", "pattern": "x", "content": "", "edits": []},
                allow=level,
                cwd=project,
                project=project,
            ),
            Grant,
        )
        for level in LEVELS
    ]
    assert verdicts == sorted(verdicts)
    assert verdicts[-1]
