"""The compactions of a lane: made, failed and undone, as memos that outlive the process.

They say when the next one may be paid for, what the provider had reported of the window that one replaced, and which
drops an undo brought back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nexus_cli.context.tokens.estimator import Anchor
from nexus_cli.context.window.lane import Lane
from nexus_cli.core.entry import Memo

Memos = Callable[[str], Sequence[Memo]]
"""The memos of a lane of one kind, oldest first."""
Note = tuple[str, dict[str, Any]]
"""A memo that is about to be recorded: kind and value."""
TRIED = "compaction"
"""The kind of memo that says at which step a compaction was made, failed or was undone, and the epoch that it began
(None: it failed); `paid` whether a failed one had asked for a summary, `over` whether the window did not fit then;
`drops` what one left out, `rules` what the person laid down (entry and text of each), `anchor` what had been reported
of the window that it replaced."""
UNDONE = "undone"
"""The kind of memo that says which epoch of a compaction was undone, and which drops are back in the window by it."""
AGAIN_AFTER = 10
"""Steps after a compaction, one that failed and one that was undone included, before the next one, unless the window
overflows. After several in a row that were paid for and came to nothing twice as many for each but the first; an
overflow cuts that short, but those that failed at one count in the same way for the next."""


def note_made(
    step: int,
    epoch: int,
    why: str,
    drops: Iterable[str],
    anchor: Anchor | None,
    rules: Sequence[Sequence[object]] = (),
) -> Note:
    """Return the note that epoch `epoch` begins with a summary; `anchor` is that of the epoch before it. Recorded with
    the epoch."""
    told = None if anchor is None else [anchor.last, anchor.reported, anchor.counted]
    return _tried(step, {"epoch": epoch, "why": why, "drops": list(drops), "anchor": told, "rules": rules})


def note_failed(lane: Lane, step: int, why: str, *, paid: bool, over: bool = False) -> None:
    """Record that a compaction failed; `over` says that the window did not fit."""
    lane.timeline.memo(*_tried(step, {"epoch": None, "why": why, "paid": paid, "over": over}))


def note_undone(lane: Lane, step: int, epoch: int, undone: int) -> list[Note]:
    """Return the notes that epoch `epoch` undoes the compaction that began epoch `undone`. Recorded with the epoch."""
    drops = compaction_memo(lane.timeline.memos, undone).get("drops", [])
    tried = _tried(step, {"epoch": epoch, "why": "undo"})
    return [tried, (UNDONE, {"epoch": undone, "drops": drops})]


def _tried(step: int, value: Mapping[str, Any]) -> Note:
    return TRIED, {"step": step, **value}


def compaction_memo(memos: Memos, epoch: int) -> Mapping[str, Any]:
    """Return the memo of the compaction that began `epoch`; empty if there is none."""
    return next((memo.value for memo in reversed(memos(TRIED)) if memo.value["epoch"] == epoch), {})


def anchor_before(memos: Memos, epoch: int) -> Anchor | None:
    """Return the report on the window that the compaction of `epoch` replaced; None if there was none."""
    told = compaction_memo(memos, epoch).get("anchor")
    if not told:
        return None
    last, reported, counted = map(int, told)
    return Anchor(last, reported, counted)


def may_compact(lane: Lane, step: int, *, fits: bool) -> bool:
    """True if a summary may be requested now, also after a restart; `fits`: the next request fits without one."""
    tried = [memo.value for memo in lane.timeline.memos(TRIED)]
    if fits and any(_lately(step, value) for value in tried if not _for_nothing(value)):
        return False
    failed = _in_vain(tried)
    alike = failed if fits else [value for value in failed if value.get("over")]
    return not any(_lately(step, value) for value in failed) and not (
        alike and _lately(step, alike[0], AGAIN_AFTER << (len(alike) - 1))
    )


def refused_for_nothing(lane: Lane, step: int) -> bool:
    """True if the last try, a few steps ago, found too little to summarize. It cost nothing and is not reported at each
    step."""
    tried = lane.timeline.memos(TRIED)
    return bool(tried) and _for_nothing(tried[-1].value) and _lately(step, tried[-1].value)


def last_refusal(lane: Lane, step: int) -> tuple[int, str] | None:
    """Return how many steps ago a summary was paid for and refused, and why; None if none was lately."""
    failed = _in_vain([memo.value for memo in lane.timeline.memos(TRIED)])
    if not failed or not _lately(step, failed[0]):
        return None
    return step - int(failed[0]["step"]), str(failed[0]["why"])


def _for_nothing(value: Mapping[str, Any]) -> bool:
    return value["epoch"] is None and not value.get("paid")


def _in_vain(tried: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the tries since the last compaction that were paid for and failed, the newest first."""
    found = []
    for value in reversed(tried):
        if value["epoch"] is not None and value.get("why") != "undo":
            break
        if value.get("paid"):
            found.append(value)
    return found


def _lately(step: int, value: Mapping[str, Any], steps: int = AGAIN_AFTER) -> bool:
    return 0 <= step - int(value["step"]) < steps
