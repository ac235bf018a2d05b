"""One worker: its task, its progress, and its report to the parent session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from nexus_cli.core import event
from nexus_cli.core.approval import Answer, Approver, Question
from nexus_cli.core.elide import clip_text, plural
from nexus_cli.core.json_value import JsonDict, JsonObject, to_json_value
from nexus_cli.core.limits import Limits
from nexus_cli.core.message import ToolResult
from nexus_cli.core.running_workers import (
    ACTIVE_STATES,
    ASKING,
    FAILED,
    FINISHED,
    RUNNING,
    STOPPED,
    UNKNOWN,
    WAITING,
    WorkerObject,
    describe_state,
)
from nexus_cli.core.tool import SIGPIPE
from nexus_cli.core.usage import Usage
from nexus_cli.permission.approvals import EDIT_SCOPE
from nexus_cli.session.session import Session

if TYPE_CHECKING:
    from nexus_cli.worktrees.worktrees import WorktreeStay

MAX_SHOWN = 80
"""Characters of a task or command that a list shows."""
SHOWN_FAILED = 3
"""Most failed commands that a result names, the newest."""
SHOWN_OUTPUT = 1000
"""Most characters of the output of a command that was cut short, the last ones."""


class WorkerStateObject(WorkerObject):
    """The present state of a worker."""

    call: str
    """The call that started it."""
    model: str
    """Empty if the worker uses the model of its parent."""
    folder: str
    scope: JsonDict
    """Its limits."""


@dataclass
class Worker:
    """A worker of a session."""

    json_fields: ClassVar = """
        id call session:session_id task recipe model state doing steps seconds tokens:usage.tokens
        cost_usd:usage.cost_usd changed worktree left to_review folder error scope
    """
    id: str
    """`w1`, `w2`, ... in the session; `w1.1` for a worker's own."""
    call: str
    """Id of the call that started it."""
    task: str
    recipe: str = "worker"
    files: tuple[str, ...] = ()
    model: str = ""
    """Its model; "" for that of its parent."""
    scope: Limits = field(default_factory=Limits)
    """Its limits and its budget."""
    folder: Path | None = None
    """Its working folder; None: that of its session."""
    worktree: str = ""
    """Name of its worktree."""
    notices: tuple[str, ...] = ()
    """Lines about its new worktree: files that came along, and the outcome of the set-up command."""
    left: str = ""
    """A summary of the worktree's changes, and the commands to review and apply them."""
    to_review: bool = False
    """True if the worktree has changes."""
    seen_state: tuple[str, str] = ("", "")
    """The worktree, by the time of its creation, and its state in the model's newest diff of all of it."""
    session_id: str = ""
    state: str = WAITING
    doing: str = ""
    """Its current activity, in a few words."""
    steps: int = 0
    nested_steps: int = 0
    """Steps of its own workers."""
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    changed: tuple[str, ...] = ()
    report: str = ""
    """Its last message."""
    error: str = ""
    """Reason that it did not finish."""
    denied: int = 0
    """Number of calls that were refused."""
    failed: dict[str, int] = field(default_factory=dict)
    """Exit status of each command whose newest run failed."""
    declined: str = ""
    """The call that the person declined in order to stop it, "" for none."""
    session: Session | None = None
    """Its session while it runs."""
    running: asyncio.Task[None] | None = None
    released: asyncio.Future[None] | None = None
    """Ends the wait of its call, see `RunningWorkers.release`."""
    in_background: bool = False
    in_turn: bool = False
    """True once its session runs a turn, until it is closed."""
    is_report_unread: bool = False
    """True if it was started in the background and its report has not been read."""
    source: str = "agent"
    """Author of its instructions: `agent` for the model of the parent session, `person` for the person who resumed it.
    """
    spawner: str = ""
    """The parent session, if a fork of that session lists it; "" if the session itself does."""
    _began: float = 0.0
    _before: Usage = field(default_factory=Usage)

    @property
    def has_ended(self) -> bool:
        """True if it no longer works."""
        return self.state not in ACTIVE_STATES

    @property
    def title(self) -> str:
        """Return its task on one line."""
        return _cut(" ".join(self.task.split()))

    def begin(self) -> None:
        """Record that it starts to work, possibly again after a report."""
        self.state, self.error, self._before = RUNNING, "", self.usage
        self._began = time.monotonic() - self.seconds

    def note(self, worker_event: event.Event) -> None:
        """Update its figures and activity from an event of its session."""
        self.seconds = time.monotonic() - self._began
        match worker_event:
            case event.StepStart():
                self.doing = "waiting for the model"
            case event.ToolCallEvent():
                self.doing = f"{worker_event.call.name} {worker_event.subject}".strip()
            case event.ApprovalRequest():
                self.state = ASKING
            case event.ApprovalAnswer():
                self.state = RUNNING
            case event.ToolResultEvent() if worker_event.result.stopped and worker_event.result.ran:
                printed = worker_event.result.output[-SHOWN_OUTPUT:]
                self.doing += f", which had printed:\n{printed}" if printed else ""
            case event.ToolResultEvent() if worker_event.result.status is not None:
                self._note_command(
                    " ".join(str(worker_event.call.arguments.get("command", "")).split()), worker_event.result
                )
            case event.StepEnd():
                self.steps += not worker_event.is_repeated
                self.usage = self.usage + worker_event.usage
            case event.TurnEnd():
                self._end(worker_event.outcome)

    def _note_command(self, command: str, result: ToolResult) -> None:
        """Remember a command that failed until it runs well: a report may say otherwise."""
        self.failed.pop(command, None)
        statuses = [status for status in (*result.pipe, result.status) if status and status != SIGPIPE]
        if statuses:
            self.failed[command] = statuses[0]

    def _end(self, outcome: event.Outcome) -> None:
        cut = f"It did not finish its report. Last activity: {self.doing}" if outcome.has_failed and self.doing else ""
        self.doing, self.report, self.denied = "", f"{outcome.text}\n{cut}".strip("\n"), len(outcome.denied)
        self.changed = tuple(dict.fromkeys((*self.changed, *outcome.changed)))
        self.usage = self._before + outcome.usage
        aborted = outcome.error is not None and outcome.error["kind"] == "aborted"
        self.state = STOPPED if aborted else FINISHED if outcome.ok else FAILED
        self.error = outcome.error["message"] if outcome.error else ""
        if outcome.was_declined:  # read by the model of the parent session
            self.error = self.error.replace("you declined", "the person declined", 1)
        self.declined = f"a call of {self.id}" if outcome.was_declined else ""

    def fail(self, why: str) -> None:
        """Record that it could not work."""
        self.state, self.doing, self.error = FAILED, "", why

    def enter(self, stay: WorktreeStay) -> None:
        """Adopt the notices of its worktree; tell a worker whose previous worktree is gone."""
        self.notices = tuple(stay.notices)
        if stay.is_new and self.session_id:
            notice = "your worktree was removed after your last report; you work in a new copy of the project"
            self.notices, self.changed = (notice, *self.notices), ()

    def close_review(self, outcome: str) -> None:
        self.to_review, self.left = False, f"{outcome}, worktree removed; `steer` {self.id} makes a new worktree"

    def figures(self) -> str:
        """Return its figures (steps, tokens, cost) on one line."""
        cost = self.usage.cost_usd
        used = self.usage.tokens
        parts = [self.id, describe_state(self.state), plural(self.steps, "step"), f"{used:,} tokens"]
        parts += [f"${cost:.4f}"] if cost is not None else []
        parts += [f"{self.seconds:.0f} s"] if self.state != UNKNOWN else []
        parts += [self.error] if self.state == FINISHED and self.error else []
        parts += [f"{plural(self.denied, 'call')} refused"] if self.denied else []
        newest = list(self.failed.items())[-SHOWN_FAILED:]
        parts += [f"failed: {_cut(command)} (exit {status})" for command, status in newest]
        changed = "changed" if self.worktree else "changed while it worked:"  # by others too, in a shared folder
        parts += [f"{changed} {', '.join(self.changed)}"] if self.changed else []
        return " · ".join([*parts, *([self.left] if self.left else [])])

    def ended_line(self) -> str:
        """Return the line that tells the model of its end."""
        return f"worker {self.id} {describe_state(self.state)}; `agents` reads its report"

    def describe(self, text: str) -> str:
        """Return `text` below its figures and its session, for the model of the parent session."""
        session = f" · session {self.session_id}" if self.session_id else ""
        return f"[{self.figures()}{session}]\n{text}".rstrip()

    def result(self) -> ToolResult:
        """Return the tool result for the parent session."""
        text = self.describe(self.report)
        changed = () if self.worktree else self.changed
        if self.state == FINISHED:
            return ToolResult(text, changed=changed, warning=self.error)
        if self.state == UNKNOWN:
            return ToolResult(text, error=f"outcome unknown: {self.error}", changed=changed)
        return ToolResult(text, error=f"{self.id} {self.state}: {self.error}", changed=changed)

    def to_json(self) -> JsonDict:
        """Return it as JSON for lists and for the record."""
        seconds, folder = round(self.seconds, 3), str(self.folder or "")
        return {**to_json_value(self), "seconds": seconds, "folder": folder, "scope": self.scope.to_json()}

    def to_record(self, spawner: str) -> JsonDict:
        """Return it as JSON for the ledger, as a worker of the session `spawner`."""
        extra = {"report": self.report, "spawner": spawner, "untold": self.is_report_unread, "failed": self.failed}
        return self.to_json() | extra

    @classmethod
    def from_json(cls, value: JsonObject) -> Worker:
        """Return a worker of an earlier process from its recorded JSON."""
        return cls(
            value["id"],
            value["call"],
            value["task"],
            value["recipe"],
            session_id=value["session"],
            state=UNKNOWN if value["state"] in ACTIVE_STATES else value["state"],
            steps=value["steps"],
            seconds=value["seconds"],
            changed=tuple(value["changed"]),
            worktree=value["worktree"],
            left=value["left"],
            to_review=value["to_review"],
            error=value["error"],
            model=value.get("model", ""),
            folder=Path(value["folder"]) if value["folder"] else None,
            scope=Limits.from_json(value["scope"]),
            failed=dict(value.get("failed", {})),
            usage=Usage(input=value["tokens"], cost_usd=value["cost_usd"]),
            report=str(value["report"]),
            is_report_unread=bool(value["untold"]),
        )


def _cut(line: str) -> str:
    return clip_text(line, MAX_SHOWN)


class WorkerApprover:
    """An `Approver` that passes a worker's questions to the person of the parent session."""

    def __init__(self, approver: Approver, worker: Worker) -> None:
        self._approver = approver
        self._worker = worker

    async def ask(self, question: Question) -> Answer:
        """Return the person's answer."""
        always = question.always
        if self._worker.worktree and always == EDIT_SCOPE:
            always = "edits in its worktree, not in your files"
        return await self._approver.ask(replace(question, agent=question.agent or self._worker.id, always=always))


def list_lines(workers: Sequence[Worker]) -> str:
    """Return a line for each worker."""
    lines = []
    for worker in workers:
        why = worker.error if worker.state != FINISHED else ""
        lines.append(f"{worker.figures()} · {worker.doing or why or worker.title}".rstrip(" ·"))
    return "\n".join(lines) or "there are no workers"
