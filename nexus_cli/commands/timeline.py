"""`/timeline`: the events of this session, a space or a run, with time, actor, reason and cost; new ones are marked."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

from nexus_cli.commands.arguments import read_source, warn_if_stale
from nexus_cli.commands.command import Command, CommandContext, Option, Report, Source, Twin, usage_error
from nexus_cli.core.errors import NexusError
from nexus_cli.reports.timeline import LAST, session_timeline

_LINE = re.compile(r"(?:--(space|run)\s+([^-\s].*?))?(?:(?:^|\s+)(?:--last\s+|^)0*([1-9][0-9]{0,8}))?")
"""`[--space NAME | --run ID] [--last N]`, or a number alone."""


def build_timeline(
    source: Source,
    space: Annotated[str, Option("NAME", "The messages of a space, and their runs.")] = "",
    run: Annotated[str, Option("ID", "The states of a run, and its session.")] = "",
    reader: Annotated[str, Option("NAME", "With --space: what is new to this member.", "--as")] = "",
    last: Annotated[int, Option("N", "List the newest N rows.")] = LAST,
) -> Report:
    """List what happened in a session: when, by whom and why, what the model has seen, costs, compactions and drops."""
    if sum((source.is_named, bool(space), bool(run))) > 1:
        raise NexusError("usage", "--session, --space and --run", "they are different timelines", "Give one of them")
    if reader and not space:
        raise NexusError("usage", f"--as {reader}", "it says who reads a space", "Give --space NAME too")
    if space:
        from nexus_cli.reports.space_timeline import find_reader, space_timeline  # noqa: PLC0415

        found = source.ledger.spaces.find(space)
        return Report("timeline", space_timeline(source.ledger, found, find_reader(found, reader), last), whole=True)
    subjects = {tool.name: tool.subject for tool in source.tools()}
    if run:
        from nexus_cli.reports.run_timeline import run_timeline  # noqa: PLC0415

        return Report("timeline", run_timeline(source.ledger, run, subjects, last), whole=True)
    return Report("timeline", session_timeline(source.ledger, source.session(), subjects, last), whole=True)


async def show_timeline(context: CommandContext, rest: str) -> None:
    """List the session's events, actors and reasons.

    Includes costs, compactions, drops, and entries that were not sent to the model yet. --space lists the messages of a
    space, --run the states of a run. Lists the newest 200 rows, or the number given by --last.
    """
    match = _LINE.fullmatch(rest)
    if match is None:
        why = "expected --space NAME, --run ID, or the number of rows to list"
        raise usage_error("timeline", rest, why, "For example /timeline --last 500")
    source = read_source(context)
    warn_if_stale(context)
    form, named, last = match.groups()
    wanted = {form: str(named).strip("\"'")} if form else {}
    report = await asyncio.to_thread(build_timeline, source, last=int(last or LAST), **wanted)
    context.show("told_timeline", report.value)


def _is_of_session(context: CommandContext, rest: str) -> bool:
    """True unless the arguments name a space or a run, which are not of this session alone."""
    return (match := _LINE.fullmatch(rest)) is None or match[1] is None


COMMANDS = (
    Command("timeline", "session", show_timeline, "[--space NAME | --run ID] [--last N]", served=_is_of_session),
)
TWINS = (Twin(build_timeline, of_session=True),)
