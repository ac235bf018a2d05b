"""`/timeline`: the events of this session, a space or a run, with time, actor, reason and cost; new ones are marked."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from nexus_cli.commands.arguments import require_ledger, warn_if_stale
from nexus_cli.commands.command import Command, CommandContext, usage_error
from nexus_cli.ledger import Ledger
from nexus_cli.reports.timeline import LAST, session_timeline

_LINE = re.compile(r"(?:--(space|run)\s+([^-\s].*?))?(?:(?:^|\s+)(?:--last\s+|^)0*([1-9][0-9]{0,8}))?")
"""`[--space NAME | --run ID] [--last N]`, or a number alone."""


async def show_timeline(context: CommandContext, rest: str) -> None:
    """List the session's events, actors and reasons.

    Includes costs, compactions, drops, and entries that were not sent to the model yet. --space lists the messages of a
    space, --run the states of a run. Lists the newest 200 rows, or the number given by --last.
    """
    match = _LINE.fullmatch(rest)
    if match is None:
        why = "expected --space NAME, --run ID, or the number of rows to list"
        raise usage_error("timeline", rest, why, "For example /timeline --last 500")
    ledger, session = require_ledger(context), context.session
    warn_if_stale(context)
    subjects = {tool.name: tool.subject for tool in session.tools()}
    form, named, last = match.groups()
    wanted = (form, str(named or "").strip("\"'"), int(last or LAST))
    context.show("told_timeline", await asyncio.to_thread(_load_timeline, ledger, session.id, subjects, *wanted))


def _load_timeline(
    ledger: Ledger, session: str, subjects: Mapping[str, str], form: str | None, named: str, last: int
) -> Mapping[str, Any]:
    if form == "space":
        from nexus_cli.reports.space_timeline import find_reader, space_timeline  # noqa: PLC0415

        space = ledger.spaces.find(named)
        return space_timeline(ledger, space, find_reader(space, ""), last)
    if form == "run":
        from nexus_cli.reports.run_timeline import run_timeline  # noqa: PLC0415

        return run_timeline(ledger, named, subjects, last)
    return session_timeline(ledger, session, subjects, last)


def _is_of_session(context: CommandContext, rest: str) -> bool:
    """True unless the arguments name a space or a run, which are not of this session alone."""
    return (match := _LINE.fullmatch(rest)) is None or match[1] is None


COMMANDS = (
    Command("timeline", "session", show_timeline, "[--space NAME | --run ID] [--last N]", served=_is_of_session),
)
