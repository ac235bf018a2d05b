"""The catalogues of skills and agents in the system text, and the names of the skills that fit the newest message. A
message that names nexus is told where its documentation is.

A guide itself is never inserted: the tool `skill` reads it. The first skills are described, the next ones named, the
others counted; the drop of the section has all names.
"""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.core.elide import cut_at_word
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.identity_files import shrink_forms
from nexus_cli.sections.section import DROP, Layer, Phase, Section, Sections

DESCRIBED, NAMED = 50, 100
"""Most skills that are described, and most that are named after these."""
LONG, SHORT = 280, 100
"""Most characters of a description, and of a short one."""
MANUAL = (
    "- About nexus, the program that you run in: `nexus docs WORDS` searches its pages, `nexus docs PAGE` prints one"
)
HEADER = "# Skills\nGuides for certain tasks. If a guide fits your task, read it first: skill(NAME)."
AGENTS_HEADER = (
    "# Agents\nWorkers for certain tasks. If a worker fits a task, give it the task: agent(task, recipe=NAME)."
)


def render_catalogue(value: Value, view: View) -> Sections:
    """Render the skills as one section."""
    pointer = f'guides for certain tasks: recall("{DROP}") lists them, skill(NAME) reads one'
    return _render("skills", HEADER, pointer, value, view)


def render_agents(value: Value, view: View) -> Sections:
    """Render the agents as one section."""
    pointer = f'workers for certain tasks: recall("{DROP}") lists them, agent(task, recipe=NAME) starts one'
    return _render("agents", AGENTS_HEADER, pointer, value, view)


def _render(kind: str, header: str, pointer: str, value: Value, view: View) -> Sections:
    """Return one section: descriptions, short descriptions, names, or the number."""
    if not value:
        return ()
    names = [skill["name"] for skill in value]
    undescribed = [", ".join(names[DESCRIBED:])] if len(names) > DESCRIBED else []
    full = "\n".join([header, *_describe(value, LONG), *undescribed])
    short = "\n".join([header, *_describe(value, SHORT), *_name_rest(names, DESCRIBED)])
    if undescribed:
        forms = ["\n".join([header, *_describe(value, LONG), *_name_rest(names, DESCRIBED)]), short]
    else:
        forms = [short, "\n".join([header, *_name_rest(names, 0)])]
    shrunk = shrink_forms([full, *forms, f"[{len(names)} {kind}, {pointer}]"], view.count)
    # All names are sent only where leaving some out saves nothing.
    least = 1 if undescribed and shrunk[1:2] == tuple(forms[:1]) else 0
    order = Phase.TOOLS + (20 if kind == "skills" else 21)
    return (Section(kind, order, shrunk, Layer.SYSTEM, priority=84, source="nexus skill list", least=least),)


def catalogue_place(number: int) -> str:
    """Return the form of the skill with this number, from 0, in the catalogue: `described`, `named` or `counted`."""
    return "described" if number < DESCRIBED else "named" if number < DESCRIBED + NAMED else "counted"


def _describe(value: Value, most: int) -> list[str]:
    return [f"- {skill['name']}: {cut_at_word(skill['description'], most)}".rstrip(": ") for skill in value[:DESCRIBED]]


def _name_rest(names: Sequence[str], first: int) -> list[str]:
    """Return the line of the skills that are not described."""
    undescribed = names[first:]
    if not undescribed:
        return []
    more = f' and {len(undescribed) - NAMED:,} more: recall("{DROP}")' if len(undescribed) > NAMED else ""
    return [f"{'Also: ' if first else ''}{', '.join(undescribed[:NAMED])}{more}"]


def read_matching(sources: Sources) -> Value:
    """Return name and description of the skills that fit the newest message; the `way` to read them where the model
    has no tool for it yet. The documentation of nexus counts as one, but in a run and for a worker, whose messages name
    nexus always."""
    reading_hint = "" if sources.has_tool("skill") else " (`nexus skill use {name}` prints it)"
    is_persons = not (sources.is_run or sources.is_worker)
    is_about_nexus = is_persons and "bash" in sources.tools() and "nexus" in sources.about().lower()
    manual = [{"name": "nexus", "line": MANUAL}] if is_about_nexus else []
    return [*({**skill, "way": reading_hint.format(**skill)} for skill in sources.matching_skills()), *manual]


def render_matching(value: Value, view: View) -> Sections:
    """Render `- The skill NAME may fit: DESCRIPTION`, a section per skill."""
    return tuple(
        Section(
            f"skill_match.{skill['name']}",
            Phase.MEMORY + 60 + number,
            (skill.get("line") or _offer(skill),),
            Layer.EVENT,
            priority=65,
            source="nexus skill list",
        )
        for number, skill in enumerate(value)
    )


def _offer(skill: Value) -> str:
    return f"- The skill {skill['name']} may fit this message{skill['way']}: {cut_at_word(skill['description'], SHORT)}"


CONTRIBUTORS = (
    Contributor("skills", Layer.SYSTEM, lambda sources: list(sources.skills()), render_catalogue, most=2_000_000),
    Contributor("agents", Layer.SYSTEM, lambda sources: list(sources.agents()), render_agents, most=2_000_000),
    Contributor("skill_match", Layer.EVENT, read_matching, render_matching),
)
