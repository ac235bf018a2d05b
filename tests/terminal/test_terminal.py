"""The terminal of this room itself: what it shows, and what the program in it is sent."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from terminal.emulator import Emulator
from terminal.terminal import NotSeenError, Terminal, ctrl
from terminal.tmux import PRESENT, Tmux

Opened = Callable[[Terminal], Terminal]
ODD = "\x1b[?2004ha\x1b[?2026h\x1b[>4;1m\x1b[=1ub\x1b[<u\x1b[0 q\x1b[!p\x1b[?6n\x1b]0;title\x07\x1b]8;;http://x\x1b\\c"
ODD += "\x1bPq#0~~\x1b\\\x1b_G\x1b\\d\x1b[38:2::255:0:0me\x1b[4:0mf\x1b(B"


def drawn(text: str, columns: int = 20, rows: int = 4) -> Emulator:
    made = Emulator(columns, rows)
    made.feed(text.encode())
    return made


def test_sequences_that_mean_nothing_on_a_screen_leave_no_trace() -> None:
    made = drawn(ODD)
    assert made.lines_of_screen()[0] == "abcdef"
    assert made.told == ["0;title", "8;;http://x", "8;;"] or made.told == ["0;title", "8;;http://x"]
    assert {"2004", "2026"} <= made.asked
    assert made.buffer[0][0].bold is False and made.buffer[0][4].fg == "ff0000"


@given(st.lists(st.integers(0, 400), max_size=12))
def test_bytes_may_be_cut_anywhere(cuts: list[int]) -> None:
    data = (ODD + "\r\n\x1b[1;31mré😀\u200d👩 end\x1b[0m\x1b[2mfaint").encode()
    whole, pieces = Emulator(20, 4), Emulator(20, 4)
    whole.feed(data)
    last = 0
    for cut in sorted(cuts):
        pieces.feed(data[last:cut])
        last = max(last, cut)
    pieces.feed(data[last:])
    assert pieces.lines_of_screen() == whole.lines_of_screen()
    assert pieces.told == whole.told


def test_a_joiner_does_not_swallow_what_follows() -> None:
    assert drawn("a👨\u200d👩b\ufe0fc").lines_of_screen()[0] == "a👨\u200d👩b\ufe0fc"


def test_faint_text_and_colours_are_told_apart() -> None:
    row = drawn("\x1b[2;31ma\x1b[22;39mb\x1b[38;5;9mc\x1b[48;2;1;2;3md").buffer[0]
    assert (row[0].dim, row[0].fg, row[1].dim, row[1].fg) == (True, "red", False, "default")
    assert (row[2].fg, row[3].bg) == ("brightred", "010203")


def test_no_line_is_lost_when_the_window_changes() -> None:
    made = drawn("".join(f"line number {number}\r\n" for number in range(10)), 20, 4)
    for columns, rows in ((10, 2), (5, 1), (40, 12), (20, 4)):
        made.resize(rows, columns)
        shown = [line for line in made.lines_of_all() if line]
        assert shown == [f"line number {number}" for number in range(10)], (columns, rows)


def test_a_program_is_typed_to_resized_stopped_and_continued(opened: Opened) -> None:
    terminal = opened(Terminal(["bash", "-c", "read words; stty size; exec cat"], columns=40, rows=5))
    terminal.resize(30, 7)
    terminal.send("\r")
    terminal.wait_for("7 30")
    terminal.suspend()
    assert terminal.state() == "T"
    terminal.resume()
    terminal.send("words\r")
    terminal.wait_for("words\nwords")
    terminal.send(ctrl("c"))
    assert terminal.status() == -signal.SIGINT


@pytest.mark.parametrize("stops", [False, True])
def test_a_program_that_is_ended_is_gone_when_its_window_is_closed(stops: bool, opened: Opened) -> None:
    large = "held = b'x' * 100_000_000; print('ready', flush=True); import time; time.sleep(99)"
    terminal = opened(Terminal([sys.executable, "-c", large]))
    terminal.wait_for("ready")
    if stops:
        terminal.suspend()
    terminal.close()
    assert terminal.state() == ""


def test_closing_the_window_is_a_hang_up(opened: Opened) -> None:
    terminal = opened(Terminal(["bash", "-c", "trap 'exit 129' HUP; echo ready; while :; do sleep 0.05; done"]))
    terminal.wait_for("ready")
    terminal.hang_up()
    assert terminal.status() == 129


def test_it_answers_where_the_cursor_is(opened: Opened) -> None:
    code = "import os, tty; tty.setraw(0); os.write(1, b'abc\\x1b[6n'); print(repr(os.read(0, 20)), end='\\r\\n')"
    terminal = opened(Terminal([sys.executable, "-c", code]))
    terminal.wait_for("1;4R")
    assert terminal.status() == 0


def test_what_does_not_come_is_told_with_the_screen(opened: Opened) -> None:
    terminal = opened(Terminal(["bash", "-c", "echo something else; sleep 99"]))
    terminal.wait_for("something else")
    with pytest.raises(NotSeenError, match=r"(?s)never.*something else"):
        terminal.wait_for("never", 0.3)


@pytest.mark.skipif(not PRESENT, reason="tmux is not installed")
def test_tmux_reflows(tmp_path: Path) -> None:
    with Tmux(["bash", "-c", "printf '%060d\\n' 7; read x; exit 3"], columns=80, env={}, cwd=tmp_path) as window:
        window.wait_for("00007")
        window.resize(40, 10)
        window.wait_for(lambda one: one.scrollback(joined=False)[:2] == ["0" * 40, "0" * 19 + "7"])
        assert window.scrollback()[0] == "0" * 59 + "7"
        window.send("\r")
        assert window.status() == 3
