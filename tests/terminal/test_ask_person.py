"""The model asks the person: numbers, own words, no answer; where nobody can be asked the call says so."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from search import sample
from session.played import result_of
from terminal.repl import Opens
from terminal.stories import call
from terminal.terminal import ENTER

from nexus_cli.ui.asked_question import AskedQuestion
from nexus_cli.ui.print.approver import PersonApprover

TOO_MANY = [{"question": "a", "choices": ["x"] * 10}]
QUESTIONS = [
    {"question": "Which library?", "choices": ["httpx", "requests"]},
    {"question": "Which name?", "choices": ["fetch", "get"]},
    {"question": "Until when?"},
]


@pytest.mark.parametrize(("columns", "dumb"), sample([(100, False), (40, False), (60, True)], 3))
def test_the_person_answers_by_number_and_in_own_words(repl: Opens, columns: int, dumb: bool) -> None:
    made = repl(
        [call("ask_person", questions=QUESTIONS), "I see."], columns=columns, env={"TERM": "dumb"} if dumb else None
    )
    made.say("begin", ends=False)
    made.wait_for("Which library?")
    time.sleep(2.5)  # until the first question takes keys; the others take them at once
    for question, answer in (("Which library?", "2"), ("Which name?", "pull it"), ("Until when?", "Friday")):
        made.wait_for(question)
        time.sleep(0.0 if not dumb else 2.5)
        made.send(answer)
        made.send(ENTER)
    made.requested(2)
    result = made.server.requests[-1].body["messages"][-1]["content"]
    assert result == "Which library?\n> requests\nWhich name?\n> pull it\nUntil when?\n> Friday"


class Line:
    """Answers with these lines, then with none."""

    width = 80

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.asked: list[tuple[str, list[str]]] = []

    async def question(self, asked: AskedQuestion) -> str | None:
        self.asked.append((asked.prompt, [f"{one.key} {one.label}" for one in asked.keys]))
        return self.lines.pop(0) if self.lines else None


def told(folder: Path, questions: Any, line: Line | None) -> str:
    """Return what the model is told of these questions, with a person who answers `line` or with none."""
    approver = PersonApprover(line, lambda question, number: "") if line else None
    return result_of(folder, "ask_person", {"questions": questions}, approver)


def test_each_question_shows_its_place_and_its_choices(tmp_path: Path) -> None:
    line = Line("1", "", "3 days")
    text = result_of(
        tmp_path, "ask_person", {"questions": QUESTIONS}, PersonApprover(line, lambda question, number: "")
    )
    assert line.asked[0] == ("1 of 3  Which library?", ["1 httpx", "2 requests"]) and line.asked[2][1] == []
    assert text == "Which library?\n> httpx\nWhich name?\n> (no answer)\nUntil when?\n> 3 days"


def test_a_person_who_stops_answering_has_still_answered_the_first(tmp_path: Path) -> None:
    text = result_of(
        tmp_path, "ask_person", {"questions": QUESTIONS}, PersonApprover(Line("1"), lambda question, number: "")
    )
    assert text == "Which library?\n> httpx\nquestions without an answer: 2"
    text = result_of(
        tmp_path, "ask_person", {"questions": QUESTIONS}, PersonApprover(Line(), lambda question, number: "")
    )
    assert text.startswith("the person gave no answer")


@pytest.mark.parametrize("questions", [[], [{"question": "a"}] * 5, [{"choices": ["a"]}], TOO_MANY])
def test_too_many_questions_are_refused_before_any_is_shown(tmp_path: Path, questions: Any) -> None:
    line = Line("1")
    assert "question" in result_of(
        tmp_path, "ask_person", {"questions": questions}, PersonApprover(line, lambda question, number: "")
    )
    assert not line.asked


def test_where_nobody_can_be_asked_the_call_says_so(tmp_path: Path) -> None:
    assert told(tmp_path, QUESTIONS, None).startswith("nobody can be asked here")
