"""Ask the person in a space for the approvals that runs of its agents wait for.

The answer is recorded in the ledger, for whichever process drives the run. A question that was answered elsewhere
closes, and says who answered it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import WAITING, Run
from nexus_cli.ledger import Ledger
from nexus_cli.runs.run_approvals import NO, SESSION, YES, answer_run, answers_of, asks_approval
from nexus_cli.text.cells import one_line, wrap
from nexus_cli.text.hidden_signs import mark_hidden_signs, mark_on_one_line
from nexus_cli.ui.print.approver import is_command_answer
from nexus_cli.ui.render.question_text import AnswerKey
from nexus_cli.ui.repl.view import ReplView

SHOWN = 2_000
"""Most characters of a call that are shown."""
WORDS = {"y": YES, "yes": YES, "s": SESSION, "session": SESSION, "n": NO, "no": NO}
RunClaim = tuple[int, int]
"""Key and claim of a run: the same run may ask again."""


@dataclass(slots=True)
class _OpenQuestion:
    """The question of one run at this terminal."""

    run: Run
    name: str
    """Name of the agent."""
    task: asyncio.Task[None] | None = None
    is_answered: bool = False
    """True once the person here has answered: the answer is being recorded."""

    @property
    def is_closed(self) -> bool:
        return self.is_answered or self.task is None or self.task.done()


class ApprovalQuestions:
    """The open questions of one view, one for each run that waits for approval."""

    def __init__(self, ledger: Ledger, view: ReplView, show_note: Callable[[str, str], None], person: str) -> None:
        """`person` is the name that an answer is recorded with."""
        self._ledger, self._view, self._show_note, self._person = ledger, view, show_note, person
        self._asked: dict[RunClaim, _OpenQuestion] = {}

    def find_answers(self, runs: Sequence[Run]) -> dict[RunClaim, Mapping[str, Any]]:
        """Return the answers that the questions of `runs`, and those that are open here, have in the ledger."""
        waiting = {(run.key, run.fence): run for run in runs if run.state == WAITING and asks_approval(run)}
        asked = {key: one.run for key, one in list(self._asked.items())}
        found = {key: self._find_answer(run, taken=key not in waiting) for key, run in (asked | waiting).items()}
        return {key: answer for key, answer in found.items() if answer is not None}

    def _find_answer(self, run: Run, *, taken: bool) -> Mapping[str, Any] | None:
        """Return the answer to the questions of a run, with `taken` also one that it has taken."""
        assert run.waits is not None
        table = self._ledger.runs
        answers = answers_of([*(table.signals(run.key, taken=True) if taken else ()), *table.signals(run.key)])
        return next((answers[one["call"]] for one in run.waits.value["questions"] if one["call"] in answers), None)

    def follow(
        self, runs: Sequence[Run], names: Mapping[int, str], answers: Mapping[RunClaim, Mapping[str, Any]]
    ) -> None:
        """Ask for the approvals that `runs` wait for now, and withdraw the other questions; `answers` are those of
        `find_answers`."""
        waiting = {
            (run.key, run.fence): run
            for run in runs
            if run.state == WAITING and asks_approval(run)
            if self._ledger.runs.is_own(run)
        }
        for key in self._asked.keys() - (waiting.keys() - answers.keys()):
            one = self._asked.pop(key)
            if one.task is not None and not one.is_closed:
                one.task.cancel()
                if key in answers:
                    self._show_note(_describe_answer(answers[key], one), "dim")
        for key, run in waiting.items():
            if key not in self._asked and key not in answers:
                one = self._asked[key] = _OpenQuestion(run, names.get(run.entity or 0, "an agent"))
                one.task = asyncio.create_task(self._ask(one))

    def ask_again(self) -> bool:
        """Ask what was left unanswered; False if nothing was. `follow` asks."""
        closed = [key for key, one in self._asked.items() if one.is_closed and not one.is_answered]
        for key in closed:
            del self._asked[key]
        return bool(closed)

    def close(self) -> None:
        """Withdraw all questions."""
        for one in self._asked.values():
            if one.task is not None:
                one.task.cancel()

    async def _ask(self, one: _OpenQuestion) -> None:
        run, name = one.run, one_line(one.name)
        assert run.waits is not None, "it waits for approval"
        lines = [line for question in run.waits.value["questions"] for line in _describe(question)]
        self._view.notify(f"{name} waits for your approval", waits=True)
        rows = [row for line in lines for row in wrap(mark_hidden_signs(line), self._view.width - 1)]
        text, prompt = "\n".join(rows) + "\n", f"{name} wants to do this ({run.id})?"
        said = (await self._view.question(text, prompt, _answer_keys(run.waits.value["questions"])) or "").strip()
        if not said or is_command_answer(said):
            way = f"/approve asks again, or nexus runs resume {run.id} --answer yes"
            self._show_note(f"{name} still waits for approval: {way}", "warn")
            return
        one.is_answered = True
        try:
            self._show_note(await asyncio.to_thread(self._record, one, *_read_answer(said)), "dim")
        except NexusError as error:
            one.is_answered = False
            self._show_note(error.line, "error")

    def _record(self, one: _OpenQuestion, answer: str, text: str) -> str:
        """Record an answer, and return the line for the person: another one may have been first."""
        run = one.run
        assert run.waits is not None
        asked = len(run.waits.value["questions"])
        if answer_run(self._ledger, run, [answer] * asked, [text] * asked, self._person):
            return _describe_answer({"answer": answer, "text": text, "by": "you"}, one)
        if earlier := self._find_answer(run, taken=True):
            return f"already answered: {_describe_answer(earlier, one)}"
        return f"{one_line(one.name)} ({run.id}) asks no more"


def _answer_keys(questions: Sequence[Mapping[str, str]]) -> tuple[AnswerKey, ...]:
    """Return the keys of the questions of one run; the yes for the rest of the run names what it covers."""
    covers = dict.fromkeys(mark_on_one_line(one.get("always") or "this call") for one in questions)
    return AnswerKey("y", "yes"), AnswerKey("s", f"session: {'; '.join(covers)}"), AnswerKey("n", "no")


def _read_answer(said: str) -> tuple[str, str]:
    """Return the answer and its words: only a yes alone approves, all other words are the reason of a refusal."""
    if (answer := WORDS.get(said.casefold())) is not None:
        return answer, ""
    word, _, reason = said.partition(" ")
    return NO, reason.strip() if WORDS.get(word.casefold()) == NO else said


def _describe_answer(answer: Mapping[str, Any], one: _OpenQuestion) -> str:
    """Return `Ana said yes to Scout (run-1)`, and the words of a refusal."""
    text = one_line(str(answer.get("text") or ""))
    said = {NO: "no", SESSION: "yes, for the rest of the run,"}.get(answer["answer"], "yes")
    who = one_line(str(answer.get("by") or "somebody"))
    return f"{who} said {said} to {one_line(one.name)} ({one.run.id})" + (f": {text}" if text else "")


def _describe(question: Mapping[str, str]) -> list[str]:
    """Return the lines about one call: what it does, why it asks, and its detail unless that says the same."""
    what, detail = question["what"][:SHOWN], question.get("detail", "")[:SHOWN]
    lines = [mark_on_one_line(what) + (f" ({one_line(question['why'])})" if question.get("why") else "")]
    return lines + ([f"  {line}" for line in detail.splitlines()] if detail and detail not in what else [])
