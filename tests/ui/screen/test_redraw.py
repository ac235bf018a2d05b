"""When frames are drawn, by a clock that is put forward instead of waited for."""

from __future__ import annotations

import asyncio

import pytest
from ui.put_clock import run_at_once

from nexus_cli.ui.screen.redraw import RATE, SPIN, RedrawTimer

pytestmark = pytest.mark.put_clock


class Drawn:
    """Counts frames."""

    times = 0

    def __call__(self) -> bool:
        self.times += 1
        return False


async def test_five_hundred_changes_a_second_are_drawn_fifteen_times() -> None:
    drawn = Drawn()
    frames = RedrawTimer(drawn, lambda: False)
    frames.begin()
    for _ in range(1000):
        frames.dirty()
        await asyncio.sleep(0.002)
    frames.end()
    assert abs(drawn.times - 2 * RATE) <= 2


def test_what_moves_is_drawn_eight_times_a_second_and_what_rests_not_at_all() -> None:
    async def play(moving: bool) -> int:
        drawn = Drawn()
        frames = RedrawTimer(drawn, lambda: moving)
        frames.begin()
        await asyncio.sleep(2)
        frames.end()
        return drawn.times

    assert abs(run_at_once(play(True)) - 2 * SPIN) <= 1
    assert run_at_once(play(False)) == 1


async def test_what_is_left_over_is_drawn_at_once() -> None:
    loop = asyncio.get_running_loop()
    drawn: list[float] = []

    def draw() -> bool:
        drawn.append(loop.time())
        return len(drawn) < 100

    frames = RedrawTimer(draw, lambda: False)
    frames.begin()
    await asyncio.sleep(1)
    assert len(drawn) == 100
    assert drawn[-1] - drawn[0] == 0.0
