"""Draw the workers of a session as a tree: one line each while they run, their results and cost when they are done.

Uses only their events. `rich_renderer` places the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from nexus_cli.core import event as e
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.running_workers import ACTIVE_STATES
from nexus_cli.reports.event_texts import (
    LONGEST,
    describe_event,
    describe_notice,
    describe_worker,
    for_person,
    worker_figures,
)
from nexus_cli.reports.text.lines import worker_title
from nexus_cli.text.cells import cells, one_line
from nexus_cli.ui.render.call_group import HeldNote
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.render.tool_line import FinishedCall, find_called_tool

LEAST = 60
"""Cells for the task and the activity of a worker, before its figures are left out."""
NARROW = 60
"""Columns below which a line begins with the id alone."""
NAME = "agent"
"""First word of the line of a worker that no call of the session started."""
REPORTED = 2
"""Most lines of a report below the worker's line."""


@dataclass
class ShownWorker:
    """A worker as known from its events."""

    row: JsonDict
    """Its newest row, see `core.event.WorkerState`; its events update `steps`, `tokens` and `cost_usd`."""
    began: float
    doing: str = ""
    open_calls: set[str] = field(default_factory=set)
    """Its calls with an open question."""
    report: str = ""

    @property
    def id(self) -> str:
        return str(self.row["id"])

    @property
    def has_ended(self) -> bool:
        return self.row["state"] not in ACTIVE_STATES

    @property
    def is_waiting(self) -> bool:
        """True if it waits for a place."""
        return bool(self.row["state"] == "waiting")

    @property
    def task(self) -> str:
        return worker_title(str(self.row["task"]))

    def report_lines(self) -> list[str]:
        """Return the beginning of its report, each line sanitized."""
        lines = (one_line(line[:LONGEST]) for line in self.report[: LONGEST * REPORTED * 4].split("\n"))
        return [line for line in lines if line][:REPORTED]


