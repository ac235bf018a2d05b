"""The contract of a contributor, which adds sections to a request (seed E): what it may read and how it renders.

Each file of `contributors/` exports a tuple `CONTRIBUTORS` and is found by itself.
Reading within a time limit is `reader`'s, choosing forms and fixing the order `collect`'s.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from nexus_cli.context.loader import ContextLayer, instruction_layers
from nexus_cli.context.sections.identity_files import IdentityFile
from nexus_cli.context.sections.project_outline import Outline
from nexus_cli.context.sections.section import Layer, Section
from nexus_cli.context.sysinfo import Host
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import Clock, local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import Episode, Facts
from nexus_cli.core.services import Footprint, Goal, SeenFile

FOLDER = "contributors"
MOST_INSTRUCTIONS = 16_384
"""Tokens of all instruction layers together, and at most a quarter of the budget."""

Value: TypeAlias = Any
"""Value read by a contributor: plain JSON data, so that it can be stored and rendered again."""


def find_nothing(_: object) -> tuple[()]:
    """Return (): the default of a seam that takes an argument."""
    return ()


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that a contributor may read from: one-method seams, supplied by the factory."""

    cwd: Path
    started: datetime
    """When the session began, local time with its zone."""
    instructions: Callable[[], Sequence[ContextLayer]]
    """The instruction layers as they are on disk now; one without a text has a notice that says why. Blocking."""
    mode: str = ""
    """The front end, where the model has to know it: a program at the other end, no person."""
    host: Callable[[], Host] = Host.here
    clock: Clock = local_now
    notices: Callable[[], Sequence[str]] = tuple
    """The lines that are queued for the model. Reading does not take them away: who queued them knows when they
    were sent."""
    about: Callable[[], str] = str
    """The person's last words: memory has to matter for them."""
    facts: Facts | None = None
    """Facts; None where there is no memory."""
    episodes: Callable[[str], Sequence[Episode]] = find_nothing
    """The past sessions of this project that matter for what was said. Blocking."""
    goals: Callable[[], Sequence[Goal]] = tuple
    """The session's goals and their steps, in order."""
    files: Callable[[], Sequence[SeenFile]] = tuple
    """The files that the session saw, the newest first, compared with the disk. Blocking."""
    footprint: Callable[[], Footprint] = Footprint
    """Record of the part that is not in the window any more. Blocking."""
    persona: Callable[[Sequence[str]], Sequence[IdentityFile]] = find_nothing
    """The files of these names that say who the agent is, or what the person likes. Blocking."""
    tools: Callable[[], Sequence[str]] = tuple
    """Names of the tools at hand."""
    capabilities: Callable[[], Mapping[str, Any]] = dict
    """Report of `nexus status`, see `contributors/capabilities.py`; empty if unknown.
    Blocking."""
    outline: Callable[[], Outline] = Outline
    """The project by the names of its files. Blocking, bounded."""
    trigger: Callable[[], Mapping[str, str]] = dict
    """What started the turn: `type` and `source`, see `contributors/trigger.py`; empty if the TRIGGER block says it."""
    permission: Callable[[], Mapping[str, Any]] = dict
    """The permission level in force, see `contributors/permission.py`; empty if unknown."""
    run: Callable[[], Mapping[str, Any]] = dict
    """The facts of a structured run, see `contributors/run_blocks.py`; empty in a plain session. Blocking."""

    @classmethod
    def of(cls, cwd: Path, started: datetime, **seams: Any) -> Sources:
        """Return the sources of a session in `cwd` on this machine; `seams` replaces single ones."""
        return cls(cwd, started, **{"instructions": lambda: instruction_layers(cwd), **seams})


@dataclass(frozen=True, slots=True)
class View:
    """All that rendering may depend on, beside the value."""

    model: str
    recipe: str
    window: int
    """Tokens of the model's window."""
    instruction_cap: int
    """Tokens of all instruction layers together."""
    count: Callable[[str], int]
    """Tokens of a text."""

    @classmethod
    def of(cls, model: str, recipe: str, budget: TokenBudget, count: Callable[[str], int]) -> View:
        """Return the view of a session with this budget."""
        cap = min(MOST_INSTRUCTIONS, max(0, budget.available) // 4)
        return cls(model, recipe, budget.window, cap, count)


@dataclass(frozen=True, slots=True)
class Contributor:
    """One source of sections."""

    id: str
    """Its sections are called `ID` or `ID.PART`."""
    layer: Layer
    """`system`: read once per epoch. `event`: read every turn, sent where its text differs from what was sent."""
    read: Callable[[Sources], Value]
    """May block: it is called in a thread, within a time limit. The value is plain JSON data."""
    render: Callable[[Value, View], tuple[Section, ...]]
    """Pure. No section when there is nothing to say. Which form of a section is sent is not known here."""
    notices: Callable[[Value], Sequence[str]] = find_nothing
    """Lines for the person about what was read (an odd encoding)."""
    most: int = 200_000
    """Characters that its value, and its sections together, may hold; with more of them it is skipped."""
    verbatim: bool = False
    """Its value is our own words, or the person's instructions: it is rendered unchanged. All
    other text is made so that it cannot pose as ours (`nexus_cli.context.untrusted_text`)."""
    rest: bool = False
    """Rendered after the others, with what they leave of the section budget as `View.instruction_cap`."""
    prompt: bool = False
    """What it says cannot wait for the person's next message: a tool result carries it too. Its `read` is cheap, for
    it is read before every request."""
    required: bool = False
    """It has a longer time limit, its last value is kept, and requests without it say so."""


def contributor_names() -> tuple[str, ...]:
    """Return the ids of all contributors."""
    return tuple(discover())


@cache
def discover() -> Mapping[str, Contributor]:
    """Return all contributors by id, sorted; `NexusError("config", ...)` when two have one id."""
    found: dict[str, Contributor] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).with_name(FOLDER))]):
        for contributor in importlib.import_module(f"{__package__}.{FOLDER}.{module.name}").CONTRIBUTORS:
            if contributor.id in found:
                why = f"another one is called {contributor.id} too"
                raise NexusError("config", f"contributor {module.name}", why, "Rename one of them")
            found[contributor.id] = contributor
    return dict(sorted(found.items()))
