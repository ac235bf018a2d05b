"""What a front end asks for, and the limits that follow from it together with settings and recipe."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from nexus_cli.context.recipe import Recipe
from nexus_cli.core.limits import Limits
from nexus_cli.core.settings import Settings


@dataclass(frozen=True)
class Options:
    """What a front end asks for."""

    cwd: Path
    model: str = ""
    """A litellm name; "" goes on with a resumed session's own."""
    effort: str = ""
    recipe: str = "ask"
    resume: str = ""
    """Id, unique prefix or name of the session to go on with."""
    newest: bool = False
    """Go on with the newest session of the folder."""
    allow: str | None = None
    no_tools: bool = False
    save: bool = True
    require_save: bool = False
    limits: Limits = field(default_factory=Limits)
    interactive: bool = False


def limit_layers(settings: Settings, recipe: Recipe, options: Options, resumed: bool) -> list[tuple[str, Limits]]:
    """The layers whose meet is in force. The command line replaces what the settings say of the same value."""
    said = options.limits
    base = replace(settings.limits, allow=settings.allow)
    names = ("max_steps", "max_total_tokens", "max_cost", "timeout")
    kept = replace(base, **{name: None for name in names if getattr(said, name) is not None})
    allow = options.allow or kept.allow
    layers = [("settings", replace(kept, allow=None if options.allow else allow)), ("recipe", recipe.limits)]
    off = frozenset[str]() if options.no_tools and resumed else None
    return [*layers, ("command line", replace(said, allow=options.allow, tools=off))]
