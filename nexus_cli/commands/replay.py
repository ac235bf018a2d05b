"""Requests rebuilt from the ledger alone, compared with what was sent."""

from __future__ import annotations

from typing import Annotated, Any

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.core.json_value import JsonObject, ReportOfSession
from nexus_cli.core.limits import MAX_INT
from nexus_cli.core.option import Option
from nexus_cli.reports.text.blocks import Blocks
from nexus_cli.reports.text.lines import plural


class ReplayReport(ReportOfSession):
    """The comparison of rebuilt requests with those that were sent."""

    ok: bool
    requests: int
    first_difference: str | None


def replay_text(value: JsonObject) -> Blocks:
    """Return one sentence; on the command line on one line, for `grep`."""
    session, count = value["session"], value["requests"]
    if not value["ok"]:
        text = f"Session {session} differs from what was sent: {value['first_difference']}"
    elif not count:
        text = f"Session {session} has not sent a request, so there is nothing to compare."
    else:
        text = f"nexus rebuilt {plural(count, 'request')} of session {session}: identical to what was sent."
    return [text]


def replay_session(
    source: Source,
    step: Annotated[int | None, Option("N", "Only request N, from 1.", least=-MAX_INT, is_positional=True)] = None,
) -> Report[Annotated[Any, ReplayReport]]:
    """Rebuild the requests of a session and compare them byte for byte with what was sent. If a request differs, print
    its first different line and exit with status 1."""
    from nexus_cli.reports.check_replay import check  # noqa: PLC0415  (few sessions ask for it)

    session = source.session()
    value = {"version": 1, "session": session, **check(source.ledger, session, step)}
    return Report("replay", value, uncut=True, status=0 if value["ok"] else 1)


NOUN = Noun(
    "replay",
    "context",
    (Verb(replay_session, of_session=True),),
    "Rebuild and compare sent requests byte by byte.",
)
