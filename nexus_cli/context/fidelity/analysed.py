"""What single entries hold, found once: entries never change, and a compaction that fails is tried again.

Owns how long it is kept, and what an entry records itself beside its text: by which tool a result was made, and so in
which form it tells its exit status. What is in a text is found by `extract`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nexus_cli.context.fidelity.commitment import Commitment, CommitmentKind
from nexus_cli.context.fidelity.extract import of_message
from nexus_cli.context.fidelity.fold import Fold
from nexus_cli.context.fidelity.keys import commitment
from nexus_cli.core.entry import Entry, Kind
from nexus_cli.core.message import Role, ToolCall

MOST = 60_000
"""Things that are kept: entries, and commitments in them. Some 30 MB."""
OWN_SHELL = "tool:bash"
"""The actor of results whose last line is ours, see `_ENDED`."""
_ENDED = re.compile(r"(?:^|\n)\[(?:[^\[\]\n]{1,80}; )?exit status (-?\d{1,3})(?:; [^\[\]\n]{1,80})?\]\s*\Z")


@dataclass
class Analysed:
    """What was found in entries of one lane, by entry, the ones that were asked for last."""

    most: int = MOST
    _found: OrderedDict[tuple[int, int], tuple[Commitment, ...]] = field(default_factory=OrderedDict)
    _size: int = 0

    def of(self, entry: Entry, call: ToolCall | None = None) -> tuple[Commitment, ...]:
        """What one entry holds; `call` is the call that a tool's result answers."""
        # A fork of the process shares this with lanes that count from 1 as well: the text tells them apart.
        key = entry.id, hash(entry.message.content)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = tuple(_of_entry(entry, call))
            self._size += 1 + len(found)
            while self._size > self.most and len(self._found) > 1:
                _, old = self._found.popitem(last=False)
                self._size -= 1 + len(old)
        self._found.move_to_end(key)
        return found


@dataclass(frozen=True, slots=True)
class History:
    """Entries in order, with what was found in them."""

    entries: tuple[Entry, ...]
    by_entry: tuple[tuple[Commitment, ...], ...]
    """What each of them holds."""
    found: tuple[Commitment, ...]
    """What still holds at their end."""

    def events(self) -> Iterator[Commitment]:
        """Every change of a file and every run of a command that a tool gave, oldest first: what somebody says of one
        may be read wrongly, or be wrong."""
        rows = zip(self.entries, self.by_entry, strict=True)
        kinds = (CommitmentKind.FILE, CommitmentKind.COMMAND)
        return (one for entry, found in rows if entry.kind is Kind.TOOL for one in found if one.kind in kinds)


def history(entries: Iterable[Entry], analysed: Analysed | None = None) -> History:
    """What was committed to in `entries`, as `extract.commitments` says it; each is looked at once by `analysed`."""
    known = analysed or Analysed()
    calls: dict[str, ToolCall] = {}
    fold = Fold()
    every, held = [], []
    for entry in entries:
        message = entry.message
        calls.update((call.id, call) for call in message.tool_calls)
        found = known.of(entry, _answered(entry, calls))
        fold.add(message, found)
        every.append(entry)
        held.append(found)
    return History(tuple(every), tuple(held), fold.found())


def _answered(entry: Entry, calls: Mapping[str, ToolCall]) -> ToolCall | None:
    return calls.get(entry.message.tool_call_id or "") if entry.message.role is Role.TOOL else None


def _of_entry(entry: Entry, call: ToolCall | None) -> Iterator[Commitment]:
    found = of_message(entry.id, entry.message, call)
    if entry.actor != OWN_SHELL:
        yield from found
        return
    ended = _ENDED.search(entry.message.content)
    status = int(ended[1]) if ended else None
    for one in found:
        if one.kind is CommitmentKind.COMMAND and one.exit != status:
            yield commitment(CommitmentKind.COMMAND, one.text, one.entry, exit=status)
        elif one.kind is not CommitmentKind.FILE or status == 0:  # what a command did is only known where it went well
            yield one
