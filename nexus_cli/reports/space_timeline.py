"""Report the messages of a space with author and time, those that are new to the reader, and the runs they triggered.

A timeline as in `timeline`, with `space`: `{"id", "name", "members": [{"id", "name", "type"}]}` and `reader`, the name
of the member for whom messages are new (None: no member). Each row has the kind `message` and further keys `message`
(its id), `reply_to` (an id or None), `waits` (the sender waits for a reply), `origin` (`{"who", "text", "space"}` of a
message that was carried over from another space, else None), `runs` (`[{"run", "agent", "source", "state", "session",
"cost_usd", "error"}]`: the triggered agents and the outcomes). `trigger` is None in all rows but those with runs.
`totals` has `rows`, `messages`, `runs` and `cost_usd` (of the runs that have ended).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from nexus_cli.core.errors import NexusError
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
    is_member = reader is not None and any(member.key == reader.key for member in space.members)
    seen = ledger.spaces.seen(space, reader) if reader is not None and is_member else None
    runs: dict[int, list[Run]] = {}
    for run in ledger.runs.of_messages(space.key, messages[0].key) if messages else ():
        runs.setdefault(run.message or 0, []).append(run)
    agents = _Agents(ledger)
    count, dollars = ledger.runs.count_of_space(space.key)
    return {
        "version": 1,
        "space": {"id": space.id, "name": space.name, "members": to_json_value(space.members)},
        "reader": reader.name if reader is not None and is_member else None,
        "earlier": total - len(messages),
        "rows": [_message_row(message, seen, runs.get(message.key, ()), agents) for message in messages],
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
        raise NexusError(
            "usage", f"--as {name[:80]}", f"there is no such member in {space.name}", f"Members: {members}"
        )
    return entity


class _Agents:
    """Names of agents by their keys, each read once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._names: dict[int, str] = {}

    def name(self, key: int | None) -> str:
        """Return a name, "" for none."""
        if key is not None and key not in self._names:
            self._names[key] = self._ledger.spaces.get_entity(key).name
        return self._names[key] if key is not None else ""


def _message_row(message: SpaceMessage, seen: int | None, runs: Sequence[Run], agents: _Agents) -> TimelineRow:
    run_rows = [
        {
            "run": run.id,
            "agent": agents.name(run.entity),
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
        seen=None if seen is None else message.key <= seen,
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
