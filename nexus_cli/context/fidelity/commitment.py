"""What a compaction must not lose: one commitment, its kind, and how much it matters beside the others.

How commitments are found is in `extract`, whether one stands in a text in `standing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class CommitmentKind(StrEnum):
    """What is committed to."""

    CONSTRAINT = "constraint"
    """A standing requirement or prohibition of the person."""
    CORRECTION = "correction"
    """The person said that something done or assumed is wrong."""
    FILE = "file"
    """A file was created, changed or deleted."""
    COMMAND = "command"
    """A command ran, with its exit status where that is known."""
    ERROR = "error"
    """The line that names what went wrong."""
    IDENTIFIER = "identifier"
    """An exact value that cannot be guessed."""
    FAILED = "failed"
    """An approach that did not work or was ruled out."""
    QUESTION = "question"
    """An open question to the other side."""
    PLAN = "plan"
    """A step still to be done."""


RANK: Mapping[CommitmentKind, int] = {
    kind: rank
    for rank, kind in enumerate(
        (
            CommitmentKind.CONSTRAINT,
            CommitmentKind.CORRECTION,
            CommitmentKind.QUESTION,
            CommitmentKind.PLAN,
            CommitmentKind.FAILED,
            CommitmentKind.FILE,
            CommitmentKind.ERROR,
            CommitmentKind.COMMAND,
            CommitmentKind.IDENTIFIER,
        )
    )
}
"""The lower, the earlier it is brought back where a summary has lost it."""

MUSTS = frozenset(
    {
        CommitmentKind.CONSTRAINT,
        CommitmentKind.CORRECTION,
        CommitmentKind.QUESTION,
        CommitmentKind.PLAN,
        CommitmentKind.FILE,
    }
)
"""Kinds that have to stand in the window itself: nobody asks for a constraint that they do not know of."""


@dataclass(frozen=True, slots=True)
class Commitment:
    """One thing that must not get lost."""

    kind: CommitmentKind
    text: str
    """A verbatim span of the message; the path of a file, the command line of a command, the value of an identifier."""
    entry: int
    """The entry it comes from."""
    keys: tuple[str, ...]
    """What all has to stand in a text for the commitment to count as retained there, see `standing`."""
    state: str = ""
    """Of a file: `created`, `changed` or `deleted`; else ""."""
    exit: int | None = None
    """Of a command: its exit status; None where it is not known."""
    digest: str = ""
    """Of a file: SHA-256 in hex of what was written, where that is known; else ""."""
    about: str = ""
    """Of an identifier: the few words that lead to it in its sentence, and it; else ""."""
    cut: bool = False
    """It is only the telling clause of what was said, as it stands in an added line."""
