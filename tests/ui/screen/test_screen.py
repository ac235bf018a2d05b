"""The screen in this process: what is seen, what the keys do, and that nothing that was put is lost."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.key_binding.vi_state import InputMode
from search import sample
from ui.put_clock import run_at_once
from ui.screen.screen_driver import PlainController
from ui.screen.screen_stand import Stand, stand

from nexus_cli.core.approval import PersonQuestion
from nexus_cli.ui.asked_question import AnswerKey, AskedQuestion
from nexus_cli.ui.print.approver import PersonApprover
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.screen import key_bindings
from nexus_cli.ui.screen.question import QuestionPanel, wait_for_quiet
from nexus_cli.ui.screen.terminal import ESCAPE_SECONDS

pytestmark = pytest.mark.put_clock

STATUS = "model  edit  ~/work  12 of 184k  $0.02"


def _text(rows: list[str]) -> list[str]:
    return [row for row in rows if row]


async def test_parts_stand_below_what_was_put_in_their_order() -> None:
    async with stand() as on:
        on.controller.lines = ["live 1", "\x1b[31mlive 2\x1b[0m"]
        on.controller.waits = "* waiting"
        on.controller.waiting = [f"then: {n}" for n in range(5)]
        on.screen.put("first\nsecond\n")
        on.type("words")
        on.screen.invalidate()
        await on.until("words")
        assert _text(await on.still()) == [
            "first",
            "second",
            "live 1",
            "live 2",
            "* waiting",
            "then: 0",
            "then: 1",
            "... and 3 more",
            "> words",
            STATUS,
        ]


async def test_what_is_put_before_the_screen_runs_and_after_it_ended_is_printed_once() -> None:
    with create_pipe_input() as keys:
        made = Stand(keys, 40, 8, {"TERM": "xterm"})
        made.screen.put("before\n")
        task = asyncio.ensure_future(made.screen.run(made.controller))
        await made.until("model")
        made.screen.put("at the end\n")
        made.screen.leave()
        await task
        made.screen.put("after")
        assert _text(made.all()) == ["before", "at the end", "after"]


@pytest.mark.matrix
def test_much_text_is_put_whole_and_in_order() -> None:
    async def play() -> list[str]:
        async with stand() as on:
            for number in range(20_000):
                on.screen.put(f"line {number}\n")
            await on.until("line 19999")
            return on.all()

    rows = [row for row in run_at_once(play()) if row.startswith("line")]
    assert rows == [f"line {number}" for number in range(20_000)]


def test_from_sixteen_rows_on_one_row_stays_empty_below_what_was_printed() -> None:
    async def play(rows: int) -> list[str]:
        async with stand(60, rows) as on:
            on.screen.put("printed\n")
            on.controller.lines, on.controller.waits = ["live"], "* waiting"
            on.screen.invalidate()
            await on.until("waiting")
            one = list(on.seen())
            on.controller.lines, on.controller.waits = [], ""
            on.resize(60, rows + 1)
            await on.until(lambda: "live" not in on.seen())
            return [*one[:6], *on.seen()[:4]]

    below = ["> ".strip(), STATUS]
    assert run_at_once(play(16)) == ["printed", "live", "", "* waiting", *below, "printed", "", *below]
    assert run_at_once(play(14)) == ["printed", "live", "* waiting", *below, "", "printed", *below, ""]


async def test_put_in_one_moment_is_drawn_in_one_piece() -> None:
    async with stand() as on:
        await on.still()
        before = len(on.raw)
        for number in range(100):
            on.screen.put(f"{number}\n")
        await on.until("99")
        assert on.raw[before:].count(STATUS.encode()) == 1


async def test_a_key_is_shown_without_rendering_the_live_lines_again() -> None:
    async with stand() as on:
        await on.still()
        before = on.controller.asked
        for letter in "typing":
            on.type(letter)
            await on.until(lambda: not on.keys.closed)
        await on.until("> typing")
        after = on.controller.asked
    assert after == before


async def test_nothing_is_drawn_while_nothing_moves() -> None:
    async with stand() as on:
        await on.still()
        before = len(on.raw)
        await on.still()
        after = len(on.raw)
    assert after == before


@pytest.mark.parametrize(
    ("keys", "running", "said"),
    [
        ("words\r", False, ["entered 'words'"]),
        ("  \r\r", False, []),
        ("words\x1b\rmore\r", False, ["entered 'words\\nmore'"]),
        ("words\x1b\r", True, ["queued 'words'"]),
        ("one\ntwo\r", True, ["entered 'one\\ntwo'"]),
        ("\x03", True, ["interrupted"]),
        ("\x1b[Z", False, ["level"]),
        ("words\x03more\r", False, ["entered 'more'"]),
        ("\x14\x0f", False, ["thinking", "output"]),
        ("ab\x01\x04\r", False, ["entered 'b'"]),
        ("a\x00b\udce9\r", False, ["entered 'a"]),
    ],
)
async def test_keys_mean_what_they_are_said_to(keys: str, running: bool, said: list[str]) -> None:
    async with stand() as on:
        on.controller.running = running
        on.keys.send_bytes(keys.encode("utf-8", "surrogateescape"))
        await on.still()
    assert len(on.controller.said) == len(said)
    assert all(one.startswith(expected) for one, expected in zip(on.controller.said, said, strict=True))


@pytest.mark.parametrize(("key", "running"), [("\x1b[A", True), ("\x1b[A", False), ("\x1b", False)])
async def test_what_waits_is_taken_back_into_an_empty_box(key: str, running: bool) -> None:
    async with stand() as on:
        on.controller.running, on.controller.waiting = running, ["earlier words"]
        on.type(key)
        await on.until("> earlier words")
        on.controller.waiting, on.controller.running = ["more"], False
        on.type(key)
        await on.still()
    assert on.controller.said == ["taken back"]


@pytest.mark.parametrize("draft", ["", "draft"])
async def test_escape_stops_what_runs_and_keeps_what_was_typed_however_often_it_comes(draft: str) -> None:
    async with stand() as on:
        on.controller.running = True
        on.type(draft)
        await on.still()
        on.type("\x1b")
        await on.until(lambda: on.controller.said)
        on.type("\x1b\x1b")
        await on.until(lambda: len(on.controller.said) == 3)
        on.controller.running = False
        on.type("\x1b")
        await on.still()
        on.type("\x1b")
        text = on.box.buffer.text
        rows = _text(await on.still())
    assert on.controller.said == ["stopped"] * 3 and text == draft and rows[-1] == STATUS


async def test_escape_and_then_enter_sends_and_both_at_once_make_a_line() -> None:
    async with stand() as on:
        on.type("one\x1b\rtwo")
        await on.still()
        on.type("\x1b")
        await on.still()
        on.type("\r")
        await on.until(lambda: on.controller.said)
    assert on.controller.said == ["entered 'one\\ntwo'"]


async def test_three_quick_escapes_stop_the_turn_and_two_later_ones_list_the_messages_to_go_back_to() -> None:
    async with stand() as on:
        on.controller.running = True
        on.type("\x1b")
        await on.until(lambda: on.controller.said == ["stopped"])
        on.controller.running = False
        on.controller.said.clear()
        for _ in range(2):
            await asyncio.sleep(2 * ESCAPE_SECONDS)
            on.type("\x1b")
        await on.still()
        assert not on.controller.said and "Esc again" not in "\n".join(on.seen())
        await asyncio.sleep(key_bindings.AFTER_STOP_SECONDS)
        on.type("\x1b")
        await on.until("press Esc again to edit an earlier message")
        first = list(on.controller.said)
        await asyncio.sleep(2 * ESCAPE_SECONDS)
        on.type("\x1b")
        await on.until(lambda: on.controller.said)
        assert first == []
        assert [*on.controller.said, (await on.still())[1]] == ["edits", STATUS]


async def test_esc_closes_the_list_of_keys_and_does_no_more() -> None:
    async with stand(80, 30) as on:
        on.type("?")
        await on.until("Ctrl+C")
        on.type("\x1b")
        await on.until(lambda: "Ctrl+C" not in "\n".join(on.seen()))
        assert _text(await on.still()) == [">", STATUS]


@pytest.mark.parametrize(("columns", "rows"), [(60, 24), (110, 16), (20, 8)])
async def test_a_question_mark_on_an_empty_box_lists_the_keys_until_the_next_one(columns: int, rows: int) -> None:
    async with stand(columns, rows) as on:
        on.type("?")
        await on.until("Enter ")
        listed = _text(await on.still())
        on.type("?")
        await on.until("> ?")
        on.type("?")
        after = _text(await on.still())
        text = on.box.buffer.text
    assert text == "??" and after == ["> ??", STATUS[: columns - 1].rstrip()]
    assert listed[0] == ">" and listed[1].startswith("Enter") and max(map(len, listed)) < columns
    assert rows < 16 or any("Shift+Tab" in row for row in listed)


@pytest.mark.matrix
async def test_alt_enter_on_an_empty_box_takes_nothing_back() -> None:
    async with stand() as on:
        on.controller.running, on.controller.waiting = True, ["earlier words"]
        on.type("\x1b\r")
        await on.still()
    assert on.controller.said == []


async def test_only_a_second_control_c_leaves_and_the_first_says_so() -> None:
    async with stand() as on:
        on.type("\x03")
        await on.until("press Ctrl+C again to exit")
        first = list(on.controller.said)
        on.type("\x03")
        await on.until(lambda: on.controller.said)
        assert first == []
        assert on.controller.said == ["left"]


@pytest.mark.matrix
@pytest.mark.parametrize("draft", ["draft", ""])
@pytest.mark.parametrize("asked", [False, True])
async def test_control_c_right_after_one_that_stopped_the_turn_neither_clears_nor_leaves(
    monkeypatch: pytest.MonkeyPatch, draft: str, asked: bool
) -> None:
    monkeypatch.setattr(key_bindings, "AFTER_STOP_SECONDS", 1000.0)
    async with stand() as on:
        on.controller.running = True
        on.type(draft)
        asking = asyncio.ensure_future(on.screen.question(AskedQuestion("Sure?")) if asked else asyncio.sleep(0))
        await on.until(lambda: on.screen._panel.is_open or not asked)
        on.type("\x03")
        await on.until(lambda: on.controller.said)
        on.controller.running = False
        await asking
        for _ in range(3):
            on.type("\x03")
            await on.still()
        text = on.box.buffer.text
        rows = _text(on.seen())
    assert on.controller.said == ["interrupted"] and text == draft
    assert rows[-1] == STATUS


async def test_control_c_a_while_after_one_that_stopped_the_turn_clears_and_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_bindings, "AFTER_STOP_SECONDS", 0.0)
    async with stand() as on:
        on.controller.running = True
        on.type("draft\x03")
        await on.until(lambda: on.controller.said)
        on.controller.running = False
        on.type("\x03")
        await on.until(lambda: on.box.empty)
        on.type("\x03\x03")
        await on.until(lambda: len(on.controller.said) > 1)
    assert on.controller.said == ["interrupted", "left"]


async def test_control_d_on_an_empty_box_leaves_and_takes_the_app_off_the_screen() -> None:
    async with stand() as on:
        on.screen.put("stays\n")
        await on.until("stays")
        on.type("\x04")
        await on.until(lambda: on.controller.said == ["left"])
        await on.until(lambda: STATUS not in on.seen())
        assert _text(on.all()) == ["stays"]


async def test_control_l_clears_the_screen_and_keeps_what_stood_there_in_the_scrollback() -> None:
    async with stand() as on:
        on.screen.put("one\ntwo\n")
        await on.until("two")
        on.type("\x0c")
        await on.until(lambda: "two" not in on.seen())
        assert on.seen()[:2] == [">", STATUS]
        assert _text(on.all()) == ["one", "two", ">", STATUS]


@pytest.mark.matrix
async def test_control_l_leaves_what_is_asked_about_on_the_screen() -> None:
    async with stand() as on:
        on.screen.put("one\n")
        asking = asyncio.ensure_future(
            on.screen.question(AskedQuestion("Run this?", KEYS, "2 bash  ls\n", "\n2 bash  ls"))
        )
        await on.until(lambda: on.screen._panel.is_open)
        on.type("\x0c")
        await on.until(lambda: "one" not in on.seen())
        asked = _text(await on.still())
        await asyncio.sleep(2)  # a key just before leaves the letter to the input box
        on.type("y")
        assert await asking == "y"
        on.type("\x0c")
        await on.until(lambda: "2 bash  ls" not in on.seen())
        answered = _text(await on.still())
    assert asked[0] == "2 bash  ls" and asked[1].startswith("Run this?")
    assert answered == [">", STATUS]


@pytest.mark.matrix
@pytest.mark.parametrize(("attributes", "codes"), [(False, set()), (True, {b"\x1b[1m", b"\x1b[0m", b"\x1b[0;1m"})])
async def test_without_colours_no_code_of_a_colour_is_written(attributes: bool, codes: set[bytes]) -> None:
    theme = Theme(colour=False, attributes=attributes)

    async with stand(environ={"TERM": "xterm", "NO_COLOR": "1"}, theme=theme) as on:
        on.controller.lines = [theme.paint("error", "live") + theme.paint("bold", "live")]
        on.screen.put(theme.paint("bold", "put") + "\n")
        asking = asyncio.ensure_future(on.screen.question(AskedQuestion("Sure?")))
        await on.until(lambda: on.screen._panel.is_open)
        on.type("x")
        await on.until("> x")
        asking.cancel()
        await on.still()
        assert set(re.findall(rb"\x1b\[[0-9;]*m", on.raw)) <= codes


async def test_nothing_is_asked_of_the_terminal() -> None:
    async with stand() as on:
        on.resize(30, 10)
        await on.still()
        assert re.findall(rb"\x1b\[[0-9?>]*[nc]", on.raw) == []


@pytest.mark.parametrize(("columns", "rows"), sample([(1, 1), (2, 2), (20, 5), (40, 3), (300, 60), (3, 40)], 4, 1))
async def test_every_size_is_drawn_and_typed_into(columns: int, rows: int) -> None:
    with create_pipe_input() as keys:
        on = Stand(keys, columns, rows, {"TERM": "xterm"})
        task = asyncio.ensure_future(on.screen.run(on.controller))
        on.controller.lines, on.controller.waits = ["live 👨‍👩‍👧"] * 30, "* waits"
        on.controller.waiting = ["later"] * 9
        on.screen.put("put\n")
        asking = asyncio.ensure_future(on.screen.question(AskedQuestion("a long prompt of many words", text="text\n")))
        on.type("typed words\r")
        await on.until(lambda: on.controller.said)
        await on.until(lambda: on.screen._panel.is_open)
        on.type("yes\r")
        assert await asking == "yes"
        on.screen.leave()
        await task
    assert on.controller.said == ["entered 'typed words'"]


@pytest.mark.matrix
async def test_joined_emoji_and_flags_are_shown_by_their_parts_and_shift_nothing() -> None:
    async with stand() as on:
        on.controller.lines = ["👨‍👩‍👧 family", "🇩🇪 flag", "❤️ heart", "👍🏽 thumb", "漢字 wide"]
        on.screen.invalidate()
        on.type("x 👨‍👩‍👧 🇩🇪 y")
        await on.until("wide")
        await on.until("y")
        rows = _text(await on.still())
        column = on.terminal.cursor.x
    # At twelve rows four live lines are shown, the last.
    assert rows[:4] == ["ＤＥ flag", "❤ heart", "👍\u3000 thumb", "漢字 wide"]
    assert rows[4] == "> x 👨👩👧 ＤＥ y"
    assert column == len("> x ") + 6 + 1 + 4 + len(" y")


# -- questions


KEYS = (AnswerKey("y", "yes"), AnswerKey("a", "always this exact command"), AnswerKey("n", "no"))


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("prompt", "columns", "rows", "shown"),
    [
        ("Where shall the notes of this go to", 20, 5, ["Where shall the\u2026"]),
        ("Where shall the notes of this go to", 20, 6, ["Where shall the", "notes of this go to"]),
    ],
)
async def test_a_prompt_that_does_not_fit_is_shortened_and_keeps_its_beginning(
    prompt: str, columns: int, rows: int, shown: list[str]
) -> None:
    async with stand(columns, rows) as on:
        asking = asyncio.ensure_future(on.screen.question(AskedQuestion(prompt)))
        await on.until(lambda: on.screen._panel.is_open)
        await on.still()
        asking.cancel()
        seen = on.seen()
    assert seen[: len(shown) + 1] == [*shown, ">"]


async def _asked(on: Stand, *keys: str, box: str = "") -> asyncio.Future[str | None]:
    """A question with answer keys that takes them; `keys` were typed, one after the other."""
    on.box.fill(box)
    asking = asyncio.ensure_future(on.screen.question(AskedQuestion("Run this?", KEYS, "bash  ls\n")))
    await on.until(lambda: on.screen._panel.is_open)
    for key in keys:
        on.type(key)
        await on.still()
    return asking


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("keys", "answer"),
    sample(
        [
            (["y"], "y"),
            (["a", "\r"], "a"),
            (["N"], "n"),
            (["\x1b[C", "\r"], "y"),
            (["\x1b[C", "\x1b[C", "\r"], "a"),
            (["\x1b[D", "\r"], "n"),
            (["\x1b[B", "\t", "\x1b[A", "\r"], "y"),
            (["\t", "\t", "\t", "\t", "\r"], "y"),
            ([*"no, use make", "\r"], "no, use make"),
            ([*"add a test", "\r"], "add a test"),
            (["y\r"], "y"),
            (["n use make\r"], "n use make"),
            (["u", "\x7f", "n", "\r"], "n"),
            (["\x04"], None),
        ],
        4,
    ),
)
async def test_one_key_answers_and_letters_that_follow_one_another_are_words(
    keys: list[str], answer: str | None
) -> None:
    async with stand(90) as on:
        given = await (await _asked(on, *keys))
        after = _text(await on.still())
    assert given == answer
    assert after == ["bash  ls", ">", STATUS], "the command stands there once, and the box is back"


@pytest.mark.matrix
async def test_a_question_has_one_prompt_and_the_same_rows_before_it_takes_keys_and_after() -> None:
    async with stand(90, theme=Theme(colour=False)) as on:
        asking = asyncio.ensure_future(on.screen.question(AskedQuestion("Run this?", KEYS, "bash  ls\n")))
        await on.until("Run this?")
        before = _text(on.seen())
        await on.until(lambda: on.screen._panel.is_open)
        opened = _text(await on.still())
        on.type("\x1b[C")
        await on.still()
        moved = _text(on.seen())
        asking.cancel()
    row = "Run this?  y yes   a always this exact command   n no   Esc stop"
    assert before == ["bash  ls", row, ">", STATUS]
    assert opened == ["bash  ls", row, "> or type what to do instead", STATUS]
    assert moved[1] == row.replace(" y yes ", "[y yes]")


@pytest.mark.parametrize("enter", ["\r", "\x1b\r"])
@pytest.mark.parametrize("early", sample(["y", " yes", "N"], 3))
async def test_an_answer_typed_before_the_keys_are_taken_is_neither_sent_nor_taken(early: str, enter: str) -> None:
    async with stand(90) as on:
        on.controller.running = True
        asking = asyncio.ensure_future(on.screen.question(AskedQuestion("Run this?", KEYS, "bash  ls\n")))
        await on.until("Run this?")
        assert b"\x1b[2my yes\x1b[0m" in on.raw, "keys that are not taken yet are dim"
        on.type(f"u\x7f{early}")  # with a correction, it is no answer of the first moment
        await on.still()
        await asyncio.sleep(3)
        blocked = _text(on.seen())
        on.type(enter)
        await on.still()
        cleared, done = _text(on.seen()), asking.done()
        await on.until(lambda: on.screen._panel.is_open)
        await on.still()
        assert b"\x1b[1my\x1b[0m yes" in on.raw
        on.type("n\r")
        answer = await asking
    row = "Run this?  y yes  a always this exact command  n no"
    assert blocked == ["bash  ls", row, " press Enter to clear your draft, then answer", f"> {early}", STATUS]
    assert (cleared[2:], done) == ([">", STATUS], False)
    assert (on.controller.said, answer) == ([], "n")


@pytest.mark.parametrize("columns", [90, 40])
async def test_an_answer_typed_before_the_keys_are_taken_stands_in_the_field_after_a_pause(columns: int) -> None:
    async with stand(columns, theme=Theme(colour=False)) as on:
        on.controller.running = True
        asking = asyncio.ensure_future(on.screen.question(AskedQuestion("Run this?", KEYS, "bash  ls\n")))
        await on.until("Run this?")
        on.type("y\r")
        await on.still()
        waiting = _text(on.seen())
        await on.until(lambda: on.screen._panel.is_open)
        standing = _text(await on.still())
        on.type("\r")
        await on.still()
        done, in_box = asking.done(), on.box.buffer.text
        on.type("\x1b")
        await on.still()
        cleared = _text(on.seen())
        on.type("y\r")
        answer = await asking
    assert "wait a moment, then press Enter" in " ".join(map(str.strip, waiting)) and waiting[-2] == "> y"
    assert standing[-2] == "> y  press Enter to confirm"
    assert "Esc clear" in standing[-3] and "[y yes]" in " ".join(standing)
    assert (done, in_box) == (False, ""), "an Enter that comes as soon as it stands there does not take it"
    assert cleared[-2] == "> or type what to do instead" and "Esc stop" in cleared[-3]
    assert answer == "y"


@pytest.mark.matrix
async def test_enter_alone_answers_nothing_before_a_key_is_marked() -> None:
    async with stand(90) as on:
        asking = await _asked(on, "\r", "\r")
        await asyncio.sleep(3)
        open_ = not asking.done()
        on.type("\x1b[C\r")
        assert open_
        assert await asking == "y"


@pytest.mark.parametrize("line", ["/permissions run", "!pytest"])
async def test_a_command_typed_at_a_question_is_run_and_answers_nothing(line: str) -> None:
    async with stand(90) as on:
        asking = await _asked(on, *line, "\r")
        said, done, text = list(on.controller.said), asking.done(), on.screen._panel.buffer.text
        await asyncio.sleep(2)
        on.type("y")
        assert said == [f"entered {line!r}"]
        assert not done
        assert text == ""
        assert await asking == "y"


@pytest.mark.matrix
async def test_a_paste_is_words_and_never_a_key() -> None:
    async with stand(90) as on:
        asking = await _asked(on, "\x1b[200~y\r\x1b[201~")
        await asyncio.sleep(3)
        assert not asking.done()


@pytest.mark.parametrize(("pasted", "words"), [("y\rn\r", "y n"), ("\rfix it\nthen test", "fix it then test")])
async def test_several_lines_at_once_are_words_after_the_question_and_not_sent(pasted: str, words: str) -> None:
    async with stand(90) as on:
        asking = await _asked(on, pasted)
        await asyncio.sleep(0.4)
        done, text = asking.done(), on.screen._panel.buffer.text
        on.type(" please\r")
        text = text.rstrip()
        answer = await asking
    assert not done and text == words and answer and " ".join(answer.split()) == f"{words} please"


async def test_several_lines_at_once_before_a_question_takes_keys_stay_in_the_box() -> None:
    async with stand(90) as on:
        asking = asyncio.ensure_future(on.screen.question(AskedQuestion("Run this?", KEYS, "bash  ls\n")))
        await on.until("Run this?")
        on.type("use make\ry\r")
        await asyncio.sleep(3)
        done, text = asking.done(), on.box.buffer.text
        asking.cancel()
        assert text == "use make\ny"
        assert not done
        assert on.controller.said == []


@pytest.mark.matrix
@pytest.mark.parametrize("key", ["\x1b", "\x03"])
async def test_esc_at_a_question_with_keys_stops_what_runs_and_shift_tab_changes_the_level(key: str) -> None:
    stopped = "stopped" if key == "\x1b" else "interrupted"
    async with stand(90) as on:
        on.controller.running = True
        asking = await _asked(on, "\x1b[Z", "words", "\x1b[Z", key)
        assert on.controller.said == ["level", "level", stopped]
        assert await asking is None


@pytest.mark.matrix
@pytest.mark.parametrize("key", ["\x1b", "\x03"])
@pytest.mark.parametrize(("typed", "kept"), [("use make instead", "use make instead"), ("yes", "")])
async def test_words_for_a_question_whose_turn_is_stopped_stand_in_the_box(typed: str, kept: str, key: str) -> None:
    async with stand(90) as on:
        on.controller.running = True
        asking = await _asked(on, typed, key)
        assert await asking is None
        assert on.box.buffer.text == kept


@pytest.mark.matrix
@pytest.mark.parametrize(("columns", "rows"), [(160, 24), (60, 12), (33, 8), (20, 6), (8, 4)])
async def test_a_question_with_keys_is_drawn_and_answered_in_every_size(columns: int, rows: int) -> None:
    async with stand(columns, rows) as on:
        assert await (await _asked(on, "\x1b[C", "n", "\r")) == "n"


@pytest.mark.matrix
async def test_what_is_typed_ahead_goes_into_the_box_and_answers_nothing() -> None:
    async with stand() as on:
        asking = asyncio.ensure_future(on.screen.question(AskedQuestion("Allow?", text="will write a file\n")))
        await on.until("Allow?")
        for _ in range(8):
            on.type("y\r")
            await on.still()
        typed = list(on.controller.said)
        on.type("words")
        await on.until(lambda: on.screen._panel.is_open)
        on.type("no")
        await on.until("> no")
        rows = "\n".join(_text(on.seen()))
        on.type("\r")
        answer = await asking
        after = _text(await on.still())
    assert typed == ["entered 'y'"] * 8
    assert rows == f"will write a file\nAllow?\n> no\n> words\n{STATUS}"
    assert answer == "no"
    assert after == ["will write a file", "> words", STATUS]


@pytest.mark.parametrize(
    ("keys", "answer"),
    sample(
        [
            ("\r", ""),
            ("\x1b", None),
            ("\x03", None),
            ("\x04", None),
            ("a\x01\x04b\r", "b"),
            ("\x1b[200~y\r\x1b[201~\r", "y"),
        ],
        3,
    ),
)
async def test_a_question_ends_with_a_line_or_with_nothing(keys: str, answer: str | None) -> None:
    async with stand() as on:
        asking = asyncio.ensure_future(on.screen.question(AskedQuestion("Sure?")))
        await on.until(lambda: on.screen._panel.is_open)
        assert sum(line.startswith(">") for line in _text(await on.still())) == 1, "one prompt"
        on.type(keys)
        assert await asking == answer


async def test_control_d_deletes_a_character_of_an_answer_with_the_keys_of_vi_too() -> None:
    async with stand() as on:
        on.screen._app.editing_mode = EditingMode.VI
        asking = asyncio.ensure_future(on.screen.question(AskedQuestion("Sure?")))
        await on.until(lambda: on.screen._panel.is_open)
        on.type("ab\x1b[D\x04\r")
        assert await asking == "a"


def test_control_c_at_a_question_stops_what_runs_and_the_question_ends() -> None:
    async def play(act: str) -> tuple[list[str], str | None]:
        async with stand() as on:
            on.controller.running = True
            asking = asyncio.ensure_future(on.screen.question(AskedQuestion("Sure?")))
            await on.until(lambda: on.screen._panel.is_open)
            if act == "signal":
                on.screen.interrupt()
            else:
                on.type(act)
            return on.controller.said, await asking

    assert run_at_once(play("\x03")) == (["interrupted"], None)
    assert run_at_once(play("signal")) == (["interrupted"], None)
    assert run_at_once(play("\x1b")) == ([], None)


@pytest.mark.matrix
@pytest.mark.parametrize(("keys", "answer"), [("y\r", "y"), ("\x1b", None)])
async def test_with_vi_keys_a_question_is_answered_by_letters_and_navigation_goes_on_afterwards(
    keys: str, answer: str | None
) -> None:
    async with stand() as on:
        app = on.screen._app
        app.editing_mode = EditingMode.VI
        on.type("words\x1b")
        await on.until(lambda: app.vi_state.input_mode == InputMode.NAVIGATION)
        on.type("d")
        await on.still()
        asking = asyncio.ensure_future(on.screen.question(AskedQuestion("Sure?")))
        await on.until(lambda: on.screen._panel.is_open)
        on.type(keys)
        said = await asking
        on.type("0x")
        await on.still()
        assert said == answer
        assert on.box.buffer.text == "ords"


async def test_with_vi_keys_escape_leaves_the_insert_mode_first_and_stops_and_edits_after_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    async with stand() as on:
        app = on.screen._app
        app.editing_mode = EditingMode.VI
        on.controller.running = True
        on.type("words\x1b")
        await on.until(lambda: app.vi_state.input_mode == InputMode.NAVIGATION)
        assert not on.controller.said
        on.type("\x1b")
        await on.until(lambda: on.controller.said == ["stopped"])
        on.controller.running = False
        on.box.fill("")
        app.vi_state.input_mode = InputMode.INSERT
        on.type("\x1b")
        await on.until(lambda: app.vi_state.input_mode == InputMode.NAVIGATION)
        assert (await on.still())[1] == STATUS
        await asyncio.sleep(key_bindings.AFTER_STOP_SECONDS)
        on.type("\x1b")
        await on.until("press Esc again")
        on.type("\x1b")
        await on.until(lambda: len(on.controller.said) == 2)
    assert on.controller.said == ["stopped", "edits"]


async def test_questions_are_asked_one_after_the_other_and_a_cancelled_one_goes() -> None:
    async with stand() as on:
        first = asyncio.ensure_future(on.screen.question(AskedQuestion("First?")))
        second = asyncio.ensure_future(on.screen.question(AskedQuestion("Second?")))
        await on.until("First?")
        assert not any("Second?" in row for row in on.seen())
        first.cancel()
        await on.until("Second?")
        await on.until(lambda: on.screen._panel.is_open)
        on.type("2\r")
        assert await second == "2"
        assert _text(await on.still()) == [">", STATUS]


class SlowScreen:
    """A screen on a machine that needs a second from one question to the next."""

    width = 80

    def __init__(self, on: Stand) -> None:
        self.on = on

    async def question(self, asked: AskedQuestion) -> str | None:
        await asyncio.sleep(1.0)
        return await self.on.screen.question(asked)


async def test_the_next_question_of_several_takes_keys_at_once_however_late_it_comes() -> None:
    async with stand() as on:
        approver = PersonApprover(SlowScreen(on), lambda question, number: "")
        asking = asyncio.ensure_future(approver.put_questions([PersonQuestion("First?"), PersonQuestion("Second?")]))
        await on.until(lambda: on.screen._panel.is_open)
        on.type("1\r")
        await on.until("Second?")
        on.type("2\r")
        await on.until(lambda: asking.done() or on.controller.said)
        asking.cancel()
        assert (on.controller.said, asking.result() if asking.done() else []) == ([], ["1", "2"])


async def test_the_next_question_of_several_takes_no_keys_before_it_was_drawn_if_it_comes_late() -> None:
    panel = QuestionPanel(colour=False, has_draft=lambda: False, draft=str)
    panel.begin(AskedQuestion("Second?", [AnswerKey("1", "yes", "yes")], follows=True), asyncio.Future())
    opening = asyncio.ensure_future(wait_for_quiet(panel))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not opening.done()
    panel.note_drawn()
    await opening


async def test_leaving_answers_the_open_question_with_nothing() -> None:
    async with stand() as on:
        asking = asyncio.ensure_future(on.screen.question(AskedQuestion("Sure?")))
        await on.until("Sure?")
        on.screen.leave()
        assert (await asking) is None


async def test_a_long_answer_leaves_the_mark_of_the_next_box_in_its_place() -> None:
    async with stand(columns=40) as on:
        for asked, answer in (("First?", "word " * 20 + "\r"), ("Second?", "words")):
            asking = asyncio.ensure_future(on.screen.question(AskedQuestion(asked)))
            await on.until(asked)
            await on.until(lambda: on.screen._panel.is_open)
            on.type(answer)
            shown = await on.still()
        asking.cancel()
        assert any(row.startswith("> words") for row in shown)


# -- failures


def test_a_failure_behind_a_key_ends_the_screen_with_it() -> None:
    class Failing(PlainController):
        def release_workers(self) -> None: ...

        def toggle_thinking(self) -> None:
            raise RuntimeError("behind a key")

        def live(self, rows: int) -> list[str]:
            if self.running:
                raise ValueError("in a frame")
            return []

    async def play(act: str) -> None:
        with create_pipe_input() as keys:
            on = Stand(keys, 40, 8, {"TERM": "xterm"})
            on.controller = Failing()
            task = asyncio.ensure_future(on.screen.run(on.controller))
            await on.until("model")
            if act == "key":
                on.type("\x14")
            else:
                on.controller.running = True
                on.screen.invalidate()
            await task

    with pytest.raises(RuntimeError, match="behind a key"):
        run_at_once(play("key"))
    with pytest.raises(ValueError, match="in a frame"):
        run_at_once(play("frame"))


async def test_a_failure_in_somebody_elses_callback_is_one_line() -> None:
    def fail() -> None:
        raise ValueError("not \x1b[31mours\nat all")

    async with stand() as on:
        asyncio.get_running_loop().call_soon(fail)
        # Where it wraps depends on the path of the checkout.
        await on.until(lambda: r"\natall')" in "".join(on.all()).replace(" ", ""))
        on.type("words\r")
        await on.until(lambda: on.controller.said == ["entered 'words'"])
        rows = [row for row in on.all() if row and row not in (">", STATUS)]
    assert "".join(rows).startswith("nexus: Exception in callback")
    text = "".join(rows).replace(" ", "")
    assert r"ValueError('not\x1b[31mours\natall')" in text


@pytest.mark.matrix
async def test_the_end_of_input_ends_the_screen() -> None:
    with pytest.raises(EOFError), create_pipe_input() as keys:
        on = Stand(keys, 40, 8, {"TERM": "xterm"})
        task = asyncio.ensure_future(on.screen.run(on.controller))
        await on.until("model")
        keys.close()
        await task


# -- the law

_DOING = st.one_of(
    st.tuples(st.just("put"), st.integers(1, 5)),
    st.tuples(st.just("long"), st.integers(30, 200)),
    st.tuples(st.just("live"), st.integers(0, 9)),
    st.tuples(st.just("type"), st.integers(0, 80)),
    st.tuples(st.just("size"), st.tuples(st.integers(8, 120), st.integers(5, 30))),
    st.tuples(st.just("wait"), st.integers(0, 2)),
)


@pytest.mark.matrix
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_DOING, max_size=25))
def test_whatever_happens_every_line_that_was_put_stands_once_and_in_order(doing: list[tuple[str, object]]) -> None:
    async def play() -> tuple[list[str], list[str]]:
        put: list[str] = []
        async with stand(40, 10) as on:
            for what, much in doing:
                if what == "put":
                    assert isinstance(much, int)
                    lines = [f"#{len(put) + n}" for n in range(much)]
                    put += lines
                    on.screen.put("\n".join(lines) + "\n")
                elif what == "long":
                    assert isinstance(much, int)
                    put.append(f"#{len(put)}")
                    on.screen.put(f"{put[-1]} {'x' * much}\n")
                elif what == "live":
                    assert isinstance(much, int)
                    on.controller.lines = [f"live {n} {'-' * 9 * n}" for n in range(much)]
                    on.screen.invalidate()
                elif what == "type":
                    assert isinstance(much, int)
                    on.type("w" * much)
                elif what == "size":
                    assert isinstance(much, tuple)
                    on.resize(*much)
                else:
                    await on.still()
            await on.still()
            rows = on.all()
        return put, [row.split()[0] for row in rows if row.startswith("#")]

    put, seen = run_at_once(play())
    assert seen == put
