"""What has to stand in a text for a commitment to count as retained: its keys, by kind."""

from __future__ import annotations

import re

from nexus_cli.context.fidelity.commitment import Commitment, CommitmentKind
from nexus_cli.context.fidelity.words import plain, significant

LONGEST_COMMAND = 160
"""Characters of a command line that have to stand in a summary: nobody repeats a script."""
MOST_ERROR_WORDS = 14
"""Significant words of an error line: the rest is detail."""

_LONGEST_LINE = 2000
_BEGINS = re.compile(r"(?:cd|set|export|source) [^;&|]{1,300}(?:&& |; )|#")
_ENDS = re.compile(r"(?: 2>&1)?(?: \| ?(?:tail|head)(?: -[\w ]{1,8})?)?$")
_ALONE = re.compile(r"(?:cd|set|export|source) [^;&|]{1,300}$|#|$")


def core(command: str) -> str:
    """The part of a command line that is repeated when one speaks of it: no folder, no trimmed output, one line."""
    lines = [" ".join(line.split()) for line in command[: 10 * _LONGEST_LINE].strip().split("\n")]
    line = next((line for line in lines if not _ALONE.match(line)), lines[0])[:_LONGEST_LINE]
    bare = _ENDS.sub("", _BEGINS.sub("", line, count=1) if _BEGINS.match(line) else line, count=1)
    return (bare or line)[:LONGEST_COMMAND].rstrip()


def commitment(
    kind: CommitmentKind,
    text: str,
    entry: int,
    *,
    state: str = "",
    exit: int | None = None,
    digest: str = "",
    about: str = "",
) -> Commitment:
    """The commitment with its keys."""
    match kind:
        case CommitmentKind.FILE:
            keys: tuple[str, ...] = (text.removeprefix("./"), state)
        case CommitmentKind.COMMAND:
            keys = (core(text),) if exit is None else (core(text), f"exit {exit}")
        case CommitmentKind.IDENTIFIER:
            keys = (plain(text),)
        case CommitmentKind.ERROR:
            keys = significant(text)[:MOST_ERROR_WORDS]
        case _:
            keys = significant(text)
    return Commitment(kind, text, entry, keys, state, exit, digest, about)
