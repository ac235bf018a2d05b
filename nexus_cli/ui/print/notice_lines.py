"""Print on stderr what a person has to know in any case: notices, what was left out, refusals, errors.

Each is one sanitized line after `nexus: `. `turn_progress` shows the calls, the workers and the retries of a turn.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from nexus_cli.core import event as e
from nexus_cli.tools.registry import is_shown_to_person
from nexus_cli.ui.print.stream import Writable
from nexus_cli.ui.render.drop_batcher import DropBatcher, shell_drops_command

if TYPE_CHECKING:
    from nexus_cli.session.session import Session

NOTICES = (e.Notice, e.ContextDrop, e.CompactionDone)
"""Events of a turn that are lines here, wherever the rest of the turn is shown."""
WAITS = "/memory accept"
"""The command in a line that a tool tells the person if the person has to act."""
LONG_WAIT = 10.0
"""Seconds of a wait before a retry that are worth a line in a log."""
QUIET_RETRIES = 3
"""Tries of a request after which a line says once that it is retried, so that a dead provider is not silent."""


class NoticeLines:
    """Prints the notices of a session."""

    def __init__(self, stream: Writable, *, quiet: bool = False, alone: bool = True) -> None:
        """`alone`: nothing else shows the turn, so that long waits and what workers report are lines too."""
        self._stream, self._quiet, self._alone = stream, quiet, alone
        self.session: Session | None = None
        """The session that hints name, so that their commands work in any folder; set by the caller."""
        self._drop_batch = DropBatcher(lambda drop: shell_drops_command(self.session, drop), self._noted)

    def print_notice(self, text: str) -> None:
        self._drop_batch.show_held()
        self._noted(text)

    def print_error(self, line: str) -> None:
        """Print an error, even if quiet."""
        self._drop_batch.show_held()
        self._line(line, "31")

    def print_next_step(self, line: str) -> None:
        """Print the person's next possible action, even if quiet."""
        self._drop_batch.show_held()
        self._line(line)

    def feed(self, event: e.Event) -> None:
        """Print `event` if it deserves a line."""
        self._drop_batch.feed(event)
        match event:
            case e.TurnEnd(outcome=outcome):
                if not outcome.was_declined and (line := _texts().describe_denials(outcome.denied, "--allow")):
                    self._line(f"nexus: {line}")
                if outcome.error:
                    line = _texts().describe_error(outcome.error["message"], outcome.error.get("hint", ""))
                    (self.print_error if outcome.has_failed else self.print_next_step)(f"nexus: {line}")
            case e.Notice() | e.CompactionDone():
                self.print_notice(_texts().describe_event(event))
            case e.Retry(attempt=attempt, wait=wait) if self._alone and (
                event.cut or wait >= LONG_WAIT or attempt == QUIET_RETRIES
            ):
                self.print_notice(_texts().describe_event(event))
            case e.AgentEvent(event=e.Notice()) if self._alone:
                self.print_notice(_texts().describe_event(event))
            case e.ToolResultEvent() if (
                self._alone and is_shown_to_person(event.call.name) and WAITS in event.result.output
            ):
                self.print_notice(_texts().describe_shown_result(event.result))

    def _noted(self, text: str, role: str = "") -> None:
        """Print a notice unless quiet; all have the same role here."""
        if text and not self._quiet:
            self._line(f"nexus: {text}")

    def _line(self, text: str, colour: str = "") -> None:
        from nexus_cli.text.cells import one_line  # noqa: PLC0415  (once there is something to say)

        styled = f"\x1b[{colour}m{one_line(text)}\x1b[0m" if colour and self._stream.colour else one_line(text)
        self._stream.write(styled + "\n")


def _texts() -> ModuleType:
    from nexus_cli.reports import event_texts  # noqa: PLC0415  (once there is something to say)

    return event_texts
