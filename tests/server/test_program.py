"""The server as a program of its own, its log, and its bounds."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from server.raw_client import PATHS, hear, request_body, request_bytes

PROGRAM = Path(__file__).with_name("__main__.py")


@contextmanager
def child(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The program, running; with its port."""
    with subprocess.Popen([sys.executable, str(PROGRAM), *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())["port"]
        finally:
            process.kill()


def ask(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=120) as line:
        line.sendall(request_bytes(PATHS["chat"], request_body("chat"), {"Authorization": "Bearer sk-seen"}))
        return hear(line).body


@pytest.mark.matrix
def test_the_program_serves_a_script_logs_and_ends_on_a_signal(tmp_path: Path) -> None:
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    script.write_text(json.dumps(["from a file"]), encoding="utf-8")
    with child("--script", str(script), "--port", "0", "--log", str(log)) as (process, port):
        assert b"from a file" in ask(port)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/_log", timeout=120) as answer:
            (told,) = json.load(answer)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    (line,) = log.read_text(encoding="utf-8").splitlines()
    record = json.loads(line)
    assert record["headers"]["authorization"] == told["headers"]["authorization"] == "Bearer sk-seen"
    assert (record["body"], record["status"], record["closed_early"]) == (request_body("chat"), 200, False)


@pytest.mark.matrix
def test_the_program_ends_by_itself_after_its_lifetime() -> None:
    with child("--lifetime", "0.2") as (process, _):
        assert process.wait(120) == 0
