"""`/why`: the origin of limits and of decisions on calls."""

from __future__ import annotations

from typing import Annotated

from nexus_cli.commands.arguments import read_source, require_record, show_report
from nexus_cli.commands.command import Command, CommandContext, Option, Report, Source, Twin, always, usage_error
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.decisions import decision_report, decisions_report
from nexus_cli.reports.limits import NAMES, limits_report


def build_decisions(
    source: Source,
    call: Annotated[str, Option("[ID]", "A call's id, or a unique prefix of it.", is_argument=True)] = "",
) -> Report:
    """Explain the decision on a tool call: the rule with file and line, or the level or limit and who set it.

    Without ID the newest decisions of the session are listed, the newest last.
    """
    log = source.ledger.log(source.session())
    if not call:
        return Report("decisions", decisions_report(log), whole=True)
    value = decision_report(log, call, {tool.name: tool for tool in source.tools()})
    if value is None:
        hint = "`nexus why` lists the newest decisions; --session names another session"
        raise NexusError("usage", call, f"no call of session {log.session_id} has this id", hint)
    return Report("decision", value)


async def explain_decision(context: CommandContext, rest: str) -> None:
    """Explain a decision, or where a limit comes from.

    With the ID of a call: the decision on it, the rule, level or limit behind it, where that comes from, and its
    sandbox. With a NAME: the layer that set this limit; each layer can only tighten. Without either: the newest
    decisions, and all current limits.
    """
    if rest.casefold() in NAMES:
        context.show("why", limits_report(context.session.state, rest.casefold()))
    elif rest:
        tools = {tool.name: tool for tool in context.session.tools()}
        value = decision_report(require_record(context), rest, tools)
        if value is None:
            why = "no call of this session has this id, and no limit has this name"
            raise usage_error("why", rest, why, f"/why lists the newest decisions; the limits are {', '.join(NAMES)}")
        context.show("decision", value)
    else:
        newest = build_decisions(read_source(context))
        if newest.value["decisions"]:
            show_report(context, newest)
        context.show("why", limits_report(context.session.state))


def complete_why(context: CommandContext) -> list[str]:
    """Return the ids of the newest decisions, newest first, and the names of limits."""
    if context.session.record is None:
        return list(NAMES)
    return [*(row["id"] for row in reversed(decisions_report(context.session.record)["decisions"])), *NAMES]


COMMANDS = (Command("why", "context", explain_decision, "[ID|NAME]", complete=complete_why, served=always),)
TWINS = (Twin(build_decisions, of_session=True),)
