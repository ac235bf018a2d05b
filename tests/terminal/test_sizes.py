"""Sizes of the window: changed at any moment, often, to nothing; and terminals that break their lines anew."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest
from search import sample
from terminal.repl import Opens, Place
from terminal.stories import numbered, rows_of
from terminal.terminal import NEXUS
from terminal.tmux import PRESENT, Tmux

ROWS = [f"row {number:04d}" for number in range(120)]
SIZES = ((80, 24), (40, 12), (120, 30), (21, 5), (300, 50), (60, 7))
ROOMY = tuple((columns, max(8, rows)) for columns, rows in SIZES)
"""tmux scrolls a copy of the bottom part off by itself where that, with its rows broken, is higher than the window."""
PATIENCE = 0.4
"""Seconds between two sizes: tmux tells a program of a change at most every quarter of a second."""


def paced(pace: float = 0.004) -> dict[str, object]:
    return {"text": numbered(len(ROWS)) + "\nend of it\n", "chunk": 4, "pace": pace}


def test_no_row_is_lost_or_doubled_when_the_window_changes_at_every_tenth_delta(repl: Opens) -> None:
    made = repl([paced()])
    made.say("go", ends=False)
    made.wait_for("row 0001", back=True)
    number = 0
    while not any("end of it" in line for line in made.scrollback()):
        number += 1
        made.resize(*SIZES[number % len(SIZES)])
        time.sleep(0.04)
    made.resize(80, 24)
    made.idle()
    assert number > 10
    assert rows_of(made.scrollback()) == ROWS


@pytest.mark.matrix
def test_a_storm_of_size_changes_disturbs_neither_the_answer_nor_what_is_typed(repl: Opens) -> None:
    made = repl([paced()])
    made.say("go", ends=False)
    made.wait_for("row 0001", back=True)
    for number in range(1000):
        os.kill(made.pid, signal.SIGWINCH)
        if number % 50 == 0:
            made.send("x")
    made.wait_for("end of it", 120, back=True)
    made.idle()
    assert rows_of(made.scrollback()) == ROWS
    assert any("x" * 20 in line for line in made.lines())


@pytest.mark.parametrize("size", sample([((1, 1),), ((0, 0),), ((2, 2),), ((5, 1),)], 4))
def test_a_window_too_small_to_show_anything_is_no_error(repl: Opens, size: tuple[int, int]) -> None:
    made = repl([paced(0)], columns=size[0], rows=size[1])
    made.say("go")
    assert len(made.server.requests) == 1
    made.resize(80, 24)
    made.say("again")
    made.wait_for("answer (2)")
    assert "Traceback" not in "\n".join(made.scrollback())


@pytest.mark.parametrize("size", sample([((20, 24),), ((300, 24),), ((80, 5),)], 3))
def test_the_smallest_and_the_largest_useful_windows(repl: Opens, size: tuple[int, int]) -> None:
    made = repl([paced(0)], columns=size[0], rows=size[1])
    made.say("go")
    made.idle()
    assert rows_of(made.scrollback()) == ROWS
    assert all(len(line) <= size[0] for line in made.lines())


@pytest.mark.skipif(not PRESENT, reason="tmux is not installed")
def test_no_row_is_lost_where_the_terminal_breaks_its_lines_anew(places: Callable[..., Place]) -> None:
    here = places([paced(0.012)])
    changes = 0
    with Tmux([NEXUS], env={**here.environment, "TMUX": "yes"}, cwd=here.folder) as window:
        window.wait_for(lambda one: "gpt-4o" in "\n".join(one.lines()), 120)
        window.send("go\r")
        window.wait_for("row 0001", 120, back=True)
        while not any("end of it" in line for line in window.scrollback()) and changes < 60:
            changes += 1
            window.resize(*ROOMY[changes % len(ROOMY)])
            time.sleep(PATIENCE)
        window.resize(80, 24)
        window.wait_for("end of it", 120, back=True)
        time.sleep(PATIENCE)
        shown = rows_of(window.scrollback())
        window.send("\x04")
        assert window.status() == 0
    assert sorted(set(shown)) == ROWS and shown == sorted(shown)
    # What was under way to the terminal while it changed its size was drawn for the old one: a copy of a row may stay.
    assert len(shown) - len(ROWS) <= changes
