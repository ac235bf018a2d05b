"""Letting the person's words in: recorded whole where they fit, else elided with a drop (law 4)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nexus_cli.context.manager import ContextManager
from nexus_cli.context.tokens.content_kinds import ByKind, slot_by_kind
from nexus_cli.core import event
from nexus_cli.core.attachment import AttachedFile
from nexus_cli.core.elide import ElidedText, drop_marker, elide_text, line_namer
from nexus_cli.core.entry import Cause, Drop, Entry, ItemForm, Kind, Memo, WindowItem
from nexus_cli.core.message import Message, Part, Role
from nexus_cli.core.shield import run_shielded
from nexus_cli.lane.control import Control, SteeringWords
from nexus_cli.lane.current_request import most_with
from nexus_cli.lane.lane_window import LaneWindow
from nexus_cli.ledger.sessions import SHOWN

TRIGGER = "trigger"
"""Memo: `source`, which started a turn that the person did not type; `facts` of it, see `Trigger.facts`."""
SOURCE = "source"
"""Memo: `source` of the words of its entry, which the person did not type during a turn: `client`, `agent`."""
PASTED = "pasted"
"""Memo: `ranges` of the message of its entry that the person pasted, first and last offset of each in characters."""
COMMAND = "command"
"""Memo: `command`, `status` and `error` of a command that the person ran, which the message of its entry tells of."""
RECALLED = "recalled"
"""Memo: `drop` (id) of which the message of its entry sends a part again."""
CLIPPED = "clipped"
"""Memo: `drop` (id) with the whole text of its entry, which was recorded in part."""
ATTACHED = "attached"
"""Memo: `texts` that wait for the person's next message in `session`: `text`, `what` it is, and its memos by kind:
`COMMAND` (None if it has none) and `RECALLED`."""
ATTACHMENTS = "attachments"
"""Memo: `files` that the message of its entry holds, each as `AttachedFile.to_json`."""
HISTORY = "history"
"""Memo of an entry with messages of a space: `space` (key), its `name`, `messages` (keys; none: the header alone),
`parts`: offsets of each message in the entry: of its beginning, of its state, and of its end."""
REQUEST_SHARE = 0.6
"""Share of what system and tools leave that a request may take whole."""

SAMPLE = 20_000
"""Characters that show how many tokens per character the provider counts."""
LARGE = 200_000
"""Characters from which on a text is counted and cut in a thread: the event loop has to hear a Ctrl-C meanwhile."""


async def clip_with_drop(
    window: LaneWindow,
    text: str,
    cap: int,
    what: str,
    cause: Cause,
    *,
    whole: str | None = None,
    uncounted: int = 0,
    cites: str = "",
    first_line: int | None = None,
) -> tuple[ElidedText, Drop | None]:
    """Return `text` in at most `cap` tokens, with its hole, and the drop that was recorded for that.

    A text that begins with line `first_line` of a file may stay whole beyond that; where it is cut, its hole names
    lines. The drop holds `whole` (default: `text`), beyond which `uncounted` bytes were not kept. A text that `cites` a
    drop is a part of that one and makes none.
    """
    count, timeline = window.context.counter.count, window.lane.timeline
    most = cap if first_line is None else max(cap, _most_whole(window, text))

    def work() -> tuple[ElidedText, str]:
        if not uncounted and count(text) <= most:
            return ElidedText(text), ""
        drop_id = cites or timeline.log.next_drop()
        marker = drop_marker(drop_id) if first_line is None else drop_marker(drop_id, line_namer(text, first_line))
        return elide_text(text, cap, count, marker), drop_id

    clipped, drop_id = await asyncio.to_thread(work) if len(text) > LARGE else work()
    if cites or not drop_id:
        return clipped, None
    whole = text if whole is None else whole
    drop = Drop(drop_id, what, clipped.tokens, cause, timeline.now(), text=whole, uncounted=uncounted)
    if len(whole) > LARGE:  # compressed when it is recorded
        await asyncio.to_thread(timeline.log.record_drop, drop)
    else:
        timeline.log.record_drop(drop)
    return clipped, drop


def _most_whole(window: LaneWindow, text: str) -> int:
    """Return the tokens up to which the text of a file is sent whole: as long as half of the budget stays free, so that
    the files of one step do not overflow it."""
    budget = window.budget
    # A large text is counted beside the event loop, and the results of other calls are recorded meanwhile.
    is_free = len(text) <= LARGE and most_with(window, budget.file_cap) * 2 <= budget.available
    return budget.file_cap if is_free else 0


def _like(context: ContextManager, text: str) -> ByKind:
    """Return the kind of content of a text, from its beginning: the provider may count more than we do."""
    message = Message(Role.USER, text[:SAMPLE])
    return slot_by_kind(WindowItem(0, ItemForm.FULL, message, tokens=context.measure(message, "")))


async def record_user_message(
    window: LaneWindow,
    control: Control,
    kind: Kind,
    text: str,
    *,
    parts: tuple[Part, ...] = (),
    files: Sequence[AttachedFile] = (),
    uncounted: int = 0,
    actor: str = "person",
    source: str = "person",
    pasted: Sequence[str] = (),
    shown: str = "",
    notes: Mapping[str, Mapping[str, Any]] | None = None,
) -> Entry:
    """Record a user message; what is beyond its cap is a drop of cause `input_cap`. People read `shown` in its place
    where that is given; `files` are records of those in text and parts. `source` is whose words came during a turn.
    `notes` are memos of the same commit, by kind."""
    lane, epoch = window.lane, window.lane.epoch
    most = window.estimator.countable(window.budget.available, _like(window.context, text))
    room = most - epoch.system_tokens - epoch.tools_tokens
    cap = max(64, int(room * REQUEST_SHARE))
    clipped, drop = await clip_with_drop(window, text, cap, "part of the input", Cause.INPUT_CAP, uncounted=uncounted)
    content = clipped.text
    if uncounted:
        content += f"\n[... {uncounted} more bytes of input were beyond the hard limit and not kept ...]"
    if drop:
        control.emit_drop(drop)
    ranges = [span for one in pasted for span in _find_all(one, content)]
    timeline = lane.timeline
    for block in [block for block in control.attachment_memos if block in text]:
        for memo_kind, value in control.attachment_memos.pop(block).items():
            timeline.log.record_memo(Memo(memo_kind, timeline.now(), timeline.last + 1, value))
    if source != "person":  # before its entry, as below
        timeline.log.record_memo(Memo(SOURCE, timeline.now(), timeline.last + 1, {"source": source}))
    if ranges:  # before its entry, so that a kill between the two proves no fact
        timeline.log.record_memo(Memo(PASTED, timeline.now(), timeline.last + 1, {"ranges": ranges}))
    noted = {**(notes or {}), **({SHOWN: {"text": shown}} if shown else {})}
    if drop:
        noted[CLIPPED] = {"drop": drop.id}
    if files:
        noted[ATTACHMENTS] = {"files": [one.to_json() for one in files]}
    return lane.append(kind, Message(Role.USER, content, parts=parts), actor, noted)


async def deliver_steering(window: LaneWindow, control: Control) -> bool:
    """Deliver the person's words that came meanwhile; False when there were none."""
    waiting = control.steering
    if not waiting:
        return False
    while waiting:
        await run_shielded(_steer(window, control, waiting.popleft()))
    return True


async def _steer(window: LaneWindow, control: Control, said: SteeringWords) -> None:
    await record_user_message(
        window, control, Kind.STEER, said.text, pasted=said.pasted, files=said.files, source=said.source
    )
    control.emit(event.SteeringMessage(said.text))


def _find_all(part: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the beginning and the end of each `part` of `text`."""
    at = text.find(part) if part else -1
    while at >= 0:
        yield at, at + len(part)
        at = text.find(part, at + len(part))
