"""Throughput of token counting on texts of different kinds; a text is new each time, so that no store answers."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from benchmarks.measure import in_turns
from benchmarks.row import Benchmark, Row

from nexus_cli.conversation.tokens.counter import TiktokenCounter

MEGABYTE = 1_000_000


def code() -> str:
    """One megabyte of Python: the sources of the product, over and over."""
    folder = Path(__file__).resolve().parents[2] / "nexus_cli"
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))
    return (text * (MEGABYTE // len(text) + 1))[:MEGABYTE]


def cjk() -> str:
    """One megabyte (of UTF-8) of random common ideographs with punctuation."""
    rng = random.Random(7)
    return "".join(chr(rng.randrange(0x4E00, 0x9FA5)) if rng.random() < 0.9 else "，" for _ in range(MEGABYTE // 3))


TEXTS = (
    ("code", code),
    ("CJK", cjk),
    ("one million times `a`", lambda: "a" * MEGABYTE),
    ("one million spaces", lambda: " " * MEGABYTE),
)


def taken(counter: TiktokenCounter, text: str) -> Callable[[], float]:
    """A measure: seconds of CPU for counting `text`, which begins with another number each time."""
    numbers = count()

    def once() -> float:
        start = time.process_time()
        counter.count(f"{next(numbers)}{text}")
        return time.process_time() - start

    return once


def rows(times: int) -> Iterator[Row]:
    """MB of UTF-8 per second of CPU, for each kind and for both tables."""
    for encoding in ("o200k_base", "cl100k_base"):
        counter = TiktokenCounter(encoding)
        if counter.estimated:
            raise RuntimeError(f"the table {encoding} is missing: the simple rule would be measured")
        for what, make in TEXTS:
            text = make()
            (seconds,) = in_turns(times, taken(counter, text))
            yield Row(f"{what}, {encoding}", len(text.encode()) / MEGABYTE / seconds, "MB/s")


BENCHMARK = Benchmark("token counting, MB of UTF-8 per second of CPU", rows)
