"""The decisions on calls, and the limits: where each comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.core.errors import UsageError
from nexus_cli.core.option import Argument
from nexus_cli.reports.decisions import (
    NAMES,
    DecisionReport,
    DecisionsReport,
    LimitsReport,
    decision_report,
    decisions_report,
    limits_report,
)


def explain(
    source: Source,
    call: Annotated[
        str,
        Argument("[ID]", "Id of a call, or a unique prefix; in a session also the name of a limit."),
    ] = "",
) -> Report[Annotated[Any, DecisionsReport | DecisionReport | LimitsReport]]:
    """Explain the decision on a tool call: the rule with file and line, or the level or limit and its source.

    Without ID, list the latest decisions of the session. In a session, the name of a limit lists the sources that set
    it; the strictest value applies.
    """
    live = source.live
    if live is not None and call.casefold() in NAMES:
        return Report("why", limits_report(live, call.casefold()))
    log = source.ledger.log(source.session())
    if call:
        report = decision_report(log, call)
        if report is not None:
            return Report("decision", report)
        if live is not None:
            hint = f"/why lists the newest decisions; the limits are {', '.join(NAMES)}"
            raise UsageError(f"/why {call}", "there is no such call or limit in this session", hint)
        why = f"there is no such call in session {log.session_id}"
        hint = "`nexus why` lists the newest decisions; --session ID selects another session"
        raise UsageError(f"call {call}", why, hint)
    value = decisions_report(log)
    if live is not None:
        return Report("decisions", {**value, "in_force": limits_report(live)})
    return Report("decisions", value, uncut=True)


def _complete(source: Source) -> Sequence[str]:
    """Return the ids of the newest decisions, newest first, and the names of limits."""
    rows = decisions_report(source.ledger.log(source.session()))["decisions"]
    return [*(row["id"] for row in reversed(rows)), *NAMES]


NOUN = Noun(
    "why",
    "context",
    (Verb(explain, of_session=True, complete=_complete),),
    "Explain a decision, or where a limit comes from.",
)
