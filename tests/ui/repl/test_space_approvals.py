"""Approvals in a space: the first answer counts everywhere, and words are the reason of a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.core.run import AGENT, APPROVAL, HUMAN, WAITING, Run, Wait
from nexus_cli.ledger import Ledger
from nexus_cli.ui.asked_question import AskedQuestion
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.repl.job_runner import JobRunner
from nexus_cli.ui.repl.space_approvals import ApprovalQuestions

AT = "2026-02-18T15:06:55.000Z"
QUESTION = {"call": "c1", "what": "bash rm -r build", "why": "it deletes", "detail": "", "always": "rm *"}


class Person:
    """A member at a terminal of their own: the open question, and the notes that were shown."""

    width = 80

    def __init__(self, ledger: Ledger, name: str) -> None:
        self.notes: list[str] = []
        self.asked: asyncio.Future[str | None] | None = None
        self.keys: Any = ()
        self.text = ""
        self.ledger = ledger
        view: Any = self
        self.jobs = JobRunner(self.show_note, name=str)
        self.questions = ApprovalQuestions(ledger, view, Theme(colour=False), self.show_note, self.jobs, name)

    def show_note(self, text: str, role: str) -> None:
        self.notes.append(text)

    async def question(self, asked: AskedQuestion) -> str | None:
        self.asked, self.keys, self.text = asyncio.get_running_loop().create_future(), asked.keys, asked.text
        try:
            return await self.asked
        finally:
            self.asked = None

    def notify(self, text: str, *, waits: bool = False) -> None:
        """Nobody is away."""

    def fill(self, text: str) -> None:
        self.notes.append(f"in the box: {text}")

    async def look(self) -> None:
        runs = self.ledger.runs.list_runs((WAITING,))
        self.questions.follow(runs, {run.entity or 0: "Scout" for run in runs}, self.questions.find_answers(runs))
        await settle()

    async def say(self, text: str | None) -> None:
        assert self.asked is not None, "no question is open"
        asked = self.asked
        asked.set_result(text)
        for _ in range(200):
            await asyncio.sleep(0.01)
            if self.notes or self.asked not in (asked, None):
                return


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger.open(tmp_path / "ledger.db")
    yield made
    made.close()


@pytest.fixture
def run(ledger: Ledger) -> Run:
    """A run that waits for approval."""
    ana, scout = ledger.spaces.entity("Ana", HUMAN), ledger.spaces.entity("Scout", AGENT)
    space = ledger.spaces.create("Team", AT, members=[ana, scout])
    ledger.spaces.post(space, ana, "@Scout look", AT)
    (queued,) = ledger.runs.due()
    claimed = ledger.runs.claim(queued.key, "elsewhere:1", 600.0, AT)
    assert claimed is not None
    ledger.runs.wait(claimed, Wait(APPROVAL, "approval: bash rm -r build", {"questions": [QUESTION]}), AT)
    return ledger.runs.get(claimed.key)


def play(work: Callable[[], Any]) -> None:
    asyncio.run(work())


def answers(ledger: Ledger, run: Run) -> list[Any]:
    said = [one for signal in ledger.runs.signals(run.key) for one in signal.value["answers"].values()]
    return [(one["answer"], one["text"], one["by"]) for one in said]


async def test_an_answer_closes_the_question_of_everybody(ledger: Ledger, run: Run) -> None:
    ana, mira = Person(ledger, "Ana"), Person(ledger, "Mira")
    await ana.look()
    await mira.look()
    await ana.say("y")
    assert ana.notes == ["Scout (run-1): you said yes"]
    await mira.look()
    assert mira.asked is None and mira.notes == ["Scout (run-1): Ana said yes"]
    await mira.look()
    await ana.look()
    assert mira.asked is None and ana.asked is None and len(ana.notes + mira.notes) == 2
    assert answers(ledger, run) == [("yes", "", "Ana")]


async def test_who_answers_second_is_told_of_the_first(ledger: Ledger, run: Run) -> None:
    ana, mira = Person(ledger, "Ana"), Person(ledger, "Mira")
    await ana.look()
    await mira.look()
    await ana.say("y")
    await mira.say("n")
    assert mira.notes == ["already answered: Scout (run-1): Ana said yes"]
    assert answers(ledger, run) == [("yes", "", "Ana")]


async def test_an_answer_from_elsewhere_has_no_name(ledger: Ledger, run: Run) -> None:
    mira = Person(ledger, "Mira")
    await mira.look()
    ledger.runs.signal(run.key, APPROVAL, {"answers": {"c1": {"answer": "no", "text": ""}}}, AT)
    await mira.look()
    assert mira.asked is None and mira.notes == ["Scout (run-1): somebody said no"]


async def test_an_answer_that_was_taken_at_once_is_told_too(ledger: Ledger, run: Run) -> None:
    mira = Person(ledger, "Mira")
    await mira.look()
    ledger.runs.signal(run.key, APPROVAL, {"calls": ["c1"], "answer": "yes", "text": "", "by": "Ana"}, AT)
    ledger.runs.claim(run.key, "elsewhere:1", 600.0, AT)
    ledger.runs.take(run, ledger.runs.signals(run.key), AT)
    await mira.look()
    assert mira.asked is None and mira.notes == ["Scout (run-1): Ana said yes"]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("put it in its own test please", ("no", "put it in its own test please", "Mira")),
        ("yes but only after lunch", ("no", "yes but only after lunch", "Mira")),
        ("n too early", ("no", "too early", "Mira")),
        ("Yes", ("yes", "", "Mira")),
    ],
)
async def test_words_are_the_reason_of_a_refusal(
    ledger: Ledger, run: Run, typed: str, said: tuple[str, str, str]
) -> None:
    mira = Person(ledger, "Mira")
    await mira.look()
    await mira.say(typed)
    assert mira.notes == [f"Scout (run-1): you said {said[0]}" + (f": {said[1]}" if said[1] else "")]
    assert answers(ledger, run) == [said]


async def test_a_yes_may_be_for_the_rest_of_the_run(ledger: Ledger, run: Run) -> None:
    ana = Person(ledger, "Ana")
    await ana.look()
    assert [(key.key, key.label) for key in ana.keys] == [("y", "yes"), ("s", "session: rm *"), ("n", "no")]
    await ana.say("s")
    assert ana.notes == ["Scout (run-1): you said yes, for the rest of the run"]
    assert answers(ledger, run) == [("session", "", "Ana")]


@pytest.mark.matrix
@pytest.mark.parametrize("typed", ["", "ok", "/leave", "s/leave", "yes, nearest cent"])
async def test_an_unclear_answer_is_asked_about_as_everywhere(ledger: Ledger, run: Run, typed: str) -> None:
    mira = Person(ledger, "Mira")
    await mira.look()
    assert "Scout (run-1) asks: bash  rm -r build" in mira.text
    await mira.say(typed)
    assert not mira.notes and "is not an answer. Please answer y, s or n, or type what to do instead" in " ".join(
        mira.text.split()
    )
    await mira.say("n")
    assert mira.notes == ["Scout (run-1): you said no"]
    assert answers(ledger, run) == [("no", "", "Mira")]


async def test_each_call_of_a_run_has_its_own_answer(ledger: Ledger, run: Run) -> None:
    ledger.runs.cancel(run.key, AT)
    ledger.spaces.post(ledger.spaces.find("Team"), ledger.spaces.entity("Ana", HUMAN), "@Scout again", AT)
    (queued,) = ledger.runs.due()
    claimed = ledger.runs.claim(queued.key, "elsewhere:1", 600.0, AT)
    assert claimed is not None
    make = {"call": "c2", "what": "bash make all", "why": "", "detail": "", "always": "make *"}
    ledger.runs.wait(claimed, Wait(APPROVAL, "approval: two", {"questions": [QUESTION, make]}), AT)

    ana = Person(ledger, "Ana")
    await ana.look()
    assert "1 Scout (run-2) asks: bash  rm -r build" in ana.text and "2 Scout (run-2) asks: bash  make all" in ana.text
    assert [key.key for key in ana.keys] == list("ysnAN")
    await ana.say("n keep it")
    assert [key.label for key in ana.keys][1] == "session: make *" and not ana.notes
    await ana.say("y")
    assert ana.notes == ["Scout (run-2): you said no: keep it; you said yes"]
    assert answers(ledger, claimed) == [("no", "keep it", "Ana"), ("yes", "", "Ana")]


async def test_no_answer_leaves_it_waiting(ledger: Ledger, run: Run) -> None:
    mira = Person(ledger, "Mira")
    await mira.look()
    await mira.say(None)
    assert len(mira.notes) == 1 and "Scout is still waiting for approval: use /approve" in mira.notes[0]
    await mira.look()
    assert mira.asked is None and mira.questions.ask_again()
    await mira.look()
    assert mira.asked is not None
    await mira.jobs.settle()
    assert not ledger.runs.signals(run.key)
