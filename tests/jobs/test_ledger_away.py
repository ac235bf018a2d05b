"""The job: "rename this function and check it", with the ledger on a team's server that an admin restarts meanwhile.

The server goes while a command runs. The person sees one line, loses patience and kills nexus; when the server is back
the next command goes on, with the result of the command that ran, and nothing is sent or run twice. The same during
`nexus map` needs no person at all.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from ledger.postgres import Server
from program.stage import PRICED, QUICK, Stage, calls, end, stage, until

pytestmark = pytest.mark.matrix

RENAME = "sed -i s/total/amount/ shop.py && echo once >> ran"
"""Edits the file and leaves a line for each time that it runs."""


@pytest.fixture
def place(tmp_path: Path, postgres: Server) -> Iterator[Stage]:
    url = postgres.new_database()
    with stage(tmp_path) as made:
        made.settings(f'{QUICK}{PRICED}[ledger]\nurl = "{url}"\n')
        (made.folder / "shop.py").write_text("def total(prices):\n    return sum(prices)\n")
        yield made
    if postgres.process.poll() is not None:
        postgres.start()
    postgres.drop(url)


def test_a_killed_turn_goes_on_once_the_server_is_back(place: Stage, postgres: Server) -> None:
    numbers = count(1)

    def answer(body: Any) -> dict[str, Any]:
        number = next(numbers)
        if number == 2:
            postgres.stop()  # the reply is on its way: its command must not run before the server has it
        steps = {1: calls(("bash", {"command": RENAME})), 2: calls(("bash", {"command": "python -c 'import shop'"}))}
        return steps.get(number, {"text": "total is amount now, and shop.py still imports."})

    place.script(answer)
    ran = place.folder / "ran"
    told = place.home / "told"
    with told.open("wb") as stderr:
        words = "rename total to amount and check that shop.py imports"
        child = place.begin("ask", "--allow", "all", words, stderr=stderr.fileno())
    try:
        assert until(lambda: "waiting for the server (Ctrl+C to stop)" in told.read_text())
        assert ran.read_text() == "once\n"
        child.send_signal(signal.SIGKILL)
        child.wait()
    finally:
        end(child)
    away = place.run("sessions")
    assert away.status == 1 and "cannot be opened" in away.told[0] and len(away.told) == 1
    postgres.start()

    done = place.ask("-c", "--allow", "all", "--json")
    assert done.status == 0 and done.result["text"].startswith("total is amount now")
    assert ran.read_text() == "once\n" and "amount" in (place.folder / "shop.py").read_text()
    assert len(place.server.requests) == 3, "the reply that arrived while the server was away was kept"
    assert place.run("replay", "--session", done.result["session"]).status == 0
    assert place.run("usage", "--json").result["total"]["requests"] == 3


def test_ctrl_c_ends_a_turn_whose_server_hangs_soon_and_keeps_its_work(place: Stage, postgres: Server) -> None:
    begun = place.folder / "begun"
    place.script([calls(("bash", {"command": f"touch {begun}; sleep 60"})), {"text": "never"}])
    child = place.begin("ask", "--allow", "all", "wait a minute")
    try:
        assert until(begun.exists)
        with frozen(postgres):
            pressed = time.monotonic()
            child.send_signal(signal.SIGINT)
            _, told = child.communicate(timeout=60)
            seconds = time.monotonic() - pressed
    finally:
        end(child)
    assert child.returncode == 130 and seconds < 6, "about two on an idle machine"
    first, *more = told.decode().splitlines()
    assert first.endswith("unsaved entries are kept on this machine until the server responds")
    assert not [line for line in more if "ledger" in line]
    shown = place.run("sessions", "show", more[-1].split()[-1])
    assert "work done while the ledger was unreachable is now saved" in shown.told[0] and "sleep 60" in shown.text


@contextmanager
def frozen(postgres: Server) -> Iterator[None]:
    """Let every process of the server stand still: it accepts connections and answers nothing."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(postgres.process.pid)], capture_output=True, check=True)
    processes = [postgres.process.pid, *map(int, listed.stdout.split())]
    try:
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def test_a_map_goes_on_by_itself(place: Stage, postgres: Server) -> None:
    numbers = count(1)

    def answer(body: Any) -> dict[str, Any]:
        number = next(numbers)
        if number == 2:
            postgres.stop()
        return {"text": f"answer {number}"}

    place.script(answer)
    items, told = place.home / "items", place.home / "told"
    items.write_text("a\nb\nc\n")
    with items.open("rb") as stdin, told.open("wb") as stderr:
        child = place.begin("map", "say {}", "-j", "1", stdin=stdin.fileno(), stderr=stderr.fileno())
    try:
        assert until(lambda: "waiting for the server" in told.read_text())
        postgres.start()
        out, _ = child.communicate()
        assert child.returncode == 0
    finally:
        end(child)
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["answer 1", "answer 2", "answer 3"]
    assert len(place.server.requests) == 3


def test_ctrl_c_ends_a_map_that_waits_to_begin(place: Stage, postgres: Server) -> None:
    place.script(["never"])
    place.run("sessions")  # the ledger is there, and then its server goes
    postgres.stop()
    items, told = place.home / "items", place.home / "told"
    items.write_text("a\n")
    with items.open("rb") as stdin, told.open("wb") as stderr:
        child = place.begin("map", "say {}", stdin=stdin.fileno(), stderr=stderr.fileno())
    try:
        assert until(lambda: "waiting for the server" in told.read_text())
        child.send_signal(signal.SIGINT)
        assert child.wait() == 130
    finally:
        end(child)
    assert not place.server.requests and "Traceback" not in told.read_text()
