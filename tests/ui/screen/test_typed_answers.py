"""No speed of typing approves anything: texts typed around a question, on every way to answer one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search import sample
from ui.kept_stream import KeptStream
from ui.keyboard import Keys
from ui.put_clock import run_at_once
from ui.screen.screen_driver import PlainController, make_box
from ui.screen.screen_stand import stand

from nexus_cli.core.approval import Allow, Answer, Deny, Question
from nexus_cli.core.message import ToolCall
from nexus_cli.ui.asked_question import AnswerSource
from nexus_cli.ui.print.approver import PersonApprover
from nexus_cli.ui.screen.line_view import LineView
from nexus_cli.ui.screen.screen import Screen
from nexus_cli.ui.screen.terminal_questions import TerminalQuestions

pytestmark = pytest.mark.put_clock

ANSWERS = {"y", "yes", "s", "session", "a", "always", "all", "yes all"}
NOT_WORDS = ANSWERS | {""}
LONG = 5.0
"""Seconds after which nothing more happens by itself."""


@dataclass(frozen=True)
class Typing:
    """What a person types around questions, one key after the other."""

    text: str
    pace: float
    """Seconds between two keys."""
    before: int
    """Keys that come before the question."""
    pause: float
    """Seconds between the question and the next key, at most the pace where the text was begun."""
    enter: bool
    draft: str = ""
    """Stands in the box long before."""
    questions: int = 1


@st.composite
def typings(draw: st.DrawFn) -> Typing:
    first = st.sampled_from(["y", "yes", "yet", "a", "s", "A", "stop", "also", "no", "do"])
    words = st.lists(st.sampled_from(["y", "s", "a", "yes", "test", "first", "please"]), max_size=3)
    phrase = st.builds(lambda one, more: " ".join([one, *more]), first, words)
    letters = st.builds(str.__add__, st.sampled_from(["", "y", "a", "s", "/"]), st.text("ysanAN ,.?!@e", max_size=9))
    text = draw(st.one_of(phrase, letters).filter(lambda one: one.strip(" ,.:").lower() not in NOT_WORDS))
    pace = draw(st.integers(20, 900)) / 1000
    before = draw(st.one_of(st.just(0), st.integers(0, len(text))))
    pause = pace if before else draw(st.sampled_from([0.3, 1.0, 1.5, 2.0, 3.0]))
    draft = draw(st.sampled_from(["", "", "", "", "please", "y"]))
    return Typing(text, pace, before, pause, draw(st.booleans()), draft, draw(st.integers(1, 3)))


class Keyboard:
    """A terminal that can be typed at and asks questions."""

    def __init__(self, source: AnswerSource, press: Callable[[str], object]) -> None:
        self.source, self.press = source, press

    async def type(self, typing: Typing) -> list[Answer]:
        """The answers that came of it."""
        for key in typing.draft:
            self.press(key)
            await asyncio.sleep(0.1)
        await asyncio.sleep(LONG)
        for key in typing.text[: typing.before]:
            self.press(key)
            await asyncio.sleep(typing.pace)
        approver = PersonApprover(self.source, lambda question, number: question.what)
        asking = [asyncio.ensure_future(approver.ask(make_question(number))) for number in range(typing.questions)]
        await asyncio.sleep(typing.pause)
        for key in typing.text[typing.before :] + "\r" * typing.enter:
            self.press(key)
            await asyncio.sleep(typing.pace)
        await asyncio.sleep(LONG)
        answers = [one.result() for one in asking if one.done()]
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        return answers


def make_question(number: int) -> Question:
    call = ToolCall(f"c{number}", "bash", {"command": "pip install x"})
    return Question(call, "bash pip install x", "", "", "pip install *", "run", stores=("bash(pip install *)",))


@asynccontextmanager
async def drawn(folder: Path) -> AsyncIterator[Keyboard]:
    """The screen with the real box."""
    box = make_box(folder)
    async with stand(80, 30, box=box) as on:
        on.controller.running = True
        yield Keyboard(on.screen, on.type)
    box.close()


@asynccontextmanager
async def line_by_line(folder: Path) -> AsyncIterator[Keyboard]:
    """The REPL of a terminal that can only be written to."""
    keys, out = Keys(), os.open(folder / "out", os.O_RDWR | os.O_CREAT)
    view = LineView(stdin=keys.slave, stdout=out)
    controller = PlainController()
    controller.running = True
    running = asyncio.ensure_future(view.run(controller))
    await asyncio.sleep(0)
    try:
        yield Keyboard(view, keys)
    finally:
        view.leave()
        await running
        keys.close()
        os.close(out)


@asynccontextmanager
async def single_keys(folder: Path, colour: bool = True) -> AsyncIterator[Keyboard]:
    """`nexus ask` in a terminal."""
    keys = Keys()
    yield Keyboard(TerminalQuestions(KeptStream(True, colour), keys.slave), keys)
    keys.close()


@asynccontextmanager
async def plain_keys(folder: Path) -> AsyncIterator[Keyboard]:
    async with single_keys(folder, colour=False) as made:
        yield made


WAYS = [drawn, line_by_line, single_keys, plain_keys]


def play(way: Any, folder: Path, typing: Typing) -> list[Answer]:
    async def work() -> list[Answer]:
        async with way(folder) as made:
            answers: list[Answer] = await made.type(typing)
            return answers

    return run_at_once(work())


@pytest.mark.matrix
@pytest.mark.parametrize("way", sample(WAYS, 3))
@settings(max_examples=2 * settings().max_examples)
@given(typing=typings())
def test_no_text_at_any_speed_approves_a_call(
    way: Any, tmp_path_factory: pytest.TempPathFactory, typing: Typing
) -> None:
    answers = play(way, tmp_path_factory.mktemp("typed"), typing)
    assert not [one for one in answers if isinstance(one, Allow)], answers


@pytest.mark.matrix
@pytest.mark.parametrize("way", sample(WAYS, 4))
@pytest.mark.parametrize("before", [0, 1, 5])
@pytest.mark.parametrize("text", ["stop", "add a test first", "yes please but only X", "say yes", "do a", "not y"])
def test_the_natural_first_words_approve_nothing(way: Any, tmp_path: Path, text: str, before: int) -> None:
    for pace in (0.28, 0.3, 0.9):
        answers = play(way, tmp_path, Typing(text, pace, before, min(0.75, pace) if before else 2.0, True))
        assert not [one for one in answers if isinstance(one, Allow)]


@pytest.mark.matrix
@pytest.mark.parametrize("way", sample(WAYS, 4))
@pytest.mark.parametrize("answer", sorted(ANSWERS - {"all", "yes all"}))
def test_an_answer_that_was_begun_before_the_question_is_none(way: Any, tmp_path: Path, answer: str) -> None:
    for before in range(1, len(answer) + 1):
        answers = play(way, tmp_path, Typing(answer, 0.3, before, 0.3, True))
        assert not [one for one in answers if isinstance(one, Allow)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("answer", "allowed"),
    sample([("y", Allow()), ("s", Allow(always=True)), ("a", Allow(always=True, stored=True)), ("yes", Allow())], 3),
)
def test_an_answer_with_enter_counts_once_the_question_was_seen(
    way: Any, tmp_path: Path, answer: str, allowed: Allow
) -> None:
    assert play(way, tmp_path, Typing(answer, 0.1, 0, 1.5, True)) == [allowed]


@pytest.mark.matrix
@pytest.mark.parametrize("way", [drawn, single_keys, plain_keys])
def test_only_yes_and_no_answer_without_enter(way: Any, tmp_path: Path) -> None:
    found = {key: play(way, tmp_path, Typing(key, 0.1, 0, 1.5, False)) for key in "ysanAN"}
    assert found["y"] == [Allow()] and len(found["n"]) == len(found["N"]) == 1 and not isinstance(found["n"][0], Allow)
    assert not (found["s"] or found["a"] or found["A"])


@pytest.mark.matrix
async def test_a_draft_keeps_the_question_waiting_and_stays(tmp_path: Path) -> None:
    async with stand(90) as on:
        on.type("please ")
        await on.still()
        approver = PersonApprover(on.screen, lambda question, number: question.what)
        asking = asyncio.ensure_future(approver.ask(make_question(0)))
        await asyncio.sleep(LONG)
        seen = on.seen()
        on.type("y")
        await asyncio.sleep(LONG)
        kept, done = on.box.buffer.text, asking.done()
        on.type("\r")
        await on.until(lambda: on.screen._panel.is_open)
        asking.cancel()
    assert any("send or clear your draft to answer" in row for row in seen)
    assert (kept, done, on.controller.said) == ("please y", False, ["entered 'please y'"])


@pytest.mark.matrix
async def test_a_key_right_after_an_answer_stands_in_the_next_question_of_the_list_and_needs_enter(
    tmp_path: Path,
) -> None:
    async with drawn(tmp_path) as made:
        screen = made.source
        assert isinstance(screen, Screen)
        approver = PersonApprover(screen, lambda question, number: f"{question.what} {number}")
        asking = [asyncio.ensure_future(approver.ask(make_question(number))) for number in range(2)]
        await asyncio.sleep(LONG)
        made.press("y\r")
        await asyncio.sleep(0.2)
        made.press("y")
        await asyncio.sleep(LONG)
        kept = screen._panel.buffer.text, screen._box.buffer.text, asking[1].done()
        made.press("\r")
        await asyncio.sleep(LONG)
        assert (*kept, [one.result() for one in asking if one.done()]) == ("y", "", False, [Allow(), Allow()])


EACH = Allow()
NONE: list[Answer] = []
TIMINGS: list[tuple[str, list[tuple[float, str]], list[Answer]]] = [
    ("a letter", [(0.3, "y")], NONE),
    ("a letter, and Enter once it stands", [(0.3, "y"), (3.0, "\r")], [EACH]),
    ("a word, and Enter once it stands", [(0.3, "yes"), (3.0, "\r")], [EACH]),
    ("a letter that stores, and Enter once it stands", [(0.3, "s"), (3.0, "\r")], [Allow(always=True)]),
    ("a no, and Enter once it stands", [(0.3, "n"), (3.0, "\r")], [Deny(stops=True)]),
    ("Enter within the first second", [(0.3, "y"), (0.8, "\r")], NONE),
    ("Enter as a hesitation later", [(0.3, "y"), (1.5, "\r")], NONE),
    ("Enter as soon as it stands", [(0.3, "y"), (1.9, "\r")], NONE),
    ("in one go", [(0.1, "y\r")], NONE),
    ("in one go, and Enter again", [(0.1, "y\r"), (3.0, "\r")], [EACH]),
    ("a steering message", [(0.2 + 0.2 * at, key) for at, key in enumerate("yes please do X\r")], NONE),
    ("a held letter", [(0.3 + 0.05 * at, "y") for at in range(40)] + [(5.0, "\r")], NONE),
    ("Enter held from the letter on", [(0.3, "y")] + [(0.8 + 0.05 * at, "\r") for at in range(60)], NONE),
    ("Enter alone", [(0.3, "\r"), (3.0, "\r")], NONE),
    ("begun before", [(-0.2, "y"), (3.0, "\r")], NONE),
    ("a message after a pause", [(0.3, "yes"), (3.0, " please do X\r")], [Deny("yes please do X")]),
    ("a word after a pause", [(0.3, "n"), (3.0, "ever do that\r")], [Deny("never do that")]),
    ("twice in one go", [(0.1, "y\ry\r"), (3.0, "\r")], NONE),
]
"""What is typed around a question, each with the second after it was shown, and the answers that come of it."""
EDITED: list[tuple[str, list[tuple[float, str]], list[Answer]]] = [
    ("a letter after it", [(0.3, "y"), (3.0, "n"), (4.5, "\r")], NONE),
    ("begun before, and again", [(-0.2, "y"), (0.3, "\x15y"), (3.0, "\r")], NONE),
    ("corrected", [(0.3, "u\x7fy"), (3.0, "\r")], NONE),
    ("a paste", [(0.3, "\x1b[200~y\x1b[201~"), (3.0, "\r")], NONE),
    ("cleared", [(0.3, "y"), (3.0, "\x7f"), (3.5, "\r")], NONE),
    ("cleared with Esc", [(0.3, "y"), (3.0, "\x1b"), (3.5, "\r")], NONE),
]
"""The same where the terminal does not edit the line itself."""


@pytest.mark.parametrize(
    ("way", "keys", "answers"),
    [
        pytest.param(way, keys, answers, id=f"{name}-{way.__name__}")
        for way in (drawn, single_keys, plain_keys)
        for name, keys, answers in [*TIMINGS, *EDITED]
    ]
    + [pytest.param(line_by_line, keys, NONE, id=f"{name}-line_by_line") for name, keys, _ in TIMINGS],
)
async def test_an_answer_typed_in_the_first_moment_stands_and_takes_another_enter(
    way: Any, tmp_path: Path, keys: list[tuple[float, str]], answers: list[Answer]
) -> None:
    async with way(tmp_path) as made:
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(LONG)
        approver = PersonApprover(made.source, lambda question, number: question.what)
        begins, asking = clock() + 1, None
        for at, typed in [*keys, (LONG + keys[-1][0], "")]:
            if at >= 0 and asking is None:
                await asyncio.sleep(begins - clock())
                asking = asyncio.ensure_future(approver.ask(make_question(0)))
            await asyncio.sleep(begins + at - clock())
            if typed:
                made.press(typed)
        assert asking is not None
        done = [asking.result()] if asking.done() else []
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert done == answers


@pytest.mark.parametrize("typed", ["y", "yy", "y\ry\r"])
async def test_text_typed_ahead_approves_no_second_question(tmp_path: Path, typed: str) -> None:
    """The questions of two steps: the keys are typed while the first one waits."""

    async with drawn(tmp_path) as made:
        approver = PersonApprover(made.source, lambda question, number: question.what)
        first = asyncio.ensure_future(approver.ask(make_question(0)))
        await asyncio.sleep(LONG)
        made.press("y\r")
        answer = await first
        made.press(typed)
        await asyncio.sleep(0.2)
        second = asyncio.ensure_future(approver.ask(make_question(1)))
        await asyncio.sleep(LONG)
        made.press("\r")
        await asyncio.sleep(LONG)
        done = second.done()
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        assert [answer] == [EACH]
        assert not done


KEYS: Sequence[str] = [*"ysanA", "\r", "\x7f", "\x1b[A", "\x1b[B", "\t", "\x15"]


@pytest.mark.matrix
@given(
    keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=10), pace=st.integers(20, 900), pause=st.integers(0, 999)
)
def test_with_editing_keys_only_a_whole_answer_that_was_begun_at_the_open_question_approves(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str], pace: int, pause: int
) -> None:
    """A question that comes while somebody types does not open before they stop."""

    async def work() -> list[Answer]:
        async with drawn(tmp_path_factory.mktemp("keys")) as made:
            made.press("x")
            made.press("\x7f")
            await asyncio.sleep(pause / 1000)
            approver = PersonApprover(made.source, lambda question, number: question.what)
            asking = asyncio.ensure_future(approver.ask(make_question(0)))
            for key in keys:
                made.press(key)
                await asyncio.sleep(pace / 1000)
            await asyncio.sleep(LONG)
            done = [asking.result()] if asking.done() else []
            asking.cancel()
            return done

    assert run_at_once(work()) == []
