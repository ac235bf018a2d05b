"""`/timeline`: the events of this session, a space or a run, with time, actor, reason and cost; new ones are marked."""

from __future__ import annotations

from typing import Annotated, Any

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.core.errors import UsageError
from nexus_cli.core.option import Option
from nexus_cli.reports.timeline import LAST, TimelineReport, session_timeline


def build_timeline(
    source: Source,
    space: Annotated[str, Option("NAME", "List the messages of a space and their runs.")] = "",
    run: Annotated[str, Option("ID", "List the events of a run and of its session.")] = "",
    reader: Annotated[str, Option("NAME", "With --space: show which messages this member has not read.", "--as")] = "",
    last: Annotated[int, Option("N", "List the newest N rows.", is_positional=True)] = LAST,
) -> Report[
    TimelineReport
    | Annotated[Any, "reports.run_timeline.RunTimelineReport"]
    | Annotated[Any, "reports.space_timeline.SpaceTimelineReport"]
]:
    """List the events of a session with time, actor and reason, content that the model saw, costs, compactions and
    drops.

    With --space, list the messages of a space; with --run, the events of a run.
    """
    if sum((bool(source.session_name), bool(space), bool(run))) > 1:
        raise UsageError("--session, --space and --run", "cannot be used together", "Use one of them")
    if reader and not space:
        raise UsageError(f"--as {reader}", "requires --space", "Add --space NAME")
    if space:
        from nexus_cli.reports.space_timeline import find_reader, space_timeline  # noqa: PLC0415

        target_space = source.ledger.spaces.find(space)
        return Report(
            "timeline", space_timeline(source.ledger, target_space, find_reader(target_space, reader), last), whole=True
        )
    if run:
        from nexus_cli.reports.run_timeline import run_timeline  # noqa: PLC0415

        return Report("timeline", run_timeline(source.ledger, run, last), whole=True)
    return Report("timeline", session_timeline(source.ledger, source.session(), last), whole=True)


NOUN = Noun(
    "timeline",
    "sessions",
    (Verb(build_timeline, of_session=True),),
    "List a session's events, actors and reasons.",
)
