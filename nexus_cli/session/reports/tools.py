"""What the model can do: each tool, its cost in every request, and whether it asks; and the levels of permission."""

from __future__ import annotations

from typing import Any

from nexus_cli.core.limits import LEVELS
from nexus_cli.core.tool import Effect
from nexus_cli.session.reports.live_context import live_report
from nexus_cli.session.session import Session

DOES = {
    Effect.NONE: "nothing outside the session",
    Effect.READ: "reads files",
    Effect.EDIT: "changes files",
    Effect.RUN: "runs commands",
}
RUNS = {
    "read": "reading inside the project runs without asking; everything else asks",
    "edit": "also editing files inside the project, but for .git, .nexus, instruction and shell start-up files",
    "all": "also commands and everything else: nothing asks",
}
"""What runs without asking at each of `LEVELS`."""


def tools(session: Session) -> dict[str, Any]:
    """The tools of a session by name, with what each does, its tokens, and when it asks at the present level."""
    report = session.look(live_report)
    tokens = {tool["name"]: int(tool["tokens"]) for tool in report.get("tools", [])}
    limits = {limit["name"]: limit["value"] for limit in report.get("limits", [])}
    level, only = session.status().allow, limits.get("tools")
    return {
        "version": 1,
        "level": level,
        "tools": [
            {
                "name": tool.name,
                "effect": str(tool.effect),
                "does": DOES[tool.effect],
                "tokens": tokens.get(tool.name),
                "asks": "switched off" if only is not None and tool.name not in only else _asks(tool.effect, level),
            }
            for tool in session.tools()
        ],
    }


def _asks(effect: Effect, level: str) -> str:
    if level == "all" or effect is Effect.NONE:
        return "no"
    if effect is Effect.RUN or (effect is Effect.EDIT and level == "read"):
        return "yes"
    return "outside the project" if effect is Effect.READ else "outside the project, protected files"


def permissions(session: Session) -> dict[str, Any]:
    """The level in force with the layer that set it, what each level means, what was allowed for the session."""
    bounds = {limit["name"]: str(limit["bound_by"]) for limit in session.look(live_report).get("limits", [])}
    return {
        "version": 1,
        "level": session.status().allow,
        "bound_by": bounds.get("allow", "defaults"),
        "levels": [{"name": level, "runs": RUNS[level]} for level in LEVELS],
        "allowed": [_allowed(*scope) for scope in session.allowed],
    }


def _allowed(name: str, kind: str, *paths: str) -> str:
    """One thing that was allowed for the rest of the session, in words."""
    if paths:
        return f"{name} of {', '.join(paths)}"
    return f"every {name} command" if kind == "run" else f"every {name} call inside the project"
