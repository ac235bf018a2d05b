"""The screen in a real terminal: changes of size, being stopped, the terminal going away, a terminal that reflows."""

from __future__ import annotations

import os
import pty
import re
import shlex
import signal
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.keys import Keys
from search import sample
from terminal.terminal import Terminal
from terminal.tmux import PRESENT, Tmux

from nexus_cli.ui.screen.fitted_renderer import UNDER_WAY_TMUX
from nexus_cli.ui.screen.terminal import TerminalInput

DRIVER = [sys.executable, str(Path(__file__).with_name("screen_driver.py"))]
STATUS = "60 columns  edit  ~/work  12 of 184k"
_HINTS = ("TMUX", "TERM_PROGRAM", "VTE_VERSION", "KONSOLE_VERSION", "KITTY_WINDOW_ID", "WT_SESSION", "LC_TERMINAL")


def _environ() -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if name not in (*_HINTS, "NO_COLOR", "COLUMNS")}
    return {**known, "PYTHONPATH": str(Path(__file__).parents[3])}


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with Terminal(DRIVER, columns=60, rows=12, env=_environ()) as made:
        made.wait_for(STATUS)
        yield made


def _modes(terminal: Terminal) -> list[object]:
    return termios.tcgetattr(terminal._master)[:4]


def _taken_by_the_shell(terminal: Terminal) -> None:
    """Wait until the shell has noticed that its job is stopped: a person cannot type `fg` before."""
    terminal.stopped()


def _said(terminal: Terminal) -> list[str]:
    """Every line that is not empty, when nothing more is being drawn."""
    terminal.wait_quiet()
    return [line for line in terminal.scrollback() if line]


@pytest.mark.matrix
def test_a_change_of_size_leaves_one_box_and_one_status_line(terminal: Terminal) -> None:
    terminal.send("live 4\r")
    terminal.wait_for("live 3")
    terminal.send("typing")
    for columns, rows in ((30, 12), (100, 20), (20, 5), (300, 6), (45, 12)):
        terminal.resize(columns, rows)
        terminal.wait_for(f"{columns} columns")
        terminal.wait_quiet()
    shown = [line for line in terminal.scrollback() if re.match(r"ready|>|\d+ columns", line)]
    assert shown == ["ready", "> typing", f"45{STATUS[2:]}"]


@pytest.mark.matrix
def test_a_storm_of_signals_changes_nothing(terminal: Terminal) -> None:
    terminal.send("words\r")
    terminal.wait_for("words")
    terminal.send("typing")
    for number in range(200):
        terminal.signal(signal.SIGWINCH)
        if number % 20 == 0:
            terminal.resize(60 - number % 40, 12)
    terminal.resize(60, 12)
    assert _said(terminal) == ["ready", "words", "> typing", STATUS]


@pytest.mark.matrix
@pytest.mark.parametrize("size", [(0, 0), (1, 1)])
def test_a_terminal_without_a_size_is_drawn_on(terminal: Terminal, size: tuple[int, int]) -> None:
    terminal.resize(*size)
    terminal.send("leave\r")
    assert terminal.status() == 0


@pytest.mark.matrix
def test_stopped_and_continued_everything_is_drawn_again_in_the_size_it_has_then(terminal: Terminal) -> None:
    terminal.send("words")
    terminal.wait_for("> words")
    raw = _modes(terminal)
    terminal.suspend()
    _taken_by_the_shell(terminal)
    terminal.wait_for(lambda seen: STATUS not in seen.text)
    assert _modes(terminal) != raw
    terminal.resize(30, 8)
    terminal.resume()
    terminal.wait_for("> words")
    terminal.wait_for(lambda seen: _modes(seen) == raw)
    terminal.send(" more\r")
    terminal.wait_for("words more")
    assert _said(terminal) == ["ready", "words more", ">", f"30{STATUS[2:28]}"]


@pytest.mark.matrix
@pytest.mark.parametrize("number", sample([signal.SIGTSTP, signal.SIGSTOP], 2))
def test_stopped_from_outside_it_comes_back_as_well(terminal: Terminal, number: int) -> None:
    raw = _modes(terminal)
    terminal.signal(number)
    terminal.wait_for(lambda seen: seen.state() == "T")
    _taken_by_the_shell(terminal)
    terminal.resume()
    terminal.wait_for(lambda seen: _modes(seen) == raw)
    terminal.send("words\r")
    terminal.wait_for("words")


@pytest.mark.matrix
def test_the_terminal_is_given_away_and_taken_back(terminal: Terminal) -> None:
    terminal.send("away\r")
    terminal.wait_for(lambda seen: "away" in seen.lines())
    terminal.send("an answer\n")
    terminal.wait_for("got an answer")
    terminal.wait_for(STATUS)
    terminal.send("words\r")
    terminal.wait_for("words")
    assert _said(terminal) == ["ready", "before", "away", "an answer", "got an answer", "words", ">", STATUS]


