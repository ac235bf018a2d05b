"""The questions of one agent, answered by a client; refused if no client listens."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nexus_cli.core.approval import Allow, Answer, Defer, Deny, PersonQuestion, Question
from nexus_cli.core.event import Event, PersonAnswered, PersonAsked, question_id
from nexus_cli.rpc.event_feed import FeedItem
from nexus_cli.rpc.jsonrpc import INVALID_PARAMS, REFUSED, RpcError

NOBODY = "no client is connected to this agent, so nobody can be asked"
ANSWERS = ("once", "session", "no")
GRACE_SECONDS = 30.0
"""Seconds that a question waits for a client to reconnect."""


@dataclass(slots=True)
class OpenQuestion:
    """A question to the clients of an agent."""

    answer: asyncio.Future[Any]
    """Gets an `Answer`, or of questions of the model a text for each."""
    item: FeedItem | None = None
    """Its event, for a client that comes later."""
    is_called: bool = False
    """True while a call or the model waits for the answer."""
    is_of_model: bool = False

    @property
    def is_waiting(self) -> bool:
        """True if it waits for its answer."""
        return not self.answer.done()


class ClientApprover:
    """An `Approver` whose person is at the other end of a connection."""

    def __init__(self) -> None:
        self.publish: Callable[[Event], None] = lambda event: None
        """Sends an event to the clients."""
        self._listeners = 0
        self._persons = 0
        """Number of those that show questions of the model to a person."""
        self._questions: dict[str, OpenQuestion] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._ending = False

    @property
    def waiting(self) -> list[OpenQuestion]:
        """The questions that wait for an answer."""
        return [question for question in self._questions.values() if question.is_waiting]

    def expect(self, key: str, item: FeedItem | None = None) -> OpenQuestion:
        """Accept answers to a question from now on: a client may know of its event `item` before `ask` is called."""
        question = self._questions.setdefault(key, OpenQuestion(asyncio.get_running_loop().create_future()))
        question.item = item or question.item
        return question

    def forget(self, key: str = "") -> None:
        """Accept no more answers to a question that is settled; without an id, to any that no call waits for."""
        if key:
            self._questions.pop(key, None)
        else:
            self._questions = {key: question for key, question in self._questions.items() if question.is_called}

    async def ask(self, question: Question) -> Answer:
        """Return the answer of a client; see `Approver`."""
        if self._ending:
            return Defer()
        key = question_id(question.call.id, question.agent)
        if not self._listeners and not self._timer:
            self.forget(key)
            return Deny(NOBODY, said=False)
        open_question = self.expect(key)
        open_question.is_called = True
        try:
            answer: Answer = await open_question.answer
            return answer
        finally:
            self.forget(key)

    @property
    def can_ask(self) -> bool:
        """True if a person at a client can answer questions of the model."""
        return self._persons > 0 and not self._ending

    async def put_questions(self, questions: Sequence[PersonQuestion]) -> list[str]:
        """Return the answers of a person at a client, [] if it leaves; see `QuestionAsker`."""
        if self._ending:
            return []
        key = secrets.token_hex(4)
        open_question = self.expect(key)
        open_question.is_called = open_question.is_of_model = True
        self._watch()
        self.publish(PersonAsked(key, tuple(questions)))
        try:
            return [*await open_question.answer][: len(questions)]
        finally:
            self.forget(key)
            self.publish(PersonAnswered(key))

    def answer_questions(self, key: str, answers: Sequence[str]) -> None:
        """Answer questions of the model, else raise `RpcError`; fewer answers leave the others without one."""
        self._answer(key, answers, is_of_model=True)

    def answer(self, key: str, answer: str, words: str = "") -> None:
        """Answer a waiting question, else raise `RpcError`. A refusal without words stops the turn, as a person's."""
        if words and answer != "no":
            raise RpcError(INVALID_PARAMS, 'words are only allowed with the answer "no"')
        refusal = Deny(words, by="client", stops=not words)
        self._answer(key, refusal if answer == "no" else Allow(always=answer == "session"), is_of_model=False)

    def _answer(self, key: str, answer: Answer | Sequence[str], *, is_of_model: bool) -> None:
        question = self._questions.get(key)
        if question is None or not question.is_waiting or question.is_of_model is not is_of_model:
            raise RpcError(REFUSED, f"no question {key[:80]} is waiting for an answer")
        question.answer.set_result(answer)

    def attach_client(self, *, has_person: bool = False) -> None:
        """Record that a client listens; `has_person` if it shows questions of the model to a person."""
        self._listeners += 1
        self._persons += has_person
        self._watch()

    def detach_client(self, *, has_person: bool) -> None:
        """Record that a client left. Questions that nobody can answer, also those that come after the last client left,
        are refused after `GRACE_SECONDS`."""
        self._listeners -= 1
        self._persons -= has_person
        self._watch()

    def _watch(self) -> None:
        """Begin the time after which questions that nobody can answer are refused, or end it if there are none."""
        if self._listeners and (self._persons or not any(question.is_of_model for question in self.waiting)):
            if self._timer:
                self._timer.cancel()
            self._timer = None
        elif not self._timer:
            self._timer = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._refuse)

    def end(self) -> None:
        """Defer all questions, present and later ones: they are asked again when the session is resumed."""
        self._ending = True
        self._settle(Defer())

    def _refuse(self) -> None:
        self._timer = None
        self._settle(None if self._listeners else Deny(NOBODY, said=False), has_person=self._persons > 0)

    def _settle(self, answer: Answer | None, *, has_person: bool = False) -> None:
        """Settle the questions by `answer` if there is one, and those of the model without one unless a person can
        answer them."""
        for question in self.waiting:
            if question.is_of_model and not has_person:
                question.answer.set_result(())
            elif answer and not question.is_of_model:
                question.answer.set_result(answer)
