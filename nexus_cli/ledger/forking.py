"""Fork a session: the new one shares the rows up to the fork and begins under the same epoch."""

from __future__ import annotations

from nexus_cli.core.errors import UsageError
from nexus_cli.core.message import Role
from nexus_cli.ledger import entries, lanes, sessions
from nexus_cli.ledger.database import Database


def fork_session(db: Database, source: str, name: str, at: str, entry: int | None) -> str:
    """Create a session that shows the main lane of `source` up to `entry` (default: its newest), and return its id.

    Inside a group of calls and results the fork ends before the group, so that no answered call runs again. Drops and
    seen files known at the fork are copied; entries and epochs are shared. Raises `UsageError` for an
    unknown session or entry.
    """
    with db.write():
        key = sessions.key_of(db, source)
        parent = sessions.info(db, source)
        last = lanes.last_id(db, parent.main_lane)
        upto = last if entry is None else entry
        if not 0 <= upto <= last:
            why = f"the session has entries 1 to {last}" if last else "the session has no entries yet"
            raise UsageError(f"session {source} cannot be forked at entry {upto}", why)
        upto = _before_open_group(db, parent.main_lane, upto, last)
        session = sessions.create(
            db,
            folder=parent.folder,
            project=parent.project,
            model=parent.model,
            recipe=parent.recipe,
            name=name,
            at=at,
            front=parent.front,
            parent=source,
        )
        fork = sessions.key_of(db, session.id)
        lane = lanes.open_lane(db, fork, sessions.MAIN, parent.recipe, parent.main_lane, upto)
        turns = entries.count_turns(db, lane, upto)
        db.run(
            "UPDATE sessions SET main = ?, entries = ?, turns = ?, first_text = ?,"
            " drops = (SELECT drops FROM sessions WHERE key = ?) WHERE key = ?",
            lane,
            upto,
            turns,
            parent.first_text if turns else "",
            key,
            fork,
        )
        db.run(
            "INSERT INTO drops SELECT ?, seq, ?, after, what, tokens, cause, at, first_entry, last_entry, blob,"
            " uncounted, 0 FROM drops WHERE session = ? AND lane = (SELECT main FROM sessions WHERE key = ?)"
            " AND after <= ?",
            fork,
            lane,
            key,
            key,
            upto,
        )
        db.run(
            "INSERT INTO files SELECT ?, path, digest, how, at, entry FROM files WHERE session = ? AND entry <= ?",
            fork,
            key,
            upto if upto == last else upto - 1,  # a read is recorded before the entry of its result
        )
    return session.id


def _before_open_group(db: Database, lane: int, upto: int, last: int) -> int:
    """Return `upto`, or the last entry before a group whose calls are answered only after `upto`.

    Calls without any result by `last` stay: the fork answers them.
    """
    before = (entries.read(db, lane, number, number)[0] for number in range(upto, 0, -1) if upto < last)
    request = next((entry for entry in before if entry.message.role is Role.ASSISTANT), None)
    if request is None or not request.message.tool_calls:
        return upto
    calls = {call.id for call in request.message.tool_calls}
    for number in range(upto + 1, last + 1):
        message = entries.read(db, lane, number, number)[0].message
        if message.role is Role.ASSISTANT:
            break
        if message.tool_call_id in calls:
            return request.id - 1
    return upto
