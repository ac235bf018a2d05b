"""Workers while they run and when they are done: a line each, at any width, apart from what the model says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from nexus_cli.core import event as e
from nexus_cli.core.approval import Allow, Question
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.usage import Usage
from nexus_cli.reports.text.lines import worker_title
from nexus_cli.text.cells import cells
from nexus_cli.ui.render.question_text import list_prompt, question_text
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.rows import fit_row

TASK = "fix the parser so that it takes 漢字 names"
CALL = ToolCall("c1", "agent", {"task": TASK})
OTHER = ToolCall("c2", "agent", {"task": "write the docs"})
BASH = ToolCall("c1", "bash", {"command": "pytest -q"})
REPORT = "Fixed it.\n\nThe tests pass.\nMore words."


def outcome(text: str = "") -> e.Outcome:
    return e.Outcome(True, 0, text, "stop", None, 3, Usage(), 12.0)


def row(id_: str, state: str, **more: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "call": "c1",
        "task": TASK,
        "state": state,
        "steps": 0,
        "tokens": 0,
        "cost_usd": 0.0,
        "seconds": 0.0,
        "error": "",
        "worktree": "",
        "left": "",
        "to_review": False,
        **more,
    }


def told(id_: str, state: str, **more: Any) -> e.AgentEvent:
    return e.AgentEvent(id_, "01", e.WorkerState(row(id_, state, **more)))


def done(id_: str = "w1", **more: Any) -> e.AgentEvent:
    return told(id_, "finished", **{"steps": 5, "tokens": 12_040, "cost_usd": 0.0123, "seconds": 14.2, **more})


def of(id_: str, *events: e.Event) -> list[e.Event]:
    return [e.AgentEvent(id_, "01", one) for one in events]


@dataclass
class Seen:
    """What a person sees of events."""

    width: int = 100
    drawn: bool = True
    commands: bool = True
    pieces: list[str] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        theme = Theme(colour=False)
        self.renderer = RichRenderer(
            self.pieces.append, lambda: self.width, theme, lambda: self.now, drawn=self.drawn, commands=self.commands
        )

    def feed(self, *events: e.Event) -> Seen:
        for event in events:
            self.renderer.feed(event)
        return self

    @property
    def lines(self) -> list[str]:
        return "".join(self.pieces).rstrip("\n").split("\n")

    def live(self, rows: int = 10) -> list[str]:
        return self.renderer.live(rows)


def two_at_work(width: int = 100) -> Seen:
    seen = Seen(width).feed(e.TurnStart("x"), e.ToolCallEvent(CALL, TASK), e.ToolCallEvent(OTHER, "write the docs"))
    return seen.feed(
        told("w1", "running"),
        told("w2", "waiting", call="c2", task="write the docs"),
        *of(
            "w1",
            e.StepStart(1),
            e.Text("I SAY"),
            e.Thinking("I THINK"),
            e.ToolCallEvent(BASH, "pytest -q"),
            e.ToolOutput("c1", "OUTPUT"),
            e.StepEnd(1, "tool_calls", Usage(2000, 40, cost_usd=0.01)),
        ),
    )


def test_each_worker_is_one_line_in_the_place_of_its_call() -> None:
    seen = two_at_work(110)
    seen.now = 7.0
    assert seen.live() == [
        "● agent w1 fix the parser so that it takes 漢字 names · bash pytest -q · 1 step · 2k tokens · $0.0100  7 s",
        "○ agent w2 write the docs · waiting for a free slot",
    ]
    assert "running" in seen.renderer.spinner() and seen.pieces == []


@pytest.mark.parametrize("width", [4, 12, 20, 40, 60, 80, 100, 160])
def test_lines_fit_and_name_the_worker_and_what_it_does(width: int) -> None:
    seen = two_at_work(width)
    seen.feed(told("w1.1", "running", task="down there"), *of("w1.1", e.StepStart(1)))
    for line in seen.live():
        assert cells(line) < max(width, 4), line
    if width >= 40:
        assert "w1 " in seen.live()[0] and "bash" in seen.live()[0] and "7 s" not in seen.live()[0]


def test_workers_of_workers_stand_below_theirs_and_give_way_first() -> None:
    seen = two_at_work(80).feed(told("w1.1", "running", task="look deeper"), *of("w1.1", e.StepStart(1)))
    first, nested, second = seen.live()
    assert first.startswith("● agent w1 ") and second.startswith("○ agent w2")
    assert nested == "    ● w1.1 look deeper · waiting for the model  0 s"
    assert [line[:10] for line in seen.live(2)] == ["● agent w1", "○ agent w2"]
    assert seen.live(1) == ["... and 2 more"]


def test_a_worker_that_is_done_leaves_one_line_with_the_beginning_of_its_report() -> None:
    seen = two_at_work().feed(*of("w1", e.TurnEnd(outcome(REPORT))), done("w1"))
    assert seen.live()[0].startswith("✓ agent w1 ") and seen.pieces == [], "its call has no result yet"
    seen.feed(e.ToolResultEvent(CALL, ToolResult(f"[figures]\n{REPORT}"), 9, 14.2))
    assert seen.lines == [
        "✓ agent w1 fix the parser so that it takes 漢字 names · 5 steps · 12k tokens · $0.0123 · 14.2 s",
        "    Fixed it.",
        "    The tests pass.",
    ]
    for words in ("I SAY", "I THINK", "OUTPUT", "More words"):
        assert words not in "".join([*seen.pieces, *seen.live()])
    assert seen.renderer.last_output == (f"agent w1 {TASK}", f"[figures]\n{REPORT}"), "all of it is a key away"


def test_a_worker_that_failed_says_why_and_its_own_workers_stay_below_it() -> None:
    seen = Seen().feed(e.ToolCallEvent(CALL, TASK), told("w1", "running"), told("w1.1", "running", task="deeper"))
    seen.feed(done("w1.1", task="deeper", steps=1), told("w1", "failed", steps=2, error="limit max_steps reached"))
    seen.feed(e.ToolResultEvent(CALL, ToolResult("[w1]", error="w1 failed: limit max_steps reached"), 9, 3.0))
    first, *below = seen.lines
    assert first.startswith("✗ agent w1 fix") and first.endswith(" · 2 steps · 3.0 s")
    assert below == [
        "    w1 failed: limit max_steps reached",
        "    w1.1 finished · 1 step · 12k tokens · $0.0123 · 14 s",
    ]


@pytest.mark.parametrize(("commands", "way"), [(True, "/agents review w1"), (False, "nexus worktree diff x-w1")])
def test_what_a_worker_made_in_a_worktree_is_named_with_the_way_to_it(commands: bool, way: str) -> None:
    seen = Seen(commands=commands).feed(e.ToolCallEvent(CALL, TASK), told("w1", "running"))
    seen.feed(done(worktree="x-w1", to_review=True))
    seen.feed(e.ToolResultEvent(CALL, ToolResult("done"), 9, 3.0))
    assert seen.lines[-1] == f"    {way} (worktree x-w1)"


def test_a_worker_in_the_background_is_counted_and_leaves_its_line_when_it_ends() -> None:
    seen = Seen(120).feed(e.TurnStart("x"), e.ToolCallEvent(CALL, TASK), told("w1", "running"))
    seen.feed(e.ToolResultEvent(CALL, ToolResult("w1 works in the background"), 9, 0.0))
    assert seen.lines == [f"✓ agent w1 {TASK} · in the background"]
    seen.feed(e.Text("Meanwhile I say this."))
    assert seen.live()[-1].startswith("● agent w1 ") and "Meanwhile" in seen.live()[1]
    seen.feed(e.TurnEnd(outcome("Meanwhile")))
    assert seen.renderer.background_workers == 1 and seen.live() == []
    seen.feed(*of("w1", e.TurnEnd(outcome(REPORT))), done())
    assert seen.lines[-3].startswith("✓ agent w1 ") and seen.lines[-1] == "    The tests pass."
    assert seen.renderer.background_workers == 0


def test_a_line_of_a_worker_never_stands_inside_of_a_text() -> None:
    seen = Seen().feed(told("w1", "running"), e.TurnStart("x"), e.Text("```\none\n"), done())
    seen.feed(*of("w1", e.Notice("careful")), e.Text("two\n"))
    assert not any("w1" in piece for piece in seen.pieces)
    seen.feed(e.Text("```\n"))
    seen.feed(e.StepEnd(1, "stop", Usage()))
    text = "\n".join(seen.lines)
    assert text.index("one") < text.index("two") < text.index("✓ agent w1") < text.index("! w1: careful")


def test_a_worker_that_goes_on_after_its_report_has_a_line_again() -> None:
    steer = ToolCall("c9", "agents", {"action": "steer"})
    seen = Seen().feed(e.TurnStart("x"), told("w1", "running"), done(), e.ToolCallEvent(steer, "steer"))
    seen.feed(told("w1", "running", steps=5), *of("w1", e.StepStart(6)))
    assert [line[:12] for line in seen.live()][-2:] == ["● agents ste", "● agent w1 f"]
    seen.feed(done(steps=6), e.ToolResultEvent(steer, ToolResult(REPORT), 9, 1.0))
    assert sum(line.startswith("✓ agent w1") for line in seen.lines) == 2


def test_where_nothing_is_drawn_a_line_says_that_a_worker_has_started() -> None:
    seen = Seen(drawn=False).feed(told("w1", "waiting"), told("w1", "running"))
    assert seen.lines == [f"· w1 started: {TASK}"]


def test_a_worker_that_asks_says_so_and_nothing_spins_until_all_its_questions_are_answered() -> None:
    seen = two_at_work(80)
    two = [Question(ToolCall(id_, "bash", {}), "bash ls", "why", agent="w1") for id_ in ("c1", "c5")]
    seen.feed(*of("w1", *map(e.ApprovalRequest, two)))
    assert "asks you" in seen.live()[0] and not seen.renderer.moving
    assert seen.renderer.spinner() == "waiting for your answer"
    seen.feed(*of("w1", e.ApprovalAnswer("c1", Allow())))
    assert not seen.renderer.moving
    seen.feed(*of("w1", e.ApprovalAnswer("c5", Allow())))
    assert seen.renderer.moving and "bash pytest" in seen.live()[0]


@pytest.mark.parametrize("between", ["a question", "an end"])
def test_an_outcome_below_the_lines_of_a_worker_names_its_call(between: str) -> None:
    edit = ToolCall("c7", "edit_file", {"path": "app.py", "edits": []})
    theirs = Question(BASH, "bash ls", "why", agent="w1")
    events = of("w1", e.ApprovalRequest(theirs)) if between == "a question" else [done("w1", call="c0")]
    seen = Seen().feed(e.TurnStart("x"), told("w1", "running", call="c0"), e.ToolCallEvent(edit, "app.py"))
    seen.feed(e.ApprovalRequest(Question(edit, "edit app.py", "why")), *events, e.ApprovalAnswer("c7", Allow()))
    seen.feed(
        e.ToolResultEvent(edit, ToolResult("1 x", diff="--- a/app.py\n+++ b/app.py\n@@ -1 +1 @@\n-y\n+x\n"), 9, 0.1)
    )
    assert "✓ edit app.py · +1 -1" in seen.lines, seen.lines


def test_a_stopped_worker_asks_no_more() -> None:
    question = Question(BASH, "bash ls", "why", agent="w1")
    seen = two_at_work().feed(*of("w1", e.ApprovalRequest(question), e.TurnEnd(outcome())))
    assert seen.renderer.moving


@pytest.mark.parametrize("width", [8, 20, 40, 80])
def test_a_question_names_the_worker(width: int) -> None:
    question = Question(BASH, "bash pytest -q", "level", detail="pytest -q", kind="run", agent="w1.1")
    text = question_text(question, width, Theme(colour=False))
    assert "worker w1.1 asks: bash pytest -q" in " ".join(text.split()) or width < 20
    assert all(cells(line) <= width for line in text.split("\n"))
    assert list_prompt(question, 2, 3).startswith("2 of 3  worker w1.1 asks: bash pytest -q\n")
    assert fit_row(text.split("\n")[0], width) == text.split("\n")[0]


UNFINISHED = "its budget was used up; the work may be unfinished"


def test_a_worker_whose_budget_ran_out_has_no_tick_and_says_so() -> None:
    seen = two_at_work().feed(*of("w1", e.TurnEnd(outcome("Red."))), done("w1", error=UNFINISHED))
    assert seen.live()[0].startswith("! agent w1 ")
    seen.feed(e.ToolResultEvent(CALL, ToolResult("[figures]\nRed.", warning=UNFINISHED), 9, 14.2))
    assert seen.lines[0].startswith("! agent w1 fix the parser") and seen.lines[1:] == [
        f"    {UNFINISHED}",
        "    Red.",
    ]
    background = Seen().feed(told("w2", "running", call="c9"), done("w2", call="c9", error=UNFINISHED))
    assert background.lines[0].startswith("! agent w2 ") and background.lines[1] == f"    {UNFINISHED}"


def test_the_figures_of_a_running_worker_yield_to_its_task() -> None:
    task = "In src/humanize/number.py add roman() with tests, from 1 to 3999"
    seen = Seen(80).feed(e.TurnStart("x"), e.ToolCallEvent(CALL, task), told("w1", "running", task=task))
    seen.feed(*of("w1", e.StepEnd(1, "tool_calls", Usage(8_400, 100, cost_usd=0.0166)), e.StepStart(2)))
    assert seen.live() == ["● agent w1 In src/humanize/number.py add roman() … · waiting for the model  0 s"]


def test_the_totals_of_a_turn_say_that_its_workers_are_in_them() -> None:
    ended = [*of("w1", e.TurnEnd(outcome(REPORT))), done("w1"), e.ToolResultEvent(CALL, ToolResult(REPORT), 9, 1.0)]
    seen = Seen().feed(e.TurnStart("x"), e.ToolCallEvent(CALL, TASK), told("w1", "running"), *ended)
    assert seen.feed(e.TurnEnd(outcome())).lines[-1] == "· 3 steps · 12 s · with workers 0 in · 0 out"
    seen.feed(told("w2", "running", call="c9"), done("w2", call="c9"), e.TurnStart("y"), e.TurnEnd(outcome()))
    assert seen.lines[-1] == "· 3 steps · 12 s · 0 in · 0 out", "no worker was in this one"


def test_the_time_of_a_worker_that_was_sent_back_is_that_of_all_its_work() -> None:
    seen = Seen().feed(e.TurnStart("x"), told("w1", "running", call="c9", seconds=49.0))
    seen.now = 5.0
    assert seen.live()[-1].endswith("  54 s")


LONG = "\n  Fix the parser so that it takes 漢字 names and the tests of the whole suite pass again\n\nContext: much"


def test_the_title_of_a_worker_is_the_first_line_of_its_task_at_most_60_cells() -> None:
    title = worker_title(LONG)
    assert title.startswith("Fix the parser so") and cells(title) <= 60 and title.endswith("…"), title
    assert worker_title("one\ntwo") == "one" and worker_title("\n") == ""
    call = ToolCall("c1", "agent", {"task": LONG})
    seen = Seen(200).feed(e.TurnStart("x"), e.ToolCallEvent(call, LONG), told("w1", "running", task=LONG))
    assert title in seen.live()[-1] and "suite" not in seen.live()[-1]
    seen.feed(done(task=LONG), e.ToolResultEvent(call, ToolResult(REPORT), 9, 1.0))
    assert title in seen.lines[0] and "suite" not in "".join(seen.lines)


@pytest.mark.parametrize("named", [{"agent": "w1"}, {}])
def test_the_end_of_a_worker_that_was_steered_stands_below_the_call_that_steered_it(named: dict[str, str]) -> None:
    steers = ToolCall("m1", "agents", {"action": "steer", "text": "go on", **named})
    seen = Seen().feed(e.TurnStart("x"), e.ToolCallEvent(steers, "steer"), told("w1", "running"))
    seen.feed(*of("w1", e.TurnEnd(outcome(REPORT))), done("w1"), e.ToolResultEvent(steers, ToolResult(REPORT), 9, 1.0))
    steered, ended, *_ = seen.lines
    assert steered.startswith("✓ agents steer") and ended.startswith("✓ agent w1 fix the parser"), seen.lines
    other = ToolCall("m2", "agents", {"action": "steer", "agent": "w2", "text": "go on"})
    seen = Seen().feed(e.TurnStart("x"), e.ToolCallEvent(other, "steer"), told("w1", "running"), done("w1"))
    assert seen.lines[0].startswith("✓ agent w1"), "the end of another one is not held back"


MANAGED: list[tuple[dict[str, Any], ToolResult, str]] = [
    (
        {"action": "diff", "agent": "w1"},
        ToolResult("diff", counts={"files": 3, "added": 61, "removed": 0}),
        "✓ agents diff w1 · 3 files +61 -0",
    ),
    ({"action": "diff", "agent": "w1", "path": "a.py"}, ToolResult("diff"), "✓ agents diff w1 a.py"),
    (
        {"action": "apply", "agent": "w1"},
        ToolResult("applied a.py", changed=("a.py",), warning="conflicts in 3 files, marked"),
        "! agents apply w1 · conflicts in 3 files, marked",
    ),
    (
        {"action": "steer", "agent": "w1", "text": "roman(0) gives\nnothing"},
        ToolResult("[figures]"),
        '✓ agents steer w1 "roman(0) gives nothing"',
    ),
]


@pytest.mark.parametrize(("arguments", "result", "line"), MANAGED)
def test_a_managers_call_names_the_worker_the_size_and_the_remark(
    arguments: dict[str, Any], result: ToolResult, line: str
) -> None:
    calls = [ToolCall(f"m{number}", "agents", arguments) for number in range(5)]
    seen = Seen(80)
    for call in calls:
        seen.feed(e.ToolCallEvent(call, arguments["action"]))
        assert seen.live()[-1].startswith(f"● {line[2:].partition(' · ')[0]}")
        seen.feed(e.ToolResultEvent(call, result, 0, 0.1))
    assert seen.feed(e.TurnEnd(outcome())).lines[:5] == [line] * 5, "never folded into `agents 5 times`"
