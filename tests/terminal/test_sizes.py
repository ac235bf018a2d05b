"""Sizes of the window: changed at any moment, and to nothing."""

from __future__ import annotations

import time

import pytest
from search import sample
from terminal.repl import Opens
from terminal.stories import numbered, rows_of

ROWS = [f"row {number:04d}" for number in range(120)]
SIZES = ((80, 24), (40, 12), (120, 30), (21, 5), (300, 50), (60, 7))


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


@pytest.mark.parametrize("size", sample([((1, 1),), ((0, 0),), ((2, 2),), ((5, 1),)], 4))
def test_a_window_too_small_to_show_anything_is_no_error(repl: Opens, size: tuple[int, int]) -> None:
    made = repl([paced(0)], columns=size[0], rows=size[1])
    made.say("go")
    assert len(made.server.requests) == 1
    made.resize(80, 24)
    made.say("again")
    made.wait_for("answer (2)")
    assert "Traceback" not in "\n".join(made.scrollback())
