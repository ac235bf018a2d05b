"""The questions of one agent, answered by a client; refused if no client listens."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from nexus_cli.core.approval import Allow, Answer, Defer, Deny, PersonQuestion, Question
from nexus_cli.core.event import Event, PersonAnswered, PersonAsked, question_id
from nexus_cli.rpc.jsonrpc import INVALID_PARAMS, REFUSED, RpcError

NOBODY = "no client is connected to this agent, so nobody can be asked"
ANSWERS = ("once", "session", "no")
GRACE_SECONDS = 30.0
"""Seconds that a question waits for a client to reconnect."""


class ClientApprover:
    """An `Approver` whose person is at the other end of a connection."""

    def __init__(self) -> None:
        self.publish: Callable[[Event], None] = lambda event: None
        """Sends an event to the clients."""
        self._listeners = 0
        self._persons = 0
        """Number of those that show questions of the model to a person."""
        self._put: dict[str, asyncio.Future[Sequence[str]]] = {}
        """Questions of the model."""
        self._waiting: dict[str, asyncio.Future[Answer]] = {}
        self._asked: set[str] = set()
        """Questions that a call waits for."""
        self._timer: asyncio.TimerHandle | None = None
        self._ending = False

    @property
    def is_asking(self) -> bool:
        """True if any question waits for its answer."""
        return any(map(self.is_waiting, (*self._waiting, *self._put)))

    def is_waiting(self, key: str) -> bool:
        """True if this question waits for its answer."""
        waiting: asyncio.Future[Any] | None = self._waiting.get(key) or self._put.get(key)
        return waiting is not None and not waiting.done()

    def expect(self, key: str) -> asyncio.Future[Answer]:
        """Accept answers to a question from now on: a client may know of it before `ask` is called."""
        if key not in self._waiting:
            self._waiting[key] = asyncio.get_running_loop().create_future()
        return self._waiting[key]

    def forget(self, key: str = "") -> None:
        """Accept no more answers to a question that is settled; without an id, to any that no call waits for."""
        for waiting_key in [key] if key else self._waiting.keys() - self._asked:
            self._waiting.pop(waiting_key, None)

    async def ask(self, question: Question) -> Answer:
        """Return the answer of a client; see `Approver`."""
        if self._ending:
            return Defer()
        key = question_id(question.call.id, question.agent)
        if not self._listeners and not self._timer:
            self.forget(key)
            return Deny(NOBODY, said=False)
        answer = self.expect(key)
        self._asked.add(key)
        try:
            return await answer
        finally:
            self._asked.discard(key)
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
        self._put[key] = asyncio.get_running_loop().create_future()
        self._watch()
        self.publish(PersonAsked(key, tuple(questions)))
        try:
            return [*await self._put[key]][: len(questions)]
        finally:
            del self._put[key]
            self.publish(PersonAnswered(key))

    def answer_questions(self, key: str, answers: Sequence[str]) -> None:
        """Answer questions of the model, else raise `RpcError`; fewer answers leave the others without one."""
        if key not in self._put or self._put[key].done():
            raise RpcError(REFUSED, f"no question {key[:80]} is waiting for an answer")
        self._put[key].set_result(answers)

    def answer(self, key: str, answer: str, words: str = "") -> None:
        """Answer a waiting question, else raise `RpcError`. A refusal without words stops the turn, as a person's."""
        if words and answer != "no":
            raise RpcError(INVALID_PARAMS, 'words are only allowed with the answer "no"')
        if key not in self._waiting or self._waiting[key].done():
            raise RpcError(REFUSED, f"no question {key[:80]} is waiting for an answer")
        refusal = Deny(words, by="client", stops=not words)
        self._waiting[key].set_result(refusal if answer == "no" else Allow(always=answer == "session"))

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
        lonely = () if self._persons else self._put
        if self._listeners and not any(map(self.is_waiting, lonely)):
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
        if not self._listeners:
            self._settle(Deny(NOBODY, said=False))
        elif not self._persons:
            self._leave_unanswered()

    def _settle(self, answer: Answer) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(answer)
        self._leave_unanswered()

    def _leave_unanswered(self) -> None:
        for waiting in self._put.values():
            if not waiting.done():
                waiting.set_result(())
