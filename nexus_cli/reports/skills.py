"""Report the active skills of a folder, and the guide of one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nexus_cli.context.sections.skills import count_untrusted, find_skills, read_guide
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError, nearest_name
from nexus_cli.reports.text.lines import Value, filled, plural, table

if TYPE_CHECKING:
    from nexus_cli.core.json_types.setup_reports import SkillObject, SkillsReport

NO_SKILLS = "There are no skills. A skill is a folder with a SKILL.md, in the skills folder beside config.toml."


def list_skills(cwd: Path) -> SkillsReport:
    """Return every skill with its description and path, and how many do not count because the project is untrusted."""
    shown = [{key: value for key, value in asdict(skill).items() if key != "source"} for skill in find_skills(cwd)]
    return {"version": 1, "skills": cast("list[SkillObject]", shown), "untrusted": count_untrusted(cwd)}


def skill_guide(name: str, cwd: Path) -> str:
    """Return the guide of the skill `name`.

    Raise `NexusError("usage", ...)` with the nearest name if there is none, `NexusError("config", ...)` if it cannot be
    read.
    """
    found = [skill for skill in find_skills(cwd) if not skill.shadowed]
    wanted = name.strip()
    chosen = next((skill for skill in found if skill.name == wanted), None)
    chosen = chosen or next((skill for skill in found if skill.name.casefold() == wanted.casefold()), None)
    if chosen is None:
        raise _unknown(wanted, [skill.name for skill in found], count_untrusted(cwd))
    if chosen.problem:
        raise NexusError("config", f"skill {chosen.name}", chosen.problem, f"Fix {chosen.path}")
    return read_guide(chosen)


def _unknown(name: str, there: list[str], hidden: int) -> NexusError:
    near = nearest_name(name, there)
    if near:
        hint = f"The nearest is {near}"
    elif there:
        hint = f"There are: {', '.join(there[:20])}"
    else:
        hint = "A skill is a folder with a SKILL.md in the skills folder beside config.toml (`nexus config path`)"
    if hidden:
        hint += f"; this project has {hidden} more, which count after `nexus trust`"
    return NexusError("usage", f"no skill '{one_line(name)}'", "no skill has this name", hint)


def skills_text(value: Value, width: int) -> str:
    """List the skills by name."""
    rows = [("name", "from", "what")]
    for skill in value["skills"]:
        said = skill["description"]
        if skill["problem"]:
            said = f"[cannot be used: {skill['problem']}]"
        elif skill["shadowed"]:
            said = f"[shadowed by the one before] {said}"
        rows.append((skill["name"], skill["origin"], said))
    lines = table(rows, width) if len(rows) > 1 else filled(NO_SKILLS, width)
    if value["untrusted"]:
        more = plural(value["untrusted"], "more skill")
        lines += ["", *filled(f"This project has {more}; `nexus trust` enables them.", width)]
    elif len(rows) > 1:
        lines += ["", *filled("`nexus skill use NAME` prints the guide.", width)]
    return "\n".join(lines)
