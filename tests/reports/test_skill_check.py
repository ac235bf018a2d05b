"""The check of guides."""

from __future__ import annotations

from pathlib import Path

from nexus_cli.reports.skill_check import check_guides


def test_references_of_git_are_no_variables_of_another_program(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text(
        "---\nname: push\ndescription: Pushes.\n---\n"
        "git log @{u}.. HEAD@{1} @{upstream} @{push} @{-1}\n@{docs/style.md} and {{args}}\n"
    )
    said = [line for line in check_guides(tmp_path) if "does not replace" in line]
    assert said == [
        "SKILL.md:6: nexus does not replace @{docs/style.md}",
        "SKILL.md:6: nexus does not replace {{args}}",
    ]


def test_an_empty_file_is_a_line_like_another(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("")
    assert check_guides(tmp_path) == [
        "SKILL.md:1: no description: nexus uses the first paragraph, and skips the skill if there is none"
    ]
