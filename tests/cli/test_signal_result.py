"""A signal before there is a session: who asked for JSON gets the result object all the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
from search import sample

from nexus_cli.cli import app
from nexus_cli.cli.signal_result import json_form, signal_result
from nexus_cli.config.program_words import VALUED
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event_json import failure_result

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


def listens(child: subprocess.Popen[bytes]) -> bool:
    """Whether it has a handler for SIGTERM: our code runs."""
    state = Path(f"/proc/{child.pid}/status").read_text()
    return bool(int(state.partition("SigCgt:")[2].split()[0], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("ask --json hi", "--json"),
        ("ask hi --stream-json", "--stream-json"),
        ("-m x ask --json", "--json"),
        ("ask -m --json hi", ""),
        ("ask hi -- --json", ""),
        ("ask --json --stream-json", ""),
        ("ask hi", ""),
        ("sessions search ask --json", ""),
        ("-m ask --json", ""),
        ("", ""),
    ],
)
def test_who_asks_for_json_is_known_without_the_parser(words: str, wanted: str) -> None:
    assert json_form(words.split()) == wanted


def test_every_option_with_a_value_is_known() -> None:
    group = app.build(completion=False)
    options = [*group.params, *group.get_command(None, "ask").params]
    valued = {name for one in options if one.param_type_name == "option" and not one.is_flag for name in one.opts}
    assert valued == VALUED


@pytest.mark.parametrize("number", STATUS)
def test_the_object_is_the_one_of_every_run_without_a_session(number: signal.Signals) -> None:
    error = NexusError("aborted", "stopped", f"received {number.name}", exit_status=STATUS[number])
    line = signal_result("--json", STATUS[number], number.name)
    assert list(json.loads(line).items()) == list(failure_result(error).items()) and line.count(b"\n") == 1
    value = json.loads(signal_result("--stream-json", STATUS[number], number.name))
    assert list(value)[:4] == ["v", "seq", "at", "type"] and value["seq"] == 0
    assert datetime.fromisoformat(value["at"]) and value["at"].endswith("Z")
    assert {**value, **failure_result(error)} == value
    assert signal_result("", 130, "SIGINT") == b""


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("number", "way", "later"),
    sample(
        [
            (signal.SIGINT, "--json", 0.0),
            (signal.SIGINT, "--json", 0.5),
            (signal.SIGTERM, "--stream-json", 0.0),
            (signal.SIGHUP, "--stream-json", 0.5),
            (signal.SIGTERM, "", 0.0),
        ],
        3,
    ),
)
def test_a_signal_during_the_imports_and_while_stdin_is_awaited_ends_in_the_result(
    number: signal.Signals, way: str, later: float
) -> None:
    command = [sys.executable, "-m", "nexus_cli", "ask", *filter(None, [way])]
    pipe = subprocess.PIPE
    env = {**os.environ, "NEXUS_MODEL": "openai/m"}
    with subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, stderr=pipe) as child:
        while not listens(child):
            time.sleep(0.005)
        time.sleep(later)
        child.send_signal(number)
        assert child.wait(timeout=120) == STATUS[number]
        assert child.stdout and child.stderr
        lines = child.stdout.read().splitlines()
        assert child.stderr.read() == f"nexus: stopped: received {number.name}.\n".encode()
    if not way:
        assert lines == []
        return
    (line,) = lines
    value = json.loads(line)
    assert (value["type"], value["exit"], value["error"]["kind"]) == ("result", STATUS[number], "aborted")
