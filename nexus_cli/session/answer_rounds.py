"""Hold the answer of a turn to a JSON Schema (`--schema`): tell the model, validate its answer, ask for repairs.

The schema binds the last answer of the turn: tools, workers, `--until` and hooks come first. A repair is a request of
the same turn, with its limits. The schema goes to the provider where that can enforce it (`provider/answer_format`),
else into the text of the request; both answers are validated (`answer_schema`).
"""

from __future__ import annotations

from dataclasses import replace

from nexus_cli.core import event
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.provider.answer_format import answer_format
from nexus_cli.session.answer_schema import AnswerSchema, Attempt
from nexus_cli.session.base_session import BaseSession
from nexus_cli.session.continuation import Continuation

MAX_REPAIRS = 2
MAX_SHARE = 4
"""A schema may take one in so many tokens of the budget: a message is elided in its middle, a schema must not be."""
DEMAND = (
    "Your final answer must be one JSON document that matches this JSON Schema, without a code fence or other words."
)


class AnswerRounds(Continuation):
    """The attempts of one turn."""

    def __init__(self, session: BaseSession, schema: str) -> None:
        super().__init__(session)
        self._schema = AnswerSchema(schema)
        self._attempts: list[Attempt] = []
        self._read = ""
        """The reply of the newest attempt."""
        self._is_told = False
        """True once the text of the schema is in the window."""

    def admit(self, *, has_message: bool) -> str:
        """Return the schema for the model, unless the provider enforces it. A turn that only continues is told with the
        first repair.

        Raises `UsageError` if the schema is too large for the window.
        """
        context = self._engine.context
        tokens = context.count(self._schema.text)
        if tokens * MAX_SHARE > context.budget.available:
            why = f"the schema has {tokens:,} tokens, more than a quarter of the context budget"
            raise UsageError("--schema", why, "Use a smaller schema, or a model with a larger window")
        self._engine.response_format = self._provider_format()
        if self._engine.response_format or not has_message:
            return ""
        self._is_told = True
        return f"{DEMAND}\n{self._block()}"

    async def next_message(self) -> str:
        """Validate the answer; return a request for a repair, or ""; raise `NexusError` after the last one."""
        self._engine.control.check_ending()
        # Not in a thread: a slow pattern of the schema can be interrupted in the main thread only.
        newest = self._read_answer(self._engine.partial_reply)
        if not newest.problems:
            return ""
        is_declined = self._schema.has_brackets and all(attempt.is_prose for attempt in self._attempts)
        if len(self._attempts) > (1 if is_declined else MAX_REPAIRS):
            raise self._failure()
        why = "the answer does not match the schema"
        if self._engine.spending.has_step:
            why += f"; requesting repair {len(self._attempts)} of {MAX_REPAIRS}"
        self._engine.control.emit_notice(f"{why}: {newest.problem}", warning=False)
        schema = "" if self._is_told else f"\n{DEMAND}\n{self._block()}"
        self._is_told = True
        problems = "\n".join(f"- {problem}" for problem in newest.problems)
        line = f"Your answer does not match the JSON Schema:\n{problems}"
        return f"{line}\nAnswer with the whole corrected JSON document alone.{schema}"

    def close(self, ended: event.Outcome) -> event.Outcome:
        """Return the outcome with the data of the answer; with the best attempt as its text if none matches."""
        self._engine.response_format = ""
        if ended.ok:
            is_read = self._attempts and self._read == ended.text  # else a message of the person followed
            newest = self._attempts[-1] if is_read else self._read_answer(ended.text)
            if not newest.problems:
                return replace(ended, data=newest.data, text=newest.text)
            ended = ended.with_error(self._failure())
        if not self._attempts or ended.is_partial:
            return ended
        return replace(ended, text=self._best.text)

    @property
    def _best(self) -> Attempt:
        """The newest attempt of those with the fewest problems."""
        return min(reversed(self._attempts), key=lambda attempt: attempt.distance)

    def _read_answer(self, reply: str) -> Attempt:
        self._attempts.append(self._schema.read_answer(reply))
        self._read = reply
        return self._attempts[-1]

    def _failure(self) -> NexusError:
        hint = "Relax the schema, or describe the answer in the prompt"
        return NexusError("schema", "the answer does not match the schema", self._best.problem, hint)

    def _block(self) -> str:
        return f"<schema>\n{self._schema.text}\n</schema>"

    def _provider_format(self) -> str:
        """Return the provider's argument for the schema; "" if the cached beginning of the session was sent with
        another one, because providers put it before that."""
        model, session = self._engine.model.info.name, self._session
        has_tools = bool(self._engine.conversation.epoch.tools)
        response_format = answer_format(model, self._schema.schema, has_tools=has_tools)
        last = None if session.has_no_ledger or not response_format else session.record.last_request()
        is_cached = last is not None and last.manifest.arguments.get("response_format", "") != response_format
        return "" if is_cached else response_format
