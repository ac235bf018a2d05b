"""The verdict on a summary: what of the commitments it keeps, the lines that bring back the rest, whether it will do.

Pure. Asking for the summary, refusing it and cutting instead are the session's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nexus_cli.context.fidelity.commitment import MUSTS, Commitment, CommitmentKind
from nexus_cli.context.fidelity.extract import commitments
from nexus_cli.context.fidelity.lines import Added, line, shortened
from nexus_cli.context.fidelity.standing import Standing
from nexus_cli.context.fidelity.wrong import Wrong
from nexus_cli.core.message import Message

ADDED_SHARE = 0.15
"""Share of the summary that added lines may take."""
ADDED_FLOOR = 64
"""Tokens that added lines may always take."""
MUSTS_LOST = 0.10
"""Share of the must-haves that may be absent from the window."""
_JOINT = 2
"""Tokens between two parts of the added lines."""
ALL_LOST = 0.5
"""Share of all commitments that may be neither in the window nor within reach."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How faithful a summary is, added lines included."""

    total: int
    retained: int
    """Stand in the summary, the added lines or the kept turns."""
    recallable: int
    """Do not stand there, and can be read back."""
    missing: int
    """Neither."""
    added: tuple[str, ...]
    """Lines to put under the summary."""
    ok: bool
    """False when too much is lost, see `judge`."""
    score: float
    """`retained / total`; 1.0 where there was nothing to keep."""
    restored: int = 0
    """How many of the retained stand there by an added line alone."""
    wrong: int = 0
    """Claims of the summary that are not so; each that has a line among the added ones is made good."""
    absent: tuple[Commitment, ...] = ()
    """What stands nowhere: those that are not retained."""

    def described(self) -> dict[str, Any]:
        """As a JSON object, for the ledger."""
        return {
            "total": self.total,
            "retained": self.retained,
            "restored": self.restored,
            "recallable": self.recallable,
            "missing": self.missing,
            "wrong": self.wrong,
            "added": list(self.added),
            "ok": self.ok,
            "score": round(self.score, 4),
        }


def added_room(summary_tokens: int) -> int:
    """Tokens that the lines added to a summary of so many tokens may take."""
    return max(ADDED_FLOOR, int(summary_tokens * ADDED_SHARE))


def judge(
    found: Sequence[Commitment],
    summary: str,
    kept: Sequence[Message],
    *,
    room: int,
    count: Callable[[str], int],
    recallable: Callable[[Commitment], bool],
    wrong: Sequence[Wrong] = (),
    did: Sequence[Commitment] | None = None,
) -> Verdict:
    """Compare a summary with what it stands for.

    `kept` are the messages that stay beside it, `room` the tokens (by `count`) that added lines may take. What it says
    that is `wrong` is put right by added lines; then what neither the summary nor `kept` holds comes back as one, the
    most important first, as far as the room goes. `did` is what was found in `kept`, where that was looked for already.

    Of a long saying its telling clause comes back with the entry to recall the rest by; that counts as retained.

    Too much is lost (`ok` is False) when after that more than a tenth of the must-haves (constraints, corrections, open
    questions, plan, files) stands nowhere in the window, be it recallable or not: who does not know of a constraint
    does not ask for it; or when more than half of all commitments is neither in the window nor recallable. Nor will a
    summary do that has more wrong claims than half of them (one may be in any), or one that no line puts right.
    """
    done = commitments(enumerate(kept)) if did is None else did
    before = Standing("\n".join([summary, *(message.content for message in kept), *_lines(done)]))
    lost = [commitment for commitment in found if not before.holds(commitment)]
    put_right = _put_right(wrong, room, count)
    added = Added(max(0, room - count("\n".join(put_right)) - _JOINT if put_right else room), count)
    lines = added.fill(lost)
    after = Standing("\n".join(lines))
    absent = [commitment for commitment in lost if not after.holds(shortened(commitment, added.width))]
    reachable = [commitment for commitment in absent if recallable(commitment)]
    total, retained = len(found), len(found) - len(absent)
    missing = len(absent) - len(reachable)
    musts = sum(commitment.kind in MUSTS for commitment in found)
    gone = sum(commitment.kind in MUSTS for commitment in absent)
    return Verdict(
        total=total,
        retained=retained,
        recallable=len(reachable),
        missing=missing,
        added=(*put_right, *lines),
        ok=gone <= MUSTS_LOST * musts and missing <= ALL_LOST * total
        and len(put_right) == len(wrong) <= max(1.0, ALL_LOST * total),
        score=retained / total if total else 1.0,
        restored=len(lost) - len(absent),
        wrong=len(wrong),
        absent=tuple(absent),
    )


def _put_right(wrong: Sequence[Wrong], room: int, count: Callable[[str], int]) -> tuple[str, ...]:
    """The lines that put right what is wrong, as far as the room goes."""
    lines = [one.line for one in wrong]
    while lines and count("\n".join(lines)) > room:
        lines.pop()
    return tuple(lines)


def _lines(found: Sequence[Commitment]) -> Iterator[str]:
    """One line for each thing that calls did."""
    kinds = (CommitmentKind.FILE, CommitmentKind.COMMAND)
    return (line(commitment) for commitment in found if commitment.kind in kinds)
