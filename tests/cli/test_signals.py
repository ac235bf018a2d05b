"""Signals: one line, the right status, nothing left running, at any moment from the first import to the last byte."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from search import sample

ENGINE = str(Path(__file__).with_name("fake_engine.py"))
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
BEGUN = "import os; from nexus_cli.__main__ import main, process; process.exit_on_signals(); os.write(1, b'.'); main()"


def begin(*command: str, **more: Any) -> subprocess.Popen[bytes]:
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, *command], env={**os.environ, "NEXUS_MODEL": "m"}, **{**streams, **more})


def wait_for(child: subprocess.Popen[bytes], word: bytes) -> bytes:
    assert child.stderr
    seen = b""
    while word not in seen:
        piece = os.read(child.stderr.fileno(), 4096)
        assert piece, seen
        seen += piece
    return seen


def taken(state: str, number: signal.Signals) -> bool:
    """Whether the process whose /proc status is `state` has a handler for a signal."""
    return bool(int(state.partition("SigCgt:")[2].split()[0], 16) >> (number - 1) & 1)


@pytest.mark.matrix
@pytest.mark.parametrize("number", sample(STATUS, 2))
def test_a_signal_during_the_imports_is_one_line(number: signal.Signals) -> None:
    statuses = set()
    for moment in random.Random(number).choices(range(1, 60), k=4):
        child = begin("-c", BEGUN, "ask", "hi")
        assert child.stdout and child.stdout.read(1) == b"."
        time.sleep(moment / 1000)
        child.send_signal(number)
        _, stderr = child.communicate(timeout=120)
        assert b"Traceback" not in stderr and stderr.count(b"\n") == 1, stderr
        statuses.add(child.returncode)
    assert STATUS[number] in statuses and statuses <= {STATUS[number], 0}, statuses


def test_signals_are_taken_in_hand_before_anything_large_is_imported() -> None:
    look = "import sys, nexus_cli.__main__; print(*sorted({'typing', 're', 'enum'} & {*sys.modules}))"
    child = begin("-c", look)
    assert child.communicate()[0].split() == []


@pytest.mark.matrix
@pytest.mark.parametrize("number", sample(STATUS, 3))
def test_a_signal_cancels_the_turn_and_the_last_line_resumes_it(number: signal.Signals, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    os.environ["FAKE_CLOSED"] = str(closed)
    try:
        child = begin(ENGINE, "slow", "ask", "hi")
    finally:
        del os.environ["FAKE_CLOSED"]
    wait_for(child, b"READY")
    child.send_signal(number)
    stdout, stderr = child.communicate(timeout=120)
    assert child.returncode == STATUS[number] and stdout == b""
    assert stderr.splitlines()[-1] == b"Resume with: nexus ask -r 01FAKE"
    assert closed.read_text() == ("person" if number is signal.SIGINT else "end")


@pytest.mark.matrix
def test_the_result_tells_the_status_of_the_signal() -> None:
    child = begin(ENGINE, "slow", "ask", "--json", "hi")
    wait_for(child, b"READY")
    child.send_signal(signal.SIGTERM)
    stdout, _ = child.communicate(timeout=120)
    assert b'"exit": 143' in stdout


@pytest.mark.matrix
def test_a_second_signal_ends_at_once_and_still_says_how_to_resume() -> None:
    child = begin(ENGINE, "stubborn", "ask", "hi")
    wait_for(child, b"READY")
    child.send_signal(signal.SIGINT)
    wait_for(child, b"CANCELLED")
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=120)
    assert child.returncode == 130
    assert stderr.splitlines()[-2:] == [b"nexus: stopped: received SIGINT.", b"Resume with: nexus ask -r 01FAKE"]


def test_a_second_signal_after_the_work_has_ended_changes_no_status() -> None:
    code = """
import asyncio, os, signal
from nexus_cli.cli.interrupt import Interrupt

async def work():
    interrupt, stopped = Interrupt(), asyncio.Event()
    interrupt.install(stopped.set)
    os.kill(os.getpid(), signal.SIGTERM)
    await stopped.wait()
    interrupt.uninstall()
    os.kill(os.getpid(), signal.SIGINT)

asyncio.run(work())
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (143, b"")


@pytest.mark.matrix
@pytest.mark.parametrize("form", ["--json", "--stream-json"])
def test_a_second_signal_leaves_one_result_object(form: str) -> None:
    child = begin(ENGINE, "stubborn", "ask", form, "hi")
    wait_for(child, b"READY")
    child.send_signal(signal.SIGINT)
    wait_for(child, b"CANCELLED")
    child.send_signal(signal.SIGINT)
    stdout, _ = child.communicate(timeout=120)
    results = [one for one in map(json.loads, stdout.splitlines()) if one["type"] == "result"]
    assert [(one["exit"], one["error"]["kind"], one["session"]) for one in results] == [(130, "aborted", "01FAKE")]


@pytest.mark.matrix
def test_nohup_stays_in_force() -> None:
    child = begin(ENGINE, "slow", "ask", "hi", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_for(child, b"READY")
    child.send_signal(signal.SIGHUP)
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=120)
    assert child.returncode == 143


@pytest.mark.matrix
def test_an_interrupt_reaches_a_background_job() -> None:
    child = begin(ENGINE, "slow", "ask", "hi", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    wait_for(child, b"READY")
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=120)
    assert child.returncode == 130


@pytest.mark.matrix
def test_a_signal_ends_a_wait_for_stdin() -> None:
    child = begin(ENGINE, "echo", "ask", "hi", stdin=subprocess.PIPE, stderr=subprocess.STDOUT)
    state = Path(f"/proc/{child.pid}/status")
    while state.exists() and not taken(state.read_text(), signal.SIGTERM):
        time.sleep(0.01)
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    assert child.stdout
    assert child.stdout.read() == b"nexus: stopped: received SIGINT.\n"
    assert child.wait(timeout=120) == 130
    assert child.stdin
    child.stdin.close()
