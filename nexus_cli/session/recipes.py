"""Which recipe a run has: the person's own, the package's, then a trusted project's."""

from __future__ import annotations

from pathlib import Path

from nexus_cli.context.recipe import ProjectRecipes, Recipe, load_recipe, recipe_names
from nexus_cli.core.errors import NexusError
from nexus_cli.core.paths import defaults, places, project
from nexus_cli.core.trust import FOLDER, configuration, state
from nexus_cli.ledger import SessionInfo
from nexus_cli.session.options import Options

INSIDE = "recipes/"
FRONTS = ("chat", "ask")
"""Recipes of the front ends: a session that was begun in one of them goes on in the other."""


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


def recipe_of(found: SessionInfo | None, options: Options) -> tuple[Recipe, tuple[str, ...]]:
    """The recipe in which the session `found` goes on (None: a new one begins), and what the person should know.

    A session keeps its own, with its limits, unless the person names another. Raises as `load_recipe` does; where its
    own is not there any more, or broken, the error says how it goes on.
    """
    if options.recipe or found is None:
        return recipe_for(options.recipe or options.front, options.cwd)
    own = found.recipe
    try:
        return recipe_for(options.front if own in FRONTS and options.front else own, options.cwd)
    except NexusError as error:
        why = f"the session has the limits of its recipe: {error.message}"
        hint = "Go on in another recipe: --recipe ask"
        raise NexusError(error.kind, f"session {found.id} cannot go on", why, hint) from error


def project_recipes(cwd: Path) -> ProjectRecipes | None:
    """The recipes of the project around `cwd`, None where it has none or is not trusted."""
    root = project(cwd)
    found = configuration(root)
    files = {name.removeprefix(INSIDE): data for name, data in found.files.items() if name.startswith(INSIDE)}
    if not files or state(root, found) != "trusted":
        return None
    return ProjectRecipes(root / FOLDER / "recipes", {name: data for name, data in files.items() if "/" not in name})
