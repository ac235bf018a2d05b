"""CPU of the REPL's renderer for a text and for one twice as long, of several shapes, with the open block shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.measure import in_turns, milliseconds
from benchmarks.row import Benchmark, Row

from nexus_cli.core.event import Event, StepEnd, StepStart, Text, TurnStart
from nexus_cli.core.usage import Usage
from nexus_cli.ui.render.rich_renderer import RichRenderer
from nexus_cli.ui.render.theme import Theme

SIZE = 40_000
"""Characters of the shorter text."""
PIECE = 12
"""Characters of one delta."""
FRAME = 33
"""Deltas between two looks at the open block: 500 a second, 15 frames a second."""
ROWS, COLUMNS = 12, 100

MIXED = """## A heading

Some **bold** prose with `code`, a [link](http://example.org) and enough words to fill more than one line of it.

- an item
  - an inner one, *stressed*
- another item

| name | what it is |
|---|---|
| one | the first |
| two | the second, a little longer |

```python
def total(cart: list[int]) -> int:
    return sum(cart)
```

"""
SHAPES: tuple[tuple[str, Callable[[int], str]], ...] = (
    ("mixed Markdown", lambda size: (MIXED * (size // len(MIXED) + 1))[:size]),
    ("one paragraph", lambda size: ("word after word " * (size // 16 + 1))[:size]),
    ("one line without a blank", lambda size: "x" * size),
    ("one fence", lambda size: "```python\n" + ("value = call(1, 'two')\n" * (size // 23 + 1))[:size]),
    ("one list", lambda size: ("- an item of a list\n" * (size // 20 + 1))[:size]),
    ("one table", lambda size: "| a | b |\n|---|---|\n" + ("| cell | other cell |\n" * (size // 22 + 1))[:size]),
)


def cpu(text: str) -> float:
    """Seconds of CPU to show `text` as it arrives in deltas."""
    put: list[int] = []
    renderer = RichRenderer(lambda shown: put.append(len(shown)), lambda: COLUMNS, Theme())
    start = time.process_time()
    begin: tuple[Event, ...] = (TurnStart("go"), StepStart(1))
    for event in begin:
        renderer.feed(event)
    for number, place in enumerate(range(0, len(text), PIECE)):
        renderer.feed(Text(text[place : place + PIECE]))
        if number % FRAME == 0:
            renderer.live(ROWS)
            renderer.spinner()
    renderer.feed(StepEnd(1, "stop", Usage(1, 1)))
    taken = time.process_time() - start
    if sum(put) < len(text) // 2:
        raise RuntimeError(f"of {len(text)} characters {sum(put)} were put")
    return taken


def rows(times: int) -> Iterator[Row]:
    """One row for each shape, with a fourth as many rounds as repetitions."""
    for what, make in SHAPES:
        short, long = make(SIZE), make(2 * SIZE)
        value, base = in_turns(max(1, times // 4), partial(cpu, long), partial(cpu, short))
        yield Row(f"{what}, {2 * SIZE // 1000} KB", milliseconds(value), "ms", milliseconds(base), "half of it", 2.3)


BENCHMARK = Benchmark("rendering a reply as it streams", rows)
