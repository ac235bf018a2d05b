"""Guides that are read on demand: skills, and commands of one's own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from nexus_cli.commands.verb import Noun, Report, Source, Text, Verb, report_text
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.option import Argument
from nexus_cli.guides.skills import GuideKind, find_guides
from nexus_cli.reports import skills as reports

Name = Annotated[str, Argument("NAME", "The skill's name.")]


def list_skills(source: Source) -> Report[reports.SkillsReport]:
    """List skills, commands and agents, and where each is from."""
    built_in: Collection[str] = ()
    with suppress(ImportError, OSError):  # in the sandbox a file may be hidden: no guide is marked as overruled then
        from nexus_cli.commands import discover  # noqa: PLC0415  (imports this file)

        built_in = discover()
    return Report("skills", reports.list_skills(source.folder(), built_in), whole=True)


def use_skill(source: Source, name: Name) -> Text:
    """Print the text of a skill."""
    return report_text(name, f"{reports.skill_guide(replace_surrogates(name), source.folder())}\n")


def check_skills(
    source: Source,
    path: Annotated[str, Argument("[PATH]", "A SKILL.md file, a skill's folder, or a project.", permits=True)] = "",
) -> Text:
    """List unsupported features of guides, with line numbers. Runs nothing and requires no trust."""
    from nexus_cli.reports.skill_check import check_guides  # noqa: PLC0415  (for this verb only)

    checked = source.folder() / Path(path)
    lines = check_guides(checked) or ["No unsupported features found."]
    return report_text(str(checked), "\n".join([*lines, ""]))


def _complete_skills(source: Source) -> Sequence[str]:
    return [skill.name for skill in find_guides(source.folder(), GuideKind.SKILL)[0] if not skill.shadowed]


NOUN = Noun(
    "skill",
    "setup",
    (
        Verb(list_skills, "list", opens="nothing"),
        Verb(use_skill, "use", opens="nothing", complete=_complete_skills),
        Verb(check_skills, "check", opens="nothing"),
    ),
    "List, print or check guides (skills).",
    aliases=("skills",),
)
