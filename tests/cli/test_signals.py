"""Signals that come twice, that are ignored, and those that come before anything large is imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ENGINE = str(Path(__file__).with_name("fake_engine.py"))


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


def test_signals_are_taken_in_hand_before_anything_large_is_imported() -> None:
    look = "import sys, nexus_cli.__main__; print(*sorted({'typing', 're', 'enum'} & {*sys.modules}))"
    child = begin("-c", look)
    assert child.communicate()[0].split() == []


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
