"""The protocol to the person who allows or refuses a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from nexus_cli.core.message import ToolCall

SAY_INSTEAD = "Say what to do instead"
"""The hint of a turn that ended because the person declined a call without words (`Deny.stops`)."""


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
    """What an answer for the rest of the session covers, and one that is stored: "npm test *", "this exact command"."""
    kind: str = ""
    """Why it is asked, as one word: `run`, `edit`, `outside`, `protected`, `network`, `later`, `send`, or `confirm`:
    the level would allow it."""
    stores: tuple[str, ...] = ()
    """The rules of `always`, which can be added to the personal settings; none: it can hold for the session only."""
    profile: str = ""
    """For a command: the profile that it would run in, see `nexus_cli.sandbox`."""
    parts: tuple[Mapping[str, Any], ...] = ()
    """For a command: its parts with the decision on each, as `nexus rules test --json` has them; of very many some."""
    more_parts: int = 0
    """How many parts there are beyond these."""
    doubts: tuple[str, ...] = ()
    """For a command: what it has, besides its parts, that makes it ask: "a loop that may not end"."""
    rule: str = ""
    """The rule that asks, with its origin; "" where the level does."""
    agent: str = ""
    """The worker whose call it is; "" for the session itself."""


@dataclass(frozen=True, slots=True)
class Allow:
    """Yes; with `always` for the rest of the session, see `Question.always`; with `stored` as a personal rule too."""

    always: bool = False
    stored: bool = False


@dataclass(frozen=True, slots=True)
class Deny:
    """No, with a reason for the model."""

    why: str = ""
    said: bool = True
    """The person said no. Otherwise they said nothing, and `why` is what happened instead."""
    by: str = "person"
    """Whose words `why` is where `said`: `person` if they typed it, `client` if a program sent it."""
    stops: bool = False
    """The turn ends when the calls of this step are done: the person wants to talk first."""


@dataclass(frozen=True, slots=True)
class Defer:
    """Not now: the turn ends with the call open, and resuming asks again."""


Answer = Allow | Deny | Defer


class Approver(Protocol):
    """The way to ask the person. `None` instead of an approver means that nobody can be asked."""

    async def ask(self, question: Question) -> Answer:
        """Return the answer. Cancelled with the turn, and when the call needs no answer any more.

        The questions of one step are asked at the same time, in call order.
        """
        ...
