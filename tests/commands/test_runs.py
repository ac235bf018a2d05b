"""`/runs resume` answers the question of a run, as `nexus runs resume` does."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from commands.conftest import FakeContext

from nexus_cli.commands import runs
from nexus_cli.core.approval import Allow, Answer, Question
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import AGENT, APPROVAL, HUMAN, Run, Wait

AT = "2026-02-18T15:06:55.000Z"
QUESTION = {"call": "c1", "tool": "bash", "what": "bash touch lock", "why": "", "detail": "", "scope": ["run"]}


@pytest.fixture
def run(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run that waits for approval; what continues it does nothing here."""

    async def drive(*of: object) -> None:
        pass

    monkeypatch.setattr(runs, "_drive", drive)
    ledger = context.session.ledger
    ana, scout = ledger.spaces.entity("Ana", HUMAN), ledger.spaces.entity("Scout", AGENT)
    ledger.spaces.post(ledger.spaces.create("Team", AT, members=[ana, scout]), ana, "@Scout look", AT)
    (queued,) = ledger.runs.due()
    claimed = ledger.runs.claim(queued.key, "elsewhere:1", 600.0, AT)
    assert claimed is not None
    ledger.runs.wait(claimed, Wait(APPROVAL, "approval: bash touch lock", {"questions": [QUESTION]}), AT)
    return ledger.runs.get(claimed.key)


def answers(context: FakeContext, run: Run) -> list[Any]:
    signals = context.session.ledger.runs.signals(run.key)
    return [answer["answer"] for signal in signals for answer in signal.value["answers"].values()]


def test_an_answer_is_given_as_an_option(context: FakeContext, run: Run) -> None:
    for wrong, why in (("run-1 --answer maybe", "must be one of"), ("--answer yes", "the run id is missing")):
        with pytest.raises(NexusError, match=why):
            context.run(f"runs resume {wrong}")
    assert answers(context, run) == []
    context.session.dispatcher.approver = cast(Any, object())
    context.run("runs resume run-1 --answer session")
    assert answers(context, run) == ["session"] and context.said[-1] == "Session: bash touch lock"
    assert len(context.beside) == 1, "the run continues beside the session"
    asyncio.run(asyncio.wait_for(context.session.aclose(), 30))


def test_the_person_is_asked_and_a_run_without_an_answer_waits_on(context: FakeContext, run: Run) -> None:
    asked: list[str] = []

    class Person:
        answer: Answer | None = None

        async def ask(self, question: Question) -> Answer | None:
            asked.append(question.run)
            return self.answer

    person: Any = Person()
    context.session.dispatcher.approver = person
    context.run("runs resume run-1")
    assert answers(context, run) == [] and context.said[-1] == "Still waiting: run-1" and not context.beside
    person.answer = Allow()
    context.run("runs resume run-1")
    assert answers(context, run) == ["yes"] and len(context.beside) == 1
    assert [name.partition(" ")[0] for name in asked] == ["run-1", "run-1"] and "Scout" in asked[0]
