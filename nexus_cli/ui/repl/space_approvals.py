"""Ask the person in a space for the approvals that runs of its agents wait for.

The answer is recorded in the ledger, for whichever process drives the run. A question that was answered elsewhere
closes, and says who answered it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.run import APPROVAL, WAITING, Run
from nexus_cli.ledger import Ledger
from nexus_cli.reports.runs import name_signal
from nexus_cli.runs.run_approvals import answers_of, ask_person, asks_approval
from nexus_cli.text.cells import one_line
from nexus_cli.ui.print.approver import PersonApprover, describe_calls
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.repl.job_runner import JobRunner, ShowLine
from nexus_cli.ui.repl.view import ReplView

RunClaim = tuple[int, int]
"""Key and claim of a run: the same run may ask again."""
RunAnswers = Sequence[JsonObject]
"""The answers to the questions of a run."""


@dataclass(slots=True)
class _OpenQuestion:
    """The question of one run at this terminal."""

    run: Run
    name: str
    """Name of the agent."""
    task: asyncio.Task[None] = field(init=False)
    is_answered: bool = False
    """True once the person here has answered."""

    @property
    def is_closed(self) -> bool:
        return self.is_answered or self.task.done()


class ApprovalQuestions:
    """The open questions of one view, one for each run that waits for approval."""

    def __init__(
        self, ledger: Ledger, view: ReplView, theme: Theme, show_note: ShowLine, jobs: JobRunner, person: str
    ) -> None:
        """`person` is the name that an answer is recorded with. `jobs` runs the questions."""
        self._ledger, self._view, self._theme, self._show_note = ledger, view, theme, show_note
        self._jobs, self._person = jobs, person
        self._open_questions: dict[RunClaim, _OpenQuestion] = {}

    def find_answers(self, runs: Sequence[Run]) -> dict[RunClaim, RunAnswers]:
        """Return the answers that the questions of `runs`, and those that are open here, have in the ledger."""
        waiting = {(run.key, run.fence): run for run in runs if run.state == WAITING and asks_approval(run)}
        asked_runs = {key: question.run for key, question in list(self._open_questions.items())}
        recorded = {
            key: self._find_answers(run, includes_taken=key not in waiting)
            for key, run in (asked_runs | waiting).items()
        }
        return {key: answers for key, answers in recorded.items() if answers}

    def _find_answers(self, run: Run, *, includes_taken: bool) -> RunAnswers:
        """Return the answers to the questions of a run, with `includes_taken` also those that it has taken."""
        assert run.waits is not None
        table = self._ledger.runs
        answers = answers_of(
            [*(table.signals(run.key, is_taken=True) if includes_taken else ()), *table.signals(run.key)]
        )
        return [answers[question["call"]] for question in run.waits.value["questions"] if question["call"] in answers]

    def follow(self, runs: Sequence[Run], names: Mapping[int, str], answers: Mapping[RunClaim, RunAnswers]) -> None:
        """Ask for the approvals that `runs` wait for now, and withdraw the other questions; `answers` are those of
        `find_answers`."""
        waiting = {
            (run.key, run.fence): run
            for run in runs
            if run.state == WAITING and asks_approval(run)
            if self._ledger.runs.is_own(run)
        }
        for key in self._open_questions.keys() - (waiting.keys() - answers.keys()):
            question = self._open_questions.pop(key)
            if not question.is_closed:
                question.task.cancel()
                if key in answers:
                    self._show_note(_describe_answers(answers[key], question), "dim")
        for key, run in waiting.items():
            if key not in self._open_questions and key not in answers:
                question = self._open_questions[key] = _OpenQuestion(run, names.get(run.entity or 0, "an agent"))
                question.task = self._jobs.start_background(self._ask(question))

    def ask_again(self) -> bool:
        """Ask what was left unanswered; False if nothing was. `follow` asks."""
        closed = [
            key for key, question in self._open_questions.items() if question.is_closed and not question.is_answered
        ]
        for key in closed:
            del self._open_questions[key]
        return bool(closed)

    async def _ask(self, question: _OpenQuestion) -> None:
        run, name = question.run, one_line(question.name)
        self._view.notify(f"{name} is waiting for your approval", waits=True)
        approver = PersonApprover(self._view, describe_calls(self._view, self._theme), escape="Esc later")
        recorded = await ask_person(self._ledger, run, approver, self._person, f"{name} ({run.id})")
        if recorded is None:
            hint = f"use /approve, or `nexus runs resume {run.id} --answer yes`"
            self._show_note(f"{name} is still waiting for approval: {hint}", "warn")
            return
        question.is_answered = recorded
        answers = await asyncio.to_thread(self._find_answers, run, includes_taken=True)
        if recorded:
            self._show_note(_describe_answers([{**answer, "by": "you"} for answer in answers], question), "dim")
        elif answers:
            self._show_note(f"already answered: {_describe_answers(answers, question)}", "dim")
        else:
            self._show_note(f"{name} ({run.id}) no longer needs approval", "dim")


def _describe_answers(answers: RunAnswers, question: _OpenQuestion) -> str:
    """Return `Scout (run-1): Ana said yes`, with the words of a refusal."""
    text = name_signal(APPROVAL, {"answers": dict(enumerate(answers))})
    return f"{one_line(question.name)} ({question.run.id}): {text}"
