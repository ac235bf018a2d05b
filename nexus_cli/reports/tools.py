"""Report the tools of a session."""

from __future__ import annotations

from typing import TypedDict

from nexus_cli.core.json_value import JsonObject, VersionedReport
from nexus_cli.core.limits import ALL, ASK, AUTO, PLAN
from nexus_cli.core.message import USE_TOOL
from nexus_cli.core.tool import Effect, Tool
from nexus_cli.reports.context import live_report
from nexus_cli.reports.text.blocks import Blocks, Table
from nexus_cli.reports.text.lines import number
from nexus_cli.session.session import Session

EFFECT_TEXTS = {
    Effect.NONE: "acts only in the session",
    Effect.READ: "reads files",
    Effect.EDIT: "changes files",
    Effect.RUN: "runs commands",
}


class ToolRow(TypedDict):
    """A tool of a session."""

    name: str
    effect: str
    does: str
    """Its effect in words."""
    tokens: int | None
    """Tokens of its schema in each request; null if its schema is not sent."""
    asks: str
    """When a call asks first, in words."""


class ToolsReport(VersionedReport):
    """The tools of a session."""

    level: str
    tools: list[ToolRow]


def tools_report(session: Session) -> ToolsReport:
    """Return the tools of a session with effect, tokens, and when they ask at the current level. Blocks until the
    sandbox is detected."""
    report = live_report(session)
    tokens = {tool["name"]: tool["tokens"] for tool in report["tools"]}
    limits = {limit["name"]: limit["value"] for limit in report["limits"]}
    level, only = session.dispatcher.level, limits.get("tools")
    walls = session.dispatcher.permission.has_sandbox()
    return {
        "version": 1,
        "level": level,
        "tools": [
            {
                "name": tool.name,
                "effect": str(tool.effect),
                "does": _describe(tool),
                "tokens": tokens.get(tool.name),
                "asks": "switched off" if only is not None and tool.name not in only else _asks(tool, level, walls),
            }
            for tool in session.dispatcher.registry.tools()
            if not tokens or tool.name in tokens or (USE_TOOL in tokens and tool.behind and not tool.server)
        ],
    }


def _describe(tool: Tool) -> str:
    if tool.sends:
        return "sends messages to people"
    return "uses the network" if _reaches_network(tool) else EFFECT_TEXTS[tool.effect]


def _reaches_network(tool: Tool) -> bool:
    """Return True for a tool that does nothing but reach a network address."""
    return bool(tool.reaches) and tool.effect is Effect.NONE


def _asks(tool: Tool, level: str, has_sandbox: bool) -> str:
    """Return the condition under which a call of this tool asks first."""
    effect = tool.effect
    if (tool.sends and level in (PLAN, ASK)) or ((tool.stands or _reaches_network(tool)) and level != ALL):
        return "refused" if level == PLAN else "yes"
    if tool.later and level in (PLAN, ASK):
        return f"{'refused ' if level == PLAN else ''}for work in the background"
    if tool.feeds and level != ALL:
        return "for input to a job"
    if level == ALL or effect is Effect.NONE:
        return "no"
    if effect is Effect.RUN and has_sandbox:
        only_reads = "refused" if level == PLAN else "yes"
        return "outside the sandbox" if level == AUTO else f"{only_reads}, unless the command only reads"
    if level == PLAN:
        return "refused" if effect is not Effect.READ else "refused outside the project"
    if effect is Effect.RUN or (effect is Effect.EDIT and level == ASK):
        return "yes"
    return "outside the project" if effect is Effect.READ else "outside the project, protected files"


def tools_text(value: JsonObject) -> Blocks:
    """List each tool with its effect, the tokens of its schema (`-`: called through `use_tool`), and when it asks."""
    tools = value["tools"]
    if not tools:
        return ["This session has no tools."]
    total = sum(tool["tokens"] or 0 for tool in tools)
    level = f"Level: {value['level']} (to change it: --allow, /permissions)."
    foot = f"{number(total)} schema tokens in every request. {level}"
    columns = {"name": "name", "tokens": "tokens", "does": "does", "asks first": "asks"}
    return [Table(columns, tools), "", foot]
