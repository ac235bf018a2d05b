"""Read the recorded ends of the turns of a main conversation. A turn that has none runs, or its process was killed."""

from __future__ import annotations

from collections.abc import Iterator

from nexus_cli.core.entry import Entry, Kind, Memo
from nexus_cli.core.event import TurnEnd
from nexus_cli.core.memo_kinds import EVENT, IMPORTED_SESSION
from nexus_cli.core.read_event import read_value
from nexus_cli.ledger import LaneLog
from nexus_cli.reports.event_texts import describe_event
from nexus_cli.text.cells import one_line


class TurnEnds:
    """The recorded ends."""

    def __init__(self, log: LaneLog) -> None:
        imported = (memo.entry for memo in log.memos(IMPORTED_SESSION))
        self._imported = max(imported, default=0)  # their turns have no ends
        self._memos = [memo for memo in log.memos(EVENT) if memo.value["type"] == TurnEnd.kind]
        self._entries = {memo.entry for memo in self._memos}

    def lines(self) -> Iterator[tuple[Memo, str]]:
        """Yield the line of each turn that failed or was stopped."""
        for memo in self._memos:
            if line := describe_event(read_value(TurnEnd, memo.value)):
                yield memo, one_line(line)

    def has_no_end(self, newest: Entry | None) -> bool:
        """Return True if the turn with this newest entry had more to do, and has no recorded end."""
        if newest is None:
            return False
        is_open = newest.kind in (Kind.USER, Kind.STEER, Kind.TOOL) or bool(newest.message.tool_calls)
        return is_open and newest.id > self._imported and newest.id not in self._entries
