"""Signals: seed D's table row by row, and what they bind in a session whose recipe lets them."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from session.played import MODEL, Answer, Played, context_report, opened, say

from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.entry import Entry, Kind
from nexus_cli.core.event import ContextPlan, Event, Notice, ToolResultEvent
from nexus_cli.core.limits import Bound, Limits
from nexus_cli.core.message import Message, Role
from nexus_cli.core.request import Request
from nexus_cli.permission.run_limits import TABLE, Signals, event_class, reasons, restrictions, tighten_by_signals
from nexus_cli.reports.context import live_report
from nexus_cli.reports.decisions import limits_report
from nexus_cli.session.options import Options

SINGLE = "single_action"


@pytest.fixture(autouse=True)
def signalled() -> None:
    """A person's recipe that lets signals bind."""
    folder = places().config / "recipes"
    folder.mkdir(parents=True)
    (folder / "signalled.toml").write_text('signals = true\n[limits]\nmode = "react_loop"\nmax_iterations = 5\n')


ROWS: list[tuple[Signals, Limits]] = [
    (Signals(), Limits()),
    (Signals(token_pressure="critical"), Limits(mode=SINGLE)),
    (Signals(token_pressure="high"), Limits(max_iterations=2)),
    (Signals(recent_errors=1), Limits()),
    (Signals(recent_errors=2), Limits(max_iterations=2)),
    (Signals(recent_errors=3), Limits(mode=SINGLE, confirm=True, max_iterations=2)),
    (Signals(recent_errors=9), Limits(mode=SINGLE, confirm=True, max_iterations=2)),
    (Signals(event_class="communication"), Limits(mode=SINGLE)),
    (Signals(event_class="building"), Limits(confirm=True)),
    (Signals("high", 2, "building"), Limits(max_iterations=2, confirm=True)),
    (Signals("critical", 3, "communication"), Limits(mode=SINGLE, confirm=True, max_iterations=2)),
]


@pytest.mark.parametrize(("now", "limits"), ROWS)
def test_the_table_of_seed_d(now: Signals, limits: Limits) -> None:
    assert restrictions(now) == limits
    for field in dataclasses.fields(Limits):
        assert bool(reasons(now, field.name)) == (getattr(limits, field.name) is not None)


def test_every_row_of_the_table_stands_in_a_trial() -> None:
    assert all(any(row.holds(now) for now, _ in ROWS) for row in TABLE) and len(TABLE) == 6


def test_the_class_of_an_event_is_told_from_what_began_the_run_and_what_it_did() -> None:
    def entry(kind: Kind, actor: str) -> Entry:
        return Entry(1, "", actor, kind, Message(Role.USER, "x"))

    assert event_class(entry(Kind.USER, "person"), changed=True) == "communication"
    assert event_class(entry(Kind.USER, "nexus"), changed=True) == "building"
    assert event_class(entry(Kind.INSTRUCTION, "nexus"), changed=False) == ""
    assert event_class(None, changed=False) == ""


def calls_until(last: int, *calls: tuple[str, dict[str, Any]]) -> Any:
    """Asks for the calls in each of so many steps, then answers."""

    def script(request: Request) -> Answer:
        steps = sum(1 for message in request.messages if message["role"] == "assistant")
        return "done" if steps >= last else [*calls]

    return script


def results(events: list[Event]) -> list[tuple[bool, str]]:
    found = [event for event in events if isinstance(event, ToolResultEvent)]
    found.sort(key=lambda event: (len(event.call.id), event.call.id))
    return [(event.result.ran, event.result.text) for event in found]


@pytest.mark.matrix
def test_a_message_binds_a_recipe_with_signals_to_one_step_and_a_chat_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    look = ("read_file", {"path": "a.txt"}), ("glob", {"pattern": "*.txt"})
    events, end = say(opened(Played(calls_until(2, *look)), tmp_path, recipe="signalled"), "look")
    assert end.ok
    ran = results(events)
    assert [one for one, _ in ran] == [True, True, False, False]
    assert all("in only one step (the run answers a message). Answer now" in text for one, text in ran if not one)
    assert len(end.denied) == 2

    events, end = say(opened(Played(calls_until(2, *look)), tmp_path, recipe="chat"), "look")
    assert end.ok and [one for one, _ in results(events)] == [True] * 4


