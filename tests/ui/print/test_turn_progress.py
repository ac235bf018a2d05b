"""`nexus ask` in a terminal: what has happened scrolls up, what runs stands below it and leaves nothing behind."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from terminal.emulator import Emulator

from nexus_cli.core import event as e
from nexus_cli.core.approval import Allow, Question
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.usage import Usage
from nexus_cli.text.cells import cells
from nexus_cli.ui.print.notice_lines import NoticeLines
from nexus_cli.ui.print.turn_progress import TurnLines, TurnProgress
from nexus_cli.ui.render.theme import Theme

CALL = ToolCall("c1", "bash", {"command": "make"})
LATER = ToolCall("c2", "bash", {"command": "make test"})
DONE = e.Outcome(True, 0, "It *works*.", "stop", None, 2, Usage(), 12.0)
CODES = re.compile(r"\x1b\[[0-9;]*[mKA]|[\r\n]")
SPINS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Terminal:
    """One terminal, to which two streams write."""

    def __init__(self, columns: int) -> None:
        self.width = columns
        self.screen = Emulator(columns, 24)
        self.written = {"out": "", "err": ""}

    @property
    def lines(self) -> list[str]:
        return "\n".join(line.rstrip() for line in self.screen.lines_of_all()).rstrip("\n").split("\n")


class Kept:
    """A stream of it."""

    terminal = colour = True

    def __init__(self, screen: Terminal, name: str) -> None:
        self._screen, self._name = screen, name

    @property
    def width(self) -> int:
        return self._screen.width

    def write(self, text: str) -> None:
        self._screen.written[self._name] += text
        self._screen.screen.feed(text.replace("\n", "\r\n").encode())


class Stage:
    """A turn in a terminal; `draw` is a frame."""

    def __init__(self, columns: int = 80, *, text: bool = True) -> None:
        self.terminal = Terminal(columns)
        out, err = Kept(self.terminal, "out"), Kept(self.terminal, "err")
        more = {"folder": Path("/x"), "height": lambda: 24}
        self.turn = TurnProgress(out, err, Theme("dark"), text=text, **more)  # type: ignore[arg-type]
        self.remarks = NoticeLines(self.turn.notices, alone=False)

    def feed(self, *events: e.Event) -> list[str]:
        for event in events:
            self.turn.feed(event)
            self.remarks.feed(event)
        self.turn._live.draw()
        return self.terminal.lines


def spun(lines: list[str]) -> list[str]:
    return [line for line in lines if line[:1] and line[0] in SPINS]


@pytest.mark.parametrize("columns", [24, 60, 100, 160])
def test_what_runs_is_drawn_in_its_place_and_gone_at_the_end(columns: int) -> None:
    stage = Stage(columns)
    assert spun(stage.feed(e.TurnStart("x"), e.StepStart(1)))[0].startswith(f"{spun(stage.terminal.lines)[0][0]} wait")
    lines = stage.feed(e.Text("I look at **it**.\n\nAnd then"))
    assert lines[0] == "I look at it." and "And then" in lines and "writing" in spun(lines)[0]
    lines = stage.feed(e.ToolQueue((LATER,), ("make test",)), e.ToolCallEvent(CALL, "make"))
    assert [line[:6] for line in lines if "make" in line] == ["● bash", "○ bash"] and len(spun(lines)) == 1
    stage.feed(e.ToolOutput("c1", "compiling\n"), e.Notice("a notice that is long enough to be broken somewhere"))
    stage.feed(e.ToolResultEvent(CALL, ToolResult("compiling\n[exit status 0]", status=0), 5, 2.0))
    stage.feed(e.ToolCallEvent(LATER, "make test"), e.ToolResultEvent(LATER, ToolResult(error="no\nrule"), 5, 0.0))
    stage.feed(e.StepEnd(1, "tool_calls", Usage()), e.StepStart(2), e.Text("It *works*."), e.TurnEnd(DONE))
    lines = stage.terminal.lines
    assert not spun(lines) and max(map(cells, lines)) <= columns
    assert not [line for line in lines if line.startswith(("●", "○"))]
    for text in ("I look at it.", "It works.", "compiling", "nexus: a notice", "✗ bash make test"):
        assert sum(line.strip().startswith(text) for line in lines) == 1, "\n".join(lines)
    assert not CODES.sub("", stage.terminal.written["out"] + stage.terminal.written["err"]).count("\x1b")


def test_the_answer_goes_to_stdout_and_everything_else_to_stderr() -> None:
    stage = Stage()
    result = e.ToolResultEvent(CALL, ToolResult("out"), 5, 2.0)
    stage.feed(e.TurnStart("x"), e.StepStart(1), e.Text("One.\n\nTwo."), e.ToolCallEvent(CALL, "make"), result)
    stage.feed(e.Retry(1, 1.0, "busy"), e.Text("Three."), e.TurnEnd(replace(DONE, denied=())))
    assert CODES.sub(" ", stage.terminal.written["out"]).split() == ["One.", "Two.", "Three."]
    assert "One." not in stage.terminal.written["err"] and "· 1 retry after" in stage.terminal.written["err"]
    silent = Stage(text=False)
    lines = silent.feed(e.TurnStart("x"), e.StepStart(1), e.Text("One.\n\nTwo and so on"))
    assert silent.terminal.written["out"] == "" and not any("One" in line or "Two" in line for line in lines)
    assert "writing 0 s · ~4 tokens" in spun(lines)[0]


def test_nothing_is_drawn_over_a_question() -> None:
    stage = Stage()
    stage.feed(e.TurnStart("x"), e.StepStart(1), e.ToolCallEvent(CALL, "make"))
    stage.feed(e.ApprovalRequest(Question(CALL, "bash make", "the call runs a command")))
    stage.turn.err.write("bash make\nAllow bash? ")
    assert stage.feed()[-1] == "Allow bash?" and not spun(stage.terminal.lines)
    stage.terminal.screen.feed(b"y\r\n")
    lines = stage.feed(e.ApprovalAnswer("c1", Allow()))
    assert "Allow bash? y" in lines and lines.index("Allow bash? y") < lines.index("● bash  0 s")
    stage.turn.close()
    assert stage.feed()[-1] == "Allow bash? y"


def test_a_failure_is_told_once_and_by_commands_of_the_shell() -> None:
    stage = Stage()
    error = {"kind": "network", "message": "the request failed: the connection was lost", "hint": "Try again"}
    row = {"id": "c1", "tool": "bash", "subject": "rm x", "why": "no", "level": "all", "by": "defaults"}
    denied = (row, {**row, "subject": "rm y", "by": "person"})
    waits = ToolResult("f1 (project): proposed; the person can accept it: /memory accept f1")
    stage.feed(e.TurnStart("x"), e.ToolCallEvent(ToolCall("c3", "remember", {}), "that"))
    stage.feed(e.ToolResultEvent(ToolCall("c3", "remember", {}), waits, 5, 0.0))
    stage.feed(e.Notice("for good", undo="nexus rules remove x"), e.Notice("for now", undo="/permissions remove x"))
    stage.feed(e.AgentEvent("w1", "s1", e.Notice("by w1", undo="/permissions remove y")))
    stage.feed(e.TurnEnd(replace(DONE, ok=False, error=error, denied=denied)))
    text = "\n".join(stage.terminal.lines)
    assert text.count("the connection was lost") == 1 and text.count("rm x") == 1 and "rm y" not in text
    assert "nexus memory accept f1" in text and "--allow all" in text and "/permissions" not in text
    assert "w1: by w1" in text
    assert "for good \N{MIDDLE DOT} undo: nexus rules remove x" in text


async def test_the_live_lines_of_a_turn_without_its_answer_leave_nothing_behind() -> None:
    terminal = Terminal(80)
    lines = TurnLines(Kept(terminal, "err"), "dark")

    async with lines.drawn():
        lines.feed(e.TurnStart("x"))
        lines.progress._live.draw()
        assert "preparing" in terminal.lines[-1]
    assert not "".join(terminal.lines).strip()


ROW = {
    "id": "w1",
    "call": "c1",
    "task": "the task",
    "state": "running",
    "steps": 0,
    "tokens": 0,
    "cost_usd": 0.0,
    "seconds": 0.0,
    "error": "",
    "worktree": "",
    "left": "",
    "to_review": False,
}
ENDED = {**ROW, "state": "failed", "steps": 2, "tokens": 4200, "seconds": 3.0, "error": "limit max_steps reached"}


def of(worker: str, *events: e.Event) -> list[e.Event]:
    return [e.AgentEvent(worker, "01", event) for event in events]


def test_nothing_is_written_behind_a_workers_question_before_it_is_answered() -> None:
    stage = Stage()
    question = Question(LATER, "bash make test", "why", agent="w1")
    stage.feed(e.TurnStart("x"), *of("w1", e.WorkerState(ROW), e.StepStart(1), e.ApprovalRequest(question)))
    stage.turn.err.write("Run this? ")
    more = [*of("w2", e.WorkerState({**ROW, "id": "w2"}), e.WorkerState({**ENDED, "id": "w2"})), e.Text("words\n\n")]
    assert stage.feed(*more)[-1] == "Run this?"
    stage.turn.err.write("\r\x1b[K")
    lines = stage.feed(*of("w1", e.ApprovalAnswer("c2", Allow())))
    assert any(line.startswith("✗ agent w2 the task") for line in lines) and "words" in "\n".join(lines)
    assert "Run this?" not in "\n".join(lines)


def test_a_worker_that_is_stopped_while_it_asks_holds_nothing_back() -> None:
    stage = Stage()
    question = Question(LATER, "bash make test", "why", agent="w1")
    stage.feed(e.TurnStart("x"), *of("w1", e.WorkerState(ROW), e.ApprovalRequest(question)), e.Text("words\n\n"))
    assert "words" not in "\n".join(stage.feed())
    assert "words" in "\n".join(stage.feed(*of("w1", e.TurnEnd(DONE), e.WorkerState(ENDED))))


def lines_of(events: list[e.Event], *, silent: bool = False, verbose: bool = False) -> list[str]:
    """Return the lines on stderr that has neither colour nor a cursor."""
    screen = Terminal(100)
    err = Kept(screen, "err")
    err.colour = False
    turn = TurnProgress(err, err, Theme("dark", False), silent=silent, verbose=verbose)
    for event in events:
        turn.feed(event)
    return screen.lines


def test_without_a_cursor_a_worker_is_a_line_when_it_starts_and_when_it_ends_and_verbose_has_its_calls() -> None:
    events = of("w1", e.WorkerState({**ROW, "state": "waiting"}), e.WorkerState(ROW), e.Text("WORDS"))
    events += of("w1", e.ToolCallEvent(CALL, "make"), e.ToolResultEvent(CALL, ToolResult(error="no"), 1, 0.1))
    events += of("w1", e.WorkerState(ENDED))
    ended = ["\u2717 agent w1 the task \u00b7 2 steps \u00b7 4.2k tokens \u00b7 3.0 s", "    limit max_steps reached"]
    assert lines_of(events) == ["\u00b7 w1 started: the task", *ended]
    assert lines_of(events, verbose=True) == ["\u00b7 w1 started: the task", "\u00b7 w1 bash make", *ended]
    assert lines_of(events, silent=True) == [""]


def test_without_a_cursor_a_call_is_drawn_as_on_a_dumb_terminal_and_verbose_has_output_and_figures() -> None:
    result = ToolResult("compiling\n[exit status 2]", status=2)
    events: list[e.Event] = [e.SessionStart("s1", "m", "ask", False), e.ToolCallEvent(CALL, "make")]
    events += [e.ToolOutput("c1", "compiling\n"), e.ToolResultEvent(CALL, result, 5, 2.0)]
    events += [e.CompactionStart("budget", 9000), e.StepEnd(1, "stop", Usage(9, 2, 4))]
    call = ["\u2717 bash make \u00b7 exit 2 \u00b7 2.0 s", "    compiling"]
    assert lines_of(events) == [*call, "\u00b7 compacting 9,000 tokens"]
    figures = "\u00b7 step 1: stop, 9 in (4 cached), 2 out"
    begin = ["\u00b7 session s1, model m, recipe ask", "\u00b7 bash make", "    compiling"]
    assert lines_of(events, verbose=True) == [*begin, call[0], "\u00b7 compacting 9,000 tokens", figures]


def test_a_silent_turn_shows_its_answer_alone() -> None:
    screen = Terminal(100)
    out, err = Kept(screen, "out"), Kept(screen, "err")
    turn = TurnProgress(out, err, Theme("dark"), text=True, silent=True)
    result = e.ToolResultEvent(CALL, ToolResult("out"), 5, 2.0)
    for event in (
        e.TurnStart("x"),
        e.StepStart(1),
        e.ToolCallEvent(CALL, "make"),
        result,
        e.Text("Done."),
        e.TurnEnd(DONE),
    ):
        turn.feed(event)
    assert screen.lines == ["Done."] and screen.written["err"] == ""


def test_a_call_that_left_something_undone_is_a_line_also_when_it_is_quick() -> None:
    call = ToolCall("c1", "agents", {"action": "apply", "agent": "w1"})
    result = ToolResult("conflict in a.py", warning="conflicts in 1 file, marked")
    told = "! agents apply w1 \u00b7 conflicts in 1 file, marked"
    assert lines_of([e.ToolResultEvent(call, result, 1, 0.1)]) == [told]
