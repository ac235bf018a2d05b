"""The REPL line by line: prompts, steering, questions, the end of input, and not one control code."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from ui.keyboard import waiting
from ui.screen.screen_driver import PlainController

from nexus_cli.ui.asked_question import AnswerKey, AskedQuestion
from nexus_cli.ui.screen import key_bindings, line_view
from nexus_cli.ui.screen.line_view import LineView


class Paper:
    """A terminal that prints: what is written is kept."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        modes = termios.tcgetattr(self.slave)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(self.slave, termios.TCSANOW, modes)
        self.raw = b""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.controller = PlainController()
        self.face = self.controller.screen = LineView(stdin=self.slave, stdout=self.slave)

    def _read(self) -> None:
        try:
            while data := os.read(self.master, 4096):
                self.raw += data
        except OSError:
            pass

    @property
    def text(self) -> str:
        return self.raw.decode().replace("\r\n", "\n")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    async def until(self, holds: Callable[[], object]) -> None:
        for _ in range(2000):
            if holds():
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"not seen: {self.text!r} {self.controller.said}")


@contextmanager
def paper() -> Iterator[Paper]:
    made = Paper()
    try:
        yield made
    finally:
        os.close(made.slave)
        made.reader.join(5)
        os.close(made.master)


async def test_a_prompt_a_line_and_what_is_put_stand_one_below_the_other() -> None:
    with paper() as on:
        task = asyncio.ensure_future(on.face.run(on.controller))
        await on.until(lambda: on.text == "> ")
        on.type("words\n")
        await on.until(lambda: on.controller.said)
        on.face.put("\x1b[1manswer\x1b[0m\n")
        await on.until(lambda: on.text.endswith("answer\n> "))
        on.face.put("by itself\n")
        await on.until(lambda: on.text.endswith("itself\n> "))
        on.face.leave()
        await task
        await on.until(lambda: on.text.endswith("\n"))
        assert on.controller.said == ["entered 'words'"]
        assert b"\x1b" not in on.raw
        assert on.text == "> answer\n> \nby itself\n> \n"


async def test_while_a_turn_runs_there_is_no_prompt_and_a_line_steers() -> None:
    with paper() as on:
        on.controller.running = True
        task = asyncio.ensure_future(on.face.run(on.controller))
        on.type("other words\n\n")
        await on.until(lambda: on.controller.said)
        on.face.put("text\n")
        due = on.face._due
        assert due is not None
        await on.until(lambda: due.when() < asyncio.get_running_loop().time())
        await on.until(lambda: on.text)
        on.face.leave()
        await task
        assert on.text == "text\n"
        assert on.controller.said == ["entered 'other words'"]


async def test_the_prompt_comes_when_the_turn_has_ended() -> None:
    with paper() as on:
        on.controller.running = True
        task = asyncio.ensure_future(on.face.run(on.controller))
        await on.until(lambda: on.face._due is not None)
        on.face.put("text\n")
        due = on.face._due
        assert due is not None
        await on.until(lambda: on.text and due.when() < asyncio.get_running_loop().time())
        on.controller.running = False
        on.face.invalidate()
        await on.until(lambda: on.text.endswith("> "))
        on.face.leave()
        await task
        await on.until(lambda: on.text.endswith("> \n"))
        assert on.text == "text\n> \n"


async def test_a_backslash_at_the_end_continues_the_line() -> None:
    with paper() as on:
        task = asyncio.ensure_future(on.face.run(on.controller))
        on.type("one\\\n")
        await on.until(lambda: "... " in on.text)
        on.type("two\\\\\n")
        await on.until(lambda: on.controller.said)
        on.face.leave()
        await task
    assert on.controller.said == [f"entered {'one' + chr(10) + 'two' + 2 * chr(92)!r}"]


async def test_what_was_typed_before_a_question_is_a_message_and_no_answer() -> None:
    with paper() as on:
        on.controller.running = True
        task = asyncio.ensure_future(on.face.run(on.controller))
        await asyncio.sleep(0)
        on.type("y\nand ad")
        while not waiting(on.slave):  # the kernel hands it on in a thread of its own
            pass
        # The lines wait in the terminal when the question comes, which happens in the same moment.
        answer = asyncio.ensure_future(on.face.question(AskedQuestion("Which port?", text="it asks\n")))
        await on.until(lambda: "Send your line first" in on.text)
        on.type("d tests\n")
        await on.until(lambda: "Which port? " in on.text)
        on.type("8080\n")
        said = await answer
        on.face.leave()
        await task
        text = on.text
    assert (said, on.controller.said) == ("8080", ["entered 'y'", "entered 'and add tests'"])
    assert "\nSend your line first, then answer.\n> and ad" in text and text.endswith("Which port? ")