@pytest.mark.matrix
def test_calls_that_could_not_run_are_a_notice_in_a_chat_and_exit_statuses_are_not_counted(tmp_path: Path) -> None:
    failing = Played(calls_until(3, ("bash", {"command": "exit 3"})))
    assert say(opened(failing, tmp_path), "go")[1].ok
    assert "could not run" not in str(failing.seen)

    wrong = Played(calls_until(3, ("nothing_like_it", {})))
    events, end = say(opened(wrong, tmp_path), "go")
    assert end.ok and not [event for event in events if isinstance(event, Notice)]
    told = [message["content"] for message in wrong.seen[-1] if message["role"] == "tool"]
    assert ["calls in a row could not run" in text for text in told] == [False, True, True]
    assert "2 calls in a row could not run: read their errors" in told[1]


def test_a_call_that_was_refused_is_no_error_and_does_not_tighten_what_refused_it(tmp_path: Path) -> None:
    look = [("glob", {"pattern": f"*{number}"}) for number in range(4)]
    session = opened(Played(calls_until(3, *look)), tmp_path, recipe="signalled")
    events, end = say(session, "look")
    assert len(end.denied) == 8 and session.dispatcher.errors == 0
    assert "calls keep failing" not in str(results(events))

    plain = Played(calls_until(3, *look))
    session = opened(plain, tmp_path)
    session.dispatcher.limits &= Limits(tools=frozenset({"grep"}))
    assert len(say(session, "look")[1].denied) == 12 and "could not run" not in str(plain.seen)


def test_one_that_was_refused_between_two_that_could_not_run_hides_neither(tmp_path: Path) -> None:
    asked = [("nope", {}), ("glob", {"pattern": "*"}), ("nope", {})]
    session = opened(Played(calls_until(1, *asked)), tmp_path)
    session.dispatcher.limits &= Limits(tools=frozenset({"grep"}))
    assert say(session, "go")[1].denied and session.dispatcher.errors == 2


@pytest.mark.matrix
def test_errors_in_a_row_are_forgotten_when_a_call_ran_and_when_a_turn_begins(tmp_path: Path) -> None:
    session = opened(Played(calls_until(1, ("nope", {}), ("nope", {}), ("glob", {"pattern": "*"}))), tmp_path)
    assert say(session, "go")[1].ok
    assert session.dispatcher.errors == 0


def mode(limits: Any) -> list[tuple[str, str]]:
    return [(str(one["value"]), str(one["bound_by"])) for one in limits if one["name"] == "mode"]


def test_every_report_names_the_signals_where_they_bind(tmp_path: Path) -> None:
    session = opened(Played(calls_until(2, ("glob", {"pattern": "*"}))), tmp_path, recipe="signalled")
    events, _ = say(session, "look")
    bound = [("single_action", "signals")]
    again = opened(Played(lambda request: "done"), tmp_path, session.id)
    assert mode(limits_report(again, "mode")["limits"]) == mode(live_report(again)["limits"]) == bound
    asyncio.run(again.aclose())
    plans = [event.plan["limits"].get("mode") for event in events if isinstance(event, ContextPlan)]
    assert plans == ["single_action"] * 3
    options, settings = Options(tmp_path, MODEL), Settings(models={MODEL: {"window": 16_000}})
    for step in (None, 1, 2, 3):
        assert mode(context_report(options, settings, session.id, step)["limits"]) == bound
    assert mode(context_report(Options(tmp_path, MODEL, recipe="signalled"), settings, None)["limits"]) == bound
    assert mode(context_report(Options(tmp_path, MODEL, recipe="chat"), settings, None)["limits"]) == []


@pytest.mark.matrix
def test_each_request_of_a_run_shows_the_limits_that_its_own_state_bound(tmp_path: Path) -> None:
    wrong = calls_until(3, ("nope", {}))
    session = opened(Played(wrong), tmp_path, recipe="signalled")
    assert say(session, "go")[1].ok
    options, settings = Options(tmp_path, MODEL), Settings(models={MODEL: {"window": 16_000}})
    shown = [context_report(options, settings, session.id, step)["limits"] for step in (1, 2, 3, 4)]
    named = [{one["name"] for one in limits if one["bound_by"] == "signals"} for limits in shown]
    assert named == [{"mode"}, {"mode"}, {"mode", "max_iterations"}, {"mode", "max_iterations", "confirm"}]


def test_a_layer_that_says_the_same_as_the_state_of_the_run_comes_before_it() -> None:
    said = {"recipe": SINGLE, "command line": "react_loop"}
    limits, (bound,) = tighten_by_signals([Bound("mode", SINGLE, "recipe", said)], Signals(event_class="communication"))
    assert limits == Limits(mode=SINGLE) and bound.bound_by == "recipe" and bound.said == {**said, "signals": SINGLE}
