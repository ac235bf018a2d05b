"""Find the recipe of a run: in the person's folder, the package, a trusted project, for a worker among the agents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from nexus_cli.config.paths import defaults_dir, places, project_root
from nexus_cli.config.text_file import decode
from nexus_cli.config.trust import Configuration, State, read_configuration, trust_state, trusted_configuration
from nexus_cli.config.trust_files import FOLDER
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError, UsageError, suggest_name
from nexus_cli.core.front_ends import FRONTS
from nexus_cli.guides.agent_roles import read_limits
from nexus_cli.guides.skills import NEEDS_TRUST, GuideKind, Skill, explain_uncallable, find_guides, index_guides
from nexus_cli.plugins.installed_plugins import InstalledPlugin
from nexus_cli.sections.recipe import NAME, ProjectRecipes, Recipe, load_recipe, recipe_names
from nexus_cli.sections.recipe_file import read_project_recipe
from nexus_cli.tools.registry import discover_tools

INSIDE = "recipes/"
NOT_TRUSTED: Mapping[State, str] = {
    "changed": "this project's recipe is new, or has changed since you trusted the project",
    "untrusted": "the recipe belongs to this project, which is not trusted",
}
"""Reasons for ignoring a recipe of the project, by its trust state."""
NAME_TAKEN = "has the same name as a recipe, and the recipe takes precedence"
TRUST = "To review and enable it: nexus trust"


def folders() -> list[Path]:
    """Return the recipe folders outside projects, in order of precedence."""
    return [places().config / "recipes", defaults_dir() / "recipes"]


def own_recipe(name: str) -> Recipe:
    """Return a recipe of the person or the package: a project cannot replace recipes that nexus uses internally."""
    return load_recipe(name, folders())


def recipe_for(name: str, cwd: Path, *, with_agents: bool = False) -> tuple[Recipe, tuple[str, ...]]:
    """Load the recipe `name` for `cwd`, with notices; that of a worker `with_agents`. Raises as `load_recipe`, also for
    one that is not trusted."""
    own_recipes = project_recipes(cwd)
    try:
        recipe = load_recipe(name, folders(), own_recipes)
    except NexusError as error:
        if error.kind != "usage" or (own_recipes and name in own_recipes.names()):
            raise
        agents = find_agents(cwd) if with_agents else {}
        if agent := index_guides(agents.values()).get(name):
            recipe = make_agent_recipe(agent, own_recipe("worker"), cwd)
            return recipe, tuple(_unknown_tools(recipe))
        kinds = (GuideKind.AGENT,) * with_agents
        untrusted, why = NOT_TRUSTED.get(_trust_of(name, cwd)), explain_uncallable(cwd, kinds).get(name, "")
        agent_hint = f"{suggest_name(name, agents, '')} Agents: {', '.join(agents)}".lstrip()
        hint = f"{agent_hint}. {error.hint}" if agents else error.hint
        hint = TRUST if untrusted or why.endswith(NEEDS_TRUST) else "Correct its file" if why else hint
        raise UsageError(error.what, untrusted or why or error.why, hint) from error
    shadowed = own_recipes is not None and name in own_recipes.names() and name in recipe_names(folders())
    notice = f"recipe {name} of this project is not used: another recipe with this name takes precedence"
    return recipe, (*(notice,) * shadowed, *_unknown_tools(recipe))


def make_agent_recipe(agent: Skill, worker: Recipe, cwd: Path) -> Recipe:
    """Return the recipe of a `worker` in `cwd` with the role of an agent, and its tools and steps as limits.

    Blocks; raises `NexusError("config", ...)` if the file cannot be read.
    """
    return replace(
        worker,
        name=agent.name,
        description=agent.description,
        role="\n\n".join([agent.read(), *_read_skills(agent.fields.get("skills", ""), cwd)]),
        limits=worker.limits & read_limits(agent, cwd),
        source=agent.path,
    )


def _read_skills(skill_list: str, cwd: Path) -> Iterator[str]:
    """Yield the text of each skill that an agent begins with, or that it is not there."""
    guides_by_name = (
        index_guides(skill for skill in find_guides(cwd, GuideKind.SKILL)[0] if skill.is_usable) if skill_list else {}
    )
    for name in re.findall(r"[^\s,]+", skill_list):
        yield guides_by_name[name].read() if name in guides_by_name else f"[skill {one_line(name)} was not found]"


def find_all_agents(cwd: Path, plugins: Iterable[InstalledPlugin] | None = None) -> tuple[list[Skill], int]:
    """Return the agents of a folder, and how many are not trusted; `plugins` as for `find_guides`. An agent with the
    name of a recipe, which comes first, has this problem. Blocks; raises nothing."""
    agents, untrusted = find_guides(cwd, GuideKind.AGENT, plugins)
    own_recipes = project_recipes(cwd) if agents else None
    used_names = {*recipe_names(folders()), *(own_recipes.names() if own_recipes else ())} if agents else ()
    return [
        replace(agent, problem=agent.problem or NAME_TAKEN) if agent.name in used_names else agent for agent in agents
    ], untrusted


def find_agents(cwd: Path) -> dict[str, Skill]:
    """Return the agents that can work in a folder, by name. Blocks; raises nothing."""
    return {agent.name: agent for agent in find_all_agents(cwd)[0] if agent.is_usable}


def _unknown_tools(recipe: Recipe) -> Iterator[str]:
    """Yield a warning line for each unknown tool name in `recipe`, which may be misspelt."""
    tool_names = recipe.limits.tools
    known_tools = discover_tools() if tool_names else {}
    for name in sorted(name for name in tool_names or () if name not in known_tools):
        hint = suggest_name(name, known_tools, "")
        yield f"recipe {recipe.name} names an unknown tool {one_line(name)[:80]!r}. {hint}".rstrip(". ")


def project_recipes(cwd: Path) -> ProjectRecipes | None:
    """Return the trusted recipes of the project that contains `cwd`, None if it has none."""
    root = project_root(cwd)
    return _recipes_in(root, trusted_configuration(root))


def list_recipes(cwd: Path) -> list[str]:
    """Return the names of the recipes for a run in `cwd`, without those that nexus uses internally."""
    own_recipes = project_recipes(cwd)
    return sorted({*FRONTS, *recipe_names(folders()[:1]), *(own_recipes.names() if own_recipes else ())})


def describe_recipe_problems(configuration: Configuration) -> list[str]:
    """Return a line for each problem of a project's recipes."""
    problems, used_names = [], recipe_names(folders())
    for file, data in configuration.files.items():
        if file.startswith(INSIDE) and file.endswith(".toml"):
            name, location = file.removeprefix(INSIDE).removesuffix(".toml"), one_line(f"{FOLDER}/{file}")
            try:
                read_project_recipe(decode(data, location).text, location)
            except NexusError as error:
                problems.append(one_line(error.message))
            if not NAME.fullmatch(name):
                problems.append(f"{location}: not a valid recipe name")
            if name in used_names:
                problems.append(f"{location}: another recipe with this name is used instead")
    return problems


def _trust_of(name: str, cwd: Path) -> State:
    """Return the trust state of the project that contains `cwd` if it has a recipe `name`, else `nothing`."""
    root = project_root(cwd)
    configuration = read_configuration(root)
    own_recipes = _recipes_in(root, configuration)
    return trust_state(root, configuration) if own_recipes and name in own_recipes.names() else "nothing"


def _recipes_in(root: Path, configuration: Configuration) -> ProjectRecipes | None:
    files = {name.removeprefix(INSIDE): data for name, data in configuration.files.items() if name.startswith(INSIDE)}
    recipe_files = {name: data for name, data in files.items() if "/" not in name}
    return ProjectRecipes(root / FOLDER / "recipes", recipe_files) if files else None
