"""Count the files that are read for skills, hooks and servers: each caller its own kind, and each file once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from guide_files import COMMAND, SKILL
from project_files import write_files

from nexus_cli.config.foreign_items import KINDS
from nexus_cli.config.project_items import describe_waiting
from nexus_cli.config.text_file import read_text
from nexus_cli.config.trust import read_configuration, trust, trusted_items
from nexus_cli.core import version_memo
from nexus_cli.core.real_files import read_real
from nexus_cli.guides.skills import find_guides
from nexus_cli.hooks.hook_list import list_hooks
from nexus_cli.mcp.server_entries import read_servers

SKILLS = 30


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    for number in range(SKILLS):
        _write_skill(folder / ".claude" / "skills" / f"skill-{number}", "First.")
    write_files(
        folder,
        {
            ".claude/commands/review.md": "Review.",
            ".claude/settings.json": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}',
            ".mcp.json": '{"mcpServers": {"one": {"command": "serve"}}}',
        },
    )
    trust(folder)
    return folder


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were opened since."""
    opened: list[str] = []

    def open_counted(path: str, most: int) -> object:
        opened.append(Path(path).name)
        return read_real(path, most)

    def read_counted(path: Path, limit: int) -> object:
        opened.append(path.name)
        return read_text(path, limit)

    monkeypatch.setattr("nexus_cli.config.trust_files.read_real", open_counted)
    monkeypatch.setattr("nexus_cli.guides.skills.read_text", read_counted)
    return opened


def _write_skill(folder: Path, text: str) -> None:
    write_files(folder, {"SKILL.md": text})


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda cwd: find_guides(cwd, SKILL), ["SKILL.md"] * SKILLS),
        (lambda cwd: find_guides(cwd, COMMAND), ["review.md"]),
        (lambda cwd: list_hooks(cwd, ()), ["settings.json"]),
        (read_servers, [".mcp.json"]),
    ],
)
def test_each_caller_reads_its_own_kind_only(
    project: Path, reads: list[str], read: Callable[[Path], object], expected: list[str]
) -> None:
    read(project)
    assert reads == expected


def test_a_file_that_has_not_changed_is_read_once(
    project: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_memo, "SETTLED", float("-inf"))
    describe_waiting(project)
    assert len(reads) == SKILLS + 3
    before = find_guides(project, SKILL)
    list_hooks(project, ())
    assert len(reads) == SKILLS + 3 and find_guides(project, SKILL) == before
    _write_skill(project / ".claude" / "skills" / "skill-1", "Later.")
    assert len(find_guides(project, SKILL)[0]) == SKILLS - 1
    assert reads[SKILLS + 3 :] == ["SKILL.md"]


def test_a_personal_skill_is_read_again_once_it_has_changed(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_memo, "SETTLED", float("-inf"))
    place = Path(os.path.expanduser("~")) / ".claude" / "skills" / "mine"
    _write_skill(place, "First.")
    assert [find_guides(tmp_path, SKILL)[0][0].description for _ in range(3)] == ["First."] * 3
    assert reads == ["SKILL.md"]
    _write_skill(place, "Later.")
    assert find_guides(tmp_path, SKILL)[0][0].description == "Later."


def test_a_file_changed_just_now_is_read_again(project: Path) -> None:
    """Two changes within one tick of a file system's clock may leave the same times and size."""
    path = project / ".claude" / "skills" / "skill-1" / "SKILL.md"
    status = path.stat()
    find_guides(project, SKILL)
    path.write_text("Other.")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    found = read_configuration(project, KINDS)
    assert found.items.keys() - trusted_items(project, found).keys() == {"skill .claude/skills/skill-1"}
