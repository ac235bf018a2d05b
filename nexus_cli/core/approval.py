"""The protocol to the person who allows or refuses a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from nexus_cli.core.message import ToolCall


@dataclass(frozen=True, slots=True)
class Question:
    """A call that wants permission."""

    call: ToolCall
    what: str
    """One line: what will happen."""
    why: str
    """One line: why it is asked (outside the project, protected place, level)."""
    detail: str = ""
    """A diff or the whole command, for a person."""
    always: str = ""
    """The scope of "always" besides this call: "every bash call this session"."""


@dataclass(frozen=True, slots=True)
class Allow:
    """Yes; with `always` for the rest of the session, for the same kind of call."""

    always: bool = False


@dataclass(frozen=True, slots=True)
class Deny:
    """No, with a reason for the model."""

    why: str = ""
    said: bool = True
    """The person said no. Otherwise they said nothing, and `why` is what happened instead."""


@dataclass(frozen=True, slots=True)
class Defer:
    """Not now: the turn ends with the call open, and resuming asks again."""


Answer = Allow | Deny | Defer


class Approver(Protocol):
    """The way to ask the person. `None` instead of an approver means that nobody can be asked."""

    async def ask(self, question: Question) -> Answer:
        """Return the answer; cancelled with the turn."""
        ...
