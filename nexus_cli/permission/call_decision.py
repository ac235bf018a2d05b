"""`CallDecision`: what was decided on one call. Dispatch runs the call by it, and it is recorded and shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nexus_cli.core.approval import Allow, Answer, Deny
from nexus_cli.core.json_value import JsonDict, JsonObject, to_json_value
from nexus_cli.core.limits import level_fields
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.tool import Tool, describe_subject
from nexus_cli.permission.tool_pins import DefinitionChange

if TYPE_CHECKING:
    from nexus_cli.core.json_value import JsonOf
    from nexus_cli.core.limits import Decision
    from nexus_cli.rules.decide import CommandDecision, CommandPart

ACCEPT_SEPARATOR = "; to accept it: "
"""Stands between the reason of a refusal of a changed tool and the command that accepts it."""
DECLINED = "person"
"""`CallDecision.limit`: the person declined the call."""
NOT_ANSWERED = "unanswered"
"""`CallDecision.limit`: the person was asked and did not answer; the result has the reason."""
BY_RULE = "rule"
"""`CallDecision.limit`: a deny rule, which holds at every level, or a hook."""
GUARDED = "guarded"
"""`CallDecision.limit`: a place of credentials; the result has the rule that opens it."""
CONFIRM = "confirm"
"""`CallDecision.kind` of a call that the level grants, but the run asks about; and the `limit` if nobody can be
asked."""
UNREQUESTED = ToolCall("", "")
"""`CheckedCall.call` where only a decision is wanted, and no call was requested."""
MAX_PARTS = 50
"""Most parts of a command line that are recorded and shown; a line may have thousands."""


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """A call with valid arguments."""

    tool: Tool
    arguments: JsonObject
    targets: Mapping[str, Path]
    """The real paths of the call, by path as the model wrote it."""
    call: ToolCall = UNREQUESTED
    """The call as the model requested it."""

    @property
    def subject(self) -> str:
        """The main argument of the call on one line."""
        return describe_subject(self.tool, self.call)


@dataclass(frozen=True, slots=True)
class MinimalGrant:
    """The smallest grant that lets one call run: options of its command line, or a rule."""

    rule: str = ""
    """An allow rule, such as `read_file(/etc/hosts)`; "" if none does."""
    option: str = ""
    """An option of the command line, such as `--add-dir /srv/data`; "" if none does."""


@dataclass(frozen=True, slots=True)
class CallDecision:
    """The decision on one call, by limits, hooks, rules, level, undo and the person."""

    verdict: Decision
    """`ask` stays when the person has answered."""
    why: str = ""
    """One line: the reason to ask or to refuse, used as `Question.why`; for a denial also the rule that would allow the
    call, if one can."""
    kind: str = ""
    """For `ask`: `run`, `edit`, `outside`, `protected`, `network`, `later`, `send`, `server`, `definition` or
    `confirm`. It bounds what an answer for the rest of the session may cover (`approvals.approval_scope`)."""
    command: CommandDecision | None = None
    """The decision on a command line, with its parts and its profile; None for other tools."""
    rule: str = ""
    """The rule or hook that decided, such as `deny bash(rm *)`; "" if none did."""
    origin: str = ""
    """Origin of the decision, such as file and line of the rule, or `limit tools`; "" if the level decided."""
    level: str = ""
    """The level that was in force."""
    offers: tuple[str, ...] = ()
    """Allow rules for this call and similar ones that the question offers as "always"; empty if only this call can be
    allowed."""
    change: DefinitionChange | None = None
    """For `ask`: what its server has changed of the tool's definition since a person allowed the tool."""
    about: CheckedCall | None = None
    """The call, with the paths that were agreed to; None if the decision holds for any call of a tool."""
    before: str | None = None
    """Digest of the content that the diff in the question starts from, see `ToolContext.before`."""
    answer: Answer | None = None
    """The person's; None if nobody was asked."""
    result: ToolResult | None = None
    """What the model gets instead of a run; None for a call that may run."""
    limit: str = ""
    """What refused the call: the name of a limit, or a word such as `DECLINED`; "" for a call that was not refused."""
    allow: str = ""
    """The lowest level at which a refused call would have run; "" if at none, or only at `all` beside another way."""
    minimal_grant: MinimalGrant = MinimalGrant()
    """The smallest grant with which a refused call would have run at its level."""

    @property
    def checked(self) -> CheckedCall:
        """Return the call that was decided on."""
        assert self.about is not None
        return self.about

    @property
    def profile(self) -> str:
        """Return the sandbox profile of a command; "" for other calls."""
        return self.command.profile if self.command else ""

    @property
    def is_granted(self) -> bool:
        """True if the call runs without asking."""
        return self.verdict == "allow"

    @property
    def asks(self) -> bool:
        """True if a person is asked, or was."""
        return self.verdict == "ask"

    @property
    def is_denied(self) -> bool:
        """True if the call is refused without asking."""
        return self.verdict == "deny"

    @property
    def may_run(self) -> bool:
        """True if the call was granted, or the person has allowed it."""
        return self.result is None and (self.is_granted or (self.asks and isinstance(self.answer, Allow)))

    @property
    def ruling(self) -> str:
        """Return the rule that decided, followed by its origin in parentheses; "" if none did."""
        return f"{self.rule} ({self.origin})" if self.rule else ""

    def shown_parts(self) -> tuple[list[JsonOf[CommandPart]], int]:
        """Return at most `MAX_PARTS` parts of a command line in order, allowed ones last, and the number left out."""
        parts = self.command.parts if self.command else ()
        places = sorted(range(len(parts)), key=lambda place: parts[place].decision == "allow")[:MAX_PARTS]
        return [to_json_value(parts[place]) for place in sorted(places)], len(parts) - len(places)

    def _name_call(self) -> JsonDict:
        return {"id": self.checked.call.id, "tool": self.checked.call.name, "subject": self.checked.subject}

    def recorded_row(self, *, is_run: bool) -> JsonObject:
        """Return the memo `DECISION`; the call ran, or is about to, if it `is_run`."""
        return {**self._name_call(), "ran": is_run, **self.to_json()}

    def to_json(self) -> JsonDict:
        """Return the decision as it is recorded and reported (`reports/decisions.py`)."""
        value: JsonDict = {"decision": self.verdict, "level": self.level}
        if not (self.is_denied and self.origin.startswith("limit ")):
            value |= {"profile": self.profile or None, "rule": self.rule or None}
        value["from"] = self.origin or f"level {self.level}"
        if self.command:
            parts, other_parts = self.shown_parts()
            value |= {"parts": parts} | ({"more_parts": other_parts} if other_parts else {})
        value["why"] = (self.command.why if self.command else "") if self.is_granted else self.why
        match self.answer if self.asks else None:
            case Allow() as yes:
                value["answer"] = "always" if yes.stored else "session" if yes.always else "yes"
            case Deny(why, said, by):
                value |= {"answer": "no" if said else "none", **({"said": why, "by": by} if why else {})}
        return value

    def denied_row(self) -> JsonObject:
        """Return a refused call for `denied` of the result object, without `by` and `hint`."""
        why = self.result.error if self.result else ""
        if self.change and self.answer is None:  # for whoever reads the refusal, and not for the model
            refused, accept, acceptance = why.partition(ACCEPT_SEPARATOR)
            why = f"{refused} ({self.change.first_lines}){accept}{acceptance}"
        level = level_fields(self.allow) if self.allow else {"allow": None, "level": None}
        grants = {"rule": self.minimal_grant.rule or None, "option": self.minimal_grant.option or None}
        return {**self._name_call(), "why": why, **level, **grants, "limit": self.limit}


def refuse_by_limit(why: str, limit: str) -> CallDecision:
    """Return the decision of a limit that refuses a call; `why` is for the model."""
    return CallDecision("deny", why, origin=f"limit {limit}", limit=limit)
