"""The ledger's file is at most one and a half times the raw text that it holds (issue 2 section 5)."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from ledger.conftest import on
from search import sample

from nexus_cli.ledger import Ledger

RAW = 3_000_000
_SOURCE = "".join(file.read_text() for file in sorted(Path(random.__file__).parent.glob("[a-d]*.py")))


def code(source: random.Random, size: int) -> str:
    start = source.randrange(len(_SOURCE) - size)
    return _SOURCE[start : start + size]


def hexadecimal(source: random.Random, size: int) -> str:
    return source.randbytes(size // 2).hex()


def chinese(source: random.Random, size: int) -> str:
    return "".join(chr(0x4E00 + number % 20_000) for number in memoryview(source.randbytes(size // 3 * 2)).cast("H"))


@pytest.mark.matrix
@pytest.mark.parametrize("kind", sample([code, hexadecimal, chinese], 3))
def test_a_session_of_megabytes_takes_little_more_than_its_text(
    path: Path, make: SimpleNamespace, kind: Callable[[random.Random, int], str]
) -> None:
    ledger = Ledger.open(path)
    lane = make.new(ledger).main_lane
    ledger.db.connection.execute("PRAGMA synchronous = OFF")
    source, raw, number = random.Random(7), 0, 0
    while raw < RAW:
        number += 1
        text = kind(source, source.randrange(1_000, 3_000))
        raw += len(text.encode())
        on(ledger, lane).append(make.result(number, text, f"c{number}"))
    on(ledger, lane).begin_epoch(make.epoch(0), [])
    for step in range(1, number, 2):
        on(ledger, lane).record_request(make.manifest(step // 2 + 1, step + 1), [make.fixed(step)], [])
    ledger.close()
    taken = sum(part.stat().st_size for part in path.parent.glob("ledger.db*"))
    print(f"{kind.__name__}: {taken / raw:.2f} bytes on disk for each byte of text")
    assert taken <= 1.5 * raw
