"""Which recipe a run has: the person's own, the package's, then a trusted project's."""

from __future__ import annotations

from pathlib import Path

from nexus_cli.context.recipe import ProjectRecipes, Recipe, load_recipe, recipe_names
from nexus_cli.core.paths import defaults, places, project
from nexus_cli.core.trust import FOLDER, configuration, state

INSIDE = "recipes/"


def folders() -> list[Path]:
    """Where recipes lie that are not a project's, the first counting first."""
    return [places().config / "recipes", defaults() / "recipes"]


def own_recipe(name: str) -> Recipe:
    """A recipe of the person or the package: what nexus does by itself is not for a project to say."""
    return load_recipe(name, folders())


def recipe_for(name: str, cwd: Path) -> tuple[Recipe, tuple[str, ...]]:
    """The recipe `name` of a session in `cwd`, and what the person should know; raises as `load_recipe` does."""
    here = project_recipes(cwd)
    if here is None:
        return own_recipe(name), ()
    shadowed = name in here.names() and name in recipe_names(folders())
    notice = f"recipe {name} of this project is not used: another one has this name, and comes first"
    return load_recipe(name, folders(), here), (notice,) if shadowed else ()


def project_recipes(cwd: Path) -> ProjectRecipes | None:
    """The recipes of the project around `cwd`, None where it has none or is not trusted."""
    root = project(cwd)
    found = configuration(root)
    files = {name.removeprefix(INSIDE): data for name, data in found.files.items() if name.startswith(INSIDE)}
    if not files or state(root, found) != "trusted":
        return None
    return ProjectRecipes(root / FOLDER / "recipes", {name: data for name, data in files.items() if "/" not in name})
