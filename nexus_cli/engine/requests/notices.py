"""The lines for the model that wait for the next request of a conversation.

A notice that must survive the process is recorded as a memo: `keep` records it, and that of the end of a job is in the
memo of the job. `load_unsent` restores those that an earlier process did not send, `add_unsent_notes` adds those of
other processes. They wait in `waiting`, which the section `notices` sends; the memo of a plan (`PLAN`) with that
section marks all older notices as sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import JOB, NOTICE, PIN, PLAN, SERVER_CUT, UNDONE_FILES
from nexus_cli.core.section_rows import NOTICES


@dataclass
class Notices:
    """The lines that wait for the next request, and what requests have sent."""

    conversation: Conversation
    waiting: list[str] = field(default_factory=list)
    last_sent: tuple[int, str] = 0, ""
    """Entry and time of the last message with notices that an earlier process sent: older notices were sent too."""
    sent_notes: Sequence[Memo] = ()
    """The notes of other processes that this process has sent to the model, or that wait for a request."""

    def tell(self, *lines: str) -> None:
        """Tell the model lines with the next request of this process, without the empty ones and those that wait."""
        self.waiting.extend(line for line in lines if line and line not in self.waiting)

    def keep(self, about: str, *lines: str) -> None:
        """Tell the model lines with the next request, also if this process ends before it. What else waits `about` a
        worker or the limits is withdrawn; nothing else is about "". What was told last is not told again."""
        kept = _newest_lines(self.conversation.memos(NOTICE)).get(about, [])
        added = [*filter(None, lines)]
        if kept != added:
            with suppress(NexusError):  # the session was deleted meanwhile
                self.conversation.memo(NOTICE, {"about": about, "lines": added})
            self.waiting[:] = [line for line in self.waiting if line not in kept] + added

    def load_unsent(self) -> None:
        """Restore the notices that earlier processes recorded and no request has sent."""
        for plan in self.conversation.memos(PLAN):
            if plan.entry <= self.conversation.cursor and NOTICES in {row["id"] for row in plan.value["sections"]}:
                self.last_sent = plan.entry, plan.at
        ends = {memo.value["id"]: memo.value.get("untold", "") for memo in self._find_unsent(JOB)}
        self.tell(*chain(*_newest_lines(self._find_unsent(NOTICE)).values()), *ends.values())

    def add_unsent_notes(self) -> None:
        """Add the notes that other processes recorded (an undo, a pin) and no request has sent."""
        notes = [memo for memo in self._find_unsent(SERVER_CUT, UNDONE_FILES, PIN) if "told" in memo.value]
        if unsent := [memo for memo in notes if memo not in self.sent_notes]:
            from nexus_cli.conversation.compaction.pins import list_pins  # noqa: PLC0415  (another process set one)

            texts = {pin.text for pin in list_pins(self.conversation)}
            self.tell(*_drop_reversed(memo.value for memo in unsent if memo.kind != PIN or memo.value["text"] in texts))
        self.sent_notes = notes

    def _find_unsent(self, *kinds: str) -> list[Memo]:
        """Return the memos of some kinds that earlier processes have not sent to the model."""
        return [
            memo for kind in kinds for memo in self.conversation.memos(kind) if (memo.entry, memo.at) > self.last_sent
        ]


def _newest_lines(memos: Sequence[Memo]) -> dict[object, list[str]]:
    """Return the newest lines about each thing; about nothing else, those of each memo."""
    return {memo.value["about"] or id(memo): memo.value["lines"] for memo in memos}


def _drop_reversed(unsent: Iterable[JsonObject]) -> list[str]:
    """Return the notes on undos for the model, without those that were taken back entirely."""
    remaining: list[JsonObject] = [{}]
    for value in unsent:
        last = remaining[-1]
        is_reversed = value.get("paths") == last.get("paths") is not None and value["action"] != last["action"]
        if is_reversed and value["turn"] == last["turn"]:
            remaining.pop()
        else:
            remaining.append(value)
    return [str(value["told"]) for value in remaining[1:]]