async def test_what_was_typed_before_a_hidden_line_is_no_part_of_it() -> None:
    with paper() as on:
        task = asyncio.ensure_future(on.face.run(on.controller))
        await asyncio.sleep(0)
        on.type("begun ")
        answer = asyncio.ensure_future(on.face.question(AskedQuestion("Key:", is_hidden=True)))
        await on.until(lambda: "Key: " in on.text)
        on.type("sk-1\n")
        said = await answer
        on.face.leave()
        await task
        assert said == "sk-1"
        assert on.controller.said == []


async def test_all_that_is_pasted_while_a_question_is_open_is_sent_after_it() -> None:
    with paper() as on:
        task = asyncio.ensure_future(on.face.run(on.controller))
        await asyncio.sleep(0)
        on.face.fill("zero")
        answer = asyncio.ensure_future(on.face.question(AskedQuestion("Allow?")))
        await on.until(lambda: "Allow? " in on.text)
        for times, pasted in enumerate(("one\ntwo\n", "three\nfour\n"), 1):
            on.type(pasted)
            await on.until(lambda: on.text.count("Pasted lines do not answer") == times)  # noqa: B023
        on.type("y\n")
        assert await answer == "y"
        on.type("\n")
        await on.until(lambda: on.controller.said)
        on.face.leave()
        await task
    assert on.controller.said == [f"entered {'zero one two three four'.replace(' ', chr(10))!r}"]


@pytest.mark.parametrize(
    ("typed", "messages"),
    [
        ("".join(f"a line of a log, number {number}\n" for number in range(300)), 1),
        ("int main() {\n// of no use\n/usr/bin/true\n![image](a.png)\n}\nwhat does this code do?\n", 1),
        ("/model openai/a-model-with-a-long-name\nand a message for it\n", 2),
        ("first\nsecond\n", 2),
    ],
    ids=["pasted", "code", "commands", "typed_ahead"],
)
async def test_lines_that_are_pasted_without_a_question_are_one_message(typed: str, messages: int) -> None:
    with paper() as on:
        task = asyncio.ensure_future(on.face.run(on.controller))
        await asyncio.sleep(0)
        await asyncio.to_thread(on.type, typed)
        await on.until(lambda: "".join(on.controller.said).count("entered ") == messages)
        on.face.leave()
        await task
    assert messages > 1 or on.controller.said == [f"entered {typed.strip()!r}"]


async def test_the_end_of_input_right_behind_a_line_is_the_end() -> None:
    with paper() as on:
        task = asyncio.ensure_future(on.face.run(on.controller))
        await asyncio.sleep(0)
        on.type("a message\n\x04")
        await on.until(lambda: "left" in on.controller.said)
        await task
    assert on.controller.said == ["entered 'a message'", "left"]


async def test_an_answer_typed_before_the_question_is_ready_is_neither_sent_nor_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_view, "QUIET", 0.2)

    with paper() as on:
        on.controller.running = True
        task = asyncio.ensure_future(on.face.run(on.controller))
        await asyncio.sleep(0)
        asked = AskedQuestion("Run this?", (AnswerKey("y", "yes"), AnswerKey("n", "no")), "bash  ls\n")
        answer = asyncio.ensure_future(on.face.question(asked))
        await asyncio.sleep(0)
        on.type("y\n")
        on.type("use make\n")
        await on.until(lambda: "Run this? " in on.text)
        done = answer.done()
        on.type("n\n")
        assert not done and await answer == "n"
        on.face.leave()
        await task
        assert on.controller.said == ["entered 'use make'"]
        assert f"bash  ls\n{line_view.TOO_EARLY}\nRun this? [y]es" in on.text


