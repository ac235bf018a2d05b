"""The lines for the model that wait for the next request of a conversation.

What would be lost with the process is a memo from the moment it arises: `keep` records it, the end of a job is in the
memo of the job. `load_untold` finds what a former process has not told, `tell_untold` what other processes have noted.
All of it waits in `waiting`, which the section `notices` shows; the memo of a plan (`PLAN`) with that section marks
what is older as told.
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
    """The lines that wait, and what requests have told."""

    conversation: Conversation
    waiting: list[str] = field(default_factory=list)
    told_until: tuple[int, str] = 0, ""
    """Entry and time of the last message with notices that earlier processes have sent: what is older was told."""
    told_notes: Sequence[Memo] = ()
    """The notes of other processes that requests of this one have told, or that wait."""

    def tell(self, *lines: str) -> None:
        """Tell the model lines with the next request of this process, without the empty ones."""
        self.waiting.extend(filter(None, lines))

    def keep(self, about: str, *lines: str) -> None:
        """Tell the model lines with the next request, also if this process ends before it. What else waits `about` a
        worker or the limits is withdrawn; nothing else is about "". What was told last is not told again."""
        kept = _newest_lines(self.conversation.memos(NOTICE)).get(about, [])
        added = [*filter(None, lines)]
        if kept != added:
            with suppress(NexusError):  # the session was deleted meanwhile
                self.conversation.memo(NOTICE, {"about": about, "lines": added})
            self.waiting[:] = [line for line in self.waiting if line not in kept] + added

    def load_untold(self) -> None:
        """Find what no request has told; let what earlier processes have kept wait."""
        for plan in self.conversation.memos(PLAN):
            if plan.entry <= self.conversation.cursor and NOTICES in {row["id"] for row in plan.value["sections"]}:
                self.told_until = plan.entry, plan.at
        ends = {memo.value["id"]: memo.value.get("untold", "") for memo in self._find_untold(JOB)}
        self.tell(*chain(*_newest_lines(self._find_untold(NOTICE)).values()), *ends.values())

    def tell_untold(self) -> None:
        """Tell the model the notes that it was not told yet: another process may have made an undo, or pinned a
        text."""
        notes = [memo for memo in self._find_untold(SERVER_CUT, UNDONE_FILES, PIN) if "told" in memo.value]
        if untold := [memo for memo in notes if memo not in self.told_notes]:
            from nexus_cli.conversation.compaction.pins import list_pins  # noqa: PLC0415  (another process set one)

            texts = {pin.text for pin in list_pins(self.conversation)}
            self.tell(*_drop_reversed(memo.value for memo in untold if memo.kind != PIN or memo.value["text"] in texts))
        self.told_notes = notes

    def _find_untold(self, *kinds: str) -> list[Memo]:
        """Return the memos of some kinds that earlier processes have not told."""
        return [
            memo for kind in kinds for memo in self.conversation.memos(kind) if (memo.entry, memo.at) > self.told_until
        ]


def _newest_lines(memos: Sequence[Memo]) -> dict[object, list[str]]:
    """Return the newest lines about each thing; about nothing else, those of each memo."""
    return {memo.value["about"] or id(memo): memo.value["lines"] for memo in memos}


def _drop_reversed(untold: Iterable[JsonObject]) -> list[str]:
    """Return the notes on undos for the model, without those that were taken back entirely."""
    remaining: list[JsonObject] = [{}]
    for value in untold:
        last = remaining[-1]
        is_reversed = value.get("paths") == last.get("paths") is not None and value["action"] != last["action"]
        if is_reversed and value["turn"] == last["turn"]:
            remaining.pop()
        else:
            remaining.append(value)
    return [str(value["told"]) for value in remaining[1:]]
