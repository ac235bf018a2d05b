"""The contract of a contributor, which adds sections to a request: its sources and its rendering.

Each file of `contributors/` exports a tuple `CONTRIBUTORS` and is discovered automatically. `reader` reads within a
time limit; `collect` chooses forms and fixes the order.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from nexus_cli.context.loader import ContextLayer
from nexus_cli.context.sysinfo import Host
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import Clock, local_now
from nexus_cli.core.elide import Count
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memory import Episode, Facts
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.services import Footprint, Goal, SeenFile
from nexus_cli.plugins.python_plugins import python_plugins
from nexus_cli.sections.identity_files import IdentityFile, read_identity_files
from nexus_cli.sections.instruction_files import instruction_layers
from nexus_cli.sections.project_outline import Outline, outline_project
from nexus_cli.sections.section import Layer, Phase, Section, Sections

FOLDER = "contributors"
MAX_INSTRUCTIONS = 16_384
"""Tokens of all instruction layers together, and at most a quarter of the budget."""
REPLACED_BY_BLOCKS = frozenset({"task", "user_memory", "project_memory", "agent_memory", "memory", "session_start"})
"""Contributors that blocks replace in a structured run."""
BLOCK_RULES = "run_instructions"

Value: TypeAlias = Any
"""Value read by a contributor: plain JSON data, so that it can be stored and rendered again."""


def notices(value: Value) -> Sequence[str]:
    """Return the problems with the files of which `value` is a list: the `notices` of their contributors."""
    return [row["notice"] for row in value if row["notice"]]


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
    """Returns the instruction layers currently on disk; one without a text has a notice with the reason. Blocking."""
    is_denied: Callable[[Path], bool] | None = None
    """Returns True for a real path that a deny rule keeps from `read_file`. Blocking."""
    find_denial: Callable[[str, str], str] = lambda kind, name: ""
    """Returns the deny rule for a kind and a whole name of a guide, "" for none. Blocking."""
    mode: str = ""
    """The front end, if the model has to know it: a program at the other end, not a person."""
    is_run: bool = False
    """True in a structured run, whose blocks have the time."""
    is_worker: bool = False
    """True if its messages are another model's, not the person's."""
    host: Callable[[], Host] = Host.here
    clock: Clock = local_now
    notices: Callable[[], Sequence[str]] = tuple
    """Returns the lines queued for the model. Reading does not remove them: the queue's owner knows when they were
    sent."""
    jobs: Callable[[], Mapping[str, str]] = dict
    """Returns the background commands that run, by id."""
    hooks: Callable[[], Mapping[str, Mapping[str, str]]] = dict
    """Returns the `text` and `source` of what hooks added last, by event."""
    away: Callable[[], Sequence[Mapping[str, str]]] = tuple
    """Returns what the person was shown on opening about unattended runs: `line`, `run` and `report` of each."""
    about: Callable[[], str] = str
    """Returns the person's newest message, which memory has to be relevant to."""
    facts: Facts | None = None
    """Facts; None without memory."""
    episodes: Callable[[str], Sequence[Episode]] = find_nothing
    """Returns the past sessions of this project that are relevant to a message. Blocking."""
    goals: Callable[[], Sequence[Goal]] = tuple
    """The session's goals and their steps, in order."""
    files: Callable[[], Sequence[SeenFile]] = tuple
    """Returns the files that the session saw, newest first, compared with the disk. Blocking."""
    touched: Callable[[], Collection[str]] = tuple
    """Returns the real paths of the files that the session read, edited or was given."""
    footprint: Callable[[], Footprint] = Footprint
    """Returns the record of the part that is no longer in the window. Blocking."""
    style: str = ""
    """The style of answers that the person chose, "" for none."""
    persona: Callable[[Sequence[str]], Sequence[IdentityFile]] = find_nothing
    """Returns the files of these names with the agent's identity or the person's preferences. Blocking."""
    added: Callable[[], Sequence[Path]] = tuple
    """Returns the folders that the person added to the project."""
    tools: Callable[[], Sequence[str]] = tuple
    """Returns the names of the available tools."""
    has_tool: Callable[[str], bool] = lambda name: True
    """Returns True if the present epoch has the tool of this name."""
    capabilities: Callable[[], JsonObject] = dict
    """Report of `nexus status`, see `contributors/capabilities.py`; empty if unknown.
    Blocking."""
    skills: Callable[[], Sequence[JsonObject]] = tuple
    """Returns name and description of the skills that the model may read. Blocking."""
    agents: Callable[[], Sequence[JsonObject]] = tuple
    """Returns name and description of the agents that the model may hand work to. Blocking."""
    server_instructions: Callable[[], Mapping[str, str]] = dict
    """Returns what MCP servers say about their use, by name. Blocking."""
    matching_skills: Callable[[], Sequence[JsonObject]] = tuple
    """Returns those that are relevant to the newest message. Blocking."""
    repository: Callable[[], JsonObject] = dict
    """Returns the state of the git repository, see `contributors/repository.py`; empty if unknown. Blocking."""
    outline: Callable[[], Outline] = Outline
    """Returns the outline of the project from the names of its files. Blocking, bounded."""
    trigger: Callable[[], Mapping[str, str]] = dict
    """Returns the cause of the turn: `type` and `source`, see `contributors/trigger.py`; empty if the TRIGGER block has
    it."""
    permission: Callable[[], JsonObject] = dict
    """Returns the current permission level, see `contributors/permission.py`; empty if unknown."""
    run: Callable[[], JsonObject] = dict
    """Returns the facts of a structured run, see `contributors/run_blocks.py`; empty in a plain session. Blocking."""

    @classmethod
    def of(cls, cwd: Path, started: datetime, **seams: Any) -> Sources:
        """Return the sources of a session in `cwd` on this machine; `seams` replaces single ones."""
        of_folder: Mapping[str, Any] = {
            "instructions": lambda: instruction_layers(cwd, seams.get("is_denied")),
            "persona": lambda names: read_identity_files(names, cwd),
            "outline": lambda: outline_project(cwd),
        }
        return cls(cwd, started, **{**of_folder, **seams})


