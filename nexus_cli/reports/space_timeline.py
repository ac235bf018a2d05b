"""Report the messages of a space with author and time, those that are new to the reader, and the runs they triggered.

A timeline as in `timeline`, with `space`: `{"id", "name", "members": [{"id", "name", "type"}]}` and `reader`, the name
of the member for whom messages are new (None: no member). Each row has the kind `message` and further keys `message`
(its id), `reply_to` (an id or None), `waits` (the sender waits for a reply), `origin` (`{"who", "text", "space"}` of a
message that was carried over from another space, else None), `runs` (`[{"run", "agent", "source", "state", "session",
"cost_usd", "error"}]`: the triggered agents and the outcomes). `trigger` is None in all rows but those with runs.
`totals` has `rows`, `messages`, `runs` and `cost_usd` (of the runs that have ended).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypedDict

from nexus_cli.core.errors import UsageError
from nexus_cli.core.grouping import group_pairs
from nexus_cli.core.json_value import JsonObject, JsonOf, VersionedReport, to_json_value
from nexus_cli.core.run import HUMAN, Entity, Run, Space, SpaceMessage, fold_name
from nexus_cli.core.usage import round_dollars
from nexus_cli.ledger import Ledger
from nexus_cli.reports.timeline import LAST
from nexus_cli.reports.timeline_rows import TimelineRow, make_row


class TimelineSpace(TypedDict):
    """A space and its members."""

    id: str
    name: str
    members: list[JsonOf[Entity]]


class SpaceTotals(TypedDict):
    rows: int
    messages: int
    runs: int
    cost_usd: float


class SpaceTimelineReport(VersionedReport):
    """With `--space`: the messages of a space and their runs."""

    space: TimelineSpace
    reader: str | None
    earlier: int
    rows: list[TimelineRow]
    totals: SpaceTotals


def space_timeline(ledger: Ledger, space: Space, reader: Entity | None, last: int = LAST) -> SpaceTimelineReport:
    """Return the newest `last` messages of a space, oldest first, with what is new to `reader`. Marks none as read."""
    messages = ledger.spaces.read(space, limit=last)
    total = ledger.spaces.count(space)
    last_seen = None if reader is None else ledger.spaces.seen(space, reader)
    triggered = ledger.runs.of_messages(space.key, messages[0].key) if messages else ()
    runs = group_pairs((run.message or 0, run) for run in triggered)
    name_of = cache(lambda key: ledger.spaces.get_entity(key).name)
    count, dollars = ledger.runs.count_of_space(space.key)
    return {
        "version": 1,
        "space": {"id": space.id, "name": space.name, "members": to_json_value(space.members)},
        "reader": None if reader is None else reader.name,
        "earlier": total - len(messages),
        "rows": [_message_row(message, last_seen, runs.get(message.key, ()), name_of) for message in messages],
        "totals": {"rows": total, "messages": total, "runs": count, "cost_usd": round_dollars(dollars)},
    }


def find_reader(space: Space, name: str) -> Entity | None:
    """Return the member `name` or raise `NexusError`; without a name the only person, None for several."""
    if not name:
        people = [member for member in space.members if member.kind == HUMAN]
        return people[0] if len(people) == 1 else None
    entity = next((member for member in space.members if fold_name(member.name) == fold_name(name.strip())), None)
    if entity is None:
        members = ", ".join(member.name for member in space.members) or "none"
        raise UsageError(f"--as {name[:80]}", f"there is no such member in {space.name}", f"Members: {members}")
    return entity


def _message_row(
    message: SpaceMessage, last_seen: int | None, runs: Sequence[Run], name_of: Callable[[int], str]
) -> TimelineRow:
    """Return the row of a message; `name_of` returns the name of the agent with a key."""
    run_rows = [
        {
            "run": run.id,
            "agent": "" if run.entity is None else name_of(run.entity),
            "source": run.trigger.get("triggerSource", ""),
            "state": run.state,
            "session": run.session,
            "cost_usd": run.cost_usd,
            "error": run.error or None,
        }
        for run in runs
    ]
    return make_row(
        message.at,
        "message",
        to_json_value(message.sender),
        message.text,
        why=". ".join(filter(None, (_describe_origin(message.origin), message.notice))),
        seen=None if last_seen is None else message.key <= last_seen,
        trigger={"type": "space_message"} if run_rows else None,
        message=message.id,
        reply_to=None if message.reply_to is None else f"msg-{message.reply_to}",
        waits=message.waits,
        origin=dict(message.origin) or None,
        runs=run_rows,
    )


def _describe_origin(origin: JsonObject) -> str:
    """Describe the origin of a message that was carried over from another space; "" for any other."""
    if not origin:
        return ""
    return f'sent because {origin.get("who", "")} asked "{origin.get("text", "")}" in "{origin.get("space", "")}"'
