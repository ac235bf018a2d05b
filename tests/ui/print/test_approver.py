"""Asking for permission: what an answer means, several questions as one list, single keys of a terminal."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pexpect
import pytest
from cli.conftest import ENGINE, RUN_ENGINE
from program.terminal_run import TerminalRun
from search import sample
from terminal.emulator import Emulator
from ui.kept_stream import KeptStream
from ui.keyboard import Keys
from ui.put_clock import run_at_once

from nexus_cli.core.approval import CHANGES, DEFINITION, Allow, Answer, Deny, Question
from nexus_cli.core.message import ToolCall
from nexus_cli.permission.permission import decide
from nexus_cli.rules.decide import decide_command
from nexus_cli.rules.rule_set import RuleSet, parse_rule
from nexus_cli.tools.registry import discover_tools
from nexus_cli.ui.asked_question import AnswerKey, AskedQuestion, KeyRows, read_answer
from nexus_cli.ui.print.approver import PersonApprover
from nexus_cli.ui.render.question_text import answer_keys, ask_text, question_text
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.screen.question import PASTED as PASTE_SECONDS
from nexus_cli.ui.screen.terminal_questions import TerminalQuestions

STOP = Deny(stops=True)
KEYS = (AnswerKey("y", "yes"), AnswerKey("a", "always this exact command"), AnswerKey("n", "no"))


def meaning(line: str, waiting: int = 1) -> Answer | None:
    """What a line means at the question about a call."""
    reply = read_answer(line, AskedQuestion("", answer_keys(bash("ls"), waiting)))
    answer: Answer | None = None if reply is None else Deny(reply.words) if reply.words else reply.meaning
    return answer


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("y", Allow()),
        ("YES ", Allow()),
        ("a", Allow(always=True)),
        ("A", None),  # stands for all calls of a list, and must not become the `a` of the one that is left
        ("A.", None),
        ("always", Allow(always=True)),
        ("s", Allow(always=True)),
        ("n", Deny(stops=True)),
        ("no, use make instead", Deny("use make instead")),
        ("n  not that file", Deny("not that file")),
        ("no sudo, please", Deny("no sudo, please")),
        ("use make instead", Deny("use make instead")),
        ("all of it is wrong", Deny("all of it is wrong")),
        ("nothing", Deny("nothing")),
        ("a test first", Deny("a test first")),
        ("yes please but only X", Deny("yes please but only X")),
        ("/permissions run", None),
        ("/nosuch", None),
        ("!pytest", None),
        ("n /tmp is wrong", Deny("/tmp is wrong")),
        ("", None),
        ("   ", None),
        ("yes please delete", None),
        ("always do that", None),
        ("yy", None),
        ("sure", None),
    ],
)
def test_only_clear_words_are_a_yes_and_other_words_say_what_to_do_instead(line: str, answer: Answer | None) -> None:
    assert meaning(line + "\n") == answer


@pytest.mark.parametrize("line", ["/exit", "s/exit", "n/exit", "y/help me", "S/exit"])
def test_a_command_is_no_words_also_after_the_letter_of_an_answer(line: str) -> None:
    assert meaning(line) is None
    assert meaning("s/old/new/ is wrong") == Deny("s/old/new/ is wrong")


def test_several_questions_can_be_answered_by_one_word() -> None:
    for line, answer in (("A", Allow()), ("all", Allow()), ("N", STOP), ("none", STOP), ("No all", STOP)):
        reply = read_answer(line, AskedQuestion("", answer_keys(bash("ls"), 2)))
        assert reply is not None and reply.key is not None and (reply.meaning, reply.key.lasts) == (answer, True)
    assert meaning("n", waiting=2) == STOP


def test_the_key_for_all_stores_no_rule_for_the_call_that_is_left() -> None:
    keys = answer_keys(replace(bash("make"), stores=("bash(make)",)), 1)
    assert [read_answer(line, AskedQuestion("", keys)) for line in ("A", "A.", "A\n")] == [None] * 3
    reply = read_answer("a", AskedQuestion("", keys))
    assert reply is not None and reply.meaning == Allow(always=True, stored=True)


def bash(command: str, number: int = 1) -> Question:
    call = ToolCall(f"c{number}", "bash", {"command": command})
    return Question(call, f"bash {command}", "the call runs a command", command, "this exact command", "run")


def test_the_key_for_no_says_that_it_ends_the_worker_that_asks() -> None:
    of_worker = replace(bash("pip download babel"), agent="w2")
    assert answer_keys(of_worker, 1)[-1].label == "no, ends w2"
    assert answer_keys(of_worker, 1, stops=False)[-1].label == answer_keys(bash("ls"), 1)[-1].label == "no"


@pytest.mark.parametrize("lines", [3, 61, 200, 201, 5000])
def test_the_end_of_a_long_command_is_always_shown(lines: int) -> None:
    command = "\n".join([*(f"echo {number}" for number in range(lines - 1)), "rm -rf ~"])
    text = question_text(bash(command), 80, Theme(colour=False))
    assert "  echo 0\n" in text and "  rm -rf ~" in text
    assert ("4,800 lines not shown" in text) == (lines == 5000)
    assert text.count("\n") == min(lines, 201) + 1


def test_a_block_has_the_command_once_and_only_a_reason_that_says_more() -> None:
    assert question_text(bash("make test"), 80, Theme(colour=False)) == "\nbash  make test"
    assert question_text(bash("make test"), 80, Theme(colour=False), 2) == "2 bash  make test"
    why = "it reads outside the project: /x"
    outside = Question(ToolCall("c1", "read_file", {}), "read_file /x", why, "", "", "outside")
    assert question_text(outside, 80, Theme(colour=False)) == "\nread  /x   outside the project"


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("command", "told", "why"),
    [
        ("make && git diff --stat", {}, "git needs approval unless the whole command line is read-only"),
        ('echo "$VAR"', {}, "the command contains a variable; the value of $VAR is not known before the command runs"),
        ("cat ../x; touch y", {}, "../x is outside the project"),
        ("until [ -e x ]; do ls; done", {}, ""),  # the line about the sandbox names the loop
        ("touch x", {"network": True}, ""),
        ("touch x", {"outside": "it has to"}, ""),
        ("touch x", {"confined": False}, ""),
        ("touch a\u034fb", {}, ""),
    ],
)
def test_a_command_has_the_reason_for_its_question_if_that_is_more_than_the_rule(
    command: str, told: dict[str, Any], why: str, tmp_path: Path
) -> None:
    rules = RuleSet((parse_rule("allow", "bash(make *)", discover_tools()),))
    found = decide_command(
        command, level="edit", rules=rules, cwd=tmp_path, project=tmp_path, **{"confined": True, **told}
    )
    question = replace(bash(command), kind="run", profile=found.profile, why=found.why, doubts=found.doubts)
    lines = question_text(question, 100, Theme(colour=False)).splitlines()
    assert found.decision == "ask"
    assert [line for line in lines if "why:" in line] == ([f"  why: {why}"] if why else [])


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("rm 'x   y'", "bash  rm 'x   y'"),
        ("rm 'x\ty'", "bash  rm 'x\u2409y'"),
        ("rm a\u034fb\U0001d159", "bash  rm a<U+034F>b<U+1D159>"),
        ("git commit -m '\u2764\ufe0f'", "bash  git commit -m '\u2764<U+FE0F>'"),
    ],
)
def test_a_command_is_shown_with_its_blanks_and_its_hidden_characters(command: str, shown: str) -> None:
    question = Question(ToolCall("c1", "bash", {}), f"bash {' '.join(command.split())[:200]}", "", command, kind="run")
    assert question_text(question, 80, Theme(colour=False)) == f"\n{shown}"


def test_blanks_at_the_end_of_a_row_are_shown_on_the_next_one() -> None:
    command = f"rm '{'x' * 60}{' ' * 20}y'"
    question = Question(ToolCall("c1", "bash", {}), f"bash {' '.join(command.split())}", "", command, kind="run")
    rows = question_text(question, 80, Theme(colour=False)).split("\n")[1:]
    assert rows == [f"bash  rm '{'x' * 60}", f"      {' ' * 11}y'"]


def test_a_question_says_that_a_command_or_a_worker_goes_on_in_the_background() -> None:
    call = ToolCall("c1", "bash", {"command": "make", "background": True})
    text = question_text(Question(call, "bash make", "", "make", kind="run", profile="read"), 80, Theme(colour=False))
    assert text.endswith("  sandboxed: read-only, no network · runs in the background")
    task = {"task": "test it", "wait": False}
    decision = decide(discover_tools()["agent"], task, allow="ask", cwd=Path("/p"), project=Path("/p"))
    assert decision.why == "the call starts work that continues after this turn and can cost money"
    assert (
        ask_text(Question(ToolCall("c1", "agent", task), "agent test it", decision.why, kind="later")) == "Start this?"
    )


def test_a_command_without_walls_is_shown_with_the_reason_that_the_model_gives() -> None:
    arguments = {"command": "make", "outside": "it needs \x1b[31mthe network\n" + "x" * 900}
    call = ToolCall("c1", "bash", arguments)
    text = question_text(Question(call, "bash make", "", "make", kind="run", profile="none"), 80, Theme(colour=False))
    assert "not sandboxed" in text and "the model's reason: it needs" in text and "\x1b" not in text and len(text) < 500
    diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old line\n+new line\n"
    edit = Question(ToolCall("c1", "edit_file", {}), "edit_file x", "the call changes files", diff, "", "edit")
    text = question_text(edit, 80, Theme(colour=False))
    assert text.startswith("\nedit  x\n") and "+ new line" in text


def test_a_sign_that_nobody_sees_is_named() -> None:
    theme = Theme(colour=False)
    blank = replace(bash("rm -r a\u2800/b"), profile="write")
    assert "the command contains a hidden character (U+2800" in question_text(blank, 120, theme)
    assert "hidden" not in question_text(replace(bash("make"), profile="write"), 120, theme)


def test_many_parts_that_ask_do_not_push_the_command_off_the_screen() -> None:
    free = {"command": ["ls"], "decision": "allow"}
    asking = [{"command": ["make", str(number), "x" * 1000], "decision": "ask"} for number in range(5000)]
    question = replace(bash("ls; make"), profile="write", parts=(free, *asking))
    text = question_text(question, 80, Theme(colour=False))
    assert "make 0" in text and "and 4,992 more" in text and text.count("\n") < 40


def test_long_lines_of_a_command_hang_under_it() -> None:
    long = "python3 -m pytest -q tests/test_one.py tests/test_two.py"
    assert question_text(bash(long), 42, Theme(colour=False)) == (
        "\nbash  python3 -m pytest -q\n      tests/test_one.py tests/test_two.py"
    )
    both = question_text(bash(f"cd x\n\tmake all && {long}"), 42, Theme(colour=False))
    assert both.splitlines()[3:] == ["      make all && python3 -m pytest -q", "      " + long.partition("-q ")[2]]
    assert max(map(len, question_text(bash("x" * 200), 40, Theme(colour=False)).splitlines())) < 40
    assert question_text(bash(long), 16, Theme(colour=False)).splitlines()[1:3] == ["bash  python3", "-m pytest -q"]


def rows_of(
    prompt: str, keys: Sequence[AnswerKey], chosen: int, columns: int, most: int, colour: bool = False
) -> list[str]:
    """The rows of a question on a terminal that redraws."""
    return KeyRows(columns, colour, chosen, "", is_open=True).draw(AskedQuestion(prompt, keys), most)


@pytest.mark.parametrize(
    ("columns", "most", "rows"),
    [
        (100, 8, ["Run this? [y yes]  a always this exact command   n no   Esc stop "]),
        (64, 8, ["Run this? [y yes] a always this exact command  n no  Esc stop "]),
        (40, 8, ["Run this? [y yes]", " a always this exact command  n no ", " Esc stop "]),
        (40, 2, ["Run this? [y]  a   n   Esc stop "]),
        (12, 8, ["Run this?", "[y yes]", " a always ", " this exact ", " command ", " n no ", " Esc stop "]),
    ],
)
def test_the_keys_stand_in_rows_that_fit(columns: int, most: int, rows: list[str]) -> None:
    made = rows_of("Run this?", KEYS, 0, columns, most)
    assert made == rows and all(len(row) <= columns for row in made)


@pytest.mark.parametrize("most", [1, 2, 8])
def test_a_long_question_keeps_its_mark_and_its_keys(most: int) -> None:
    keys = (AnswerKey("y", "yes"), AnswerKey("n", "no"))
    rows = rows_of("The release manager of the north wants to do this (run-12)?", keys, 0, 59, most)
    assert len(rows) <= most and "?" in "".join(rows) and "[y" in "".join(rows) and " n " in "".join(rows), rows


def test_in_colours_the_chosen_key_is_set_off_and_takes_the_same_room() -> None:
    plain, coloured = (rows_of("1 of 2  ls\nRun this?", KEYS, 1, 100, 8, colour) for colour in (False, True))
    assert "\x1b[7m a always this exact command \x1b[0m" in coloured[1]
    assert len(plain) == len(coloured) == 2 and plain[0] == "1 of 2  ls"


class Lines:
    """An `AnswerSource` that answers from a list and keeps what it was asked."""

    width = 80

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, str]] = []

    async def question(self, asked: AskedQuestion) -> str | None:
        self.asked.append((asked.text, asked.prompt, "".join(one.key for one in asked.keys)))
        await asyncio.sleep(0)
        return self.answers.pop(0)


def describe(question: Question, number: int) -> str:
    return f"{number} {question.what}" + (f" {question.detail}" if question.kind == DEFINITION else "")


def answers(source: Lines, *questions: Question) -> list[Answer]:
    async def ask() -> list[Answer]:
        approver = PersonApprover(source, describe)
        return list(await asyncio.gather(*map(approver.ask, questions)))

    return asyncio.run(ask())


def test_one_question_has_no_number_and_no_keys_for_others() -> None:
    source = Lines("y")
    assert answers(source, bash("ls")) == [Allow()]
    assert source.asked == [("0 bash ls", "Run this?", "ysn")]


def test_several_are_one_list_that_is_shown_once_and_answered_one_by_one() -> None:
    source = Lines("y", "use make", "n")
    three = [bash(command, number) for number, command in enumerate(("a", "b", "c"))]
    assert answers(source, *three) == [Allow(), Deny("use make"), STOP]
    assert source.asked == [
        ("1 bash a\n2 bash b\n3 bash c", "1 of 3  bash a\nRun this?", "ysnAN"),
        ("", "2 of 3  bash b\nRun this?", "ysnAN"),
        ("", "3 of 3  bash c\nRun this?", "ysn"),
    ]


@pytest.mark.parametrize(("line", "rest"), [("A", Allow()), ("all", Allow()), ("N", STOP)])
def test_several_are_answered_together(line: str, rest: Answer) -> None:
    source = Lines("y", line)
    assert answers(source, *map(bash, "abc")) == [Allow(), rest, rest]
    assert len(source.asked) == 2


def test_a_changed_definition_is_shown_once_in_a_list_and_then_named() -> None:
    def call(number: int, said: str, change: str) -> Question:
        made = ToolCall(f"c{number}", "note")
        return Question(made, "note", "changed", f"q: {said}\n\n{CHANGES}\n{change}", kind=DEFINITION)

    forged = f"x\n\n{CHANGES}\n+ b"  # words of the model hide nothing
    source, said = Lines("N"), (("a", "+ b"), (forged, "+ c"), ("d", "+ b"), ("e", "+ b\n+ x"))
    answers(source, *(call(number, *words) for number, words in enumerate(said)))
    shown = source.asked[0][0].replace("\n", " ").split("q: ")
    assert [one.removesuffix(" note ").split() for one in shown[1:]] == [
        f"a  {CHANGES} + b 2".split(),
        f"x  {CHANGES} + b  {CHANGES} + c 3".split(),
        f"d  {CHANGES} as shown for 1 4".split(),
        f"e  {CHANGES} + b + x".split(),
    ]


def test_an_unclear_answer_asks_again_five_times_and_is_no_yes() -> None:
    source = Lines("", "ok", "yes please", "/help", "")
    assert answers(source, bash("ls")) == [Deny("the question was closed without an answer", said=False)]
    assert "An empty line is not an answer. Please answer y, s or n" in source.asked[1][0]


def test_what_is_said_of_an_unclear_answer_fits_the_terminal() -> None:
    source = Lines("", None)
    source.width = 40
    assert isinstance(answers(source, bash("ls"))[0], Deny)
    assert "An empty line is not an answer. Please\nanswer y, s or n" in source.asked[1][0]


Keyed = tuple[str | None, str, list[str]]
"""What a question in a terminal is answered with; what is seen; what was called."""
ANSWERED: list[tuple[list[str], str | None]] = [
    (["y"], "y"),
    (["N"], "n"),
    (["y", "\r"], "y"),
    (["\r"], "nothing yet"),
    (["a"], "nothing yet"),
    (["a", "\r"], "a"),
    (["\x1b[C", "\r"], "y"),
    (["\x1b[C", "\x1b[C", "\x1b[C", "\r"], "n"),
    (["\x1b[D", "\r"], "n"),
    (list("no, leave it\r"), "no, leave it"),
    (list("add a test\r"), "add a test"),
    (["ab", "\x7f", "\x7f", "n"], "nothing yet"),
    (["ab", "\x7f", "\x7f", "n", "\r"], "n"),
    (["yo", "\x7f"], "nothing yet"),
    (["y", "\x1b[D"], "nothing yet"),
    (["é", "t", "é", "\r"], "été"),
    (["\x04"], None),
    (["x"], "nothing yet"),
]
PASTED: list[tuple[list[str], str | None]] = [
    (["\x1b[200~y\n\x1b[201~"], "nothing yet"),
    (["\x1b[200~yes\nrm -r\n\x1b[201~"], "nothing yet"),
    (["\x1b[200~y\x1b[201~"], "nothing yet"),
    (["\x1b[200~y\x1b[201~", "\r"], "y"),
    (["\x1b[200~say so\nonce\x1b[201~", "\r"], "say so once"),
    (["\x1b[200~no\tnever\x1b[201~", "\r"], "no never"),
    (["yes\nthen this"], "nothing yet"),
    (["\x1b[200~y\x1b[201~", "\x7f", "n"], "nothing yet"),
]
WITH_ESC = ["\x1b\r", "\x1by", "\x1b\x1b"]
OTHERS = ["\x1b", "\x1b[Z", "\x1bOA", "\r"]
PROGRAM = shlex.join([sys.executable, ENGINE])
ECHOED = ["w", "x", "\x7f", "ait\r"]


async def ask_keyed(keys: tuple[str, ...], colour: bool) -> Keyed:
    """Ask a question in a terminal of its own, and type `keys` one after the other."""
    typist, kept, called = Keys(), KeptStream(True, colour), list[str]()
    before = termios.tcgetattr(typist.slave)
    try:
        questions = TerminalQuestions(
            kept, typist.slave, stop=lambda: called.append("stop"), cycle_level=lambda: called.append("level")
        )
        typist("y")  # typed ahead
        asking = asyncio.ensure_future(questions.question(AskedQuestion("Run this?", KEYS, "block")))
        await asyncio.sleep(2)
        assert "Run this?" in kept.text
        for key in keys:
            typist(key)
            await asyncio.sleep(0.06)
        answer: str | None
        try:
            async with asyncio.timeout(5):
                answer = await asking
        except TimeoutError:
            answer = "nothing yet"
        assert termios.tcgetattr(typist.slave) == before, "the terminal is as it was"
        return answer, kept.text, called
    finally:
        typist.close()


def rows_after(seen: str) -> list[str]:
    """The rows that a terminal shows after what was written."""
    terminal = Emulator(80, 24)
    terminal.feed(seen.replace("\n", "\r\n").encode())
    return [row for row in terminal.lines_of_screen() if row]


def keyed(keys: Sequence[str], colour: bool = True) -> Keyed:
    """What came of keys."""
    return run_at_once(ask_keyed(tuple(keys), colour))


@pytest.mark.matrix
@pytest.mark.parametrize(("keys", "answer"), ANSWERED)
def test_in_a_terminal_one_key_answers_and_letters_that_follow_one_another_are_words(
    keys: list[str], answer: str | None
) -> None:
    given, seen, called = keyed(keys)
    assert given == answer and not called
    assert seen.startswith("block\n") and "\x1b[?2004h" in seen.partition("Run")[0], "the terminal marks pastes"
    assert seen.endswith("\x1b[?2004l") and rows_after(seen) == ["block"], "rows and line are taken away again"


@pytest.mark.parametrize(("keys", "answer"), sample(PASTED, 4))
def test_a_paste_is_words_and_answers_nothing_before_enter(keys: list[str], answer: str) -> None:
    assert keyed(keys)[0] == answer


@pytest.mark.parametrize("key", WITH_ESC)
def test_what_comes_with_esc_in_one_piece_answers_nothing(key: str) -> None:
    answer, _, called = keyed([key])
    assert answer == "nothing yet" and called in ([], ["stop"])


def test_esc_stops_and_shift_tab_changes_the_level() -> None:
    assert keyed(OTHERS)[::2] == ("n", ["stop", "level"])


def test_without_control_codes_keys_are_echoed_and_enter_alone_is_no_answer() -> None:
    answer, seen, _ = keyed(ECHOED, colour=False)
    assert answer == "wait" and "\x1b" not in seen and seen.endswith(": wx\b \bait\n")
    assert keyed(["\x1b[C", "\r"], colour=False)[0] == ""
    assert "Run this? [y]es · [a]lways this exact command · [n]o, or type" in seen


async def _ask_line(hidden: bool) -> tuple[str | None, bytes, bool]:
    """Ask for a line in a terminal, type two at once, and return the answer, what is left, and if Enter was a newline
    meanwhile."""
    typist, kept = Keys(), KeptStream(True, True)
    try:
        question = AskedQuestion("Key: ", words="", is_hidden=hidden)
        asking = asyncio.ensure_future(TerminalQuestions(kept, typist.slave).question(question))
        await asyncio.sleep(0.5)
        is_newline = bool(termios.tcgetattr(typist.slave)[0] & termios.ICRNL)
        typist("sk-1\necho é >rest\n")
        async with asyncio.timeout(20):
            answer = await asking
        return answer, os.read(typist.slave, 100), is_newline
    finally:
        typist.close()


@pytest.mark.parametrize("hidden", [True, False])
def test_what_follows_a_line_that_was_asked_for_is_left_to_the_next_reader(hidden: bool) -> None:
    """Another program in front, as after Ctrl+Z, still gets Enter as the end of a line."""
    assert asyncio.run(_ask_line(hidden)) == ("sk-1", "echo é >rest\n".encode(), True)


@pytest.mark.matrix
async def test_a_line_that_is_asked_for_is_shown_again_after_ctrl_z_and_fg() -> None:
    typist, kept = Keys(), KeptStream(True, True)
    try:
        question = AskedQuestion("Name: ", words="")
        asking = asyncio.ensure_future(TerminalQuestions(kept, typist.slave).question(question))
        await asyncio.sleep(0.5)
        typist("tea")
        async with asyncio.timeout(20):
            while "tea" not in kept.text:  # noqa: ASYNC110  (what is typed is echoed)
                await asyncio.sleep(0.01)
            os.kill(os.getpid(), signal.SIGCONT)
            await asyncio.sleep(0.1)
            typist("s\n")
            answer = await asking
            seen = kept.text
    finally:
        typist.close()
    assert answer == "teas" and seen.replace(" ", "").endswith("Name:teaName:teas\n")


def test_a_long_paste_is_echoed_once() -> None:
    answer, seen, _ = keyed([*["x" * 2000, "y\u202ez"] * 2, "\r"], colour=False)
    assert answer == 2 * ("x" * 2000 + "y\u202ez") and seen.endswith(": " + 2 * ("x" * 2000 + "y<U+202E>z") + "\n")


# The whole program


@contextmanager
def asked(before: str = "") -> Iterator[TerminalRun]:
    environ = {**os.environ, "NEXUS_MODEL": "m", "TERM": "dumb", "COLUMNS": "100"}
    words, home = ("approval", "ask", "hi"), Path(environ["HOME"])
    with TerminalRun(*words, env=environ, cwd=home, code=RUN_ENGINE, kind="light") as child:
        if before:
            child.send(before)
        child.expect_exact("what to do instead: ")
        yield child


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("typed", "answer"),
    sample(
        [
            ("y", "answer Allow"),
            ("a\n", "answer Allow always"),
            ("n use make\n", "answer Deny use make"),
            ("use make\n", "answer Deny use make"),
        ],
        3,
    ),
)
def test_a_key_or_a_typed_line_counts(typed: str, answer: str) -> None:
    with asked(before="y\ny\n") as child:
        shown = child.before
        assert "ls -la ␛[31m" in shown and "Allow bash?" in shown
        child.send(typed)
        assert answer in child.finish() and child.exitstatus == 0


@pytest.mark.matrix
def test_lines_that_come_in_one_piece_are_words_together() -> None:
    with asked() as child:
        for text in ("y\nok\n", "n\nand y\n"):
            child.send(text)
            time.sleep(2 * PASTE_SECONDS)
            child.send("\n")
            if "n" not in text:
                child.expect_exact("what to do instead: ")
        assert "answer Deny and y" in child.finish()


@pytest.mark.matrix
def test_the_end_of_input_denies() -> None:
    with asked() as child:
        child.send("\x04")
        assert "answer Deny the question was closed without an answer" in child.finish() and child.exitstatus == 0


@pytest.mark.matrix
@pytest.mark.parametrize("key", sample(["\x03", "\x1b"], 2))
def test_ctrl_c_and_esc_stop_the_turn_and_give_the_terminal_back(key: str) -> None:
    command = f"{PROGRAM} approval ask hi; echo status $?; stty -a"
    environ = {**os.environ, "NEXUS_MODEL": "m", "TERM": "dumb", "COLUMNS": "100"}
    child = pexpect.spawn("bash", ["-c", command], env=environ, timeout=120)
    child.expect_exact("what to do instead: ")
    child.send(key)
    text = child.read().decode()
    assert "status 130" in text and "Traceback" not in text and "Resume with: nexus ask -r 01FAKE" in text
    assert " icanon" in text and " echo " in text


@pytest.mark.matrix
def test_without_a_terminal_nobody_is_asked() -> None:
    command = f"{PROGRAM} approval ask hi </dev/null"
    child = pexpect.spawn("bash", ["-c", command], env={**os.environ, "NEXUS_MODEL": "m"}, timeout=120)
    assert "nobody can be asked" in child.read().decode()


def test_a_long_new_file_is_shown_by_its_beginning_on_a_screen() -> None:
    lines = "\n".join(f"+line {number}" for number in range(300))
    diff = f"--- /dev/null\n+++ b/src/new.py\n@@ -0,0 +1,300 @@\n{lines}\n"
    question = Question(ToolCall("c1", "write_file", {}), "write_file src/new.py", "", diff, kind="edit")
    shown = question_text(question, 80, Theme(colour=False), height=20).split("\n")
    assert len(shown) <= 16 and "src/new.py" in shown[1] and "line 0" in shown[2]
    assert "more lines" in shown[-2] and "Ctrl+O" in shown[-1]
    for text, height in ((diff, 0), (diff.replace("/dev/null", "a/src/new.py"), 20)):
        whole = question_text(replace(question, detail=text), 80, Theme(colour=False), height=height)
        assert "line 299" in whole and "Ctrl+O" not in whole
    short = "\n".join(diff.split("\n")[:6])
    assert "Ctrl+O" not in question_text(replace(question, detail=short), 80, Theme(colour=False), height=20)