@pytest.mark.matrix
def test_the_terminal_is_as_it_was_after_the_end(terminal: Terminal) -> None:
    raw = _modes(terminal)
    terminal.send("fail\r")
    terminal.wait_for("failed: a failure")
    terminal.wait_for("bye")
    terminal.wait_quiet()
    assert _modes(terminal) != raw
    assert _said(terminal) == ["ready", "failed: a failure", "bye"]
    assert terminal.raw.rfind(b"\x1b[?2004l") > terminal.raw.rfind(b"\x1b[?2004h")


@pytest.mark.matrix
def test_a_terminal_that_is_gone_ends_the_screen_even_where_sighup_is_ignored(tmp_path: Path) -> None:
    told = tmp_path / "stderr"
    program = ["sh", "-c", f"trap '' HUP; exec {shlex.join(DRIVER)} --spin 2>{shlex.quote(str(told))}"]
    with Terminal(program, columns=60, rows=12, env=_environ()) as made:
        made.wait_for("waiting for the model")
        made.hang_up()
        made.status()
    assert told.read_text().splitlines()[0] in ("gone: OSError", "gone: EOFError")


@pytest.mark.matrix
def test_a_paste_of_a_megabyte_does_not_hang_and_does_not_send(terminal: Terminal) -> None:
    terminal.paste("word " * 200_000)
    terminal.send("\x03words\r")
    terminal.wait_for(lambda seen: "words" in seen.lines(), timeout=120)
    assert _said(terminal) == ["ready", "words", ">", STATUS]


def test_enter_that_was_typed_before_the_terminal_was_raw_is_enter_and_a_newline_afterwards_is_one() -> None:
    master, slave = pty.openpty()
    try:
        os.write(master, "é\rb\rc".encode())
        keys = TerminalInput(slave)
        with keys.raw_mode():
            early = keys.read_keys()
            os.write(master, b"\n\r")
            late = keys.read_keys()
    finally:
        os.close(master)
        os.close(slave)
    assert [press.key for press in early] == ["é", Keys.Enter, "b", Keys.Enter, "c"]
    assert [press.key for press in late] == [Keys.ControlJ, Keys.Enter]


@pytest.mark.matrix
@pytest.mark.skipif(not PRESENT, reason="tmux is not installed")
def test_tmux_keeps_no_copy_of_an_app_that_stands_on_the_first_row(tmp_path: Path) -> None:
    program = ["sh", "-c", f"seq 5; clear; exec {shlex.join(DRIVER)} --stream 2"]
    with Tmux(program, columns=80, rows=24, env=_environ(), cwd=tmp_path) as made:
        made.wait_for("end after")
        for number in range(5):
            made.send("\x0c")
            made.send(f"{number}")
            made.wait_for("> " + "01234"[: number + 1])
        made.wait_for(lambda seen: seen.lines()[:2] == ["", "> 01234"])
        for columns, rows in ((80, 12), (60, 12), (80, 24)):
            time.sleep(UNDER_WAY_TMUX + 0.1)
            made.resize(columns, rows)
            made.wait_for(f"{columns} columns")
        lines = made.scrollback()
    written = int(next(line for line in lines if line.startswith("end after")).split()[-1])
    assert [int(line.split()[1]) for line in lines if line.startswith("line")] == list(range(written))
    assert [line for line in lines if re.match(r">|\d+ columns|live", line)] == ["> 01234", f"80{STATUS[2:]}"]


@pytest.mark.matrix
@pytest.mark.skipif(not PRESENT, reason="tmux is not installed")
def test_in_a_terminal_that_reflows_no_line_is_lost_and_no_row_of_the_app_stays_behind(tmp_path: Path) -> None:
    with Tmux(DRIVER, columns=80, rows=24, env=_environ(), cwd=tmp_path) as made:
        made.wait_for("80 columns")
        made.send("flood 30\r")
        made.wait_for("flood 29")
        made.send("live 6\r")
        made.wait_for("live 5")
        made.send("typed " * 12)
        made.wait_for("typed")
        for columns, rows in ((40, 24), (120, 24), (30, 20), (80, 12), (25, 24), (80, 24)):
            # tmux tells a change up to a quarter of a second after it; what is drawn meanwhile may leave a copy.
            time.sleep(UNDER_WAY_TMUX + 0.1)
            made.resize(columns, rows)
            made.wait_for(f"{columns} columns")
        lines = made.scrollback()
    assert [int(line.split()[1]) for line in lines if line.startswith("flood")] == list(range(30))
    assert len([line for line in lines if re.match(r"\d+ columns", line)]) == 1
    assert len([line for line in lines if line.startswith("> typed")]) == 1
    assert len([line for line in lines if line.startswith("live")]) == 6
