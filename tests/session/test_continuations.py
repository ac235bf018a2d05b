"""What may follow a reply: in which order, and what is left of it when one of them fails."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from session.played import Played, opened, run_turns, say
from workers.crew import SETTINGS, Crew, content, crewed

from nexus_cli.config.hook_tables import HookTable
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Notice, Outcome, TurnEnd
from nexus_cli.core.limits import ALL, PLAN
from nexus_cli.core.request import Request
from nexus_cli.session import session as session_module
from nexus_cli.session.acts.goal import set_until
from nexus_cli.session.continuation import Continuation
from nexus_cli.session.session import Session

SCHEMA = '{"type": "object", "required": ["n"]}'
UNTIL = "test -e again || { touch again; exit 3; }"
HOOK = "test -e stopped || { touch stopped; echo look again >&2; exit 2; }"


async def test_a_turn_goes_on_by_a_worker_then_until_then_a_hook_then_the_schema(tmp_path: Path) -> None:
    async def reports(request: Request) -> str:
        return "the report"

    said: list[str] = []

    def root(request: Request) -> Any:
        said.append(content(request))
        if len(said) == 1:
            return [("agent", {"task": "ONE", "wait": False})]
        return '{"n": 1}' if "JSON Schema:" in said[-1] else "no document"

    settings = replace(SETTINGS, hook=(HookTable("Stop", HOOK),))
    session = crewed(Crew({"ONE": reports, "root": root}), tmp_path, settings=settings)

    try:
        trigger = Trigger("root", until=UNTIL, schema=SCHEMA)
        events = [event async for event in session.run(trigger)]
    finally:
        await session.aclose()
    assert isinstance(events[-1], TurnEnd)
    outcome = events[-1].outcome
    assert outcome.ok and outcome.data == {"n": 1}, outcome.error
    assert outcome.until is not None and outcome.until["passed"]
    order = ["worker w1 has ended", "Not done yet", "look again", "does not match the JSON Schema"]
    assert [next((one for one in order if one in text), text) for text in said[2:]] == order


@pytest.mark.matrix
async def test_a_turn_in_plan_mode_leaves_the_command_to_the_next_one(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "A plan."), tmp_path, front="chat", interactive=True)

    async def turn(words: str) -> Outcome:
        events = [event async for event in session.run(words)]
        assert isinstance(events[-1], TurnEnd)
        return events[-1].outcome

    set_until(session.conversation, session.id, "test -e again")
    session.set_level(PLAN)
    planned = await turn("plan it")
    session.set_level(ALL)
    (session.dispatcher.cwd / "again").touch()
    done = await turn("do it")
    await session.aclose()
    assert planned.ok and planned.until is None
    assert done.ok and done.until is not None and done.until["passed"]


@pytest.mark.matrix
async def test_what_a_command_printed_is_not_left_if_it_passed_and_the_answer_failed(tmp_path: Path) -> None:
    session = opened(Played(lambda request: "no document"), tmp_path)
    try:
        events: list[Any] = [event async for event in session.run(Trigger("go", until="echo fine", schema=SCHEMA))]
    finally:
        await session.aclose()
    end = events[-1]
    assert end.outcome.error["kind"] == "schema" and end.outcome.until["passed"] and not end.outcome.until["left"]
    assert not [event for event in events if isinstance(event, Notice) and "fine" in event.text.partition("`")[0]]


def test_a_bare_word_gets_both_repairs_if_the_schema_takes_a_value_without_brackets(tmp_path: Path) -> None:
    answers = iter(["yes", "Yes, it is.", '"yes"'])
    session = opened(Played(lambda request: next(answers)), tmp_path)
    end = run_turns(session, Trigger("is it?", schema='{"enum": ["yes", "no"]}'))[-1]
    assert isinstance(end, TurnEnd) and end.outcome.data == "yes", end


@dataclass
class Story:
    """Continuations that write down what they are asked."""

    fails: tuple[str, str] = ("", "")
    """Name and method of the one that fails, with `error`."""
    error: Exception = field(default_factory=lambda: NexusError("limit", "it", "is enough"))
    asked: list[str] = field(default_factory=list)

    def note(self, name: str, method: str) -> None:
        self.asked.append(f"{name} {method}")
        if self.fails == (name, method):
            raise self.error

    def told(self, method: str) -> list[str]:
        """The names of those whose method was called."""
        return [line.split()[0] for line in self.asked if line.endswith(f" {method}")]

    def play(self, folder: Path, monkeypatch: pytest.MonkeyPatch, speakers: int = 0) -> Outcome:
        """A turn with three of them, the first `speakers` of which have one message each."""
        session: Session = opened(Played(lambda request: "fine"), folder)
        kinds = [Noted(session, self, name, place < speakers) for place, name in enumerate(("one", "two", "three"))]
        monkeypatch.setattr(session_module, "find_continuations", lambda *_, **__: kinds)
        return say(session, "go")[1]


class Noted(Continuation):
    """One kind of a `Story`."""

    def __init__(self, session: Session, story: Story, name: str, speaks: bool) -> None:
        super().__init__(session)
        self.story, self.name, self.speaks = story, name, speaks

    def admit(self, *, has_message: bool) -> str:
        self.story.note(self.name, "admit")
        return self.name

    async def begin(self) -> None:
        self.story.note(self.name, "begin")

    async def next_message(self) -> str:
        self.story.note(self.name, "next_message")
        self.speaks, speaks = False, self.speaks
        return f"{self.name} goes on" if speaks else ""

    def close(self, ended: Outcome) -> Outcome:
        self.story.note(self.name, "close")
        return replace(ended, text=f"{ended.text} {self.name}")


@pytest.mark.matrix
def test_each_admits_begins_and_closes_once_and_is_asked_after_those_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story()
    outcome = story.play(tmp_path, monkeypatch, speakers=2)
    names = ["one", "two", "three"]
    assert outcome.ok and outcome.text == "fine one two three" and outcome.steps == 3
    assert [story.told(method) for method in ("admit", "begin", "close")] == [names] * 3
    assert story.told("next_message") == ["one", "one", "two", *names]


@pytest.mark.parametrize("method", ["admit", "begin", "next_message"])
@pytest.mark.parametrize("error", [NexusError("limit", "it", "is enough"), RuntimeError("a bug")])
def test_an_error_of_one_ends_the_turn_and_all_are_closed(
    method: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(("two", method), error)
    outcome = story.play(tmp_path, monkeypatch)
    assert outcome.finish == ("limit" if isinstance(error, NexusError) else "internal") and not outcome.ok
    assert story.told(method) == ["one", "two"]
    assert story.told("close") == ["one", "two", "three"] and outcome.text.endswith(" one two three")


def test_one_that_cannot_be_closed_fails_the_turn_and_the_others_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(("two", "close"))
    outcome = story.play(tmp_path, monkeypatch)
    assert (outcome.finish, outcome.exit, outcome.text) == ("limit", 3, "fine one three")