async def test_the_line_about_a_begun_one_stands_below_what_the_terminal_has_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(line_view, "QUIET", 0.05)

    with paper() as on:
        modes = termios.tcgetattr(on.slave)
        termios.tcsetattr(on.slave, termios.TCSANOW, [*modes[:3], modes[3] | termios.ECHO, *modes[4:]])
        on.controller.running = True
        task = asyncio.ensure_future(on.face.run(on.controller))
        await asyncio.sleep(0)
        asked = AskedQuestion("Run this?", (AnswerKey("y", "yes"), AnswerKey("n", "no")), "bash  ls\n")
        answer = asyncio.ensure_future(on.face.question(asked))
        await asyncio.sleep(0)
        on.type("y")
        await on.until(lambda: line_view.DRAFT in on.text)
        answer.cancel()
        on.face.leave()
        await task
        assert f"bash  ls\ny\n{line_view.DRAFT}\n" in on.text


@pytest.mark.parametrize("act", ["end", "interrupt", "leave"])
async def test_a_question_can_be_left_unanswered(act: str) -> None:
    with paper() as on:
        on.controller.running = True
        task = asyncio.ensure_future(on.face.run(on.controller))
        await asyncio.sleep(0)
        answer = asyncio.ensure_future(on.face.question(AskedQuestion("Allow?")))
        await on.until(lambda: "Allow? " in on.text)
        if act == "end":
            on.type("\x04")
        elif act == "interrupt":
            on.face.interrupt()
        else:
            on.face.leave()
        said = await answer
        on.face.leave()
        await task
        assert said is None


def test_control_d_leaves_and_so_does_control_c_twice() -> None:
    async def play(act: str) -> tuple[list[str], str]:
        with paper() as on:
            task = asyncio.ensure_future(on.face.run(on.controller))
            await on.until(lambda: on.text == "> ")
            if act == "end":
                on.type("\x04")
            else:
                on.type("half a line")
                on.face.interrupt()
                await on.until(lambda: "again to exit" in on.text)
                assert on.controller.said == []
                on.face.interrupt()
            await task
            return on.controller.said, on.text

    assert asyncio.run(play("end"))[0] == ["left"]
    assert asyncio.run(play("interrupt"))[0] == ["left"]


async def test_a_line_between_makes_control_c_the_first_again() -> None:
    with paper() as on:
        task = asyncio.ensure_future(on.face.run(on.controller))
        await on.until(lambda: on.text == "> ")
        on.face.interrupt()
        on.type("words\n")
        await on.until(lambda: on.controller.said)
        on.face.interrupt()
        on.face.leave()
        await task
    assert on.controller.said == ["entered 'words'"]


async def test_a_signal_stops_the_running_turn() -> None:
    with paper() as on:
        on.controller.running = True
        task = asyncio.ensure_future(on.face.run(on.controller))
        await asyncio.sleep(0)
        on.face.interrupt()
        on.face.leave()
        await task
    assert on.controller.said == ["interrupted"]


@pytest.mark.parametrize(("soon", "said"), [(True, ["interrupted"]), (False, ["interrupted", "left"])])
async def test_a_signal_right_after_one_that_stopped_the_turn_neither_clears_nor_leaves(
    monkeypatch: pytest.MonkeyPatch, soon: bool, said: list[str]
) -> None:
    monkeypatch.setattr(key_bindings, "AFTER_STOP_SECONDS", 1000.0 if soon else 0.0)
    with paper() as on:
        on.controller.running = True
        task = asyncio.ensure_future(on.face.run(on.controller))
        await asyncio.sleep(0)
        on.face.draft = "draft"
        on.face.interrupt()
        on.controller.running = False
        on.face.interrupt()
        on.face.interrupt()
        on.face.interrupt()
        on.face.leave()
        await task
        assert on.controller.said == said
        assert on.face.draft == ("draft" if soon else "")


