"""Asking for permission in a terminal: no accidental yes, the end of input denies, an interrupt cancels."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import sys
from pathlib import Path

import pexpect
import pytest

from nexus_cli.core.approval import Allow, Deny, Question
from nexus_cli.core.message import ToolCall
from nexus_cli.ui.print.approver import PersonApprover, TerminalQuestions, parse_answer
from nexus_cli.ui.render.question_text import plain_question_text

ENGINE = str(Path(__file__).parents[2] / "cli" / "fake_engine.py")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y", Allow()),
        ("YES ", Allow()),
        ("a", Allow(always=True)),
        ("always", Allow(always=True)),
        ("n", Deny()),
        ("no, use make instead", Deny("use make instead")),
        ("n  not that file", Deny("not that file")),
        ("", None),
        ("   ", None),
        ("yes please delete", None),
        ("yy", None),
        ("sure", None),
        ("nothing", None),
    ],
)
def test_only_clear_words_are_answers(line: str, answer: object) -> None:
    assert parse_answer(line + "\n") == answer


class Screen:
    """A stream that keeps what is written."""

    terminal, colour, width = True, False, 80

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text


@pytest.mark.parametrize("lines", [3, 61, 200, 201, 5000])
def test_the_end_of_a_long_command_is_always_shown(lines: int) -> None:
    command = "\n".join([*(f"echo {number}" for number in range(lines - 1)), "rm -rf ~"])
    text = plain_question_text(Question(ToolCall("c1", "bash", {}), "bash echo 0", "a command", command), colour=False)
    assert "  echo 0\n" in text and "  rm -rf ~\n" in text
    assert ("4,800 lines are not shown" in text) == (lines == 5000)
    assert text.count("\n") == min(lines, 201)


def test_always_says_what_it_covers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("termios.tcflush", lambda *_: None)
    reader, writer = os.pipe()
    os.write(writer, b"a\n")
    screen = Screen()
    question = Question(ToolCall("c1", "bash", {}), "bash ls", "a command", "ls", "every bash command this session")
    assert asyncio.run(PersonApprover(TerminalQuestions(screen, reader), lambda _: "").ask(question)) == Allow(
        always=True
    )
    assert "[a]lways (every bash command this session)" in screen.text
    os.close(reader)
    os.close(writer)


def test_what_is_typed_while_the_question_is_still_written_is_no_answer() -> None:
    master, terminal = pty.openpty()
    question = Question(ToolCall("c1", "bash", {}), "bash ls", "a command", "ls")

    class Slow(Screen):
        def write(self, text: str) -> None:
            super().write(text)
            for shown, typed in (("THE QUESTION", b"y\n"), ("Allow bash?", b"no, later\n")):
                if shown in text:
                    os.write(master, typed)
                    select.select([terminal], [], [], 5)

    approver = PersonApprover(TerminalQuestions(Slow(), terminal), lambda _: "THE QUESTION")
    assert asyncio.run(approver.ask(question)) == Deny("later")
    os.close(master)
    os.close(terminal)


def asked(*arguments: str, before: str = "") -> pexpect.spawn:
    environ = {**os.environ, "NEXUS_MODEL": "m", "TERM": "dumb", "COLUMNS": "100"}
    child = pexpect.spawn(sys.executable, [ENGINE, "approval", "ask", "hi", *arguments], env=environ, timeout=30)
    if before:
        child.send(before)
    child.expect_exact("[n]o, or n and a reason: ")
    return child


def ended(child: pexpect.spawn) -> tuple[str, int]:
    text = child.read().decode()
    child.close()
    return text, child.exitstatus


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("y\n", "answer Allow"), ("a\n", "answer Allow always"), ("n use make\n", "answer Deny use make")],
)
def test_a_typed_answer_counts(typed: str, answer: str) -> None:
    child = asked()
    child.send(typed)
    text, status = ended(child)
    assert answer in text and status == 0


def test_the_question_shows_what_will_run_through_the_door() -> None:
    child = asked()
    shown = child.before.decode()
    assert "run: ls (a command)" in shown and "ls -la ␛[31m" in shown and "Allow bash?" in shown
    child.send("n\n")
    ended(child)


def test_what_was_typed_ahead_is_no_answer() -> None:
    child = asked(before="y\ny\n")
    child.send("n\n")
    text, _ = ended(child)
    assert "answer Deny" in text


def test_an_unclear_answer_asks_again() -> None:
    child = asked()
    child.send("\n")
    child.expect_exact("n and a reason: ")
    child.send("maybe\n")
    child.expect_exact("n and a reason: ")
    child.send("y\n")
    assert "answer Allow" in ended(child)[0]


def test_a_pasted_line_behind_an_unclear_one_is_no_answer() -> None:
    child = asked()
    child.send("maybe\ny\n")
    child.expect_exact("n and a reason: ")
    child.send("n\n")
    assert "answer Deny" in ended(child)[0]


def test_the_end_of_input_denies() -> None:
    child = asked()
    child.sendeof()
    text, status = ended(child)
    assert "answer Deny the input ended before an answer" in text and status == 0


def test_an_interrupt_cancels_and_the_status_is_130() -> None:
    child = asked()
    child.sendintr()
    text, status = ended(child)
    assert status == 130 and "Traceback" not in text and "Resume with: nexus ask -r 01FAKE" in text


def test_without_a_terminal_nobody_is_asked() -> None:
    command = f"{sys.executable} {ENGINE} approval ask hi </dev/null"
    child = pexpect.spawn("bash", ["-c", command], env={**os.environ, "NEXUS_MODEL": "m"}, timeout=30)
    assert "nobody can be asked" in ended(child)[0]
