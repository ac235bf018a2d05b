"""Options of a front end, and the limits that follow from them together with settings and recipe."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from nexus_cli.config.settings import Settings
from nexus_cli.context.sections.recipe import Recipe
from nexus_cli.core.limits import Limits

REPLACED = ("max_steps", "max_total_tokens", "max_cost", "timeout", "allow")
"""Limits of which the command line has the last word."""
COMMAND_LINE = "command line"
CHAT = "chat"
"""The front end in which a person types turn by turn."""


@dataclass(frozen=True)
class Options:
    """Options of a front end."""

    cwd: Path
    model: str = ""
    """A litellm name; "" goes on with a resumed session's own."""
    effort: str = ""
    recipe: str = ""
    """The recipe that was named; "" keeps that of a resumed session, and a new one has that of its front end."""
    front: str = "ask"
    """The front end, and its recipe: that of a new session, and of one that was begun in another front end."""
    resume: str = ""
    """Id, its start or end, or name of the session to go on with."""
    newest: bool = False
    """Go on with the newest session of the folder; in the REPL runs of `nexus ask` do not count."""
    allow: str | None = None
    most_allow: str | None = None
    """The highest level that `allow` can have, whoever sets it: that of the server."""
    allow_from: str = COMMAND_LINE
    """Name of the layer that set `allow`, if that was later than the command line."""
    no_tools: bool = False
    save: bool = True
    require_save: bool = False
    limits: Limits = field(default_factory=Limits)
    interactive: bool = False
    spawner: str | None = None
    """The session that a new one works for."""
    served: bool = False
    """A program uses the session through a server."""
    system_prompt: str | None = None
    """The whole system text, in the place of ours; None: ours."""
    worktree: str = ""
    """Name of the worktree that a new session works in."""
    one_turn: bool = False
    """The session ends with its turn, also where a person is there."""
    reports: bool = False
    """Nobody watches: the last request that the budget allows is kept for a report."""
    answers: bool = False
    """A run that somebody started to have people answered in their spaces: it sends without asking."""


def limit_layers(settings: Settings, recipe: Recipe, options: Options, resumed: bool) -> list[tuple[str, Limits]]:
    """Return the layers of the limits. The command line replaces the values of settings and project."""
    off = frozenset[str]() if options.no_tools and resumed else None
    said = replace(options.limits & Limits(tools=off), allow=options.allow)
    later = options.allow is not None and options.allow_from != COMMAND_LINE
    over = {f.name: None for f in fields(said) if f.name in REPLACED and getattr(said, f.name) is not None}
    layers = [
        ("settings", replace(replace(settings.limits, allow=settings.allow), **over)),
        ("project", replace(settings.project, **over)),
        ("recipe", recipe.limits),
        (COMMAND_LINE, replace(said, allow=None) if later else said),
    ]
    layers += [(options.allow_from, Limits(allow=options.allow))] if later else []
    return [*layers, ("server", Limits(allow=options.most_allow))] if options.most_allow else layers
