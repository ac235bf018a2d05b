"""Reports about spaces as values: who is in them, what was said, what a message led to (`nexus docs runs`)."""

from __future__ import annotations

from typing import TypedDict

from nexus_cli.core.json_value import JsonOf, VersionedReport, to_json_value
from nexus_cli.core.run import Entity, Run, Space, SpaceMessage
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.spaces import Posted

COUNTED = 10_000
"""Most new messages that are counted."""


class ListedSpace(JsonOf[Space]):
    """A space with its new messages."""

    member: bool
    new: int | None
    newest: str | None


class SpacesReport(VersionedReport):
    """All spaces."""

    spaces: list[ListedSpace]


class SpaceMessageObject(JsonOf[SpaceMessage]):
    """A message in a space."""

    seen: bool
    reply_to: str | None
    quiet: str | None
    """The reason why the message started no more agents."""
    run: str | None
    """With the last message that a run posted: the run."""
    facts: list[str]
    """The result of the run once it has ended, such as `1 commit`, `1 command failed`."""


class SpaceReport(VersionedReport):
    """The newest messages of a space."""

    space: JsonOf[Space]
    reader: JsonOf[Entity]
    unread_before: int
    messages: list[SpaceMessageObject]


class TriggeredRun(TypedDict):
    """A run that a message started."""

    name: str
    run: str


class PostReport(VersionedReport):
    """A posted message, and the runs that it started."""

    message: SpaceMessageObject
    triggered: list[TriggeredRun]
    resumed: list[str]


class NewSpaceReport(VersionedReport):
    """A created space."""

    space: JsonOf[Space]


def list_spaces(ledger: Ledger, reader: Entity | None) -> SpacesReport:
    """Return all spaces, with the number of messages that are new to `reader` where that is a member."""
    return {"version": 1, "spaces": [_listed(ledger, space, reader) for space in ledger.spaces.list_spaces()]}


def _listed(ledger: Ledger, space: Space, reader: Entity | None) -> ListedSpace:
    takes_part = reader is not None and reader.key in {member.key for member in space.members}
    new = None
    if reader is not None and takes_part:
        new = ledger.spaces.count(space, after=ledger.spaces.seen(space, reader), most=COUNTED)
    newest = ledger.spaces.read(space, limit=1)
    return ListedSpace(**to_json_value(space), member=takes_part, new=new, newest=newest[0].at if newest else None)


def read_space(ledger: Ledger, space: Space, reader: Entity, last: int) -> SpaceReport:
    """Return the newest messages of a space, and mark them as read by `reader`, unless the ledger is read-only."""
    seen = ledger.spaces.seen(space, reader)
    messages = ledger.spaces.read(space, limit=last)
    first = messages[0].key if messages else 0
    posts = ledger.runs.of_posts(space.key, first) if first else {}
    earlier = ledger.spaces.count(space, after=seen, before=first, most=COUNTED) if first > seen else 0
    if messages and ledger.writes:
        ledger.spaces.mark_seen(space.key, reader.key, messages[-1].key)
    return {
        "version": 1,
        "space": to_json_value(space),
        "reader": to_json_value(reader),
        "unread_before": earlier,
        "messages": [
            message_json(message, is_seen=message.key <= seen, run=posts.get(message.key)) for message in messages
        ],
    }


def posted_json(posted: Posted) -> PostReport:
    """Return a message that was posted, and what followed from it."""
    return {
        "version": 1,
        "message": message_json(posted.message, is_seen=True),
        "triggered": [{"name": agent.name, "run": f"run-{run}"} for agent, run in posted.triggered],
        "resumed": [f"run-{run}" for run in posted.resumed],
    }


def message_json(message: SpaceMessage, *, is_seen: bool, run: Run | None = None) -> SpaceMessageObject:
    """Return a message; `run`: the run whose last message it is, if a run posted it."""
    return SpaceMessageObject(
        **to_json_value(message),
        seen=is_seen,
        reply_to=f"msg-{message.reply_to}" if message.reply_to else None,
        quiet=message.notice or None,
        run=run.id if run else None,
        facts=run.facts if run else [],
    )
