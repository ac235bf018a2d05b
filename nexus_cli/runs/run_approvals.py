"""Approvals of calls of unattended runs: a question waits in the ledger until a person answers it.

The answer is a signal of kind `approval`: `answers` by the id of the call, each with `answer` and a `text`. Yes for the
session covers later questions of the same scope too, however often the run waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from nexus_cli.config.settings import Settings
from nexus_cli.core.approval import DEFINITION, Allow, Answer, Approver, Defer, Deny, Question
from nexus_cli.core.clock import utc_now
from nexus_cli.core.elide import name_first, one_line
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import ToolCall
from nexus_cli.core.run import APPROVAL, Run, Signal, Wait
from nexus_cli.ledger import Ledger
from nexus_cli.spaces.people import own_name

YES, SESSION, NO = ANSWERS = ("yes", "session", "no")
"""`session`: yes, also to what the question calls "always", for the rest of the run."""
LONGEST_DETAIL = 20_000
"""Most characters of a call that are kept with its question."""


def answers_of(signals: Sequence[Signal]) -> dict[str, JsonObject]:
    """Return the answers that approval signals hold, by the id of their call."""
    answers: dict[str, JsonObject] = {}
    for answer in (signal.value for signal in signals if signal.kind == APPROVAL):
        answers |= answer.get("answers") or dict.fromkeys(answer.get("calls", ()), answer)
    return answers


def _scope(question: Question) -> list[str]:
    """Return the scope of a yes for the session: the rules that the question offers, all edits, or this call alone."""
    if question.stores and question.kind != DEFINITION:
        return ["rule", question.kind, question.profile, *question.stores]
    if question.kind == "edit":
        return [question.kind]
    return [question.kind, question.what, question.detail, question.profile]


@dataclass
class RunApprover:
    """Gives the person's recorded answers to an earlier question; defers every other question, or asks `person`."""

    answers: Mapping[str, JsonObject]
    """See `answers_of`."""
    person: Approver | None = None
    """The person, if one is present."""
    deferred: list[Question] = field(default_factory=list)

    async def ask(self, question: Question) -> Answer:
        """Return the answer to a question."""
        recorded = self.answers.get(question.call.id)
        if recorded and question.kind == DEFINITION and recorded.get("scope") != _scope(question):
            recorded = None  # the server has changed the definition once more
        if recorded is not None:
            if recorded["answer"] == NO:
                return Deny(str(recorded.get("text") or ""), name=one_line(str(recorded.get("by") or "")))
            return Allow(always=recorded["answer"] == SESSION)
        if any(
            earlier["answer"] == SESSION and earlier.get("scope") == _scope(question)
            for earlier in self.answers.values()
        ):
            return Allow()
        answer = await self.person.ask(question) if self.person is not None else Defer()
        if isinstance(answer, Defer) or (isinstance(answer, Deny) and not answer.said):
            self.deferred.append(question)
            return Defer()
        # Nobody can talk to a run: it continues without the call.
        return replace(answer, stops=False) if isinstance(answer, Deny) else answer

    def make_wait(self) -> Wait | None:
        """Return the wait for answers to the deferred questions."""
        if not self.deferred:
            return None
        questions = [
            {
                "call": question.call.id,
                "tool": question.call.name,
                "what": question.what,
                "why": question.why,
                "detail": question.detail[:LONGEST_DETAIL],
                "always": question.always,
                "kind": question.kind,
                "profile": question.profile,
                "scope": _scope(question),
            }
            for question in self.deferred
        ]
        first_question = name_first([question.what[:200] for question in self.deferred], 1)
        return Wait(APPROVAL, f"approval: {first_question}", {"questions": questions})


def asks_approval(run: Run) -> bool:
    """True if a run waits for a person's approval."""
    return run.waits is not None and run.waits.kind == APPROVAL


def require_own(ledger: Ledger, run: Run) -> None:
    """Raise `UsageError` if a run works on the machines of another person, whom it asks."""
    if not ledger.runs.is_own(run):
        why = f"this run belongs to {run.principal} and executes on their machine"
        raise UsageError(run.id, why, f"To see its report: nexus runs show {run.id}")


def name_person(ledger: Ledger, settings: Settings) -> str:
    """Return the name of the person at this machine, "" if nothing gives one."""
    with suppress(NexusError):
        return own_name(ledger, settings)
    return ""


def answer_run(ledger: Ledger, run: Run, answers: Sequence[str], texts: Sequence[str] = (), by: str = "") -> bool:
    """Record the answers to all questions of a run that waits: each one of `ANSWERS`, in their order, with the name of
    who gave them. Return False if it no longer waits for them; raise as `require_own` does."""
    assert run.waits is not None
    require_own(ledger, run)
    texts = texts or [""] * len(answers)
    by_call = {
        question["call"]: {"answer": answer, "text": text, "scope": question.get("scope"), **({"by": by} if by else {})}
        for question, answer, text in zip(run.waits.value["questions"], answers, texts, strict=True)
    }
    return ledger.runs.signal_wait(run, APPROVAL, {"answers": by_call}, utc_now())


async def ask_person(ledger: Ledger, run: Run, approver: Approver, by: str, asker: str) -> bool | None:
    """Ask a person, whose name is `by`, the questions of a run as those of `asker`, and record the answers; return
    None if one got none, False if the run waits no longer. Raises as `require_own` does."""
    assert run.waits is not None
    require_own(ledger, run)
    asking = [
        asyncio.ensure_future(approver.ask(_read_question(question, asker)))
        for question in run.waits.value["questions"]
    ]
    answers, texts = list[str](), list[str]()
    try:
        for task in asking:
            match await task:
                case Allow(always):
                    answers.append(SESSION if always else YES)
                    texts.append("")
                case Deny(why, True):
                    answers.append(NO)
                    texts.append(why)
                case _:
                    return None
    finally:
        for task in asking:
            task.cancel()
    return await asyncio.to_thread(answer_run, ledger, run, answers, texts, by)


def _read_question(stored: Mapping[str, str], asker: str) -> Question:
    """Return the question that `make_wait` has stored."""
    name = stored.get("tool") or stored["what"].partition(" ")[0]
    return Question(
        ToolCall(stored["call"], name),
        stored["what"],
        stored.get("why", ""),
        stored.get("detail", ""),
        stored.get("always", ""),
        stored.get("kind", "run"),
        profile=stored.get("profile", ""),
        run=asker,
    )