def test_control_c_at_a_question_stops_what_runs_and_the_question_ends() -> None:
    async def play(running: bool) -> tuple[list[str], str | None]:
        with paper() as on:
            on.controller.running = running
            task = asyncio.ensure_future(on.face.run(on.controller))
            await asyncio.sleep(0)
            answer = asyncio.ensure_future(on.face.question(AskedQuestion("Allow?")))
            await on.until(lambda: "Allow? " in on.text)
            on.face.interrupt()
            said = await answer
            on.face.leave()
            await task
            return on.controller.said, said

    assert asyncio.run(play(True)) == (["interrupted"], None)
    assert asyncio.run(play(False)) == ([], None)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("\n", ["entered 'one\\ntwo'"]),
        ("\n\n", ["entered 'one\\ntwo'"]),
        ("other\n\n", ["entered 'other'"]),
        ("   \n", ["entered 'one\\ntwo'"]),
    ],
)
async def test_what_is_filled_in_is_shown_and_sent_by_an_empty_line(keys: str, said: list[str]) -> None:
    with paper() as on:
        task = asyncio.ensure_future(on.face.run(on.controller))
        await on.until(lambda: on.text == "> ")
        on.face.fill("one\ntwo")
        await on.until(lambda: on.text.endswith("replace it)\n> "))
        assert "not sent yet:\none\ntwo\n(press Enter to send it" in on.text
        on.type(keys + "end\n")
        await on.until(lambda: on.controller.said[-1:] == ["entered 'end'"])
        on.face.leave()
        await task
        assert on.controller.said[:-1] == said


async def test_control_c_gives_up_what_was_filled_in() -> None:
    with paper() as on:
        task = asyncio.ensure_future(on.face.run(on.controller))
        await on.until(lambda: on.text == "> ")
        on.face.fill("words")
        on.face.interrupt()
        on.type("\nend\n")
        await on.until(lambda: on.controller.said)
        on.face.leave()
        await task
    assert on.controller.said == ["entered 'end'"]


async def test_who_leaves_cancels_what_has_the_terminal_and_gives_it_away_no_more() -> None:
    with paper() as on:
        task = asyncio.ensure_future(on.face.run(on.controller))
        await on.until(lambda: on.text == "> ")
        away = asyncio.ensure_future(on.face.outside(asyncio.Event().wait))
        await asyncio.sleep(0)
        on.face.leave()
        await task
        for work in (away, asyncio.ensure_future(on.face.outside(asyncio.Event().wait))):
            with pytest.raises(asyncio.CancelledError):
                await work


@pytest.mark.matrix
def test_a_terminal_that_is_gone_is_an_error_or_the_end() -> None:
    async def play() -> list[str]:
        master, slave = pty.openpty()
        controller = PlainController()
        controller.screen = face = LineView(stdin=slave, stdout=slave)
        task = asyncio.ensure_future(face.run(controller))
        await asyncio.sleep(0)
        os.close(master)
        try:
            await asyncio.wait_for(task, 120)
        except OSError as error:
            return [type(error).__name__]
        finally:
            os.close(slave)
        return controller.said

    assert asyncio.run(play()) in (["OSError"], ["left"])


@pytest.mark.matrix
async def test_a_line_of_fifty_megabytes_from_a_pipe_arrives_whole() -> None:
    size = 50_000_000

    read, write = os.pipe()
    controller = PlainController()
    lengths: list[int] = []
    face = LineView(stdin=read, stdout=os.open(os.devnull, os.O_WRONLY))
    controller.submit = lambda typed: lengths.append(len(typed.text))  # type: ignore[method-assign]
    controller.screen = face

    def give() -> None:
        with open(write, "wb") as pipe:
            pipe.write(b"x" * size + b"\n")

    giver = threading.Thread(target=give)
    giver.start()
    await face.run(controller)
    giver.join()
    os.close(read)
    assert lengths[0] == size


@pytest.mark.matrix
async def test_an_input_that_cannot_be_waited_for_is_the_end() -> None:
    with pytest.raises(EOFError):
        nowhere = os.open(os.devnull, os.O_RDWR)
        try:
            await LineView(stdin=nowhere, stdout=nowhere).run(PlainController())
        finally:
            os.close(nowhere)


async def test_a_question_and_the_prompt_are_written_again_after_ctrl_z_and_fg() -> None:
    with paper() as on:
        task = asyncio.ensure_future(on.face.run(on.controller))
        await on.until(lambda: on.text == "> ")
        os.kill(os.getpid(), signal.SIGCONT)
        await on.until(lambda: on.text == "> > ")
        asked = asyncio.ensure_future(on.face.question(AskedQuestion("Which name?", text="It has none.\n")))
        await on.until(lambda: on.text.endswith("Which name? "))
        os.kill(os.getpid(), signal.SIGCONT)
        await on.until(lambda: on.text.count("It has none.\nWhich name? ") == 2)
        on.type("tea\n")
        assert await asked == "tea"
        on.face.leave()
        await task
        assert on.text.count("Which name?") == 2
