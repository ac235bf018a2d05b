"""What a test asks of skills, commands and agents."""

from __future__ import annotations

from pathlib import Path

from nexus_cli.guides.skills import GuideKind, Skill, find_guides

SKILL, COMMAND, AGENT = GuideKind
read_guide, list_files, read_file_of = Skill.read, Skill.list_files, Skill.read_file


def find_skills(cwd: Path) -> tuple[Skill, ...]:
    """Return the skills of a folder that are active."""
    return find_guides(cwd, SKILL)[0]
