"""Let the run of a session wait: decide whether it may, and end its turn.

The wait itself is recorded with the result of the call (`ledger.runs.apply_memo`). `nexus_cli.runs` resumes the run,
or the session itself while a person has it open (`live_wait`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nexus_cli.core.errors import WAITING, NexusError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Waits
from nexus_cli.ledger import Ledger, SessionLog


@dataclass
class SessionWaits(Waits):
    """Implements `Waits` for the main conversation of one session."""

    ledger: Ledger
    log: SessionLog
    is_worker: bool
    describe_run: Callable[[], JsonObject]
    """Makes the record of the session's run, in case it has none yet (`session/service_makers.py`)."""
    longest: float
    """Seconds after which a wait without a limit of its own ends."""
    ends_jobs: Callable[[], str] = str
    """Returns the jobs that end with this turn, "" if none does."""
    why: str = ""
    """The event that the run waits for after this step; "" if none."""

    def now(self) -> float:
        return self.ledger.runs.now()

    def refusal(self) -> str:
        if self.is_worker:
            return "a worker cannot wait: end with a report of what is missing"
        if not self.ledger.is_kept or not self.log.is_saving:
            return "this session is not saved: its run could not be resumed"
        if jobs := self.ends_jobs():
            return (
                f"waiting would end the turn and stop {jobs}. Stop them first, or, unless you wait for a service, set "
                "`timeout` to 10 minutes or less"
            )
        return ""

    def begin(self, result: ToolResult) -> ToolResult:
        """Let the run wait after this step, which runs no further call: a run waits for one thing."""
        assert result.waits is not None
        wait = result.waits["wait"]
        self.why = str(wait["why"])
        if wait["until"] is None:
            from nexus_cli.core.duration import format_duration  # noqa: PLC0415  (few sessions wait)

            limit = "" if wait["kind"] == "reply" else f" At most {format_duration(self.longest)}."
            limited = {**wait, "until": self.now() + self.longest}
            result = replace(result, output=result.output + limit, waits={**result.waits, "wait": limited})
        run = self.ledger.runs.of_session(self.log.session_id)
        if run is None or run.waits is None:
            return result
        return replace(result, output=f"{result.output} This replaces the earlier wait ({run.waits.why}).")

    def end_step(self) -> None:
        """Raise `NexusError("waiting", ...)` if the run waits from now on."""
        why, self.why = self.why, ""
        if why:
            run = self.ledger.runs.of_session(self.log.session_id)
            name = run.id if run else "the run"
            hint = (
                "`nexus serve` or `nexus serve --once` resumes the run when the wait is over; "
                f"to resume it now: nexus runs resume {name}"
            )
            raise NexusError(WAITING, f"{name} waits", why, hint)
