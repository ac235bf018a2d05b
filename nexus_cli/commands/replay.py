"""Requests rebuilt from the ledger alone, compared with what was sent."""

from __future__ import annotations

from typing import Annotated, Any

from nexus_cli.commands.verb import Noun, Report, Source, Verb
from nexus_cli.core.limits import MAX_INT
from nexus_cli.core.option import Option


def replay_session(
    source: Source,
    step: Annotated[int | None, Option("N", "Only request N, from 1.", least=-MAX_INT, is_positional=True)] = None,
) -> Report[Annotated[Any, "reports.replay.ReplayReport"]]:
    """Rebuild the requests of a session and compare them byte for byte with what was sent. If a request differs, print
    its first different line and exit with status 1."""
    from nexus_cli.reports.check_replay import check  # noqa: PLC0415  (few sessions ask for it)

    session = source.session()
    value = {"version": 1, "session": session, **check(source.ledger, session, step)}
    return Report("replay", value, whole=True, status=0 if value["ok"] else 1)


NOUN = Noun(
    "replay",
    "context",
    (Verb(replay_session, of_session=True),),
    "Rebuild and compare sent requests byte by byte.",
)
