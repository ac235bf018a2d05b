"""What the limits of a run say of its calls: refused by a result that says why, and no schema is taken away."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from search import sample
from session.played import MODEL, Answer, Played, say

from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.approval import Allow, Deny, Question
from nexus_cli.core.event import Event, ToolResultEvent
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import Request
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

READ = ("read_file", {"path": "a.txt"})
FIND = ("glob", {"pattern": "*"})
RUN = ("bash", {"command": "touch made"})
WRITE = ("write_file", {"path": "b.txt", "content": "b"})
SETTINGS = Settings(models={MODEL: {"window": 16_000}})


class Person:
    """Answers every question alike."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Any:
        """See `Approver`."""
        self.asked.append(question)
        return self.answer


def limited(
    folder: Path, provider: Played, limits: Limits, approver: Person | None = None, session: str = "", **options: Any
) -> Session:
    """A session of a recipe of one's own with these limits."""
    (folder / "a.txt").write_text("one\n")
    asked = Options(
        folder, MODEL, resume=session, allow=options.pop("allow", "all"), limits=Limits(max_steps=9), **options
    )
    made = open_session(asked, SETTINGS, approver=approver, provider=provider)
    made.dispatcher.limits &= limits
    return made


def steps(*batches: Answer) -> Played:
    """Says one after the other, then `done`."""
    left = list(batches)
    return Played(lambda request: left.pop(0) if left else "done")


def results(events: list[Event]) -> list[ToolResultEvent]:
    """In call order: a refused call is answered before one of the same step that runs."""
    found = [event for event in events if isinstance(event, ToolResultEvent)]
    return sorted(found, key=lambda event: (len(event.call.id), event.call.id))


def ran(events: list[Event]) -> list[bool]:
    return [event.result.ran for event in results(events)]


def texts(events: list[Event]) -> list[str]:
    return [event.result.text for event in results(events)]


def test_a_tool_that_the_run_does_not_have_is_refused_with_those_that_it_has(tmp_path: Path) -> None:
    provider = steps([READ, FIND])
    events, end = say(limited(tmp_path, provider, Limits(tools=frozenset({"glob", "grep", "nothing"}))), "go")
    assert end.ok and ran(events) == [False, True]
    assert texts(events)[0] == "read_file is off in this run. Available: glob, grep."
    assert [one["tool"] for one in end.denied] == ["read_file"]


def test_categories_refuse_by_what_a_tool_does(tmp_path: Path) -> None:
    provider = steps([READ, WRITE, RUN])
    events, _ = say(limited(tmp_path, provider, Limits(categories=frozenset({"read", "none"}))), "go")
    assert ran(events) == [True, False, False]
    assert "is not allowed to make calls that edit" in texts(events)[1]
    assert not (tmp_path / "b.txt").exists() and not (tmp_path / "made").exists()


@pytest.mark.parametrize("limits", [Limits(mode="single_action"), Limits(multi_tool=False)])
def test_a_single_action_is_one_step_of_calls_and_then_wants_the_answer(tmp_path: Path, limits: Limits) -> None:
    provider = steps([READ, FIND], [READ])
    events, end = say(limited(tmp_path, provider, limits), "go")
    assert end.ok and end.text == "done" and ran(events) == [True, True, False]
    assert texts(events)[2] == "not run: this run may call tools in only one step. Answer now with what you have."


def test_a_call_that_could_not_run_is_not_the_one_action(tmp_path: Path) -> None:
    provider = steps([("read_file", {"pth": "a.txt"})], [READ], [READ])
    assert ran(say(limited(tmp_path, provider, Limits(mode="single_action")), "go")[0]) == [False, True, False]


def test_iterations_are_counted_by_step_and_begin_anew_with_each_turn(tmp_path: Path) -> None:
    provider = steps([READ, FIND], [READ], [READ, FIND])
    session = limited(tmp_path, provider, Limits(max_iterations=2))

    async def turns() -> list[list[Event]]:
        try:
            found = [[event async for event in session.run("one")]]
            provider.script = steps([READ]).script
            return [*found, [event async for event in session.run("two")]]
        finally:
            await session.aclose()

    first, second = asyncio.run(turns())
    assert ran(first) == [True, True, True, False, False] and ran(second) == [True]
    assert "limit is 2 steps. Answer now" in texts(first)[-1]


@pytest.mark.matrix
def test_a_resumed_turn_counts_on(tmp_path: Path) -> None:
    calls = steps([READ], [READ], "", "")
    session = limited(tmp_path, calls, Limits(max_iterations=2))
    _, end = say(session, "go")
    assert not end.ok  # an answer of nothing is no answer: the turn stays open
    events, _ = say(limited(tmp_path, steps([READ], "done"), Limits(max_iterations=2), session=session.id), "")
    assert ran(events) == [False]


