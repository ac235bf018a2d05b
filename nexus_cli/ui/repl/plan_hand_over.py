"""Ask at the end of a turn in plan mode if the model should carry out its plan, and at which level.

The question is asked once for each plan. An answer in words is the next message.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from nexus_cli.core import event as e
from nexus_cli.core.limits import AUTO, EDIT, PLAN
from nexus_cli.core.shared_types import TakeText
from nexus_cli.ui.asked_question import AnswerKey, AskedQuestion, ask
from nexus_cli.ui.input.paste import TypedMessage
from nexus_cli.ui.repl.agent_connection import AgentConnection
from nexus_cli.ui.repl.input_queue import InputQueue
from nexus_cli.ui.repl.job_runner import Job, JobRunner
from nexus_cli.ui.repl.view import ReplView

KIND = "offer"
"""The job kind of this question."""
PROMPT = "Proceed with this plan?"
PROCEED = "Proceed with the plan."
"""The message to the model in the person's name."""


class PlanHandOver:
    """Offers to carry out the plan that a turn has proposed."""

    def __init__(
        self,
        agent: AgentConnection,
        view: ReplView,
        jobs: JobRunner,
        queue: InputQueue,
        show_note: TakeText,
    ) -> None:
        self._agent, self._view, self._jobs, self._queue, self._show_note = agent, view, jobs, queue, show_note

    def offer(self, ended: Job, outcome: e.Outcome | None) -> None:
        """Ask, if the finished job was a turn in plan mode with an answer, and no other work follows."""
        answered = ended.kind == "turn" and outcome is not None and outcome.ok and outcome.text.strip()
        if self._jobs.current is None and answered and self._agent.status.allow == PLAN:
            self._jobs.start(KIND, "", self._ask())

    def withdraw(self) -> bool:
        """Withdraw the question because the person does something else; False if it is not open."""
        if self._jobs.kind != KIND:
            return False
        self._jobs.stop()
        return True

    async def _ask(self) -> None:
        auto = [AnswerKey("a", "auto", AUTO, lasts=True)] if self._agent.status.has_sandbox else []
        no = AnswerKey("n", "no, keep planning", takes_words=True)
        keys = [AnswerKey("y", "yes, edit level", EDIT, lasts=True), *auto, no]
        with suppress(asyncio.CancelledError), self._jobs.wait_for_user():
            reply = await ask(self._view, AskedQuestion(PROMPT, keys))
            if reply is not None and reply.meaning:
                await self._agent.set_level(reply.meaning)
                self._show_note(f"Plan mode is off. Permission level: {self._agent.status.allow}.")
                self._send(PROCEED)
            elif reply is not None and reply.words:
                self._send(reply.words)

    def _send(self, words: str) -> None:
        self._queue.later.appendleft(TypedMessage(words, words))
