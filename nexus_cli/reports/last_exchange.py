"""Report the last exchange of an open session, and describe the session.

Reads the ledger, so that a compacted window hides nothing. Sends nothing and writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import SteeringMessage, Text, TurnStart
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.run import TRIGGER_MARK
from nexus_cli.ledger import Ledger
from nexus_cli.reports.conversation import open_calls, replay_of

if TYPE_CHECKING:
    from nexus_cli.session.session import Session


def short_id(ledger: Ledger, session: str) -> str:
    """Return the shown form of a session's id; the whole id if the ledger fails."""
    try:
        return ledger.short_ids([session])[0]
    except NexusError:
        return session


def title_of(text: object) -> str:
    """Return the beginning of a session as its title: the person's text without attachments, or the work of a run."""
    return str(text or "").split("\n\n<", 1)[0].removesuffix(f" {TRIGGER_MARK}")


def is_cut_short(session: Session) -> bool:
    """True if the newest turn is not finished, so that `/continue` resumes it."""
    try:
        return session.is_open() or not last_exchange(session)["finished"]
    except NexusError:  # the ledger has failed, which is reported elsewhere
        return False


def describe_opened(session: Session) -> str:
    """Describe a new session that was opened in place of another one."""
    description = f"session {short_id(session.ledger, session.id)}, model {session.model}"
    return f"{description}, permission level {session.dispatcher.level}"


def last_exchange(session: Session) -> JsonObject:
    """Return the newest turn: the person's words, the newest text of the answer, the calls without a result.

    Steering is part of the words. `finished` is False if calls are open or the answer broke off. Raises `NexusError` if
    the ledger fails.
    """
    replay = replay_of(session)
    with session.record.for_screen():
        info = session.record.session
    turn = next(replay.newest_turns(), [])
    events = [past.event for past in turn]
    messages = [event.text for event in events if isinstance(event, TurnStart | SteeringMessage)]
    answers = [event.text for event in events if isinstance(event, Text)]
    return {
        "version": 1,
        "session": info.id,
        "short": short_id(session.ledger, session.id),
        "name": info.name,
        "user": "\n\n".join(filter(None, messages)),
        "assistant": answers[-1] if answers else "",
        "open": [
            {"name": event.call.name, "subject": event.subject, "started": replay.record.was_started(event.call.id)}
            for event in open_calls(turn)
        ],
        "finished": not session.is_open() and not replay.record.ends_unfinished(),
        "at": turn[-1].at if turn else info.updated,
        "entries": info.entries,
        "turns": info.turns,
    }
