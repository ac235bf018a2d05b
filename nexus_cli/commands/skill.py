"""Guides that are read on demand: skills, and commands of one's own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

from nexus_cli.commands.verb import Noun, Report, Source, Text, Verb, report_text
from nexus_cli.config.paths import project_root
from nexus_cli.config.settings import SandboxSettings
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError, UsageError, suggest_name
from nexus_cli.core.json_value import JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.option import Argument
from nexus_cli.guides.skills import GuideKind, Skill, find_guides, mark_denied
from nexus_cli.permission.call_permission import CallPermission
from nexus_cli.reports.text.blocks import Blocks, Table
from nexus_cli.reports.text.command_names import name_commands
from nexus_cli.reports.text.lines import plural
from nexus_cli.sections.contributors.skills import catalogue_place
from nexus_cli.sections.find_recipe import find_all_agents

NO_SKILLS = "No skills. A skill is a folder with a SKILL.md, for example in the skills folder beside config.toml."


class ListedSkill(JsonOf[Skill]):
    catalogue: Literal["described", "named", "counted", ""]
    """Its form in the system text of a session; "" if it is not there."""


class CommandObject(JsonOf[Skill]):
    """A command of the person or the project."""

    built_in: bool
    """True if a built-in command has its name, so that only `$NAME` calls it."""


class SkillsReport(VersionedReport):
    """Skills and own commands."""

    skills: list[ListedSkill]
    commands: list[CommandObject]
    agents: list[JsonOf[Skill]]
    """Roles of workers."""
    untrusted: int
    """Skills, commands and agents of a project that are not in effect."""


def skills_report(cwd: Path, built_in: Collection[str] = ()) -> SkillsReport:
    """Return every skill, command and agent with its description and path, and how many skills do not count because the
    project is untrusted. `built_in` has the names of the commands of nexus."""
    skills, untrusted = find_guides(cwd, GuideKind.SKILL)
    skills = _mark_denied(skills, cwd)
    offered = [skill for skill in skills if skill.is_offered]
    places = {id(skill): catalogue_place(number) for number, skill in enumerate(offered)}
    commands, untrusted_commands = find_guides(cwd, GuideKind.COMMAND)
    agents, untrusted_agents = list_agents(cwd)
    return {
        "version": 1,
        "skills": [ListedSkill(to_json_value(skill), catalogue=places.get(id(skill), "")) for skill in skills],
        "commands": [CommandObject(to_json_value(command), built_in=command.name in built_in) for command in commands],
        "agents": agents,
        "untrusted": untrusted + untrusted_commands + untrusted_agents,
    }


def list_agents(cwd: Path) -> tuple[list[JsonOf[Skill]], int]:
    """Return every agent with its description and path, and how many are not trusted."""
    agents, untrusted = find_all_agents(cwd)
    return to_json_value([*_mark_denied(agents, cwd)]), untrusted


def _mark_denied(guides: Iterable[Skill], cwd: Path) -> tuple[Skill, ...]:
    """Return skills or agents with the deny rule that keeps the model from each; as they are if no rule can be read."""
    with suppress(NexusError, OSError):
        return mark_denied(guides, CallPermission(cwd, project_root(cwd), sandbox=SandboxSettings()).find_denial)
    return tuple(guides)


def skill_guide(name: str, cwd: Path) -> str:
    """Return the guide of the skill `name`.

    Raise `UsageError` with the nearest name if there is none, `NexusError("config", ...)` if it cannot be
    read.
    """
    skills, untrusted = find_guides(cwd, GuideKind.SKILL)
    available = [skill for skill in skills if not skill.shadowed]
    skill_name = name.strip()
    chosen = next((skill for skill in available if skill.name == skill_name), None)
    chosen = chosen or next((skill for skill in available if skill.name.casefold() == skill_name.casefold()), None)
    if chosen is None:
        raise _unknown(skill_name, [skill.name for skill in available], untrusted)
    if chosen.problem:
        raise NexusError("config", f"skill {chosen.name}", chosen.problem, f"Fix {chosen.path}")
    return chosen.read()


def _unknown(name: str, available: list[str], hidden: int) -> NexusError:
    hint = (
        "A skill is a folder with a SKILL.md, for example in the skills folder beside config.toml (`nexus config path`)"
    )
    hint = suggest_name(name, available, f"Skills: {', '.join(available[:20])}" if available else hint)
    if hidden:
        untrusted_note = f"this project has {hidden} more, available after `nexus trust`"
        hint = f"{hint} {untrusted_note.capitalize()}" if hint.endswith("?") else f"{hint}; {untrusted_note}"
    return UsageError(f"skill '{one_line(name)}'", "there is no such skill", hint)


def skills_text(value: JsonObject) -> Blocks:
    """List the skills by name."""
    guides = [
        {**guide, "shown": f"{sign}{guide['name']}"}
        for sign, kind in (("", "skills"), ("/", "commands"), ("@", "agents"))
        for guide in value.get(kind, ())
    ]
    yield Table({"name": "shown", "from": name_origin, "what": describe_guide}, guides, NO_SKILLS)
    if value["untrusted"]:
        yield from ["", name_commands(describe_untrusted(value["untrusted"], "guide"))]
    elif value["skills"]:
        yield from ["", name_commands("`nexus skill use NAME` prints the guide of a skill.")]
    if brief := sum(skill.get("catalogue") in ("named", "counted") for skill in value["skills"]):
        yield f"Requests list {plural(brief, 'skill')} without a description, or only as a number."


def describe_untrusted(number: int, noun: str) -> str:
    """Return the line about guides of a project that are not in effect."""
    return f"This project has {plural(number, noun)} that you have not trusted (see `nexus trust`)."


def _name_call(skill: JsonObject) -> str:
    return f"/{skill['plugin']}:{skill['name']}" if skill.get("plugin") else f"${skill['name']}"


def name_origin(skill: JsonObject) -> str:
    """Name where a skill, command or agent is from."""
    return f"plugin {skill['plugin']}" if skill.get("plugin") else str(skill["origin"])


def describe_guide(skill: JsonObject) -> str:
    """Return the description of a skill, command or agent, behind the reason that it is not in effect."""
    if skill["problem"]:
        return f"[cannot be used: {skill['problem']}]"
    if skill["shadowed"]:
        return f"[not used: the entry above has the same name] {skill['description']}"
    if skill.get("denied"):
        return f"[hidden from the model: {skill['denied']}] {skill['description']}"
    return (
        f"[a built-in command has this name; use {_name_call(skill)}] {skill['description']}"
        if skill.get("built_in")
        else skill["description"]
    )


Name = Annotated[str, Argument("NAME", "The skill's name.")]


def list_skills(source: Source) -> Report[SkillsReport]:
    """List skills, commands and agents, and where each is from."""
    built_in: Collection[str] = ()
    with suppress(ImportError, OSError):  # in the sandbox a file may be hidden: no guide is marked as overruled then
        from nexus_cli.commands import discover  # noqa: PLC0415  (imports this file)

        built_in = discover()
    return Report("skills", skills_report(source.folder(), built_in), uncut=True)


def use_skill(source: Source, name: Name) -> Text:
    """Print the text of a skill."""
    return report_text(name, f"{skill_guide(replace_surrogates(name), source.folder())}\n")


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
