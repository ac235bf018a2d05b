"""`/goal`, `/reflect`, `/why`: what they show, and what they say when there is nothing."""

from __future__ import annotations

from typing import Any

import pytest
from commands.conftest import FakeDesk

from nexus_cli.commands import find
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits
from nexus_cli.ui.reports import FORMS


def shown(desk: FakeDesk, line: str) -> Any:
    desk.run(line)
    return desk.shown[-1][1]


def test_a_goal_is_set_listed_done_and_dropped(desk: FakeDesk) -> None:
    assert shown(desk, "goal")["goals"] == []
    desk.provider.script = lambda request: "Write it.\nTest it."
    value = shown(desk, "goal a parser for dates")
    assert value["goals"] == [
        {
            "id": "g1", "text": "a parser for dates", "done": False,
            "steps": [
                {"id": "g2", "text": "Write it.", "done": False}, {"id": "g3", "text": "Test it.", "done": False},
            ],
        }
    ]  # fmt: skip
    complete = find("goal", desk.commands).complete
    assert complete is not None and "done g2" in complete(desk)
    assert FORMS["goals"](shown(desk, "goal done g2"), 80).splitlines()[1] == "  [x] g2 Write it."
    assert shown(desk, "goal drop g1")["goals"] == []
    with pytest.raises(NexusError, match="has this id"):
        desk.run("goal done g7")
    with pytest.raises(NexusError, match="does not say which"):
        desk.run("goal done")


def test_several_goals_are_done_or_dropped_at_once_and_pay_for_no_request(desk: FakeDesk) -> None:
    desk.provider.script = lambda request: "Write it.\nTest it."
    for goal in ("a parser", "a printer", "a linker"):
        desk.run(f"goal {goal}")
    sent = len(desk.provider.seen)
    value = shown(desk, "goal done g2, g3")
    assert [(one["id"], one["done"]) for one in value["goals"]] == [("g1", True), ("g4", False), ("g7", False)]
    assert [one["id"] for one in shown(desk, "goal drop g4 g5 g1")["goals"]] == ["g7"]
    with pytest.raises(NexusError, match="drop g40: no goal or step has this id"):
        desk.run("goal drop g7 g40")
    assert [one["id"] for one in shown(desk, "goal")["goals"]] == ["g7"] and len(desk.provider.seen) == sent
    assert shown(desk, "goal DROP G7; G8")["goals"] == [], "letter case and commas do not matter"


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("done", "/goal done ID"), ("clear", "/goal drop ID"), ("dropp g1", "/goal drop g1"),
        ("finish g1 please", "/goal done g1"), ("remove g2, g1", "/goal drop g2 g1"), ("drop g1 g2 now", "/goal drop"),
        ("done the login page", "/goal done"), ("g1", "/goal done g1"), ("Doen G1", "/goal done g1"),
        ("drop support for it", "put another word"),
    ],
)  # fmt: skip
def test_what_only_looks_like_a_verb_sets_no_goal_and_costs_nothing(desk: FakeDesk, line: str, right: str) -> None:
    desk.run("goal a parser")
    sent = len(desk.provider.seen)
    with pytest.raises(NexusError) as caught:
        desk.run(f"goal {line}")
    assert caught.value.kind == "usage" and right in caught.value.line
    for lists in ("list", "SHOW"):
        assert [goal["text"] for goal in shown(desk, f"goal {lists}")["goals"]] == ["a parser"]
    assert len(desk.provider.seen) == sent


@pytest.mark.parametrize("text", ["clear the cache of the build", "list the files", "close the socket", "one parser"])
def test_a_goal_may_begin_with_what_would_be_a_verb_elsewhere(desk: FakeDesk, text: str) -> None:
    assert [goal["text"] for goal in shown(desk, f"goal {text}")["goals"]] == [text]


def test_a_reflection_shows_what_was_learned(desk: FakeDesk) -> None:
    with pytest.raises(NexusError, match="nothing was asked"):
        desk.run("reflect")
    desk.turn("begin")
    desk.provider.script = lambda request: "Look before you leap."
    before = desk.session._parts.engine.lane.counted
    assert FORMS["reflection"](shown(desk, "reflect"), 80) == "Look before you leap."
    assert desk.session._parts.engine.lane.counted == before


def test_a_reflection_says_which_of_its_lessons_wait(desk: FakeDesk) -> None:
    lessons = [("remember", {"text": f"Lesson number {n} is to look first", "slot": "agent"}) for n in range(3)]
    desk.turn("begin")
    desk.provider.script = lambda request: lessons[:1] if request.messages[-1]["role"] == "user" else "one lesson"
    value = shown(desk, "reflect")
    assert value["waiting"] == ["m1"] and value["older"] == 0
    assert FORMS["reflection"](value, 120).splitlines()[-1] == (
        "1 lesson waits for you (m1): /memory shows them, /memory accept m1 keeps."
    )
    desk.provider.script = lambda request: lessons[1:] if request.messages[-1]["role"] == "user" else "two lessons"
    value = shown(desk, "reflect")
    assert value["waiting"] == ["m2", "m3"] and value["older"] == 1
    assert "2 lessons wait for you (m2, m3)" in FORMS["reflection"](value, 120)
    assert "/memory accept ID" in FORMS["reflection"](value, 120), "all would keep the older one as well"
    assert "/memory accept all" in FORMS["reflection"](value | {"older": 0}, 120)


def test_steps_of_the_cache_are_offered(desk: FakeDesk) -> None:
    complete = find("cache", desk.commands).complete
    assert complete is not None and complete(desk) == ["why"]
    desk.turn("one")
    desk.turn("two")
    assert complete(desk) == ["why", "why 2", "why 1"]


def test_why_says_in_plain_words_whether_signals_bind(desk: FakeDesk) -> None:
    text = " ".join(FORMS["why"](shown(desk, "why"), 200).split())
    assert "The recipe chat changes no limit for this, it is only reported." in text
    desk.session._parts.dispatcher.errors = 1
    assert "1 call in a row could not run" in " ".join(FORMS["why"](shown(desk, "why"), 200).split())


def test_why_names_the_layer_and_what_each_said(desk: FakeDesk) -> None:
    (limit,) = shown(desk, "why max_steps")["limits"]
    assert (limit["value"], limit["bound_by"]) == (9, "command line")
    assert limit["said"] == {"command line": 9}
    (limit,) = shown(desk, "why allow")["limits"]
    assert limit == {"name": "allow", "value": "read", "bound_by": "settings", "said": {"settings": "read"}}
    assert {limit["name"] for limit in shown(desk, "why")["limits"]} == {"max_steps", "allow"}
    text = FORMS["why"](shown(desk, "why mode"), 80)
    assert text == "mode is not limited by any layer."
    with pytest.raises(NexusError, match="it must be one of max_steps"):
        desk.run("why nonsense")


def test_why_tells_signals_from_the_other_layers(desk: FakeDesk) -> None:
    desk.session._parts.dispatcher.signals = True
    desk.session._parts.bounds = ()
    desk.turn("begin")
    value = shown(desk, "why mode")
    assert value["limits"] == [
        {"name": "mode", "value": "single_action", "bound_by": "signals", "said": {"signals": "single_action"}}
    ]
    assert value["signals"]["bind"] and value["signals"]["event_class"] == "communication"
    assert "the run is communication" in FORMS["why"](value, 80)
    assert desk.session._parts.limits == Limits(max_steps=9, allow="read")
