"""JSON forms of events: every type of the union has one, and it is what `nexus docs json` names."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import get_args

from ui.kept_stream import KeptStream

from nexus_cli.core import event as e
from nexus_cli.core.approval import Allow, Defer, Deny, PersonQuestion, Question
from nexus_cli.core.entry import Cause, Drop
from nexus_cli.core.event_json import EventNumbers
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.read_event import read_event
from nexus_cli.core.usage import Cost, Usage
from nexus_cli.core.wire import json_text
from nexus_cli.ui.print.json_renderer import JsonLinesRenderer
from nexus_cli.ui.print.notice_lines import NoticeLines
from nexus_cli.ui.print.turn_progress import TurnProgress
from nexus_cli.ui.render.theme import Theme

CALL = ToolCall("c1", "bash", {"command": "ls"})
OUTCOME = e.Outcome(True, 0, "text", "stop", None, 1, Usage(), 0.5)
ROW = {
    "id": "w1",
    "call": "c3",
    "task": "the task",
    "state": "running",
    "steps": 0,
    "tokens": 0,
    "cost_usd": 0.0,
    "seconds": 0.0,
    "error": "",
    "worktree": "",
}
EVENTS: tuple[e.Event, ...] = (
    e.SessionStart("01", "m", "ask", False),
    e.TurnStart("hi"),
    e.SteeringMessage("and tests too"),
    e.StepStart(1),
    e.ContextPlan({"sections": []}),
    e.Text("a\ud800"),
    e.Thinking("b"),
    e.ToolQueue((ToolCall("c2", "bash", {"command": "ls"}),), ("ls",)),
    e.ToolCallEvent(CALL, "ls"),
    e.ToolOutput("c1", "out"),
    e.ToolResultEvent(CALL, ToolResult("out", full="everything"), 3, 0.1),
    e.ApprovalRequest(Question(CALL, "what", "why")),
    e.ApprovalAnswer("c1", Allow(always=True)),
    e.PersonAsked("q1", (PersonQuestion("Which?", ("red",)),)),
    e.PersonAnswered("q1"),
    e.ApprovalAnswer("c1", Deny("no")),
    e.ApprovalAnswer("c1", Defer()),
    e.ContextDrop(Drop("d1", "x", 5, Cause.OUTPUT_CAP, "2026-01-01T00:00:00Z", uncounted=7)),
    e.ContextRecall("d1", 4),
    e.CacheExpectation(100),
    e.CacheResult(100, 90, 0),
    e.CompactionStart("budget", 100),
    e.CompactionDone(True, 100, 30),
    e.Retry(1, 2.0, "busy"),
    e.Notice("note"),
    e.SessionAct("command", "!ls", "person", "!ls", output="out"),
    e.StepEnd(1, "stop", Usage(1, 2, cost_usd=0.3, cost=Cost(0.1, output=0.2))),
    e.StepEnd(2, "stop", Usage(1, 2, cost_usd=None)),
    e.TurnEnd(OUTCOME),
    e.WorkerState(ROW),
    e.AgentEvent("w1", "01J", e.Text("of a worker")),
)


def test_every_line_is_the_event_again() -> None:
    numbers = EventNumbers()
    for event in EVENTS:
        line = json_text(numbers.event_line(event), escaped=False)
        read = read_event(json.loads(line.encode("utf-8", "replace")))
        if isinstance(event, e.ToolResultEvent):
            event = replace(event, result=replace(event.result, full=None))
        assert read == event or (isinstance(event, e.Text) and read == e.Text("a?"))
    assert read_event({"type": "a.later.one"}) is None and read_event({"type": "agent"}) is None


def test_every_event_of_the_union_becomes_a_line_and_a_remark_or_silence() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(e.Event))
    stream, remarks = KeptStream(), KeptStream()
    renderer = JsonLinesRenderer(stream, lambda: datetime(2026, 1, 2, tzinfo=UTC))
    progress = TurnProgress(remarks, remarks, Theme(colour=False), verbose=True)
    told = NoticeLines(progress.notices, alone=False)
    for event in EVENTS:
        renderer.feed(event)
        progress.feed(event)
        told.feed(event)
    renderer.end({"type": "result", "ok": True})
    lines = [json.loads(line) for line in stream.text.splitlines()]
    *shown, of_worker = [event.kind for event in EVENTS if not isinstance(event, e.ToolQueue)]
    assert of_worker == "agent" and [line["type"] for line in lines] == [*shown, "text.delta", "result"]
    assert lines[-2] == {**lines[-2], "agent": "w1", "lane": "01J", "text": "of a worker"}
    assert lines[0] == {
        "v": 1,
        "seq": 0,
        "at": "2026-01-02T00:00:00.000Z",
        "type": "session.start",
        "session": "01",
        "model": "m",
        "recipe": "ask",
        "resumed": False,
    }
    assert "everything" not in stream.text
    assert [line["answer"]["answer"] for line in lines if line["type"] == "approval.answer"] == [
        "allow",
        "deny",
        "defer",
    ]
    assert "7 bytes that were not kept" in remarks.text


def test_quiet_tells_only_errors_and_refusals() -> None:
    stream = KeptStream()
    remarks = NoticeLines(stream, quiet=True)
    for event in EVENTS:
        remarks.feed(event)
    remarks.print_notice("x")
    assert stream.text == ""
    remarks.print_error("nexus: it went wrong.")
    assert stream.text == "nexus: it went wrong.\n"


def test_a_log_names_the_long_waits_and_once_that_a_dead_provider_is_tried_again() -> None:
    stream = KeptStream()
    remarks = NoticeLines(stream)
    for attempt, seconds in ((1, 2.0), (1, 45.0), (2, 1.0), (3, 2.0)):
        remarks.feed(e.Retry(attempt, seconds, "rate limited"))
    assert stream.text == "nexus: retry 1 in 45 s: rate limited\nnexus: retry 3 in 2 s: rate limited\n"


def test_a_drop_has_the_keys_that_it_has_in_a_result_and_in_the_report() -> None:
    stream = KeptStream()
    drop = Drop("d1", "x", 5, Cause.OUTPUT_CAP, "2026-01-01T00:00:00Z", uncounted=7)
    JsonLinesRenderer(stream).feed(e.ContextDrop(drop))
    line = json.loads(stream.text)
    assert line["type"] == "context.drop" and line["drop"]["id"] == "d1"
    assert {key: line[key] for key in ("id", "what", "tokens", "cause", "recall", "uncounted_bytes")} == {
        "id": "d1",
        "what": "x",
        "tokens": 5,
        "cause": "output_cap",
        "recall": "d1",
        "uncounted_bytes": 7,
    }


def test_a_number_that_json_does_not_have_is_null() -> None:
    stream = KeptStream()
    call = ToolCall("c1", "bash", {"timeout": float("inf"), "rest": [float("nan"), 1.5]})
    JsonLinesRenderer(stream).feed(e.ToolCallEvent(call, ""))
    line = json.loads(stream.text, parse_constant=lambda name: 1 / 0)
    assert line["call"]["arguments"] == {"timeout": None, "rest": [None, 1.5]}


def refused(*levels: str) -> str:
    kept = KeptStream()
    why = "not for this run."
    calls = [{"tool": "bash", "subject": f"c{n}", "why": why, "level": at} for n, at in enumerate(levels)]
    outcome = e.Outcome(True, 0, "text", "stop", None, 1, Usage(), 0.5, denied=tuple(calls))
    NoticeLines(kept).feed(e.TurnEnd(outcome))
    return kept.text


def test_what_lets_refused_calls_run_is_named_only_where_something_does() -> None:
    only = "No rule can allow {}: approve it in a terminal, or use --allow all, which allows everything that no rule "
    only += "denies."
    assert refused("all") == f"nexus: 1 call was refused: bash c0. {only.format('it')}\n"
    assert refused("edit", "edit") == "nexus: 2 calls were refused: bash c0; bash c1. --allow edit lets them run.\n"
    assert refused("edit", "all", "").endswith(
        f"--allow edit lets `bash c0` run. {only.format('`bash c1`')} Not for this run.\n"
    )
    assert refused("", "") == "nexus: 2 calls were refused: bash c0; bash c1. Not for this run.\n"
