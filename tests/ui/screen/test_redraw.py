"""When frames are drawn, by a clock that is put forward instead of waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from nexus_cli.ui.screen.redraw import RATE, SPIN, RedrawTimer

T = TypeVar("T")


class Put(asyncio.SelectorEventLoop):
    """A loop in which no time passes but that which somebody sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = 1000.0
        selector: Any = self._selector  # type: ignore[attr-defined]
        select = selector.select

        def at_once(timeout: float | None) -> Any:
            self.clock += timeout or 0.0
            return select(0)

        selector.select = at_once

    def time(self) -> float:
        return self.clock


class Drawn:
    """Counts frames."""

    times = 0

    def __call__(self) -> bool:
        self.times += 1
        return False


def played(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=Put) as runner:
        return runner.run(work)


def test_five_hundred_changes_a_second_are_drawn_fifteen_times() -> None:
    async def play() -> int:
        drawn = Drawn()
        frames = RedrawTimer(drawn, lambda: False)
        frames.begin()
        for _ in range(1000):
            frames.dirty()
            await asyncio.sleep(0.002)
        frames.end()
        return drawn.times

    assert abs(played(play()) - 2 * RATE) <= 2


def test_what_moves_is_drawn_eight_times_a_second_and_what_rests_not_at_all() -> None:
    async def play(moving: bool) -> int:
        drawn = Drawn()
        frames = RedrawTimer(drawn, lambda: moving)
        frames.begin()
        await asyncio.sleep(2)
        frames.end()
        return drawn.times

    assert abs(played(play(True)) - 2 * SPIN) <= 1
    assert played(play(False)) == 1


def test_what_is_left_over_is_drawn_at_once() -> None:
    async def play() -> tuple[int, float]:
        loop = asyncio.get_running_loop()
        drawn: list[float] = []

        def draw() -> bool:
            drawn.append(loop.time())
            return len(drawn) < 100

        frames = RedrawTimer(draw, lambda: False)
        frames.begin()
        await asyncio.sleep(1)
        return len(drawn), drawn[-1] - drawn[0]

    assert played(play()) == (100, 0.0)