class WorkerTree:
    """The workers in the order of their first events."""

    def __init__(self, clock: Callable[[], float], *, drawn: bool, commands: bool, verbose: bool) -> None:
        """`drawn`, `commands` and `verbose` as in `RichRenderer`."""
        self._clock = clock
        self._shows_calls = verbose and not drawn
        self._drawn = drawn
        self._commands = commands
        self._workers: dict[str, ShownWorker] = {}

    def feed(self, marked: e.AgentEvent, calls: Collection[str]) -> FinishedCall | HeldNote | None:
        """Process an event; return a line to show beside the tree, if any. The result of an open call in `calls`
        reports the end of its worker itself."""
        inner = marked.event
        if isinstance(inner, e.Notice) and inner.warning:
            return HeldNote(f"{marked.agent}: {describe_notice(inner, at_terminal=self._commands)}", "warn")
        if not isinstance(inner, e.WorkerState):
            if worker := self._workers.get(marked.agent):
                self._note_work(worker, inner)
                if self._shows_calls and isinstance(inner, e.ToolCallEvent):
                    return HeldNote(f"{worker.id} {worker.doing}", "dim")
            return None
        worker = self._note_state(dict(inner.worker))
        if not worker.has_ended:
            return None if self._drawn or worker.is_waiting else HeldNote(describe_worker(worker.row), "dim")
        if worker not in self.roots or worker.row["call"] in calls:
            return None
        why, state = str(worker.row["error"]), worker.row["state"]
        result = ToolResult(warning=why) if state == "finished" else ToolResult(error=why or state)
        finished = FinishedCall(ToolCall("", NAME, {}), "", result, worker.row["seconds"])
        return self._with_facts(finished, worker)

    def complete(self, finished: FinishedCall) -> FinishedCall:
        """Return the outcome of a call with what its worker did, if it has started one."""
        worker = self.of_call(finished.call)
        return self._with_facts(finished, worker) if worker else finished

    def _with_facts(self, finished: FinishedCall, worker: ShownWorker) -> FinishedCall:
        """Return the outcome with the worker's name, task and figures, the beginning of its report, its own workers and
        the command that shows its changes."""
        subject = f"{worker.id} {worker.task}"
        if not worker.has_ended:
            return replace(finished, subject=subject, figures=["in the background"])
        below = worker.report_lines() if not finished.result.error else []
        below += [describe_worker(shown_worker.row) for shown_worker in self.below(worker)]
        if worker.row["to_review"]:
            tree = worker.row["worktree"]
            review_command = f"/agents review {worker.id}" if self._commands else f"nexus worktree diff {tree}"
            below.append(f"{review_command} (worktree {tree})")  # a command to be typed is not cut off
        elif worker.row["left"]:
            below.append(one_line(worker.row["left"]))
        result = replace(finished.result, error=for_person(finished.result.error))
        return replace(finished, subject=subject, result=result, figures=worker_figures(worker.row), below=below)

    def _note_state(self, row: JsonDict) -> ShownWorker:
        worker = self._workers.get(row["id"])
        if worker is None or worker.has_ended:
            worker = self._workers[row["id"]] = ShownWorker(row, self._clock())
        else:
            worker.row = row
        if row["state"] == "running":
            worker.began = self._clock() - row["seconds"]  # of all its work, as its steps and tokens are
        worker.open_calls.clear()
        return worker

    def _note_work(self, worker: ShownWorker, inner: e.Event) -> None:
        match inner:
            case e.StepStart():
                worker.doing = "waiting for the model"
            case e.Retry() | e.CompactionStart():
                worker.doing = one_line(describe_event(inner)[:LONGEST])
            case e.ToolCallEvent():
                worker.doing = one_line(f"{inner.call.name} {inner.subject[:LONGEST]}")
            case e.ApprovalRequest():
                worker.open_calls.add(inner.question.call.id)
            case e.ApprovalAnswer():
                worker.open_calls.discard(inner.call_id)
            case e.StepEnd():
                used, cost = inner.usage, inner.usage.cost_usd
                row = worker.row
                row["steps"] += not inner.is_repeated
                row["tokens"] += used.tokens
                row["cost_usd"] = None if cost is None or row["cost_usd"] is None else row["cost_usd"] + cost
            case e.TurnEnd():
                worker.report = inner.outcome.text
                worker.open_calls.clear()
            case _:
                pass

    def forget(self, *, ended: bool = False) -> None:
        """Forget all workers, or with `ended` those that have ended together with all of their own."""
        self._workers = {
            id_: worker for id_, worker in self._workers.items() if ended and not self._workers[_root(id_)].has_ended
        }

    @property
    def are_counted(self) -> bool:
        """True if the figures of the turn include those of a worker, which has ended."""
        return any(worker.has_ended for worker in self._workers.values())

    @property
    def asks(self) -> bool:
        """True if a question about a worker's call is open."""
        return any(worker.open_calls for worker in self._workers.values())

    def of_call(self, call: ToolCall) -> ShownWorker | None:
        """Return the worker that a call of the session started."""
        roots = self.roots if find_called_tool(call).delegates else ()
        return next((root for root in roots if root.row["call"] == call.id), None)

    def besides(self, calls: Collection[str]) -> list[ShownWorker]:
        """Return the session's own active workers that belong to none of the open `calls`."""
        return [root for root in self.roots if not root.has_ended and root.row["call"] not in calls]

    @property
    def roots(self) -> list[ShownWorker]:
        """Return the session's own workers."""
        return [worker for id_, worker in self._workers.items() if id_ == _root(id_)]

    def below(self, worker: ShownWorker) -> list[ShownWorker]:
        """Return the workers of a worker, each followed by its own."""
        return [inner_worker for id_, inner_worker in self._workers.items() if id_.startswith(f"{worker.id}.")]

    def running_lines(self, worker: ShownWorker, width: int, theme: Theme) -> list[str]:
        """Return the line of a worker and those of its own workers, each in at most `width` cells."""
        return [self._line(shown_worker, width, theme) for shown_worker in (worker, *self.below(worker))]

    def _line(self, worker: ShownWorker, width: int, theme: Theme) -> str:
        signs = theme.signs
        sign, role = (signs.waiting, "dim") if worker.is_waiting else (signs.running, "accent")
        if worker.has_ended:
            sign, role = (signs.warn, "warn") if worker.row["error"] else (signs.ok, "ok")
            sign, role = (sign, role) if worker.row["state"] == "finished" else (signs.error, "error")
        indent = ("    " if width >= 40 else "  ") * worker.id.count(".")
        name = worker.id if width < NARROW or indent else f"agent {worker.id}"
        seconds = worker.row["seconds"] if worker.has_ended else self._clock() - worker.began
        time = "" if worker.is_waiting else f"  {seconds:.0f} s"
        room = width - cells(f"{indent}{sign} {name} {time}")
        if room < 4:
            return theme.paint(role, theme.cut(f"{indent}{sign} {name}", width))
        activity, figures = _describe_activity(worker), worker_figures(worker.row)
        doing = theme.dot + activity if activity else ""
        least = min(LEAST, cells(worker.task + doing))
        tail = "".join(theme.dot + figure for figure in figures)
        while figures and cells(tail) > room - least:
            tail = tail.removesuffix(theme.dot + figures.pop())
        room -= cells(tail)
        task = theme.cut(worker.task, max(room // 2, room - cells(doing)))
        activity = theme.cut(activity, max(0, room - cells(task + theme.dot)))
        middle = theme.paint("dim", theme.dot) + theme.paint("warn" if worker.open_calls else "dim", activity)
        head = indent + theme.paint(role, f"{sign} ") + theme.paint("tool", name)
        return f"{head} {task}{middle if activity else ''}{theme.paint('dim', tail + time)}"


def _describe_activity(worker: ShownWorker) -> str:
    """Return its current activity, or its state."""
    if worker.has_ended:
        return str(worker.row["state"])
    if worker.is_waiting:
        return "waiting for a free slot"
    return "asks you" if worker.open_calls else worker.doing


def _root(worker_id: str) -> str:
    """Return the id of the session's own worker at the root of `worker_id`, possibly itself."""
    return worker_id.partition(".")[0]
