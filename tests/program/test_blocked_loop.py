"""Limits and signals while the event loop is blocked: by a library that spins, by a call that does not return."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from program.blocks import BLOCKS, bug, deaf_bug
from program.stage import MODEL, PRICED, Done, Stage, end, stage

EACH = pytest.mark.parametrize("block", BLOCKS)


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, {"default": {"text": "some words of an answer that goes on", "chunk": 10}}) as made:
        yield made


def resumes(done: Done) -> bool:
    return done.told[-1].startswith("Resume with: nexus ask -r ")


@EACH
def test_the_time_limit_ends_a_turn_whose_loop_is_blocked(person: Stage, block: str) -> None:
    done = person.ask("hi", "--json", "--timeout", "1", bug=bug(block))
    assert (done.status, done.kind, done.result["exit"]) == (3, "limit", 3)
    assert "1.0 s" in done.told[-2] and resumes(done)
    assert done.result["session"] and done.result["model"] == MODEL


@pytest.mark.parametrize(
    ("block", "number"), [*((block, signal.SIGINT) for block in BLOCKS), ("a loop that spins", signal.SIGTERM)]
)
def test_one_signal_ends_a_turn_whose_loop_is_blocked(person: Stage, block: str, number: signal.Signals) -> None:
    child = person.begin("ask", "hi", "--json", bug=bug(block))
    try:
        limit = time.monotonic() + 60
        while not (person.folder / "blocked").exists():
            assert time.monotonic() < limit
            time.sleep(0.05)
        child.send_signal(number)
        stdout, stderr = child.communicate(timeout=30)
    finally:
        end(child)
    done = Done(child.returncode, stdout, stderr)
    assert (done.status, done.kind) == (128 + number, "aborted")
    assert resumes(done)
    if block == "a loop that spins":
        shown = person.run("sessions", "show", done.result["session"])
        assert "some words" in shown.text, "what came before the loop was blocked is kept"


def test_the_time_limit_ends_a_turn_that_no_cancellation_ends(person: Stage) -> None:
    done = person.ask("hi", "--json", "--timeout", "1", bug=deaf_bug())
    assert (done.status, done.kind, resumes(done)) == (3, "limit", True)


@EACH
def test_a_silence_that_the_loop_cannot_see_is_a_stall(person: Stage, block: str) -> None:
    person.settings(f"[provider]\nretries = 1\nstall_seconds = 1.0\n{PRICED}")
    done = person.ask("hi", "--json", bug=bug(block))
    assert (done.status, done.kind) == (1, "network")
    assert "no data for 1 second" in done.result["error"]["message"]
    assert resumes(done)


LATE = "import nexus_cli.cli.loop_watchdog as watchdog; watchdog.TICK = 0.1"


@pytest.mark.parametrize(("limit", "status"), [((), 0), (("--timeout", "1.5"), 3)])
def test_a_reader_that_takes_its_time_loses_nothing(person: Stage, limit: tuple[str, ...], status: int) -> None:
    person.settings(f"[provider]\nretries = 1\nstall_seconds = 0.5\n{PRICED}")
    person.script([{"text": "words of an answer ", "repeat": 4000, "chunk": 19}])
    child = person.begin("ask", "hi", "--stream-json", *limit, bug=LATE)
    try:
        assert person.server.wait_for(lambda s: bool(s.requests), 60)
        time.sleep(2)
        stdout, _ = child.communicate(timeout=60)
    finally:
        end(child)
    last = json.loads(stdout.splitlines()[-1])
    assert (child.returncode, last["type"], last["exit"]) == (status, "result", status)


def test_a_reader_that_has_left_keeps_no_blocked_program_alive(person: Stage) -> None:
    child = person.begin("ask", "hi", "--json", "--timeout", "1", bug=bug("a call in C that no signal ends"))
    try:
        assert child.stdout is not None
        child.stdout.close()
        child.stdout = None
        assert child.wait(60) == 3
    finally:
        end(child)
