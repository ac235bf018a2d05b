"""A pager and an editor on a real terminal: whom its signals reach, and that nothing wedges and nobody stays behind."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from search import sample
from terminal.terminal import NotSeenError, Terminal, ctrl

DRIVER = [sys.executable, str(Path(__file__).parents[1] / "screen" / "screen_driver.py")]
STATUS = "60 columns"
READS = """
while [ "$said" != done ]; do said=; read said </dev/tty; echo "heard $said"; done
"""
"""Ends with the line `done`."""
STUBBORN = "trap '' TERM\n"
COUNTS = "trap 'echo interrupted' INT\n"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[str, str], Terminal]]:
    """A function that starts the driver with a program in sh, as the person's pager or editor."""
    program = tmp_path / "program"

    with ExitStack() as stack:

        def start(code: str, order: str) -> Terminal:
            traps = "".join(line for line in code.splitlines(keepends=True) if line.startswith("trap"))
            begins = '[ -t 0 ] || cat >/dev/null\necho $$ > "$0.pid"\necho away\n'
            program.write_text(f"#!/bin/sh\n{traps}{begins}{code}")
            program.chmod(0o755)
            environ = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
            named = {name: shlex.quote(str(program)) for name in ("PAGER", "VISUAL")}
            environ |= {**named, "PYTHONPATH": str(Path(__file__).parents[3]), "TERM": "xterm-256color"}
            terminal = stack.enter_context(Terminal(DRIVER, columns=60, rows=12, env=environ))
            terminal.wait_for(STATUS)
            terminal.send(f"{order}\r")
            terminal.wait_for(lambda seen: b"away" in seen.raw)
            return terminal

        yield start


def _pid(tmp_path: Path) -> int:
    return int((tmp_path / "program.pid").read_text())


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


ORDERS = pytest.mark.parametrize("order", ["page 99", "edit"])


@pytest.mark.matrix
@ORDERS
def test_control_z_stops_both_and_fg_brings_both_back(started: Callable[[str, str], Terminal], order: str) -> None:
    terminal = started(READS, order)
    for _ in range(2):
        terminal.suspend()
        terminal.resume()
        terminal.wait_for(lambda seen: seen.state() == "S")
        terminal.send("words\n")
        terminal.wait_for("heard words")
    terminal.send("done\n")
    terminal.wait_for(STATUS)
    terminal.suspend()
    terminal.resume()
    terminal.wait_for(STATUS)
    terminal.send("here again\r")
    terminal.wait_for(lambda seen: "here again" in seen.lines())


def _interrupted(terminal: Terminal, times: int) -> None:
    """Press Ctrl+C until the program has heard it so often: a shell that is about to read hears it one press later."""
    for _ in range(20):
        terminal.send(ctrl("c"))
        with suppress(NotSeenError):
            terminal.wait_for(lambda seen: seen.text.count("interrupted") >= times, 1.0)
            return
    raise AssertionError(terminal.text)


@pytest.mark.matrix
@ORDERS
def test_control_c_is_the_programs_alone(started: Callable[[str, str], Terminal], order: str) -> None:
    terminal = started(COUNTS + READS, order)
    for times in (1, 2):
        _interrupted(terminal, times)
    terminal.send(ctrl("\\"))
    terminal.wait_for(STATUS)
    terminal.send("here again\r")
    terminal.wait_for(lambda seen: "here again" in seen.lines())


@pytest.mark.matrix
@ORDERS
@pytest.mark.parametrize("code", sample([READS, STUBBORN + READS], 3))
def test_who_is_told_to_end_ends_the_program_first(
    started: Callable[[str, str], Terminal], tmp_path: Path, order: str, code: str
) -> None:
    terminal = started(code, order)
    terminal.signal(signal.SIGTERM)
    terminal.status()
    assert _gone(_pid(tmp_path))
    assert "bye" in terminal.lines()


@pytest.mark.matrix
def test_a_pager_that_fails_is_told_and_the_text_is_printed(started: Callable[[str, str], Terminal]) -> None:
    terminal = started("exit 3", "page 99")
    terminal.wait_for("failed: exit status 3", back=True)
    terminal.wait_for(STATUS)
    lines = terminal.scrollback()
    assert [line for line in lines if line.startswith("paged")] == [f"paged {number}" for number in range(99)]


@pytest.mark.matrix
def test_a_second_text_is_not_paged_while_one_is(started: Callable[[str, str], Terminal]) -> None:
    terminal = started(READS, "page 99")
    terminal.send("done\n")
    terminal.wait_for(STATUS)
    terminal.send("here again\r")
    terminal.wait_for(lambda seen: "here again" in seen.lines())
    assert terminal.lines().count("away") == 1
