"""A recipe: the sections and powers of a kind of run, and the lookup of recipes.

`recipe_file` parses a recipe's file; `nexus_cli.core.limits` combines its limits with the person's settings; the
planner chooses sections.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from nexus_cli.config.text_file import decode, read_text
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError, UsageError, suggest_name
from nexus_cli.core.limits import Limits
from nexus_cli.sections import recipe_file

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
NONE = Limits()


@dataclass(frozen=True, slots=True)
class Recipe:
    """One kind of run."""

    name: str
    description: str = ""
    """One line, for a person."""
    contributors: tuple[str, ...] | None = None
    """Ids of its contributors; None: all of them."""
    multipliers: Mapping[str, float] = field(default_factory=dict)
    """Phase label, contributor id or section id, to the factor of its score; 0 switches it off. The most specific one
    wins."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Contributor or section id to the text that replaces it; in a fork, the appended instruction."""
    section_budget: int | None = None
    """Tokens of all static sections; None: the built-in 16,384 and 25 % of the budget. Only ever lowers that."""
    limits: Limits = NONE
    source: str = field(default="", compare=False)
    """The file that defines it."""
    role: str = ""
    """The text of an agent, for the first message of a worker: unlike an instruction it replaces nothing."""
    signals: bool = False
    """True if pressure and errors bind the limits of the run, instead of only being reported."""

    def multiplier(self, phase: str, section: str) -> float:
        """Return the factor of a section's score: that of its id, else the beginning of its id (that of the instruction
        file which imports it), else its contributor, else its phase, else 1."""
        for key in (section, ".".join(section.split(".", 2)[:2]), section.partition(".")[0], phase):
            if key in self.multipliers:
                return self.multipliers[key]
        return 1.0

    def admits(self, contributor: str) -> bool:
        """True if this contributor takes part."""
        return self.contributors is None or contributor in self.contributors

    @property
    def instruction(self) -> str:
        """The text that replaces our operating rules: the instruction of a fork; "" if there is none."""
        return self.overrides.get("contract", "")


@dataclass(frozen=True, slots=True)
class ProjectRecipes:
    """The recipes of a trusted project: they add names, and their contents can only tighten (law 7)."""

    folder: Path
    files: Mapping[str, bytes]
    """The `.toml` files by their plain names, as they were when the project was judged."""

    def names(self) -> list[str]:
        """Return the names of its recipes, sorted."""
        return sorted(name[:-5] for name in self.files if name.endswith(".toml") and NAME.fullmatch(name[:-5]))


def load_recipe(name: str, folders: Sequence[Path], project: ProjectRecipes | None = None) -> Recipe:
    """Return the recipe `NAME.toml` of the first of `folders` that has it, else of the project.

    A project's recipe never replaces another one. Raises `UsageError` with the existing names if it does
    not exist, and `NexusError("config", ...)` with file and key if it is broken.
    """
    odd = ""
    if NAME.fullmatch(name):
        for folder in folders:
            path = folder / f"{name}.toml"
            file_text = read_text(path)
            if file_text is not None:
                location = one_line(str(path))
                return Recipe(
                    name,
                    source=location,
                    **recipe_file.read_recipe(file_text.text, location, partial(_read_sibling, folder)),
                )
            odd = odd or (one_line(str(path)) if os.path.lexists(path) else "")
        if project is not None and name in project.names():
            location = one_line(str(project.folder / f"{name}.toml"))
            text = decode(project.files[f"{name}.toml"], location).text
            return Recipe(name, source=location, **recipe_file.read_project_recipe(text, location))
    if odd:
        raise NexusError("config", odd, "is not a regular file", "Replace it with the recipe file")
    names = sorted({*recipe_names(folders), *(project.names() if project else ())})
    hint = f"{suggest_name(name, names, '')} There are: {', '.join(names)}".lstrip()
    raise UsageError(f"recipe {one_line(name)}", "there is no such recipe", hint)


def recipe_names(folders: Iterable[Path]) -> list[str]:
    """Return the names of all recipes in `folders`, sorted."""
    files = (path for folder in folders for path in folder.glob("*.toml") if path.is_file())
    return sorted({path.stem for path in files if NAME.fullmatch(path.stem)})


def _read_sibling(folder: Path, name: str) -> str | None:
    """Return the text of a file in the folder of a recipe, None if it does not exist."""
    file_text = read_text(folder / name, recipe_file.MAX_BYTES)
    return file_text.text if file_text else None