@dataclass(frozen=True, slots=True)
class View:
    """Everything that rendering may depend on, besides the value."""

    model: str
    recipe: str
    window: int
    """Tokens of the model's window."""
    instruction_cap: int
    """Tokens of all instruction layers together."""
    count: Count
    """Tokens of a text."""

    @classmethod
    def of(cls, model: str, recipe: str, budget: TokenBudget, count: Count) -> View:
        """Return the view of a session with this budget."""
        cap = min(MAX_INSTRUCTIONS, max(0, budget.available) // 4)
        return cls(model, recipe, budget.window, cap, count)


@dataclass(frozen=True, slots=True)
class Contributor:
    """One source of sections."""

    id: str
    """Its sections are named `ID` or `ID.PART`."""
    layer: Layer
    """`system`: read once per epoch. `event`: read every turn, sent if its text has changed."""
    read: Callable[[Sources], Value]
    """May block: called in a thread, within a time limit. The value is plain JSON data."""
    render: Callable[[Value, View], Sections]
    """Pure. Returns no section if there is no text. Does not know the form that is sent."""
    notices: Callable[[Value], Sequence[str]] = find_nothing
    """Returns lines for the person about the value (an unusual encoding)."""
    tells_once: bool = False
    """True if the person needs these lines only once in a project, and again when they have changed."""
    most: int = 200_000
    """Most characters of its value, and of its sections together; if exceeded, it is skipped."""
    verbatim: bool = False
    """True if its value is our own text, or the person's instructions: it is rendered unchanged. All other text is
    neutralized so that it cannot pose as ours (`nexus_cli.text.untrusted_text`)."""
    rest: bool = False
    """True if it is rendered after the others, with the rest of the section budget as `View.instruction_cap`."""
    prompt: bool = False
    """True if it cannot wait for the person's next message: a tool result carries it too. Its `read` must be cheap,
    because it is called before every request."""
    required: bool = False
    """True if it has a longer time limit, keeps its last value, and is reported in requests without it."""
    parts: tuple[str, ...] = ()
    """The first words of its parts, if they are fixed; empty if its value names them."""

    def can_have(self, section: str) -> bool:
        """True if one of its sections can have this id, or if it is the id of all of them."""
        if not section.startswith(f"{self.id}."):
            return section == self.id
        part = section.removeprefix(f"{self.id}.").partition(".")[0]
        return part in self.parts or not self.parts


def given_prompt(text: str) -> dict[str, Contributor]:
    """Make a contributor with `text`, the system text given in the options, as its only section; {} if blank."""
    text = replace_surrogates(text).replace("\0", "\ufffd")
    if not text.strip():
        return {}
    name = "system_prompt"
    section = Section(name, Phase.CONSTRAINT, (text,), Layer.SYSTEM, 100, sticky=True, source="given")
    contributor = Contributor(
        name,
        Layer.SYSTEM,
        lambda sources: "",
        lambda value, view: (section,),
        most=len(text),
        verbatim=True,
        required=True,
    )
    return {name: contributor}


def choose_contributors(
    contributors: Mapping[str, Contributor], admits: Callable[[str], bool], *, is_run: bool, system_prompt: str | None
) -> dict[str, Contributor]:
    """Return those of `contributors`, by id, that a recipe `admits`, for a plain session or a structured run;
    `system_prompt`, if given, replaces the static ones."""
    without = REPLACED_BY_BLOCKS if is_run else {BLOCK_RULES}
    chosen = {name: item for name, item in contributors.items() if name not in without and admits(name)}
    if system_prompt is None:
        return chosen
    return {name: item for name, item in chosen.items() if item.layer is not Layer.SYSTEM} | given_prompt(system_prompt)


def contributor_names() -> tuple[str, ...]:
    """Return the ids of all contributors."""
    return tuple(discover())


@cache
def discover() -> Mapping[str, Contributor]:
    """Return all contributors by id, sorted, with those of plugins; raise `NexusError("config", ...)` if two of ours
    have the same id."""
    contributors: dict[str, Contributor] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).with_name(FOLDER))]):
        for contributor in importlib.import_module(f"{__package__}.{FOLDER}.{module.name}").CONTRIBUTORS:
            if contributor.id in contributors:
                why = f"another contributor is also called {contributor.id}"
                raise NexusError("config", f"contributor {module.name}", why, "Rename one of them")
            contributors[contributor.id] = contributor
    if python_plugins():
        contributors |= importlib.import_module(f"{__package__}.plugin_sections").plugin_contributors(contributors)
    return dict(sorted(contributors.items()))
