"""Limits and signals while the event loop is blocked: by a library that spins, by a call that does not return."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from program.blocks import BLOCKS, bug, deaf_bug
from program.stage import MODEL, PRICED, Done, Stage, end, stage, until
from search import sample

WORDS = {"default": {"text": "some words of an answer that goes on", "chunk": 10}}
SPINS = "a loop that spins"
DEAF = "a loop that lives and hears nothing"
EACH = pytest.mark.parametrize("block", sample(BLOCKS, 2, 2))


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, WORDS) as made:
        yield made


def resumes(done: Done) -> bool:
    return done.told[-1].startswith("Resume with: nexus ask -r ")


Scene = tuple[str, str, int]
"""What ends the turn, how its loop is blocked, the signal."""
SIGNALS = [*((block, signal.SIGINT) for block in BLOCKS), (SPINS, signal.SIGTERM)]


@dataclass(frozen=True)
class Ended:
    """How a scene ended."""

    done: Done
    shown: str = ""
    """What `sessions show` prints afterwards, where a signal ended a loop that spins."""


def ends(scene: Scene, root: Path) -> Ended:
    """Play a scene to its end."""
    what, block, number = scene
    broken = deaf_bug() if block == DEAF else bug(block)
    with stage(root, WORDS) as person:
        if what == "limit":
            return Ended(person.ask("hi", "--json", "--timeout", "1", bug=broken))
        if what == "stall":
            person.settings(f"[provider]\nretries = 1\nstall_seconds = 1.0\n{PRICED}")
            return Ended(person.ask("hi", "--json", bug=broken))
        child = person.begin("ask", "hi", "--json", bug=broken)
        try:
            assert until(lambda: (person.folder / "blocked").exists(), 120)
            child.send_signal(number)
            stdout, stderr = child.communicate(timeout=120)
        finally:
            end(child)
        done = Done(child.returncode, stdout, stderr)
        return Ended(done, person.run("sessions", "show", done.result["session"]).text if block == SPINS else "")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str, int], Ended]:
    """Plays a scene for each test that asks for it."""
    return lambda what, block, number: ends((what, block, number), tmp_path_factory.mktemp("scene"))


@EACH
def test_the_time_limit_ends_a_turn_whose_loop_is_blocked(ended: Callable[[str, str, int], Ended], block: str) -> None:
    done = ended("limit", block, 0).done
    assert (done.status, done.kind, done.result["exit"]) == (3, "limit", 3)
    assert "1.0 s" in done.told[-2] and resumes(done)
    assert done.result["session"] and done.result["model"] == MODEL


@pytest.mark.parametrize(("block", "number"), sample(SIGNALS, 2, 2))
def test_one_signal_ends_a_turn_whose_loop_is_blocked(
    ended: Callable[[str, str, int], Ended], block: str, number: signal.Signals
) -> None:
    each = ended("signal", block, number)
    assert (each.done.status, each.done.kind) == (128 + number, "aborted")
    assert resumes(each.done)
    if block == SPINS:
        assert "some words" in each.shown, "what came before the loop was blocked is kept"


@pytest.mark.matrix
def test_the_time_limit_ends_a_turn_that_no_cancellation_ends(ended: Callable[[str, str, int], Ended]) -> None:
    done = ended("limit", DEAF, 0).done
    assert (done.status, done.kind, resumes(done)) == (3, "limit", True)


@pytest.mark.matrix
@EACH
def test_a_silence_that_the_loop_cannot_see_is_a_stall(ended: Callable[[str, str, int], Ended], block: str) -> None:
    done = ended("stall", block, 0).done
    assert (done.status, done.kind) == (1, "network")
    assert "no data for 1 second" in done.result["error"]["message"]
    assert resumes(done)


LATE = "import nexus_cli.cli.loop_watchdog as watchdog; watchdog.TICK = 0.1"


@pytest.mark.matrix
@pytest.mark.parametrize(("limit", "status"), [((), 0), (("--timeout", "1.5"), 3)])
def test_a_reader_that_takes_its_time_loses_nothing(person: Stage, limit: tuple[str, ...], status: int) -> None:
    person.settings(f"[provider]\nretries = 1\nstall_seconds = 3.0\n{PRICED}")
    person.script([{"text": "words of an answer ", "repeat": 4000, "chunk": 19}])
    child = person.begin("ask", "hi", "--stream-json", *limit, bug=LATE)
    try:
        # On a slow machine the limit is over before there is a request.
        assert until(lambda: bool(person.server.requests) or child.poll() is not None, 300)
        time.sleep(4)
        stdout, _ = child.communicate(timeout=120)
    finally:
        end(child)
    last = json.loads(stdout.splitlines()[-1])
    assert (child.returncode, last["type"], last["exit"]) == (status, "result", status), last


@pytest.mark.matrix
def test_a_reader_that_has_left_keeps_no_blocked_program_alive(person: Stage) -> None:
    child = person.begin("ask", "hi", "--json", "--timeout", "1", bug=bug("a call in C that no signal ends"))
    try:
        assert child.stdout is not None
        child.stdout.close()
        child.stdout = None
        assert child.wait(120) == 3
    finally:
        end(child)
