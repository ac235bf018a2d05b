"""The lines that bring lost commitments back: short, most important first, several on one line where that is cheap.

What somebody said at length comes back as its telling clause with the entry to recall the rest by, see `shortened`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from nexus_cli.context.fidelity.commitment import RANK, Commitment, CommitmentKind
from nexus_cli.context.fidelity.keys import core
from nexus_cli.context.fidelity.words import significant

LONGEST_ERROR = 240
"""Characters of an error that are repeated."""
WIDTHS = (160, 80)
"""Characters that a saying may take: about 40 tokens; half of that where not everything fits."""
_CUT = re.compile(
    r"[.;:!?]\s+|\s+[—–-]+\s+|,\s+|\s+(?=(?:because|since|so that|as|which|although|though|where|while|until|unless|"
    r"otherwise|"
    r"else|and|but)\s)"
)
"""Between two clauses."""
_SAYINGS = frozenset(
    {
        CommitmentKind.CONSTRAINT,
        CommitmentKind.CORRECTION,
        CommitmentKind.QUESTION,
        CommitmentKind.PLAN,
        CommitmentKind.FAILED,
    }
)
_DIGEST = 8
_PASSES = 3
"""How often what did not fit is tried again: several on one line take less than was reckoned."""
_FRAME = 2
"""Tokens that the line end and the joint of two items may take."""

Count = Callable[[str], int]


def shortened(found: Commitment, width: int) -> Commitment:
    """A saying of more than `width` characters as its telling clauses: of a question the last, else the first.

    Its keys are those of what is left. Everything else comes back as it is.
    """
    text = " ".join(found.text.split())
    if found.kind not in _SAYINGS or len(text) <= width:
        return found
    cuts = [cut.span() for cut in _CUT.finditer(text)]
    if found.kind is CommitmentKind.QUESTION:
        start = next((end for _, end in cuts if len(text) - end <= width), len(text) - width)
        left = text[start:] if start in (end for _, end in cuts) else text[start:].partition(" ")[2]
    else:
        end = max((start for start, _ in cuts if width // 3 <= start <= width), default=0)
        left = text[:end] if end else text[:width].rpartition(" ")[0]
    left = left.strip() or text[:width]
    return replace(found, text=left, keys=significant(left), cut=True)


def told(found: Commitment) -> str:
    """What a line says of one commitment."""
    text = " ".join(found.text.split())
    match found.kind:
        case CommitmentKind.FILE:
            return f"{text} (sha {found.digest[:_DIGEST]})" if found.digest else text
        case CommitmentKind.COMMAND:
            return core(found.text)
        case CommitmentKind.IDENTIFIER:
            return found.about or text
        case CommitmentKind.ERROR:
            return text[:LONGEST_ERROR]
        case CommitmentKind.QUESTION if found.cut:
            return f"… {text}"
        case _:
            return f"{text} …" if found.cut else text


def group(found: Commitment) -> str:
    """What a commitment shares a line with: the beginning of that line; "" for one that has its own."""
    match found.kind:
        case CommitmentKind.FILE:
            return f"- {found.state}:"
        case CommitmentKind.COMMAND:
            return "- ran:" if found.exit is None else f"- ran, exit {found.exit}:"
        case CommitmentKind.IDENTIFIER:
            return "- exact values:"
        case CommitmentKind.PLAN if not found.cut:
            return "- still to do:"
        case _:
            return ""


def line(found: Commitment) -> str:
    """The line of one commitment alone."""
    beginning = group(found)
    if found.kind is CommitmentKind.COMMAND and found.exit is not None:
        return f"- ran: {told(found)} -> exit {found.exit}"
    if beginning:
        return f"{beginning} {told(found)}"
    return f"- {found.kind} (entry {found.entry}): {told(found)}"


@dataclass(slots=True)
class Added:
    """Lines within `room` tokens."""

    room: int
    count: Count
    taken: list[Commitment] = field(default_factory=list)
    width: int = 0
    """Characters of a saying in the lines that were made."""
    _left: int = 0
    _begun: set[str] = field(default_factory=set)

    def fill(self, missing: Sequence[Commitment]) -> tuple[str, ...]:
        """Take what fits, in order of importance, the newest of a kind first; the lines, oldest first within a kind.

        Sayings are cut shorter where not all of them fit.
        """
        lines: tuple[str, ...] = ()
        for width in WIDTHS:
            self.taken, self._begun, self.width = [], set(), width
            lines = self._filled([shortened(found, width) for found in missing])
            if len(self.taken) == len(missing):
                break
        return lines

    def _filled(self, missing: Iterable[Commitment]) -> tuple[str, ...]:
        left = sorted(missing, key=lambda found: (RANK[found.kind], not found.exit, -found.entry))
        lines: tuple[str, ...] = ()
        for _ in range(_PASSES):
            self._left = self.room - self.count("\n".join(lines))
            refused = [found for found in left if not self._take(found)]
            lines = packed(self.taken)
            if not refused or len(refused) == len(left):
                break
            left = refused
        while lines and self.count("\n".join(lines)) > self.room:
            self.taken.pop()
            lines = packed(self.taken)
        return lines

    def _take(self, found: Commitment) -> bool:
        cost = self._cost(found)
        if cost > self._left:
            return False
        self._left -= cost
        self._begun.add(group(found))
        self.taken.append(found)
        return True

    def _cost(self, found: Commitment) -> int:
        beginning = group(found)
        alone = not beginning or beginning not in self._begun
        return self.count(line(found) if alone else f"`{told(found)}`") + _FRAME


def packed(taken: Iterable[Commitment]) -> tuple[str, ...]:
    """The lines of what was taken, by importance, then by entry."""
    ordered = sorted(taken, key=lambda found: (RANK[found.kind], not found.exit, found.entry))
    shared: dict[str, list[Commitment]] = {}
    for found in ordered:
        shared.setdefault(group(found) or line(found), []).append(found)
    return tuple(_together(beginning, members) for beginning, members in shared.items())


def _together(beginning: str, members: list[Commitment]) -> str:
    if len(members) == 1 or beginning == line(members[0]):
        return line(members[0])
    if members[0].kind is CommitmentKind.FILE:
        return f"{beginning} {', '.join(map(told, members))}"
    return f"{beginning} {'; '.join(f'`{told(found)}`' for found in members)}"
