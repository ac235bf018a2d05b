"""The job: "here is a log of 40 MiB, which error came first?", of which no request can hold a hundredth.

The model sees its head, its tail and an index; it searches, reads the lines around the place, and names the line. Then
two logs at once as files, which each keep their own head and tail.
"""

from __future__ import annotations

import itertools
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from program.stage import Stage, calls, clean, stage
from search import sample

from nexus_cli.ledger import Ledger
from nexus_cli.reports.conversation import Replay
from nexus_cli.reports.transcript import transcript_of

FIRST = "2026-11-02 03:14:15 ERROR worker-7 payment refused: certificate expired"
ROW = "2026-11-02 {:02d}:{:02d}:{:02d} INFO  worker-{} request {} served, 0 retries left\n"
CHUNK = re.compile(r"^(\d+):(\d+) lines? (\d+)(?:-(\d+))?: (.*)$", re.MULTILINE)
HOLE = re.compile(
    r'\[\.\.\. [\d,]+ tokens \(lines (\d+)-(\d+), characters (\d+):(\d+) of (\d+)\) left out: recall\("(d\d+)"'
)


def a_log(mebibytes: int) -> str:
    """Rows of a day, with two errors: one in the middle, one after it."""
    rows = [ROW.format(n // 3600 % 24, n // 60 % 60, n % 60, n % 8, n) for n in range(16_000)]
    block = "".join(rows)
    copies = mebibytes * 1024 * 1024 // len(block)
    middle = copies // 2
    late = FIRST.replace("worker-7", "worker-2").replace("03:14", "04:00")
    return f"{block * middle}{FIRST}\n{block * (copies - middle)}{late}\n{block}"


class Triage:
    """A model that goes by what it is shown: looks the word up, then reads the chunk that the place is in."""

    def __init__(self) -> None:
        self.index: list[tuple[int, int, int, str]] = []

    def __call__(self, body: Any) -> dict[str, Any]:
        messages = body["messages"]
        results = [str(one["content"]) for one in messages if one["role"] == "tool"]
        asked = next(str(one["content"]) for one in messages if one["role"] == "user")
        hole = HOLE.search(asked)
        assert hole, asked[:400]
        if not results:
            self.index = [(int(a), int(b), int(c), first) for a, b, c, _, first in CHUNK.findall(asked)]
            return calls(("recall", {"id": hole[6], "query": " error "}))
        if len(results) == 1:
            place = re.search(r"\[line (\d+), characters (\d+):(\d+)\]", results[0])
            assert results[0].startswith("[2 hits]") and place, results[0][:400]
            start, end, *_ = next(one for one in self.index if one[0] <= int(place[2]) < one[1])
            return calls(("recall", {"id": hole[6], "range": f"{start}:{end}", "query": "ERROR worker-7"}))
        around = re.search(r"\[line (\d+), ", results[1])
        assert around and results[1].startswith("[1 hit]"), results[1][:400]
        shown = results[1].splitlines()[2:]
        at = next(n for n, row in enumerate(shown) if " ERROR " in row)
        return {"text": f"The first error is line {int(around[1]) + at}: {shown[at]}"}


@pytest.fixture
def place(tmp_path: Path) -> Any:
    with stage(tmp_path, Triage()) as made:
        yield made


def test_the_first_error_of_a_log_that_no_request_holds_is_found_by_its_line(place: Stage) -> None:
    log = a_log(40)
    done = place.ask("which error came first?", stdin=log.encode())
    line = log[: log.index(FIRST)].count("\n") + 1
    assert (done.status, done.text) == (0, f"The first error is line {line}: {FIRST}\n") and clean(done)
    assert len(done.told) == 1 and "left out as d1: part of stdin" in done.told[0]
    first = place.server.requests[0].body["messages"][-1]["content"]
    words, _, shown = first.partition("\n<stdin>\n")
    assert words.endswith("which error came first?\n") and shown.endswith("left\n</stdin>")
    assert_index_covers_the_hole(shown, log)
    assert len(str(place.server.requests[-1].body)) < 4 * 128_000
    back = place.run("drops", "show", "d1")
    assert back.stdout == log.encode()


def assert_index_covers_the_hole(shown: str, log: str) -> None:
    """Each chunk begins where the one before ended, at a line, and its row tells its lines."""
    hole = HOLE.search(shown)
    assert hole and int(hole[5]) == len(log)
    chunks = [(int(a), int(b), int(c), int(d or c), first) for a, b, c, d, first in CHUNK.findall(shown)]
    assert len(chunks) == 32
    assert (chunks[0][0], chunks[-1][1]) == (int(hole[3]), int(hole[4]))
    assert (chunks[0][2], chunks[-1][3]) == (int(hole[1]), int(hole[2]))
    for before, after in itertools.pairwise(chunks):
        assert before[1] == after[0] and before[3] + 1 == after[2]
    for start, end, first, last, row in chunks:
        assert log.count("\n", 0, start) + 1 == first and log.count("\n", 0, end) == last
        assert log[start:end].startswith(row)


def test_two_large_files_and_the_words_are_each_shown(place: Stage) -> None:
    place.script([{"text": "compared"}])
    for name in ("a.log", "b.log"):
        rows = "".join(f"{name} row {n} of what happened\n" for n in range(100_000))
        (place.folder / name).write_text(rows)
    (place.folder / "small.txt").write_text("a small file\n")
    done = place.ask("compare these", "-f", "a.log", "-f", "small.txt", "-f", "b.log")
    assert done.status == 0, done
    sent = place.server.requests[0].body["messages"][-1]["content"]
    assert "compare these\n" in sent and '<file path="small.txt">\na small file\n</file>' in sent
    for name, drop in (("a.log", "d1"), ("b.log", "d2")):
        block = sent.partition(f'<file path="{name}">\n')[2].partition("</file>")[0]
        assert block.startswith(f"{name} row 0 of") and block.endswith(f"{name} row 99999 of what happened\n")
        assert f'left out: recall("{drop}"' in block
        assert re.search(rf"part of {name} \([\d,]+ tokens are sent\), ", done.stderr.decode())
        assert place.run("drops", "show", drop).stdout == (place.folder / name).read_bytes()
    with closing(Ledger.open(place.ledger)) as ledger:
        session = str(place.run("drops", "--json").result["session"])
        shown = transcript_of(Replay(ledger.log(session), is_whole=True), ledger.session(session))["events"][0]["text"]
    rows = "".join(f"b.log row {n} of what happened\n" for n in range(100_000))
    assert shown.endswith(f'<file path="b.log">\n{rows}</file>')


@pytest.mark.parametrize(
    "data",
    sample(
        [
            b"x" * 3_000_000,
            b"one row\r\n" * 400_000,
            b"a\0b row\n" * 400_000,
            b"row \xff\xfe of it\n" * 300_000,
            "漢字の行\n".encode() * 200_000,
        ],
        3,
    ),
    ids=["one line", "CRLF", "NUL", "not UTF-8", "CJK"],
)
def test_input_of_any_form_is_shown_in_part_and_kept_whole(place: Stage, data: bytes) -> None:
    place.script([{"text": "seen"}])
    done = place.ask("what is this?", stdin=data)
    assert (done.status, done.text) == (0, "seen\n") and clean(done)
    sent = place.server.requests[0].body["messages"][-1]["content"]
    assert sent.endswith("\n</stdin>") and 'left out: recall("d1"' in sent and "[end of the chunks]" in sent
    back = place.run("drops", "show", "d1").stdout
    assert back.count(b"\n") in (data.count(b"\n"), data.count(b"\n") + 1)
    if b"\xff" in data:
        assert b"not UTF-8" in done.stderr
    else:
        assert back.rstrip(b"\n") == data.replace(b"\0", "␀".encode()).rstrip(b"\n")
