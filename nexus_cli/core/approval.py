"""The protocol to the person who approves or declines a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import ToolCall

OUTSIDE, NETWORK = "the command requests to run outside the sandbox", "the command requests network access"
NO_SANDBOX, NOT_KNOWN = "no sandbox is available", "is not a known read-only command"
"""Reasons for a question about a command; before the last one the program stands."""
DEFINITION = "definition"
"""`Question.kind` of a call that a rule allows, of a tool whose server has changed its definition since."""
CHANGES = "Changes in its definition:"
"""Precedes the changed lines, which end the `Question.detail` of such a call."""
SAY_INSTEAD = "Say what to do instead"
"""Hint of a turn that ended because the person declined a call without a reason (`Deny.stops`)."""


@dataclass(frozen=True, slots=True)
class Question:
    """A call that needs permission."""

    json_fields: ClassVar = "call what why detail always kind stores profile parts more_parts doubts rule agent"
    call: ToolCall
    what: str
    """The call on one line."""
    why: str
    """The reason for asking on one line (outside the project, protected place, level)."""
    detail: str = ""
    """The diff or the whole command."""
    always: str = ""
    """The scope of an answer for the session, or of a stored rule: `npm test *`, `this exact command`."""
    kind: str = ""
    """`run`, `edit`, `outside`, `protected`, `network`, `later`, `send`, `server`, `definition` if a server has changed
    the tool's definition, or `confirm` if the level would allow it."""
    stores: tuple[str, ...] = ()
    """The rules of `always` that can be added to the personal settings; empty if the answer can only apply to the
    session."""
    profile: str = ""
    """For a command: its sandbox profile."""
    parts: tuple[JsonObject, ...] = ()
    """For a command: its parts with the decision on each, as in `nexus rules test --json`; may be truncated."""
    more_parts: int = 0
    """Number of parts left out."""
    doubts: tuple[str, ...] = ()
    """For a command: reasons to ask that concern the whole line, such as "a possibly endless loop"."""
    rule: str = ""
    """The rule that asks, with its origin; empty if the level does."""
    agent: str = ""
    """The worker that asks; empty for the session itself."""
    run: str = ""
    """The unattended run that makes the call, for a person: "Ana (run-3)"; empty for other calls."""


@dataclass(frozen=True, slots=True)
class Allow:
    """Yes."""

    answer: ClassVar[str] = "allow"
    json_fields: ClassVar = "answer always stored"
    always: bool = False
    """For the rest of the session, see `Question.always`."""
    stored: bool = False
    """True: the answer is also saved as a personal rule."""


@dataclass(frozen=True, slots=True)
class Deny:
    """No, with a reason for the model."""

    answer: ClassVar[str] = "deny"
    json_fields: ClassVar = "answer why said by name stops"
    why: str = ""
    said: bool = True
    """True if the person said no; false if nobody answered, with the reason in `why`."""
    by: str = "person"
    """Author of `why` if `said`: `person` if typed, `client` if a program sent it."""
    name: str = ""
    """Name of the person; empty if unknown."""
    stops: bool = False
    """The turn ends after the calls of this step, so that the person can type a message."""


@dataclass(frozen=True, slots=True)
class Defer:
    """Not now: the turn ends with the call open; a resume asks again."""

    answer: ClassVar[str] = "defer"
    json_fields: ClassVar = "answer"


Answer = Allow | Deny | Defer


class Approver(Protocol):
    """Asks the person. `None` in place of an approver means that nobody can be asked."""

    async def ask(self, question: Question) -> Answer:
        """Ask and return the answer, in call order within a step; cancelled if the call needs none any more."""


@dataclass(frozen=True, slots=True)
class PersonQuestion:
    """A question of the model to the person, see the tool `ask_person`."""

    text: str
    choices: tuple[str, ...] = ()
    """The proposed answers; the person may give another one."""


@runtime_checkable
class QuestionAsker(Protocol):
    """An `Approver` that can also put questions of the model."""

    can_ask: bool
    """False while no person is there who can answer."""

    async def put_questions(self, questions: Sequence[PersonQuestion]) -> list[str]:
        """Return an answer to each question, fewer if the person stops answering."""