def test_a_run_that_confirms_asks_although_everything_is_allowed(tmp_path: Path) -> None:
    person = Person(Allow())
    events, _ = say(limited(tmp_path, steps([READ, RUN]), Limits(confirm=True), person), "go")
    assert ran(events) == [True, True] and [one.call.name for one in person.asked] == ["bash"]
    assert person.asked[0].why == "this run asks before each change"

    no = Person(Deny())
    assert ran(say(limited(tmp_path, steps([WRITE]), Limits(confirm=True), no), "go")[0]) == [False]
    events, end = say(limited(tmp_path, steps([WRITE]), Limits(confirm=True)), "go")
    assert ran(events) == [False] and "nobody here can approve it" in end.denied[0]["why"]
    assert not (tmp_path / "b.txt").exists()


def test_no_limit_takes_a_schema_away(tmp_path: Path) -> None:
    sent: list[Any] = []

    def script(request: Request) -> Answer:
        sent.append(request.tools)
        return "done"

    tight = Limits(tools=frozenset(), categories=frozenset(), mode="single_action", max_iterations=1, confirm=True)
    say(limited(tmp_path, Played(script), Limits()), "go")
    say(limited(tmp_path, Played(script), tight), "go")
    assert sent[0] == sent[1] and sent[0]


@pytest.mark.matrix
def test_a_model_that_never_answers_is_stopped_soon_after_its_last_call(tmp_path: Path) -> None:
    numbers = iter(range(1000))
    provider = Played(lambda request: [("glob", {"pattern": f"*{next(numbers)}"})])
    events, end = say(limited(tmp_path, provider, Limits(max_iterations=3)), "go")
    assert end.error is not None and end.error["kind"] == "limit" and ran(events) == [True] * 3 + [False] * 2
    assert "no longer allows" in end.error["message"] and "limits.max_iterations" in end.error["hint"]
    for one in (Limits(multi_tool=False), Limits(mode="single_action")):
        events, end = say(limited(tmp_path, provider, one), "go")
        assert end.error is not None and end.error["kind"] == "limit" and ran(events) == [True, False, False]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("yes", "iterations", "kind", "says"),
    sample(
        [
            (0, None, "denied", "5 times; 4 were refused"),
            (3, None, "denied", "3 ran with the same result, refused: 1"),
            (9, None, "limit", "5 times; 4 ran with the same result"),
            (9, 4, "denied", "4 ran with the same result, refused: 1"),
            (9, 2, "denied", "2 ran with the same result, refused: 3"),
        ],
        3,
    ),
)
def test_the_fifth_equal_call_tells_how_many_ran_and_how_many_were_refused(
    tmp_path: Path, yes: int, iterations: int | None, kind: str, says: str
) -> None:
    class Tired(Person):
        async def ask(self, question: Question) -> Any:
            self.asked.append(question)
            return Allow() if len(self.asked) <= yes else Deny("enough")

    limits = Limits(max_iterations=iterations)
    session = limited(tmp_path, steps(*[[RUN]] * 6), limits, Tired(None), allow="ask")
    error = say(session, "go")[1].error
    assert error is not None
    if iterations == 2:  # a run that goes on asking ends before
        assert error["kind"] == "limit" and "no longer allows" in error["message"]
        return
    assert error["kind"] == kind and error["message"].endswith(says) and " call 5 times; " in error["message"]


def test_a_call_that_ran_after_it_was_refused_is_not_told_as_a_repetition(tmp_path: Path) -> None:
    class Hesitant(Person):
        async def ask(self, question: Question) -> Any:
            self.asked.append(question)
            return Allow() if len(self.asked) == 3 else Deny("explain it first")

    provider = steps([RUN], [RUN], [RUN])
    events, end = say(limited(tmp_path, provider, Limits(), Hesitant(None), allow="ask"), "go")
    assert end.ok and ran(events) == [False, False, True]
    assert not [request for request in provider.seen if "in a row" in str(request)]


def test_a_call_that_is_declined_now_and_then_still_ends_the_turn(tmp_path: Path) -> None:
    class Wavering(Person):
        async def ask(self, question: Question) -> Any:
            self.asked.append(question)
            return Deny("not again") if len(self.asked) == 3 else Allow()

    events, end = say(limited(tmp_path, steps(*[[RUN]] * 8), Limits(), Wavering(None), allow="ask"), "go")
    assert end.error is not None and "the model repeated the same bash call 5 times" in end.error["message"]
    assert ran(events)[:5] == [True, True, False, True, True]


POLL = ("bash", {"command": "echo x >> log; wc -l < log"})
"""A command that waits for something: it shows another number each time."""
BIG = ("bash", {"command": "seq 20000; rm -f log"})
"""One whose result is always the same, and too long for a request."""


