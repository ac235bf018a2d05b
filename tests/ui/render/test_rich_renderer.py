"""The renderer of the REPL: what is finished is put once, what is open is live, and nothing else gets out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.core import event as e
from nexus_cli.core.approval import Allow, Deny, PersonQuestion, Question
from nexus_cli.core.entry import Cause, Drop
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.usage import Usage
from nexus_cli.text.cells import cells, without_codes
from nexus_cli.tools.registry import discover_tools
from nexus_cli.ui.render import markdown_print
from nexus_cli.ui.render.markdown_blocks import Block
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import ASCII, Theme
from nexus_cli.ui.render.tool_line import describe_counts

CODES = re.compile(r"\x1b\[[0-9;]*m")
BASH = ToolCall("c1", "bash", {"command": "pytest -q"})
EDIT = ToolCall("c2", "edit_file", {"path": "a.py"})
DONE = e.Outcome(True, 0, "", "stop", None, 1, Usage(cost_usd=None), 1.0)
DIFF = "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"
ANSWER = """# Title

Some *text* with `code`.
- one
- two

```python
def f():
    return 1
```
| a | b |
|--|--|
| 1 | 2 |
"""


class Seen:
    """A renderer, what it put, and a clock."""

    def __init__(
        self, width: int = 60, *, colour: bool = False, ascii_: bool = False, name: str = "dark", drawn: bool = True
    ) -> None:
        self.pieces: list[str] = []
        self.width = width
        self.now = 100.0
        theme = Theme(name, colour, ASCII) if ascii_ else Theme(name, colour)
        self.renderer = RichRenderer(self.pieces.append, lambda: self.width, theme, lambda: self.now, drawn=drawn)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def feed(self, *events: e.Event, every: float = 0.0) -> Seen:
        for event in events:
            self.now += every
            self.renderer.feed(event)
        return self

    def live(self, rows: int = 10) -> list[str]:
        return self.renderer.live(rows)


def put(*events: e.Event, width: int = 60) -> str:
    return Seen(width).feed(*events).text


def resulted(result: ToolResult, call: ToolCall = BASH, tokens: int = 0, seconds: float = 0.0) -> e.ToolResultEvent:
    return e.ToolResultEvent(call, result, tokens, seconds)


EVENTS: tuple[e.Event, ...] = (
    e.SessionStart("01", "m", "chat", False),
    e.TurnStart("hi"),
    e.StepStart(1),
    e.ContextPlan({"sections": []}),
    e.CacheExpectation(100),
    e.Thinking("hm, well"),
    e.Text(ANSWER),
    e.CacheResult(100, 90, 0),
    e.StepEnd(1, "tool_calls", Usage(1, 2)),
    e.ToolQueue((EDIT,), ("a",)),
    e.ToolCallEvent(BASH, "pytest -q"),
    e.ApprovalRequest(Question(BASH, "what", "why")),
    e.ApprovalAnswer("c1", Allow()),
    e.PersonAsked("q1", (PersonQuestion("Which?"),)),
    e.PersonAnswered("q1"),
    e.ToolOutput("c1", "out\n"),
    resulted(ToolResult("out\n[exit status 0]", status=0), tokens=3, seconds=1.0),
    e.ContextDrop(Drop("d1", "x", 5, Cause.OUTPUT_CAP, "2026-01-01T00:00:00Z", uncounted=7)),
    e.ContextRecall("d1", 4),
    e.SteeringMessage("and tests too"),
    e.CompactionStart("budget", 100),
    e.CompactionDone(True, 100, 30),
    e.Retry(1, 2.0, "busy"),
    e.Notice("note"),
    e.SessionAct("command", "!ls", "person", "!ls", output="out"),
    e.TurnEnd(DONE),
    e.AgentEvent("w1", "01J", e.Text("of a worker")),
    e.WorkerState({}),
)


def test_every_event_of_the_union_is_taken() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(e.Event))
    seen = Seen().feed(*EVENTS)
    for part in (
        "thought (",
        "Title",
        "✓ 1.0 s",
        "left out as d1",
        "recalled d1",
        "▌ and tests too",
        "compacted: 100 -> 30 tokens",
        "1 retry after 2.0 s: busy",
        "! note",
    ):
        assert part in seen.text, part
    assert "7 bytes that were not kept" in " ".join(seen.text.split())
    assert seen.live() == [] and seen.renderer.spinner() == "" and not seen.renderer.moving
    assert "\n\n\n" not in seen.text and not seen.text.startswith("\n")


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("begin", ["", "```\n"])
def test_live_lines_leave_the_last_column_free_for_a_screen_never_draws_there(width: int, begin: str) -> None:
    words = "Word after word **bold** and `code` goes by. "
    seen = Seen(width).feed(e.Text(begin + words * 5))
    assert max(map(len, seen.live())) < width
    assert words.strip() in " ".join(" ".join(seen.live()).split()) or begin


def test_where_nothing_is_drawn_lines_come_before_their_block_ends() -> None:
    seen = Seen(20, drawn=False).feed(e.Text("Some words go by and others come. And then s"))
    assert seen.text == "Some words go by and\n" + "others come. And\n"
    assert seen.feed(e.Text("ome\n\n```\none\ntwo")).text.endswith("And\nthen some\n\none\n")


def test_where_nothing_is_drawn_no_key_is_spoken_of() -> None:
    long = ToolResult("".join(f"{n}\n" for n in range(30)), status=0)
    wrong = ToolResult(error="\n".join("abcdefghij"))
    events: list[e.Event] = [e.Thinking("some thought"), e.Text("Yes\n\n")]
    events += [e.ToolCallEvent(BASH, "ls"), resulted(long), e.ToolCallEvent(BASH, "ls"), resulted(wrong)]
    text = Seen().feed(*events).text
    assert text.count("Ctrl+") == 1 and "lines before: /transcript\n" in text and "more lines: /transcript\n" in text
    told = Seen(drawn=False).feed(*events).text
    assert "Ctrl+" not in told and "(2 words)" in told and told.count(": /transcript") == 2


def test_finished_blocks_are_put_once_and_the_open_one_is_live() -> None:
    seen = Seen().feed(e.Text("one\n\ntw"))
    assert seen.text == "one\n" and seen.live() == ["", "tw"]
    seen.feed(e.Text("o\n\n```py\nx = 1\n"))
    assert seen.text == "one\n\ntwo\n" and seen.live() == ["", "x = 1", ""]
    seen.feed(e.StepEnd(1, "stop", Usage()))
    assert seen.text == "one\n\ntwo\n\nx = 1\n" and seen.live() == []


def test_a_fence_that_stays_open_swallows_nothing_after_the_turn() -> None:
    seen = Seen().feed(e.Text("```py\nx = 1"), e.TurnEnd(DONE))
    seen.renderer.show_user_message("next")
    seen.feed(e.Text("**bold** text"), e.TurnEnd(DONE))
    assert seen.text == "x = 1\n\n▌ next\n\nbold text\n"


def test_deltas_of_a_single_character_give_the_same() -> None:
    whole = Seen().feed(e.Thinking("a b\nc"), e.Text(ANSWER), e.TurnEnd(DONE)).text
    one_by_one = Seen().feed(*map(e.Thinking, "a b\nc"), *map(e.Text, ANSWER), e.TurnEnd(DONE))
    assert one_by_one.text == whole


def test_the_width_may_change_between_blocks() -> None:
    seen = Seen(80).feed(e.Text("word " * 14 + "\n\n"))
    seen.width = 20
    seen.feed(e.Text("word " * 14 + "\n\n"))
    lines = seen.text.split("\n")
    assert len(lines[0]) == 69 and all(len(line) <= 20 for line in lines[1:]) and seen.text.count("word") == 28


def test_a_command_is_one_line_while_it_runs_and_becomes_its_outcome() -> None:
    seen = Seen().feed(e.TurnStart(""), e.ToolCallEvent(BASH, "pytest -q"))
    seen.now += 3
    seen.feed(e.ToolOutput("c1", "first\nsec"), e.ToolOutput("c1", "ond\n"))
    assert seen.live() == ["● bash pytest -q  3 s", "    second"]
    seen.feed(e.ToolOutput("c1", "1 of 3\r2 of"), e.ToolOutput("c1", " 3\r"))
    assert seen.live()[1:] == ["    2 of 3"], "an overwritten line is shown as on a terminal"
    assert seen.live(1) == ["● bash pytest -q  3 s"]
    output = "0\n1\n2\n1 of 3\r2 of 3\r3\n\x1b[31m4\n5\n[exit status 1]"
    seen.feed(resulted(ToolResult(output, status=1), tokens=1234, seconds=3.21))
    assert seen.text == "✗ bash pytest -q · exit 1 · 3.2 s\n" + "".join(
        f"    {line}\n" for line in ("... 2 lines before: /transcript", "2", "3", "␛[31m4", "5")
    )
    assert seen.live() == []
    assert seen.renderer.last_output == ("bash pytest -q", output.replace("\x1b", "␛").replace("\r", "␍"))


def test_without_live_lines_a_command_that_runs_for_a_while_is_named() -> None:
    one, other = (ToolCall(name, "bash", {"command": f"make {name}"}) for name in ("a", "b"))
    seen = Seen(drawn=False).feed(e.TurnStart("go"), e.ToolCallEvent(one, "make a"))
    seen.renderer.announce("a")
    assert seen.text == "· bash make a\n"
    seen.feed(resulted(ToolResult("made\n[exit status 0]", status=0), one, 3, 4.0))
    seen.renderer.announce("a")
    assert seen.text == "· bash make a\n✓ 4.0 s\n    made\n", "its outcome alone follows"
    both = Seen(drawn=False).feed(e.ToolCallEvent(one, "make a"), e.ToolCallEvent(other, "make b"))
    for name in ("a", "b"):
        both.renderer.announce(name)
    both.feed(*(resulted(ToolResult(status=0), call, 3, 4.0) for call in (other, one)), *read(1))
    both.renderer.announce("1")
    names = ["· bash make a", "· bash make b", "✓ bash make a · 4.0 s", "✓ bash make b · 4.0 s"]
    assert both.text.splitlines()[:4] == names


def test_notes_for_the_model_take_no_line_of_a_commands_output() -> None:
    notes = "[sandbox: without OPENAI_API_KEY (setting sandbox.env_pass)]\n[exit status 0; colour codes left out]"
    passed = put(resulted(ToolResult(f"5 passed\n{notes}", status=0)), e.TurnEnd(DONE))
    assert passed == "✓ bash pytest -q\n    5 passed\n"
    for more in (
        "[hook check.sh: think\nof the tests]",
        "[Bash is bash here]\n\n[nexus: the MCP server x was removed]",
    ):
        result = ToolResult(f"[exit status 0]\n[seen] 5 passed\n[exit status 0]\n{more}", status=0)
        lines = put(resulted(result), e.TurnEnd(DONE))
        assert lines == "✓ bash pytest -q\n    [exit status 0]\n    [seen] 5 passed\n", (
            "the output has a line like ours"
        )
    refused = "[sandbox: no network; nobody can be asked to allow it]\n[exit status 1]"
    assert "    [sandbox: no network" in put(resulted(ToolResult(refused, status=1)))


def asking(*questions: Question) -> list[e.Event]:
    answered = (e.ApprovalAnswer(one.call.id, Allow()) for one in questions)
    return [*map(e.ApprovalRequest, questions), *answered]


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (ToolResult("3 open issues"), ["    3 open issues"]),
        (ToolResult("".join(f"{n}\n" for n in range(9))), ["    ... 5 lines before: /transcript", *"5678"]),
        (ToolResult(error="no such\nproject"), ["    no such", "    project"]),
    ],
)
def test_the_result_of_a_server_is_shown_as_that_of_a_command(result: ToolResult, shown: list[str]) -> None:
    call = ToolCall("c1", "mcp__tracker__issues", {"project": "shop"})
    lines = put(e.ToolCallEvent(call, "shop"), resulted(result, call), e.TurnEnd(DONE)).splitlines()
    place = next(number for number, line in enumerate(lines) if "mcp__tracker__issues" in line)
    assert [line.strip() for line in lines[place + 1 :][: len(shown)]] == [line.strip() for line in shown]


def test_the_output_of_the_last_command_is_seen_while_the_model_goes_on() -> None:
    seen = Seen().feed(e.TurnStart(""), e.ToolCallEvent(BASH, "pytest -q"))
    seen.feed(resulted(ToolResult("11 passed\n[exit status 0]", status=0)))
    assert seen.live(6)[1:] == ["    11 passed"] and not seen.text


def test_a_call_that_was_answered_waits_for_the_other_questions_of_its_step() -> None:
    calls = [ToolCall(name, "bash", {"command": f"make {name}"}) for name in ("a", "b")]
    asked = [Question(call, "w", "y") for call in calls]
    seen = Seen().feed(e.TurnStart(""), *(e.ToolCallEvent(one, f"make {one.id}") for one in calls))
    seen.feed(*map(e.ApprovalRequest, asked), e.ApprovalAnswer("a", Allow()))
    seen.now += 5
    assert seen.live()[0].lstrip().startswith("\N{WHITE CIRCLE} bash") and "5 s" not in seen.live()[0]
    seen.feed(e.ApprovalAnswer("b", Deny("no")))
    seen.now += 2
    assert seen.live()[0] == "\N{BLACK CIRCLE} bash make a  2 s", "it began with the last answer"


def test_a_call_that_was_declined_does_not_look_as_if_it_waited_for_the_other_questions() -> None:
    calls = [ToolCall(name, "bash", {"command": f"make {name}"}) for name in ("a", "b")]
    seen = Seen().feed(e.TurnStart(""), *(e.ToolCallEvent(one, f"make {one.id}") for one in calls))
    seen.feed(*(e.ApprovalRequest(Question(call, "w", "y")) for call in calls), e.ApprovalAnswer("a", Deny("no")))
    seen.now += 5
    assert seen.live() == ["\N{BALLOT X} bash make a"]
    seen.feed(e.ApprovalAnswer("b", Allow()))
    assert [line[0] for line in seen.live()] == ["\N{BALLOT X}", "\N{BLACK CIRCLE}"]


def test_a_call_that_was_asked_about_alone_stands_once_and_has_only_its_outcome() -> None:
    seen = Seen().feed(e.TurnStart(""), e.ToolCallEvent(BASH, "pytest -q"), *asking(Question(BASH, "w", "y"))[:1])
    assert seen.live() == [], "it does not run yet"
    seen.now += 60
    seen.feed(e.ApprovalAnswer("c1", Allow()))
    seen.now += 3
    seen.feed(e.ToolOutput("c1", "words\n"))
    assert seen.live() == ["● bash  3 s", "    words"]
    seen.feed(resulted(ToolResult("words\n[exit status 1]", status=1), tokens=1234, seconds=3.21))
    assert seen.text == "✗ exit 1 · 3.2 s\n    words\n"
    assert seen.renderer.last_output is not None and seen.renderer.last_output[0] == "bash pytest -q"
    outcomes = {
        "✓ +1 -1": ToolResult("done", diff=DIFF),
        "✓ done": ToolResult(),
        "✗ no such file": ToolResult(error="no such file"),
        "✗ Declined: use make": ToolResult(error="Declined: use make", denied=True, ran=False),
    }
    for text, result in outcomes.items():
        question = Question(EDIT, "edit_file a.py", "the call changes files", DIFF)
        assert put(e.ToolCallEvent(EDIT, "a.py"), *asking(question), resulted(result, EDIT)) == f"{text}\n"


def test_calls_that_were_asked_about_together_are_named_by_their_results_without_their_diffs() -> None:
    both = asking(Question(BASH, "bash ls", "y"), Question(EDIT, "edit_file a.py", "y", DIFF))
    text = put(
        e.ToolCallEvent(BASH, "ls"),
        *both,
        resulted(ToolResult("x"), BASH),
        e.ToolCallEvent(EDIT, "a.py"),
        resulted(ToolResult("done", diff=DIFF), EDIT),
    )
    assert [line[:15].rstrip(" ·") for line in text.splitlines()] == ["✓ bash ls", "✓ edit a.py · +"]


def test_a_call_that_waits_while_the_next_one_is_asked_about_is_named_whole() -> None:
    questions = [Question(EDIT, "edit_file a.py", "y", DIFF), Question(BASH, "bash ls", "y")]
    seen = Seen().feed(
        e.TurnStart(""),
        e.ToolCallEvent(EDIT, "a.py"),
        e.ToolCallEvent(BASH, "ls"),
        *map(e.ApprovalRequest, questions),
        e.ApprovalAnswer(EDIT.id, Allow()),
    )
    assert seen.live() == ["○ edit a.py"]


def test_a_call_that_was_stopped_has_not_failed() -> None:
    ran = ToolResult("one\ntwo", "interrupted while it ran: the person stopped the turn", stopped=True)
    waited = ToolResult(error="not run: the person stopped the turn", stopped=True, ran=False)
    text = put(e.ToolCallEvent(BASH, "make"), resulted(ran, seconds=4.5))
    assert text == "· bash make · stopped · 4.5 s\n    one\n    two\n"
    assert put(e.ToolCallEvent(BASH, "make"), resulted(waited)) == "· bash make · not run\n"
    asked = asking(Question(BASH, "bash make", "y"))
    assert put(e.ToolCallEvent(BASH, "make"), *asked, resulted(ran)) == "· stopped\n    one\n    two\n"
    assert put(e.ToolCallEvent(BASH, "make"), *asked, resulted(waited)) == "· not run\n"


def test_what_comes_between_the_question_and_the_result_names_the_call_again() -> None:
    other = ToolCall("c9", "read_file", {"path": "b"})
    text = put(
        e.ToolCallEvent(BASH, "ls"),
        e.ToolCallEvent(other, "b"),
        *asking(Question(BASH, "bash ls", "y")),
        resulted(ToolResult("x"), other),
        resulted(ToolResult("x"), BASH),
        e.TurnEnd(DONE),
    )
    assert "✓ bash ls" in text


def test_what_the_person_refused_is_not_told_again_at_the_end() -> None:
    row: Any = {"tool": "bash", "subject": "ls", "level": "auto"}
    rows = tuple({**row, "by": by} for by in ("person", "plan"))
    assert "refused" not in put(e.TurnEnd(replace(DONE, denied=rows)))


def test_several_calls_run_side_by_side_and_those_beyond_the_room_are_counted() -> None:
    calls = [ToolCall(f"c{n}", "grep", {"pattern": f"p{n}"}) for n in range(5)]
    seen = Seen().feed(
        *(e.ToolCallEvent(call, f"p{number}") for number, call in enumerate(calls)), e.ToolOutput("c0", "x")
    )
    assert [line[:9] for line in seen.live(6)] == ["● grep p0", "    x", *(f"● grep p{n}" for n in range(1, 5))]
    assert seen.live(3)[-1] == "... and 3 more" and len(seen.live(3)) == 3
    assert seen.live(0) == []


def read(number: int, result: ToolResult | None = None) -> list[e.Event]:
    call = ToolCall(f"r{number}", "read_file", {"path": f"f{number}.py"})
    done = result or ToolResult("x\n", counts={"lines": number})
    return [e.ToolCallEvent(call, f"f{number}.py"), resulted(done, call)]


def test_a_line_says_what_was_found_as_the_tool_reports_it() -> None:
    found = [
        ({"lines": 18}, False, "18 lines"),
        ({"lines": 1}, False, "1 line"),
        ({"lines": 0}, False, "empty"),
        ({"lines": 50, "first": 101, "total": 4000}, False, "lines 101-150 of 4,000"),
        ({"lines": 50, "first": 101, "total": 4000}, True, "lines 101-150 of 4,000+"),
        ({"matches": 3, "files": 2}, False, "3 matches in 2 files"),
        ({"matches": 100, "files": 1}, True, "100+ matches in 1 file"),
        ({"lines": 28, "cells": 1, "pages": 2}, False, "28 lines, 1 cell, 2 pages"),
        ({"matches": 0, "files": 0}, False, "no matches"),
        ({"entries": 1}, False, "1 entry"),
        ({"files": 0}, False, "no files"),
        ({"unheard": 3}, False, ""),
    ]
    nouns = {noun: one for tool in discover_tools().values() for noun, one in tool.counts.items()}
    for counts, more, text in found:
        assert describe_counts(counts, more, nouns) == text
    grep = ToolCall("g", "grep", {"pattern": "discount", "path": "src"})
    result = ToolResult("...", counts={"matches": 3, "files": 2})
    text = put(e.ToolCallEvent(grep, "discount"), resulted(result, grep, 900, 0.5), e.TurnEnd(DONE))
    assert text == "✓ grep discount in src · 3 matches in 2 files\n"
    pages = ToolResult("x", counts={"pages": 4, "images": 2, "image_tokens": 3000})
    assert put(*read(1, pages), e.TurnEnd(DONE)) == "✓ read f1.py · 4 pages · 2 images, about 3,000 tokens\n"


@pytest.mark.parametrize(
    ("command", "status", "warning", "line"),
    [
        ("make && make test", 0, "", "✓ bash make && make test"),
        ("make test 2>&1", 0, "", "✓ bash make test 2>&1"),
        ("pytest -q 2>&1 | tail", 0, "", "· bash pytest -q 2>&1 | tail · exit 0"),
        ("pytest -q 2>&1 | tail", 0, "pytest exited 1", "! bash pytest -q 2>&1 | tail · pytest exited 1"),
        ("false; true", 0, "", "· bash false; true · exit 0"),
        ("make test", 2, "", "✗ bash make test · exit 2"),
    ],
)
def test_a_tick_means_that_the_whole_command_went_well(command: str, status: int, warning: str, line: str) -> None:
    call = ToolCall("c1", "bash", {"command": command})
    result = ToolResult("", status=status, warning=warning)
    text = put(e.ToolCallEvent(call, command), resulted(result, call), e.TurnEnd(DONE))
    assert text == line + "\n"


def test_many_calls_that_only_look_become_two_lines_and_can_be_opened() -> None:
    grep = ToolCall("g", "grep", {"pattern": "x y"})
    seen = Seen(70).feed(e.TurnStart(""))
    for number in range(1, 4):
        seen.feed(*read(number))
    assert seen.text == "" and [line[:12] for line in seen.live()] == [f"✓ read f{n}.py" for n in (1, 2, 3)]
    seen.feed(e.Thinking("hm"), e.ToolCallEvent(grep, "x y"), resulted(ToolResult("m"), grep), *read(2), *read(4))
    assert seen.live() == ["✓ 6 calls · read 4 files · 1 search", "    f1.py, f2.py, f3.py, x y, f4.py"]
    seen.feed(e.Thinking("well"), e.Text("Now I"))
    assert seen.text == (
        "✓ 6 calls · read 4 files · 1 search: /transcript\n    f1.py, f2.py, f3.py, x y, f4.py\n"
        "· thought (1 word, Ctrl+T shows)\n"
    )
    title, output = seen.renderer.last_output or ("", "")
    assert title == "6 calls · read 4 files · 1 search" and output.startswith("read f1.py\nx\n\nread f2.py\nx\n")
    assert output.count("read f") == 5 and "grep x y\nm\n" in output


def test_few_calls_stay_lines_of_their_own_and_a_failure_is_never_folded() -> None:
    seen = Seen().feed(e.TurnStart(""), *read(1), e.Thinking("hm"), *read(2), e.TurnEnd(DONE))
    assert seen.text == "✓ read f1.py · 1 line\n· thought (1 word, Ctrl+T shows)\n✓ read f2.py · 2 lines\n"
    seen = Seen()
    for number in range(1, 11):
        seen.feed(*read(number, ToolResult(error="no such file") if number == 5 else None))
    seen.renderer.show_held()
    assert [line[:12] for line in seen.text.split("\n")[::2]] == ["✓ 4 calls · ", "✗ read f5.py", "✓ 5 calls · ", ""]
    piped = ToolCall("p", "bash", {"command": "pytest | tail"})
    seen = Seen().feed(*read(1), *read(2), *read(3), e.ToolCallEvent(piped, "x"), resulted(ToolResult(status=0), piped))
    assert seen.live()[0] == "· 4 calls · read 3 files · 1 command"


def test_the_line_of_a_started_job_names_it_and_does_not_look_finished() -> None:
    serve = ToolCall("s", "bash", {"command": "python3 server.py", "background": True})
    lists = ToolCall("l", "jobs", {"action": "list"})
    started = e.ToolCallEvent(serve, "python3 server.py"), resulted(ToolResult("[job j1]", job="j1"), serve)
    seen = Seen().feed(*read(1), *read(2), *read(3), *started, e.TurnEnd(DONE))
    assert seen.text.splitlines()[-1] == "· bash python3 server.py · job j1", "never folded"
    seen = Seen().feed(
        *read(1), *read(2), *read(3), e.ToolCallEvent(lists, "list"), resulted(ToolResult("none"), lists)
    )
    assert seen.live()[0] == "✓ 4 calls · read 3 files · jobs"


def test_parallel_calls_keep_their_order_whichever_ends_first() -> None:
    calls = [ToolCall(f"c{n}", "read_file", {"path": f"{n}"}) for n in range(3)]
    seen = Seen().feed(*(e.ToolCallEvent(call, f"{n}.py") for n, call in enumerate(calls)))
    seen.feed(resulted(ToolResult("two"), calls[2]), resulted(ToolResult("one", counts={"lines": 1}), calls[1]))
    assert seen.live() == ["● read 0.py  0 s", "✓ read 1.py · 1 line", "✓ read 2.py"]
    seen.feed(resulted(ToolResult("zero"), calls[0]), e.TurnEnd(DONE))
    assert seen.text == "✓ read 0.py\n✓ read 1.py · 1 line\n✓ read 2.py\n"
    ended = Seen().feed(*(e.ToolCallEvent(call, f"{n}.py") for n, call in enumerate(calls)))
    ended.feed(resulted(ToolResult("two"), calls[2]), e.TurnEnd(DONE))
    assert ended.text == "! read 0.py: no result yet\n! read 1.py: no result yet\n✓ read 2.py\n"


def test_what_is_held_comes_before_a_question_a_note_and_a_report() -> None:
    asked: list[e.Event] = [e.ToolCallEvent(BASH, "ls"), e.ApprovalRequest(Question(BASH, "what", "why"))]
    happenings: list[Callable[[Seen], object]] = [
        lambda seen: seen.feed(*asked),
        lambda seen: seen.renderer.show_note("a note"),
        lambda seen: seen.renderer.show_held(),
        lambda seen: seen.renderer.show_user_message("wait"),
    ]
    for happens in happenings:
        seen = Seen().feed(*read(1))
        assert seen.text == ""
        happens(seen)
        assert seen.text.startswith("✓ read f1.py · 1 line\n")


def test_a_file_is_a_link_in_the_scrollback_and_nowhere_else() -> None:
    pieces: list[str] = []
    renderer = RichRenderer(pieces.append, lambda: 80, Theme(links=True), folder=Path("/home/me"))
    for event in read(7):
        renderer.feed(event)
    assert "\x1b]8" not in "".join(renderer.live(5)) and "f7.py" in "".join(renderer.live(5))
    bad = ToolCall("b", "read_file", {"path": "a\x1b b/ü.py"})
    renderer.feed(resulted(ToolResult("x"), bad))
    renderer.feed(resulted(ToolResult(error="no such file"), EDIT))
    text = "".join(pieces)
    assert "\x1b]8;;file:///home/me/f7.py\x1b\\f7.py\x1b]8;;\x1b\\" in text
    assert "\x1b]8;;file:///home/me/a%1B%20b/%C3%BC.py\x1b\\a␛ b/ü.py\x1b]8;;\x1b\\" in text
    assert text.count("\x1b]8;;file") == 2, "nothing to open where it failed"
    assert "✓ read f7.py · 7 lines\n" in without_codes(text)


def test_notes_and_the_persons_words_are_set_as_prose() -> None:
    seen = Seen(160)
    seen.renderer.show_user_message("word " * 60)
    seen.renderer.show_note("word " * 60, "dim")
    assert 100 < max(map(len, seen.text.split("\n"))) <= 110
    seen.feed(e.Text("word " * 60))
    assert 100 < max(map(len, seen.live())) <= 110


def test_a_notice_that_warns_of_nothing_has_no_warning_sign() -> None:
    assert put(e.Notice("compaction undone", warning=False)) == "· compaction undone\n"


def test_the_shape_of_an_edit_is_its_diff() -> None:
    text = put(e.ToolCallEvent(EDIT, "a.py"), resulted(ToolResult("@@", diff=DIFF), EDIT, 50, 0.01))
    assert text == "✓ edit a.py · +1 -1\n    1   one\n    2 - two\n    2 + three\n"
    long = "--- a\n+++ b\n@@ -0,0 +1,90 @@\n" + "+x\n" * 90
    lines = put(resulted(ToolResult("@@", diff=long), EDIT)).split("\n")
    assert len(lines) == 43 and lines[-2].strip() == "... 50 more lines"


def test_an_error_tells_its_cause_and_the_way_to_the_rest() -> None:
    error = "no such file\n" + "".join(f"line {n}\n" for n in range(20))
    text = put(e.ToolCallEvent(EDIT, "a.py"), resulted(ToolResult(error=error), EDIT))
    assert text.startswith("✗ edit a.py\n    no such file\n    line 0\n")
    assert text.endswith("    line 4\n    ... 15 more lines: /transcript\n")
    coloured = Seen(colour=True).feed(resulted(ToolResult(error="bad"), EDIT)).text
    assert "\x1b[91m✗" in coloured and "\x1b[91mbad" in coloured


def test_wrong_arguments_are_one_line_for_the_person() -> None:
    error = "bad arguments for edit_file: `path` is required\nedit_file: Change a file.\nArguments: {}"
    text = put(e.ToolCallEvent(EDIT, "a.py"), resulted(ToolResult(error=error, ran=False), EDIT))
    assert text == "✗ edit a.py\n    bad arguments for edit_file: `path` is required\n"


def test_a_refused_call_says_by_whom_and_why() -> None:
    result = ToolResult(error="the person said no: use make", denied=True, ran=False)
    assert put(e.ToolCallEvent(BASH, "ls"), resulted(result)) == "✗ bash ls · refused\n    you said no: use make\n"


def test_a_call_that_was_never_announced_is_named_by_its_arguments() -> None:
    text = put(resulted(ToolResult(error="outcome unknown", ran=False)))
    assert text.startswith("✗ bash pytest -q\n")
    assert put(resulted(ToolResult(error="no JSON"), ToolCall("c", "x", raw="{oops"))).startswith("✗ x {oops\n")


@pytest.mark.parametrize("width", [20, 24, 40, 80, 300])
def test_a_long_command_leaves_room_for_what_came_of_it(width: int) -> None:
    call = ToolCall("c1", "bash", {"command": "x" * 400})
    result = resulted(ToolResult("y" * 500 + "\n[exit status 2]", status=2), call, 5000, 2.0)
    seen = Seen(width).feed(e.ToolCallEvent(call, "x" * 200), result)
    lines = seen.text.rstrip("\n").split("\n")
    assert all(cells(without_codes(line)) <= width for line in lines)
    assert "exit 2" in seen.text and "2.0 s" in seen.text and "tokens" not in seen.text and "…" in seen.text


def test_thinking_is_folded_until_the_person_wants_to_see_it() -> None:
    seen = Seen().feed(e.TurnStart(""), e.StepStart(1))
    seen.feed(e.Thinking("I should lo"), e.Thinking("ok\nat it "), every=1.0)
    assert seen.live() == ["thinking ... 5 words"] and seen.text == ""
    seen.feed(e.Text("Yes"), every=3.0)
    assert seen.text == "· thought for 4.0 s (5 words, Ctrl+T shows)\n"
    seen.renderer.toggle_thinking()
    assert seen.text.endswith("\n\nI should look\nat it\n")
    seen.feed(e.StepEnd(1, "stop", Usage()), e.Thinking("more\nthou"))
    assert seen.text.endswith("\n\nYes\n\nmore\n") and seen.live() == ["thou"]
    seen.feed(e.Thinking("ght"), e.Text("x"))
    assert seen.text.endswith("\nmore\nthought\n") and "(2 words" not in seen.text
    seen.renderer.toggle_thinking()
    seen.renderer.toggle_thinking()
    assert seen.text.count("thought\n") == 1


def test_a_thought_that_is_switched_on_in_the_middle_is_shown_from_its_beginning() -> None:
    seen = Seen().feed(e.Thinking("one\ntwo\nthr"))
    seen.renderer.toggle_thinking()
    seen.feed(e.Thinking("ee"), e.TurnEnd(DONE))
    assert seen.text == "one\ntwo\nthree\n"


def test_a_signed_thought_without_words_leaves_no_line() -> None:
    assert put(e.Thinking(""), e.Thinking("\n"), e.Text("x"), e.TurnEnd(DONE)) == "x\n"


def test_reports_of_workers_are_no_words_of_the_person() -> None:
    seen = Seen()
    seen.renderer.show_user_message("[nexus: worker w1 has ended]\nDone.")
    assert "sending worker reports to the model" in seen.text and "w1" not in seen.text
    seen.renderer.show_user_message("[nexus: worker w1 has ended] what is this?", is_typed=True)
    assert "what is this?" in seen.text


def test_the_persons_words_are_marked_wrapped_and_folded() -> None:
    seen = Seen(20)
    seen.renderer.show_user_message("a rather long line of words\n  indented")
    assert seen.text == "▌ a rather long line\n▌ of words\n▌   indented\n"
    seen = Seen()
    seen.renderer.show_user_message("\n".join(f"line {n}" for n in range(500)))
    lines = seen.text.split("\n")
    assert lines[0] == "▌ line 0" and lines[20] == "▌ ... 480 more lines" and len(lines) == 22
    seen = Seen()
    seen.renderer.show_user_message("x" * 1_000_000)
    assert len(seen.text.split("\n")) == 22 and seen.text.endswith("▌ ...\n")


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("m4 (user): kept", "✓ remember I prefer tabs · m4 (user): kept\n"),
        (
            "m4 (agent): proposed; the person can accept it: /memory accept m4",
            "✓ remember I prefer tabs\n  m4 (agent): proposed; you can accept it: /memory accept m4\n",
        ),
    ],
)
def test_a_fact_is_shown_with_its_id_and_whether_it_waits(output: str, line: str) -> None:
    call = ToolCall("c1", "remember", {"text": "I prefer tabs", "slot": "user"})
    assert put(e.ToolCallEvent(call, "I prefer tabs"), e.ToolResultEvent(call, ToolResult(output), 22, 0.0)) == line
    refused = put(e.ToolCallEvent(call, "x"), e.ToolResultEvent(call, ToolResult(error="no such fact"), 22, 0.0))
    assert "no such fact" in refused and "22" not in refused


def test_said_and_turn_start_show_the_words_once() -> None:
    seen = Seen()
    seen.renderer.show_user_message("hello")
    assert seen.feed(e.TurnStart("hello")).text == "▌ hello\n"
    assert seen.feed(e.SteeringMessage("wait")).text == "▌ hello\n\n▌ wait\n"


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (e.CompactionDone(True, 81_204, 12_000), "· compacted: 81,204 -> 12,000 tokens\n"),
        (e.CompactionDone(False, 9, 9, "interrupted"), "! not compacted: interrupted. Nothing was changed\n"),
        (e.ContextRecall("d3", 4000), "· recalled d3, 4,000 tokens\n"),
        (e.Notice("take [/bold] {} %s"), "! take [/bold] {} %s\n"),
        (e.Notice("allowed: x", undo="/permissions remove x"), "! allowed: x · undo: /permissions remove x\n"),
        (e.Notice("allowed: x", undo="nexus rules remove x"), "! allowed: x · undo: /rules remove x\n"),
        (e.CacheResult(20_000, 19_000, 0), ""),
        (e.CacheResult(20_000, 100, 0), "· cache missed: 19,900 tokens\n"),
        (e.CacheResult(20_000, 0, 0), ""),
        (e.CacheResult(900, 1, 0), ""),
        (e.CacheResult(0, 0, 0, 9000, 0.1, "it expired"), "· cache missed: 9,000 tokens, it expired\n"),
        (e.CacheResult(0, 0, 0, 9000, 0.1, "entry 1 became a summary up to entry 9", True), ""),
        (e.CacheResult(0, 0, 0, 900, 0.1, "it had expired"), ""),
        (
            e.ContextDrop(Drop("d3", "tool result of c7", 18_000, Cause.OUTPUT_CAP, "")),
            "· left out as d3: tool result of c7, 18,000 tokens (shortened); /drops\n  d3\n",
        ),
        (
            e.ContextDrop(Drop("d3", "your message", 900, Cause.INPUT_CAP, "")),
            "! left out as d3: your message, 900 tokens (too long); /drops d3\n",
        ),
        (e.ContextPlan({"facts": []}), ""),
        (e.ContextPlan({"facts": [{"id": "m4", "text": "uses tabs"}]}), '· remembered facts sent: m4 "uses tabs"\n'),
    ],
)
def test_what_happens_to_the_context_is_a_line_or_nothing(event: e.Event, line: str) -> None:
    assert Seen(70).feed(event).text == line


@pytest.mark.parametrize(
    ("counted", "commands", "cost", "line"),
    [
        ("", 0, None, "· 2 files"),
        ("3 files (+41 -7)", 0, None, "· 3 files (+41 -7) · /undo to revert"),
        (
            "1 file, nexus was killed: /undo 4 to revert",
            0,
            None,
            "· 1 file, nexus was killed: /undo 4 to revert",
        ),
        ("3 files (+41 -7)", 2, 0.0412, "· 3 files (+41 -7) · 2 commands · $0.0412 · /undo to revert"),
        ("", 1, 0.0412, "· 2 files · 1 command · $0.0412"),
    ],
)
def test_a_turn_that_changed_files_ends_with_what_it_changed(
    counted: str, commands: int, cost: float | None, line: str
) -> None:
    seen = Seen(100).feed(e.TurnStart("go"))
    for number in range(commands):
        call = ToolCall(f"c{number}", "bash", {"command": "make"})
        seen.feed(e.ToolCallEvent(call, "make"), e.ToolResultEvent(call, ToolResult("made", status=0), 1, 0.1))
    seen.renderer.counted = counted
    lines = seen.feed(e.TurnEnd(replace(DONE, changed=("a", "b"), usage=Usage(9, 9, cost_usd=cost)))).text.splitlines()
    assert lines[-1].lstrip("· ") == line.removeprefix("· ") and "$" not in "".join(lines[:-1])
    before = seen.text
    assert "file" not in seen.feed(e.TurnStart("go"), e.TurnEnd(DONE)).text.removeprefix(before)


def test_a_resumed_turn_tells_the_files_of_the_whole_turn_from_the_dollars_of_its_part() -> None:
    seen = Seen(100).feed(e.TurnStart(""))
    seen.renderer.counted = "3 files (+41 -7)"
    usage = Usage(9, 9, cost_usd=0.0412)
    *_, part, whole = seen.feed(e.TurnEnd(replace(DONE, changed=("a",), usage=usage))).text.splitlines()
    assert part.endswith(" · $0.0412") and whole == "  whole turn: 3 files (+41 -7) · /undo to revert"


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (DONE, ""),
        (
            replace(DONE, steps=3, seconds=12.4, usage=Usage(5120, 310, cost_usd=0.0123)),
            "· 3 steps · 12 s · 5.1k in · 310 out · $0.0123\n",
        ),
        (replace(DONE, seconds=75.0), "· 1 step · 1 min 15 s · 0 in · 0 out\n"),
        (
            replace(DONE, ok=False, error={"kind": "aborted", "message": "stopped", "hint": ""}),
            "· Interrupted. Completed steps are kept.\n",
        ),
        (
            replace(DONE, ok=False, error={"kind": "network", "message": "it failed: no.", "hint": "Try again"}),
            "✗ it failed: no. Try again.\n",
        ),
        (
            replace(DONE, denied=({"tool": "bash", "subject": "ls", "level": "all"},) * 6),
            "· 6 calls were refused: bash ls; bash ls and 4 more. No rule can allow them:\n"
            "  approve them in a terminal, or use /permissions all, which allows everything\n"
            "  that no rule denies.\n",
        ),
        (
            replace(
                DONE, denied=({"tool": "bash", "subject": "ls", "level": "", "by": "person", "hint": "you said no"},)
            ),
            "",
        ),
    ],
)
def test_the_end_of_a_turn_is_told(outcome: e.Outcome, line: str) -> None:
    assert Seen(80).feed(e.TurnEnd(outcome)).text == line


def test_a_call_that_waits_for_a_decision_is_not_lost_from_sight() -> None:
    seen = Seen().feed(e.TurnStart(""), e.ToolCallEvent(BASH, "ls"), e.TurnEnd(DONE))
    assert seen.text == "! bash ls: no result yet\n" and seen.live() == []


def test_the_last_answer_is_the_last_text_of_a_turn() -> None:
    seen = Seen().feed(e.TurnEnd(replace(DONE, text="answer")), e.TurnEnd(DONE))
    assert seen.renderer.last_answer == "answer"


def test_the_whole_output_is_kept_where_the_result_is_a_part() -> None:
    seen = Seen().feed(resulted(ToolResult("part", full="the \x9bwhole")))
    assert seen.renderer.last_output == ("bash pytest -q", "the <U+009B>whole")


def states() -> Sequence[tuple[list[e.Event], float, str, bool]]:
    step: list[e.Event] = [e.TurnStart(""), e.StepStart(1)]
    asked: list[e.Event] = [e.ToolCallEvent(BASH, "ls"), e.ApprovalRequest(Question(BASH, "w", "y"))]
    return [
        ([], 0, "", False),
        (step, 12, "waiting for the model 12 s", True),
        ([*step, e.Text("x" * 856)], 3, "writing 3 s · ~214 tokens", True),
        ([*step, e.Thinking("abcd")], 2, "thinking 2 s · ~1 token", True),
        ([*step, e.ToolCallEvent(BASH, "pytest -q")], 4, "bash pytest -q 4 s", True),
        ([*step, e.ToolCallEvent(BASH, "ls"), e.ToolCallEvent(EDIT, "a")], 4, "bash ls +1 4 s", True),
        ([*step, *asked], 9, "waiting for your answer", False),
        ([*step, *asked, e.ApprovalAnswer("c1", Deny())], 9, "bash 9 s", True),
        ([*step, e.Retry(2, 4.0, "rate limited")], 1, "retry 2 in 3 s: rate limited", True),
        ([*step, e.Retry(2, 4.0, "rate limited")], 5, "attempt 3, waiting for the model 5 s", True),
        ([e.CompactionStart("x", 81_204)], 3, "compacting 81,204 tokens 3 s", True),
        ([e.CompactionStart("x", 1), e.CompactionDone(True, 2, 1)], 3, "", False),
        ([*step, e.TurnEnd(DONE)], 3, "", False),
    ]


@pytest.mark.matrix
@pytest.mark.parametrize(("events", "later", "text", "moving"), states())
@pytest.mark.parametrize("ascii_", [False, True])
def test_the_spinner_says_what_is_waited_for(
    events: list[e.Event], later: float, text: str, moving: bool, ascii_: bool
) -> None:
    seen = Seen(ascii_=ascii_).feed(*events)
    seen.now += later
    line = seen.renderer.spinner()
    expected = text.replace("·", "|") if ascii_ else text
    assert (line[2:] if moving else line) == expected and seen.renderer.moving is moving
    if moving:
        assert line[0] in ("|/-\\" if ascii_ else "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
        seen.now += 0.11
        assert seen.renderer.spinner()[0] != line[0]
    for seen.width in (1, 4, 20, 23):
        assert cells(without_codes(seen.renderer.spinner())) < max(4, seen.width)


def test_a_call_that_runs_and_one_that_waits_stand_once_with_the_time_of_what_runs() -> None:
    seen = Seen().feed(
        e.TurnStart(""), e.StepStart(1), e.ToolQueue((EDIT,), ("a.py",)), e.ToolCallEvent(BASH, "pytest -q")
    )
    seen.now += 4
    assert seen.live() == ["● bash pytest -q  4 s", "○ edit a.py"]
    assert seen.renderer.spinner()[2:] == "running"
    assert seen.live(0) == [] and seen.renderer.spinner()[2:] == "bash pytest -q +1 4 s"
    seen.feed(resulted(ToolResult("out")), e.ToolCallEvent(EDIT, "a.py"))
    assert seen.live() == ["✓ bash pytest -q", "● edit a.py  0 s"]


def test_retries_of_a_request_are_one_line_that_counts() -> None:
    retries = [e.Retry(number, 1.0, "the server is busy") for number in (1, 2, 3)]
    seen = Seen().feed(e.TurnStart(""), e.StepStart(1), *retries, every=2.0)
    assert seen.text == ""
    assert seen.feed(e.Text("well\n\n"), every=2.0).text == "· 3 retries after 3.0 s: the server is busy\n\nwell\n"
    error = {"kind": "overloaded", "message": "the request failed: the server is busy", "hint": ""}
    seen.feed(e.StepStart(2), e.Retry(1, 1.0, "the server is busy"), e.StepEnd(2, "overloaded", Usage()))
    seen.feed(e.TurnEnd(replace(DONE, error=error)))
    assert seen.text.count("the server is busy") == 2 and "· 1 retry after 1.0 s\n" in seen.text
    lines = Seen(drawn=False).feed(*retries).text.splitlines()
    assert lines == [f"· retry {number} in 1 s: the server is busy" for number in (1, 2, 3)]


def test_our_own_notes_have_a_sign_for_their_role() -> None:
    seen = Seen(20)
    for role in ("", "dim", "warn", "error", "ok", "strange"):
        seen.renderer.show_note("a note \x1b[2J that\nwraps", role)
    seen.renderer.show_note("")
    lines = seen.text.split("\n")
    assert lines[:4] == ["a note ␛[2J that", "wraps", "· a note ␛[2J that", "  wraps"]
    assert "! a note ␛[2J that" in lines and "✗ a note ␛[2J that" in lines and "✓ a note ␛[2J that" in lines


def test_a_note_while_text_streams_does_not_tear_the_open_block() -> None:
    seen = Seen().feed(e.Text("```py\na\n"))
    seen.renderer.show_note("by the way", "dim")
    seen.feed(e.Text("b\n```\nend"), e.TurnEnd(DONE))
    assert seen.text == "· by the way\n\na\nb\n\nend\n"


@pytest.mark.matrix
def test_a_delta_costs_nothing_but_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """50 MB without a newline are the same work for each delta, and nothing of it is kept: shown with 2 MB."""
    seen = Seen()
    rendered: list[int] = []
    render = markdown_print.print_block

    def counted(block: Block, width: int, theme: Theme) -> str:
        rendered.append(1)
        return render(block, width, theme)

    monkeypatch.setattr(markdown_print, "print_block", counted)
    for _ in range(500):
        seen.feed(e.Text("x" * 4096))
        assert seen.renderer._markdown._blocks._length <= 8192
        assert len(seen.renderer._markdown._blocks._lines) <= 1
        assert sum(map(len, seen.live(3))) <= 3 * 60
    seen.feed(e.TurnEnd(DONE))
    assert seen.text.count("x") == 500 * 4096 and len(rendered) == 250


ODD = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b\r\n\t\x00\x9b\u202e\u200d\ufe0f👩漢ab`*|->#[ ")), max_size=60
)


def harmless(text: str, colour: bool) -> bool:
    bare = CODES.sub("", text) if colour else text
    return not any((ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in bare)


def shapes(text: str) -> list[e.Event]:
    call = ToolCall(text, text, {"path": text, "x": text})
    question = Question(call, text, text, text)
    drop = Drop(text, text, 5, Cause.OUTPUT_CAP, text)
    error = {"kind": "network", "message": text, "hint": text}
    denied: Any = ({"tool": text, "subject": text},)
    return [
        e.TurnStart(text),
        e.StepStart(1),
        e.Thinking(text),
        e.Text(text),
        e.ToolCallEvent(call, text),
        e.ApprovalRequest(question),
        e.ApprovalAnswer(text, Deny(text)),
        e.ToolOutput(text, text),
        resulted(ToolResult(text, error=text, diff=text, status=1), call),
        resulted(ToolResult(text, status=0), call, 9, 0.5),
        e.ToolCallEvent(call, text),
        e.ContextDrop(drop),
        e.ContextRecall(text, 1),
        e.CompactionStart(text, 1),
        e.CompactionDone(False, 1, 1, text),
        e.Retry(1, 1.0, text),
        e.Notice(text),
        e.SteeringMessage(text),
        e.Text("```" + text),
        e.TurnEnd(replace(DONE, error=error, denied=denied, text=text)),
    ]


@pytest.mark.matrix
@given(ODD, st.integers(20, 300), st.integers(0, 6), st.booleans(), st.booleans())
def test_nothing_but_our_own_colours_gets_out_and_the_live_part_fits(
    text: str, width: int, rows: int, colour: bool, thinking: bool
) -> None:
    seen = Seen(width, colour=colour)
    if thinking:
        seen.renderer.toggle_thinking()
    seen.renderer.show_user_message(text)
    seen.renderer.show_note(text, "warn")
    for event in shapes(text):
        seen.feed(event)
        lines, spinner = seen.live(rows), seen.renderer.spinner()
        assert len(lines) <= rows and all("\n" not in line for line in [*lines, spinner])
        assert all(cells(without_codes(line)) <= width for line in [*lines, spinner])
        assert all(harmless(line, colour) for line in [*lines, spinner])
    assert all(piece.endswith("\n") for piece in seen.pieces)
    assert harmless(seen.text, colour)
    title, output = seen.renderer.last_output or ("", "")
    assert harmless(title + output.replace("\t", ""), False)


@pytest.mark.matrix
@given(ODD, st.data())
def test_however_a_stream_is_cut_the_finished_text_is_the_same(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    for kind in (e.Text, e.Thinking):
        one, two = Seen(), Seen()
        one.renderer.toggle_thinking()
        two.renderer.toggle_thinking()
        one.feed(kind(text), e.TurnEnd(DONE))
        two.feed(kind(text[:cut]), kind(text[cut:]), e.TurnEnd(DONE))
        assert one.text == two.text


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["dark", "light"])
def test_a_light_screen_gets_no_bright_colour_and_no_yellow_white_or_cyan_of_ours(name: str) -> None:
    code = "```python\nclass A:  # c\n    x: int = len('s') + 1  # <b>\n```\n```html\n<a b='c'>d</a>\n```\n"
    seen = Seen(colour=True, name=name).feed(*EVENTS[:6], e.Text(code), *EVENTS[6:])
    codes = {int(code) for found in CODES.findall(seen.text) for code in found[2:-1].split(";") if code}
    assert codes & set(range(30, 38)) and not codes & {38, 48}
    if name == "light":
        assert not codes & {33, 36, 37, *range(90, 108)}


def test_a_diff_that_was_approved_is_not_shown_again() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old line\n+new line\n"
    for detail, shown in ((diff, False), ("", True), (diff.replace("new", "other"), True)):
        put: list[str] = []
        renderer = RichRenderer(put.append, lambda: 80, Theme(colour=False))
        call = ToolCall("c1", "edit_file", {"path": "x"})
        renderer.feed(e.ToolCallEvent(call, "x"))
        renderer.feed(e.ApprovalRequest(Question(call, "edit_file x", "the call changes files", detail)))
        renderer.feed(e.ApprovalAnswer("c1", Allow()))
        renderer.feed(e.ToolResultEvent(call, ToolResult("done", diff=diff), 3, 0.0))
        assert ("new line" in "".join(put)) is shown
