"""The job: "tail -f the log and tell me about errors as they come", with `nexus ask --watch` in a pipe."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import Stage, clean, stage, until
from search import sample
from server.blocks import is_prefix

from nexus_cli.ui.input.line_batches import LineBatches

PROMPT = "Name each new error."


def model(body: Any) -> dict[str, Any]:
    """Names the errors of the newest lines."""
    newest = str(body["messages"][-1]["content"])
    return {"text": " ".join(re.findall(r"ERROR (\w+)", newest)) or "none"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, model) as made:
        yield made


def test_answers_come_while_the_stream_goes_on_and_know_what_was_before(place: Stage) -> None:
    child = place.begin("ask", "--watch", "--watch-pause", "0.3", PROMPT, stdin=subprocess.PIPE)
    assert child.stdin is not None and child.stdout is not None
    for batch, answer in ((b"ok\nERROR disk\n", b"disk\n"), (b"ERROR net\nERROR dns\n", b"net dns\n")):
        child.stdin.write(batch)
        child.stdin.flush()
        read = b""
        while not read.endswith(answer):
            read += os.read(child.stdout.fileno(), 100)
        assert read == answer
    stdout, stderr = child.communicate(b"the last ERROR end", timeout=120)
    assert (child.returncode, stdout, stderr) == (0, b"end\n", b"")
    first, second, third = place.server.requests
    assert is_prefix(first.blocks, second.blocks) and is_prefix(second.blocks, third.blocks)
    texts = [str(one["content"]) for one in third.body["messages"] if one["role"] == "user"]
    assert PROMPT in texts[0] and not any(PROMPT in text for text in texts[1:])
    assert texts[1].endswith("The next lines:\n\n<stdin>\nERROR net\nERROR dns\n</stdin>")


def test_a_batch_has_at_most_so_many_lines_and_json_is_one_object_each(place: Stage) -> None:
    done = place.ask("--watch", "--watch-lines", "2", "--json", PROMPT, stdin=b"ERROR a\nx\nERROR b\ny\nERROR c\n")
    made = [json.loads(line) for line in done.text.splitlines()]
    assert done.status == 0 and [one["text"] for one in made] == ["a", "b", "c"]
    assert len({one["session"] for one in made}) == 1 and done.told == []
    empty = place.ask("--watch", PROMPT, stdin=b"")
    assert empty.status == 0 and empty.text == "" and len(place.server.requests) == 3
    assert empty.told == ["nexus: stdin ended without input; nothing was sent"]


def test_the_dollar_limit_holds_over_all_batches(place: Stage) -> None:
    stream = b"".join(b"ERROR n%d\n" % n for n in range(50))
    done = place.ask("--watch", "--watch-lines", "1", "--max-cost", "0.03", "--json", PROMPT, stdin=stream)
    made = [json.loads(line) for line in done.text.splitlines()]
    paid = sum(one["usage"]["cost_usd"] for one in made)
    assert done.status == 3 and 2 < len(made) < 10 and paid <= 0.03 and made[-1]["error"]["kind"] == "limit"
    notes = str(place.server.requests[-1].body["messages"])
    assert "limits have changed" not in notes
    left = re.findall(r"limit max_cost reached: \$(\S+) is left, but", done.told[-2])
    assert left == [f"{0.03 - paid:.4f}"], "of what the person allowed, and not of what was left for the last batch"
    assert done.told[-1].startswith("Resume with: nexus ask")


def test_a_failed_batch_does_not_end_the_watch_and_is_not_forgotten(place: Stage) -> None:
    def fails_once(body: Any) -> dict[str, Any]:
        return {"fault": {"status": 400}} if "b" in str(body["messages"][-1]["content"])[-20:] else model(body)

    place.script(fails_once)
    done = place.ask("--watch", "--watch-lines", "1", PROMPT, stdin=b"ERROR aa\nERROR b\nERROR cc\n")
    assert done.status == 1 and done.text == "aa\ncc\n" and clean(done), done


@pytest.mark.matrix
def test_a_batch_whose_answer_never_matches_the_schema_does_not_end_the_watch(place: Stage) -> None:
    def answers(body: Any) -> dict[str, Any]:
        users = [str(one["content"]) for one in body["messages"] if one["role"] == "user"]
        batch = next(text for text in reversed(users) if "<stdin>" in text)
        return {"text": "no JSON" if "ERROR b" in batch else '["fine"]'}

    place.script(answers)
    schema = '{"type": "array", "items": {"type": "string"}}'
    stream = b"ERROR a\nERROR b\nERROR c\n"
    done = place.ask("--watch", "--watch-lines", "1", "--schema", schema, PROMPT, stdin=stream)
    assert done.status == 3 and done.text == '["fine"]\nno JSON\n["fine"]\n' and clean(done), done


@pytest.mark.matrix
def test_ctrl_c_keeps_what_was_done(place: Stage) -> None:
    child = place.begin("ask", "--watch", "--watch-lines", "1", PROMPT, stdin=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.write(b"ERROR a\n")
    child.stdin.flush()
    assert until(lambda: len(place.server.requests) == 1 and place.server.requests[0].done)
    child.send_signal(signal.SIGINT)
    stdout, stderr = child.communicate(timeout=120)
    assert child.returncode == 130 and b"Traceback" not in stderr, (stdout, stderr)
    told = stderr.decode().splitlines()
    assert told[-1].startswith("Resume with: nexus ask -r "), told
    assert place.run("sessions", "show", told[-1].split()[-1]).status == 0


@pytest.mark.parametrize(
    ("words", "text"),
    sample(
        [
            (("--watch",), "prompt"),
            (("--watch", "-"), "prompt"),
            (("--watch", "--watch-lines", "0", "x"), "at least 1"),
            (("--watch", "--watch-pause", "0", "x"), "above 0"),
            (("--watch", "--until", "true", "x"), "--until"),
            (("--watch-lines", "50", "x"), "--watch-lines: has no effect without --watch"),
            (("--watch-pause", "9", "x"), "--watch-pause: has no effect without --watch"),
        ],
        4,
    ),
)
def test_wrong_usage_is_one_line(place: Stage, words: tuple[str, ...], text: str) -> None:
    done = place.ask(*words, stdin=b"a\n")
    assert done.status == 2 and len(done.told) == 1 and text in done.told[0] and not place.server.requests, done


@pytest.mark.matrix
def test_a_writer_that_is_faster_than_the_model_waits_and_loses_nothing() -> None:
    async def read(descriptor: int) -> list[str]:
        is_full = asyncio.Event()
        batches = LineBatches(descriptor, 3, 60.0, lambda line: is_full.set(), most=100_000)
        found = [await batches.next()]
        await is_full.wait()
        while text := await batches.next():
            found.append(text)
        return found

    with subprocess.Popen(["seq", "-w", "40000"], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        found = asyncio.run(read(writer.stdout.fileno()))
    assert "".join(found) == "".join(f"{n:05}\n" for n in range(1, 40001))
    assert all(one.count("\n") == 3 for one in found[:-1])


def test_a_line_without_an_end_is_cut_and_said() -> None:
    told: list[str] = []

    async def read(descriptor: int) -> list[str]:
        batches = LineBatches(descriptor, 3, 60.0, told.append, most=1000)
        return [await batches.next(), await batches.next()]

    ends = os.pipe()
    os.write(ends[1], b"x" * 3000)
    os.close(ends[1])
    first, second = asyncio.run(read(ends[0]))
    os.close(ends[0])
    assert first + second == "x" * 3000 and "split a line" in told[-1]


def test_what_is_read_ahead_is_not_searched_again_for_each_batch() -> None:
    searched = 0

    class Counted(bytearray):
        def count(self, *given: Any) -> int:
            nonlocal searched
            searched += len(self)
            return super().count(*given)

    async def read(descriptor: int) -> list[str]:
        batches = LineBatches(descriptor, 1, 60.0, print)
        batches._data = Counted()
        found = [await batches.next()]
        while not batches._ended:  # noqa: ASYNC110  (its thread has read all of it)
            await asyncio.sleep(0)
        while text := await batches.next():
            found.append(text)
        return found

    ends = os.pipe()
    os.write(ends[1], b"a line\n" * 1000)
    os.close(ends[1])
    found = asyncio.run(read(ends[0]))
    os.close(ends[0])
    assert found == ["a line\n"] * 1000 and searched <= 7000
