"""From the commitments of single messages to those of a history: what still holds at its end."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nexus_cli.context.fidelity.changes import CHANGED, CREATED
from nexus_cli.context.fidelity.commitment import Commitment, CommitmentKind
from nexus_cli.context.fidelity.keys import commitment
from nexus_cli.context.fidelity.words import plain, significant, stems
from nexus_cli.core.message import Message, Role

_ANSWER = re.compile(
    r"\W*(?:yes|yeah|yep|yup|no|nope|sure|ok|okay|please do|do it|go ahead|both|neither|either|the (?:first|second|"
    r"third|latter|former|last)|"
    r"first|second|option|correct|right|exactly|definitely|of course|not yet|leave it|keep it|ja|nein|oui|non|si|sí)\b",
    re.IGNORECASE,
)
"""How a reply begins that answers what was asked."""
_TICKED = re.compile(r"^\s{0,12}(?:[-*+]|\d{1,2}[.)])\s+(?:\[[xX✓✔]\]|[✓✔✅])\s*(.{3,300})$", re.MULTILINE)
_SHARED = 2
"""Words that a reply has to share with a question to be about it."""
_LONGEST = 20_000
"""Characters of a reply that are compared."""


class Fold:
    """Takes messages in order and keeps what still holds."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], Commitment] = {}
        self._asked: dict[Role, list[tuple[str, ...]]] = {Role.USER: [], Role.ASSISTANT: []}

    def add(self, message: Message, found: Iterable[Commitment]) -> None:
        """One more message with what it holds."""
        self._answered(message)
        if message.role is Role.ASSISTANT:
            self._ticked(message.content)
        for one in found:
            key = _identity(one)
            if one.kind in (CommitmentKind.FILE, CommitmentKind.COMMAND):
                self._kept[key] = _outlasting(self._kept.pop(key, None), one)
            elif key not in self._kept:
                self._kept[key] = one
                if one.kind is CommitmentKind.QUESTION and message.role in self._asked:
                    self._asked[message.role].append(key)

    def found(self) -> tuple[Commitment, ...]:
        """What holds at the end, in the order of the entries."""
        return tuple(sorted(self._kept.values(), key=lambda commitment: commitment.entry))

    def _answered(self, message: Message) -> None:
        """Drop the open questions of the other side that this message certainly answers; the others stay open."""
        if message.role is Role.USER:
            asked = self._asked[Role.ASSISTANT]
            begins = bool(_ANSWER.match(message.content)) and len(asked) == 1
        elif message.role is Role.ASSISTANT and not message.tool_calls and message.content.strip():
            asked, begins = self._asked[Role.USER], False
        else:
            return
        said = set(stems(message.content[:_LONGEST])) if asked else set()
        for key in asked:
            about = set(significant(self._kept[key].text)) if key in self._kept else set()
            if begins or len(about & said) >= min(_SHARED, max(1, len(about))):
                self._kept.pop(key, None)
        asked.clear()

    def _ticked(self, content: str) -> None:
        if "[x]" not in content and "[X]" not in content and not any(mark in content for mark in "✓✔✅"):
            return
        done = [set(stems(item[1])) for item in _TICKED.finditer(content)]
        for key, one in list(self._kept.items()):
            if one.kind is CommitmentKind.PLAN and any(set(one.keys) <= words for words in done):
                del self._kept[key]


def _outlasting(before: Commitment | None, now: Commitment) -> Commitment:
    """`now`; of a file that was created and then changed, that it was created."""
    if before is None or (before.state, now.state) != (CREATED, CHANGED):
        return now
    return commitment(now.kind, now.text, now.entry, state=CREATED)


def _identity(commitment: Commitment) -> tuple[str, ...]:
    """Equal for two commitments of which only one counts."""
    kind = str(commitment.kind)
    if commitment.kind is CommitmentKind.FILE:
        return kind, commitment.keys[0]
    if commitment.kind is CommitmentKind.COMMAND:
        return kind, " ".join(commitment.text.split())
    return kind, plain(commitment.text)
