"""Ask at the end of a turn in plan mode if the model should carry out its plan, and at which level.

The question is asked once for each plan. An answer in words is the next message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from nexus_cli.core import event as e
from nexus_cli.core.plan_question import PROCEED, PROMPT, offer_levels
from nexus_cli.core.shared_types import TakeText
from nexus_cli.ui.asked_question import AnswerKey, AskedQuestion, ask
from nexus_cli.ui.input.paste import TypedMessage
from nexus_cli.ui.repl.agent_connection import AgentConnection
from nexus_cli.ui.repl.input_queue import InputQueue
from nexus_cli.ui.repl.job_runner import Job, JobRunner
from nexus_cli.ui.repl.view import ReplView

KIND = "offer"
"""The job kind of this question."""


@dataclass(frozen=True, slots=True)
class PlanHandOver:
    """Offers to carry out the plan that a turn has proposed."""

    agent: AgentConnection
    view: ReplView
    jobs: JobRunner
    queue: InputQueue
    show_note: TakeText

    def offer(self, ended: Job, outcome: e.Outcome | None) -> None:
        """Ask, if the finished job was a turn in plan mode with an answer, and no other work follows."""
        status = self.agent.status
        levels = offer_levels(outcome, status.allow, has_sandbox=status.has_sandbox)
        if levels and ended.kind == "turn" and self.jobs.current is None:
            self.jobs.start(KIND, "", self._ask_person(levels))

    def withdraw(self) -> bool:
        """Withdraw the question because the person does something else; False if it is not open."""
        if self.jobs.kind != KIND:
            return False
        self.jobs.stop()
        return True

    async def _ask_person(self, levels: Mapping[str, str]) -> None:
        keys = [
            AnswerKey(answer[0], answer, level, lasts=bool(level), takes_words=not level)
            for level, answer in levels.items()
        ]
        with suppress(asyncio.CancelledError), self.jobs.wait_for_user():
            reply = await ask(self.view, AskedQuestion(PROMPT, keys))
            if reply is None:
                return
            if reply.meaning:
                await self.agent.set_level(reply.meaning)
                self.show_note(f"Plan mode is off. Permission level: {self.agent.status.allow}.")
            if words := PROCEED if reply.meaning else reply.words:
                self.queue.later.appendleft(TypedMessage(words, words))