def test_a_call_that_brings_something_new_each_time_is_no_loop(tmp_path: Path) -> None:
    provider = steps(*[[POLL]] * 8)
    events, end = say(limited(tmp_path, provider, Limits()), "go")
    assert end.ok and end.text == "done" and ran(events) == [True] * 8
    assert not [request for request in provider.seen if "in a row" in str(request)]


@pytest.mark.parametrize("call", sample([(READ,), (RUN,), (BIG,)], 3), ids=["read", "run", "too_long"])
def test_equal_results_are_told_at_the_third_and_end_the_turn_at_the_fifth(tmp_path: Path, call: Any) -> None:
    provider = steps(*[[call]] * 6)
    (tmp_path / "a.txt").write_text("many words\n" * 200)
    settings = Settings(models={MODEL: {"window": 128_000}})
    session = open_session(Options(tmp_path, MODEL, allow="all"), settings, approver=None, provider=provider)
    error = say(session, "go")[1].error
    assert error is not None and error["kind"] == "limit" and len(provider.seen) == 5
    assert error["message"].endswith("call 5 times; 4 ran with the same result")
    told = ["brought the same result" in str(request[-1]["content"]) for request in provider.seen]
    assert told == [False, False, False, True, True]
    assert "wait in one call for what has to change" in str(provider.seen[3][-1]["content"])


@pytest.mark.matrix
def test_a_result_that_changes_begins_the_count_again(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("queued")
    look, moves = ("bash", {"command": "cat state"}), ["queued"] * 3 + ["running"] * 3 + ["passed"]

    def script(request: Any) -> Answer:
        if not moves:
            return "passed"
        (tmp_path / "state").write_text(moves.pop(0))
        return [look]

    provider = Played(script)
    events, end = say(limited(tmp_path, provider, Limits()), "go")
    assert end.ok and ran(events) == [True] * 7
    told = ["was called 3 times in a row" in str(request[-1]["content"]) for request in provider.seen]
    assert told == [False, False, False, True, False, False, True, False]


@pytest.mark.parametrize("option", sample(["max_steps", "max_total_tokens", "timeout", "max_iterations"], 4))
def test_a_limit_of_a_recipe_names_its_file_and_no_option_that_cannot_raise_it(tmp_path: Path, option: str) -> None:
    value = {"max_steps": "1", "max_total_tokens": "1100", "timeout": "0.2", "max_iterations": "1"}[option]
    recipes = places().config / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "small.toml").write_text(f"[limits]\n{option} = {value}\n")
    slow = ("bash", {"command": "sleep 5"} if option == "timeout" else {"command": "true"})

    def outcome(**options: Any) -> str:
        provider = Played(lambda request: [slow])
        asked = Options(tmp_path, MODEL, allow="all", **options)
        error = say(open_session(asked, SETTINGS, approver=None, provider=provider), "go")[1].error
        assert error is not None and error["kind"] == "limit"
        return str(error["hint"])

    hint = outcome(recipe="small", limits=Limits(max_steps=9))
    assert f"small sets this limit: change limits.{option} in " in hint and "small.toml" in hint and "--max" not in hint
    if option not in ("max_iterations", "timeout"):
        mine: Any = {option: int(value)}
        mine = outcome(limits=Limits(**mine))
        assert mine == f"Use a higher --{option.replace('_', '-')}"


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("lower", "says"),
    sample(
        [
            ({"limits": Limits(max_steps=3)}, "max_steps 3 (was 9)"),
            ({"no_tools": True, "limits": Limits(max_steps=9)}, "tools none (was without limit)"),
            ({"allow": "ask", "limits": Limits(max_steps=9)}, ""),
            ({"limits": Limits(max_steps=9, timeout=60)}, "timeout 60 (was without limit)"),
            ({"limits": Limits(max_steps=9)}, ""),
        ],
        3,
    ),
)
def test_limits_that_changed_on_a_resumed_session_are_told_with_its_next_request_once(
    tmp_path: Path, lower: dict[str, Any], says: str
) -> None:
    provider = Played(lambda request: "ok")

    def asked(**options: Any) -> str:
        made = Options(tmp_path, MODEL, **{"allow": "all", **options})
        session = open_session(made, SETTINGS, approver=None, provider=provider)
        assert say(session, "go")[1].ok
        told = str(provider.seen[-1][-1]["content"])
        return f"{session.id} {told.partition('limits have changed: ')[2].partition(']')[0]}"

    name, _, first = asked(limits=Limits(max_steps=9)).partition(" ")
    assert not first
    assert asked(resume=name, **lower).partition(" ")[2].partition("\n")[0] == says
    assert asked(resume=name, **lower).endswith(" "), "once"
