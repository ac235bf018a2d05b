"""Record compactions of a conversation that were made, failed or undone, as memos that survive a restart.

The memos decide when the next compaction may be paid for. They also hold the usage reported for the replaced window and
the drops that an undo restored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.tokens.estimate import Anchor
from nexus_cli.core.entry import Memo
from nexus_cli.core.memo_kinds import COMPACTION, UNDONE_COMPACTION

Memos = Callable[[str], Sequence[Memo]]
"""Reads the memos of one kind from a conversation, oldest first."""
Note = tuple[str, dict[str, Any]]
"""A memo to record: kind and value."""
AGAIN_AFTER = 10
"""Steps to wait after a compaction, a paid failure or an undo. The wait doubles with each further paid failure in a
row. If the window overflows, only paid failures count, and only those made in an overflow double the wait."""


def note_made(
    step: int,
    epoch: int,
    why: str,
    drops: Iterable[str],
    anchor: Anchor | None,
    rules: Sequence[Sequence[object]] = (),
) -> Note:
    """Make the note of a compaction that began `epoch`, recorded with it; `anchor` is of the epoch before."""
    told = None if anchor is None else [anchor.last, anchor.reported, anchor.counted]
    return _tried(step, {"epoch": epoch, "why": why, "drops": list(drops), "anchor": told, "rules": rules})


def note_failed(conversation: Conversation, step: int, why: str, *, paid: bool, over: bool = False) -> None:
    """Record a failed compaction; `paid`: a summary was requested, `over`: the window did not fit."""
    conversation.memo(*_tried(step, {"epoch": None, "why": why, "paid": paid, "over": over}))


def note_undone(conversation: Conversation, step: int, epoch: int, undone: int) -> list[Note]:
    """Make the notes of `epoch`, which undoes the compaction that began `undone`; to be recorded with the epoch."""
    drops = compaction_memo(conversation.memos, undone).get("drops", [])
    tried = _tried(step, {"epoch": epoch, "why": "undo"})
    return [tried, (UNDONE_COMPACTION, {"epoch": undone, "drops": drops})]


def _tried(step: int, value: Mapping[str, Any]) -> Note:
    return COMPACTION, {"step": step, **value}


def compaction_memo(memos: Memos, epoch: int) -> Mapping[str, Any]:
    """Return the memo of the compaction that began `epoch`; empty if there is none."""
    return next((memo.value for memo in reversed(memos(COMPACTION)) if memo.value["epoch"] == epoch), {})


def anchor_before(memos: Memos, epoch: int) -> Anchor | None:
    """Return the last report on the window that the compaction of `epoch` replaced, which is for the rest of that
    window alone; None if it had none."""
    told = compaction_memo(memos, epoch).get("anchor")
    if not told:
        return None
    last, reported, counted = map(int, told)
    return Anchor(last, reported, counted, exact=False)


def may_compact(conversation: Conversation, step: int, *, fits: bool) -> bool:
    """True if a summary may be requested at `step`; `fits`: the next request fits without one."""
    tried = [memo.value for memo in conversation.memos(COMPACTION)]
    if fits and any(_lately(step, value) for value in tried if not _for_nothing(value)):
        return False
    failed = _in_vain(tried)
    alike = failed if fits else [value for value in failed if value.get("over")]
    return not any(_lately(step, value) for value in failed) and not (
        alike and _lately(step, alike[0], AGAIN_AFTER << (len(alike) - 1))
    )


def was_undone(conversation: Conversation, step: int) -> bool:
    """True if a compaction was undone so lately that nothing which came back is taken out again."""
    return any(one.value.get("why") == "undo" and _lately(step, one.value) for one in conversation.memos(COMPACTION))


def refused_for_nothing(conversation: Conversation, step: int) -> bool:
    """True if a recent try found too little to summarize. It cost nothing, so that it is reported once."""
    tried = conversation.memos(COMPACTION)
    return bool(tried) and _for_nothing(tried[-1].value) and _lately(step, tried[-1].value)


def last_refusal(conversation: Conversation, step: int) -> tuple[int, str] | None:
    """Return the age in steps and the reason of the newest paid summary that failed; None if there is no recent one."""
    failed = _in_vain([memo.value for memo in conversation.memos(COMPACTION)])
    if not failed or not _lately(step, failed[0]):
        return None
    return step - int(failed[0]["step"]), str(failed[0]["why"])


def _for_nothing(value: Mapping[str, Any]) -> bool:
    return value["epoch"] is None and not value.get("paid")


def _in_vain(tried: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the paid tries that failed since the last compaction, newest first."""
    found = []
    for value in reversed(tried):
        if value["epoch"] is not None and value.get("why") != "undo":
            break
        if value.get("paid"):
            found.append(value)
    return found


def _lately(step: int, value: Mapping[str, Any], steps: int = AGAIN_AFTER) -> bool:
    return 0 <= step - int(value["step"]) < steps
