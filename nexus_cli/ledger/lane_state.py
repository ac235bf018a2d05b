"""The state of a live session: the numbers from which it continues when it is opened again, in one query."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from nexus_cli.core.services import SeenFile
from nexus_cli.ledger import epochs, lanes
from nexus_cli.ledger.database import Database

STATE = f"""{epochs.LINE_OF_LANE}
SELECT coalesce((SELECT max(id) FROM entries WHERE lane = l.id), l.parent_entry), l.cursor,
    coalesce((SELECT max(step) FROM requests WHERE lane = l.id), 0), s.drops, ({epochs.NEXT_OF_LANE}), s.turns
FROM lanes l JOIN sessions s ON s.key = l.session WHERE l.id = ?1"""


@dataclass
class LaneState:
    """Numbers that the lanes of a live session share without a query; the first three as the main lane was opened."""

    last: int = 0
    """Id of the newest entry."""
    cursor: int = 0
    """Id of the last entry that was sent to the lane's model."""
    step: int = 0
    """Number of the newest request."""
    drops: int = 0
    """Number in the newest drop id of the session."""
    epochs: int = 0
    """Id of the session's next epoch."""
    turns: int = 0
    """Number of the turns that the person began in the session."""
    is_new: bool = False
    """True if this process began the session, and nobody else knows it."""
    seen_files: tuple[object, Sequence[SeenFile]] = None, ()
    """A version of the files that the session has seen, and these."""
    lock: threading.Lock = field(default_factory=threading.Lock, compare=False)
    """Held while a number is taken."""


def read_state(db: Database, lane: int) -> LaneState:
    """Return the state of `lane`; raise `NexusError("ledger", ...)` if its session was deleted."""
    row = db.one(STATE, lane)
    if row is None:
        raise lanes.missing_session()
    return LaneState(*row)
