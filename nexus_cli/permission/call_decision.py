"""`Permission`: the decision on one call, as it is recorded and shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nexus_cli.permission.permission import ApprovalNeed, Denial, Grant, Verdict

if TYPE_CHECKING:
    from nexus_cli.core.json_types.report_types import CommandPartObject
    from nexus_cli.rules.decide import CommandDecision

MOST_PARTS = 50
"""Most parts of a command line that are recorded and shown; a line may have thousands."""


@dataclass(frozen=True, slots=True)
class Permission:
    """The decision on one call."""

    verdict: Verdict
    command: CommandDecision | None = None
    """The decision on a command line, with its parts and its profile; None for other tools."""
    rule: str = ""
    """The rule that decided, such as `deny bash(rm *)`; "" if none did."""
    origin: str = ""
    """Origin of the decision, such as file and line of the rule; "" if the level decided."""
    level: str = ""
    """The level that was in force."""
    offers: tuple[str, ...] = ()
    """Allow rules for this call and similar ones that the question offers as "always"; empty if only this call can be
    allowed."""

    @property
    def profile(self) -> str:
        """Return the sandbox profile of a command; "" for other calls."""
        return self.command.profile if self.command else ""

    @property
    def runs(self) -> bool | None:
        """True if the call runs, False if it is refused, None if a person is asked."""
        return None if isinstance(self.verdict, ApprovalNeed) else isinstance(self.verdict, Grant)

    @property
    def is_plain(self) -> bool:
        """True if the level alone granted a call that runs no command: such a decision is not recorded."""
        return isinstance(self.verdict, Grant) and self.command is None and not self.origin

    @property
    def ruling(self) -> str:
        """Return the rule that decided, followed by its origin in parentheses; "" if none did."""
        return f"{self.rule} ({self.origin})" if self.rule else ""

    def shown_parts(self) -> tuple[list[CommandPartObject], int]:
        """Return at most `MOST_PARTS` parts of a command line in order, allowed ones last, and the number left out."""
        parts = self.command.parts if self.command else ()
        places = sorted(range(len(parts)), key=lambda place: parts[place].decision == "allow")[:MOST_PARTS]
        return [parts[place].to_json() for place in sorted(places)], len(parts) - len(places)

    def to_json(self) -> dict[str, Any]:
        """Return the decision as it is recorded and reported (`reports/decisions.py`)."""
        words = {Grant: "allow", ApprovalNeed: "ask", Denial: "deny"}
        value: dict[str, Any] = {
            "decision": words[type(self.verdict)],
            "level": self.level,
            "profile": self.profile or None,
            "rule": self.rule or None,
            "from": self.origin or f"level {self.level}",
        }
        if self.command:
            parts, more = self.shown_parts()
            value |= {"parts": parts} | ({"more_parts": more} if more else {})
        why = self.command.why if self.command else ""
        return value | {"why": why if isinstance(self.verdict, Grant) else self.verdict.why}
