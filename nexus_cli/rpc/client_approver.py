"""The questions of one agent, answered by a client; refused if no client listens."""

from __future__ import annotations

import asyncio

from nexus_cli.core.approval import Allow, Answer, Defer, Deny, Question
from nexus_cli.core.event import question_id
from nexus_cli.rpc.jsonrpc import INVALID_PARAMS, REFUSED, RpcError

NOBODY = "no client listens to this agent, so nobody can be asked"
ANSWERS = ("once", "session", "no")
GRACE_SECONDS = 30.0
"""Seconds that a question waits for a client to reconnect."""


class ClientApprover:
    """An `Approver` whose person is at the other end of a connection."""

    def __init__(self) -> None:
        self._listeners = 0
        self._waiting: dict[str, asyncio.Future[Answer]] = {}
        self._asked: set[str] = set()
        """Questions that a call waits for."""
        self._timer: asyncio.TimerHandle | None = None
        self._ending = False

    @property
    def is_asking(self) -> bool:
        """True if any question waits for its answer."""
        return any(map(self.is_waiting, self._waiting))

    def is_waiting(self, key: str) -> bool:
        """True if this question waits for its answer."""
        return key in self._waiting and not self._waiting[key].done()

    def expect(self, key: str) -> asyncio.Future[Answer]:
        """Accept answers to a question from now on: a client may know of it before `ask` is called."""
        if key not in self._waiting:
            self._waiting[key] = asyncio.get_running_loop().create_future()
        return self._waiting[key]

    def forget(self, key: str = "") -> None:
        """Accept no more answers to a question that is settled; without an id, to any that no call waits for."""
        for one in [key] if key else self._waiting.keys() - self._asked:
            self._waiting.pop(one, None)

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

    def answer(self, key: str, answer: str, words: str = "") -> None:
        """Answer a waiting question, else raise `RpcError`. A refusal without words stops the turn, as a person's."""
        if words and answer != "no":
            raise RpcError(INVALID_PARAMS, "words are only allowed with the answer no")
        if not self.is_waiting(key):
            raise RpcError(REFUSED, f"no question {key[:80]} is waiting for an answer")
        refusal = Deny(words, by="client", stops=not words)
        self._waiting[key].set_result(refusal if answer == "no" else Allow(always=answer == "session"))

    def attach_client(self) -> None:
        """Record that a client listens."""
        self._listeners += 1
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def detach_client(self) -> None:
        """Record that a client left. After the last one, questions wait for `GRACE_SECONDS`, then they are refused."""
        self._listeners -= 1
        if not self._listeners and self.is_asking:
            self._timer = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._refuse)

    def end(self) -> None:
        """Defer all questions, present and later ones: they are asked again when the session is resumed."""
        self._ending = True
        self._settle(Defer())

    def _refuse(self) -> None:
        self._timer = None
        self._settle(Deny(NOBODY, said=False))

    def _settle(self, answer: Answer) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(answer)
