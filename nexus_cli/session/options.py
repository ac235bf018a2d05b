"""Options of a front end, and the layers of limits from options, settings and recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits
from nexus_cli.core.shared_types import Paths
from nexus_cli.sections.recipe import Recipe

if TYPE_CHECKING:
    from nexus_cli.core.context_contract import ContextContract
    from nexus_cli.mcp.server_values import ServerEntry

REPLACED = ("max_steps", "max_total_tokens", "max_cost", "timeout", "allow")
"""Limits whose value on the command line replaces those of settings and project."""
COMMAND_LINE = "command line"


@dataclass(frozen=True)
class Options:
    """Options of a front end."""

    cwd: Path
    model: str = ""
    """A litellm name; "" keeps the model of a resumed session."""
    effort: str = ""
    recipe: str = ""
    """The requested recipe; "" keeps that of a resumed session, and uses the front end's for a new one."""
    front: str = "ask"
    """The front end, which is also the name of its default recipe."""
    resume: str = ""
    """Id, its start or end, or name of the session to resume."""
    newest: bool = False
    """Resume the newest session of the folder; the REPL ignores runs of `nexus ask`."""
    allow: str | None = None
    most_allow: str | None = None
    """Upper limit of `allow` in every layer, set by a server."""
    allow_from: str = COMMAND_LINE
    """Name of the layer that set `allow`, if it was set after the start."""
    no_tools: bool = False
    save: bool = True
    require_save: bool = False
    limits: Limits = field(default_factory=Limits)
    interactive: bool = False
    spawner: str | None = None
    """Id of the parent session of a new worker session."""
    served: bool = False
    """A program uses the session through a server."""
    system_prompt: str | None = None
    """Replaces the whole system text; None: the default text."""
    worktree: str = ""
    """Name of the worktree of a new session."""
    one_turn: bool = False
    """The session ends after one turn, even if it is interactive."""
    reports: bool = False
    """Unattended: the last request of the budget is reserved for a report."""
    add_dirs: Paths = ()
    """Real paths of the folders of `--add-dir`; a resumed session has its own too."""
    rules: tuple[str, ...] = ()
    """Allow rules of `--rule`, see `CallPermission.rules_ahead`."""
    servers: tuple[ServerEntry, ...] = ()
    """MCP servers of this session alone, from an editor."""
    contract: ContextContract | None = None
    """What the person requires of the requests of a turn."""
    cache_key: str = ""
    """Key of the provider's cache that sessions with the same beginning share; "": a key of the session's own."""
    wait_for_ledger: Callable[[NexusError], bool] | None = None
    """Called while the ledger's server is away at the opening: waits, and returns True to try again. None: no wait."""
    answers: bool = False
    """A run started to answer people in their spaces; it sends messages without approval."""


def limit_layers(settings: Settings, recipe: Recipe, options: Options) -> list[tuple[str, Limits]]:
    """Return the layers of the limits. Values of the command line replace those of settings and project."""
    off = frozenset[str]() if options.no_tools else None
    command_line = replace(options.limits & Limits(tools=off), allow=options.allow)
    later = options.allow is not None and options.allow_from != COMMAND_LINE
    over = {
        f.name: None for f in fields(command_line) if f.name in REPLACED and getattr(command_line, f.name) is not None
    }
    layers = [
        ("settings", replace(replace(settings.limits, allow=settings.allow), **over)),
        ("project", replace(settings.project, **over)),
        ("recipe", recipe.limits),
        (COMMAND_LINE, replace(command_line, allow=None) if later else command_line),
    ]
    layers += [(options.allow_from, Limits(allow=options.allow))] if later else []
    return [*layers, ("server", Limits(allow=options.most_allow))] if options.most_allow else layers
