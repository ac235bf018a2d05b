"""Ask the person in a space for the approvals that runs of its agents wait for.

The answer is recorded in the ledger, for whichever process drives the run. A question that was answered elsewhere
closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.run import APPROVAL, WAITING, Run
from nexus_cli.ledger import Ledger
from nexus_cli.text.cells import one_line
from nexus_cli.text.terminal_sanitizer import sanitize
from nexus_cli.ui.render.question_text import AnswerKey
from nexus_cli.ui.repl.view import ReplView

KEYS = (AnswerKey("y", "yes"), AnswerKey("n", "no"))
SHOWN = 2_000
"""Most characters of a call that are shown."""
WORDS = {"y": "yes", "yes": "yes", "n": "no", "no": "no"}


class ApprovalQuestions:
    """The open questions of one view, one for each run that waits for approval."""

    def __init__(self, ledger: Ledger, view: ReplView, show_note: Callable[[str, str], None]) -> None:
        self._ledger, self._view, self._show_note = ledger, view, show_note
        self._asked: dict[tuple[int, int], asyncio.Task[None]] = {}
        """By key and claim of the run: the same run may ask again."""

    def follow(self, runs: Sequence[Run], names: Mapping[int, str]) -> None:
        """Ask for the approvals that `runs` wait for now, and withdraw the other questions."""
        waiting = {
            (run.key, run.fence): run
            for run in runs
            if run.state == WAITING and run.waits is not None and run.waits.kind == APPROVAL
            if self._ledger.runs.may_answer(run)
        }
        for key in self._asked.keys() - waiting.keys():
            self._asked.pop(key).cancel()
        for key, run in waiting.items():
            if key not in self._asked:
                self._asked[key] = asyncio.create_task(self._ask(run, names.get(run.entity or 0, "an agent")))

    def ask_again(self) -> bool:
        """Ask what was left unanswered; False if nothing was. `follow` asks."""
        closed = [key for key, task in self._asked.items() if task.done()]
        for key in closed:
            del self._asked[key]
        return bool(closed)

    def close(self) -> None:
        """Withdraw all questions."""
        for task in self._asked.values():
            task.cancel()

    async def _ask(self, run: Run, name: str) -> None:
        assert run.waits is not None, "it waits for approval"
        questions = run.waits.value["questions"]
        lines = [line for one in questions for line in _describe(one)]
        self._view.notify(one_line(f"{name} waits for your approval"), waits=True)
        text, prompt = sanitize("\n".join(lines)) + "\n", f"{one_line(name)} wants to do this ({run.id})?"
        said = await self._view.question(text, prompt, KEYS) or ""
        word, _, reason = said.strip().partition(" ")
        answer = WORDS.get(word.casefold())
        if answer is None:
            self._view.fill(said)  # words for the space
            way = f"/approve asks again, or nexus runs resume {run.id} --answer yes"
            self._show_note(f"{one_line(name)} still waits for approval: {way}", "warn")
            return
        value = {"calls": [one["call"] for one in questions], "answer": answer, "text": reason.strip()}
        await asyncio.to_thread(
            lambda: self._ledger.runs.signal(run.key, APPROVAL, value, format_utc(local_now()), once=True)
        )


def _describe(question: Mapping[str, str]) -> list[str]:
    """Return the lines about one call: what it does, why it asks, and its detail unless that says the same."""
    what, detail = question["what"][:SHOWN], question.get("detail", "")[:SHOWN]
    lines = [one_line(what) + (f" ({one_line(question['why'])})" if question.get("why") else "")]
    return lines + ([f"  {line}" for line in detail.splitlines()] if detail and detail not in what else [])
