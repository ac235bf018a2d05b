"""The job: "start the web server, wait until it answers, look at the page", in one message of the model.

The server is the usual one of Python; the model waits for it with `wait_for`, and looks with a command.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Stage, calls, stage
from programs import need
from search import sample
from server.received import tool_results

PAGE = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())"
Call = tuple[str, dict[str, Any]]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, None) as made:
        (made.folder / "index.html").write_text("<h1>The shop is open</h1>")
        (made.folder / "look.py").write_text(PAGE)
        yield made


@pytest.fixture(params=sample(["bwrap", "landlock", "off"], 3))
def level(request: pytest.FixtureRequest, place: Stage) -> str:
    """The level at which commands run unasked in these walls, or without any."""
    if request.param == "bwrap":
        need("bwrap")
    place.settings(QUICK + PRICED + f'[sandbox]\nbackend = "{request.param}"\n')
    return "all" if request.param == "off" else "auto"


def free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def play(place: Stage, level: str, *messages: list[Call]) -> tuple[Any, list[str]]:
    """Run a turn whose model sends these messages; return what the program left, and the results."""
    seen: list[str] = []

    def model(body: Any) -> Any:
        seen[:] = tool_results(body)
        answered = sum(one["role"] == "assistant" for one in body["messages"])
        return calls(*messages[answered]) if answered < len(messages) else {"text": "The page is there."}

    place.script(model)
    return place.ask("--allow", level, "--json", "Start the server and look at the page."), seen


def serve(port: int, *, late: str = "") -> Call:
    line = f"{late}exec python3 -m http.server {port} --bind 127.0.0.1"
    return "bash", {"command": line, "background": True}


def test_a_server_is_started_waited_for_and_looked_at_in_one_message(place: Stage, level: str) -> None:
    port = free()
    url = f"http://127.0.0.1:{port}/"
    waits = "wait_for", {"url": url, "status": "200", "timeout": "90 seconds"}
    look = "bash", {"command": f"python3 look.py {url}"}
    done, seen = play(place, level, [serve(port, late="sleep 1.5; "), waits, look])
    assert done.status == 0 and done.result["text"] == "The page is there." and not done.result["denied"], done
    assert f"{url} answered 200, after" in seen[1], seen
    assert "The shop is open" in seen[2], seen


def test_a_server_that_ends_is_not_waited_for_any_longer(place: Stage, level: str) -> None:
    port = free()
    fails = "bash", {"command": "sleep 1; echo no such module; exit 3", "background": True}
    done, seen = play(place, level, [fails, ("wait_for", {"url": f"tcp://127.0.0.1:{port}", "timeout": "1 hour"})])
    assert done.status == 0, done
    assert "the wait ended early: " in seen[1] and "exit status 3" in seen[1], seen


def test_a_file_of_a_job_is_waited_for_within_the_turn(place: Stage, level: str) -> None:
    builds = "bash", {"command": "sleep 1.5; echo ok > built.txt; exec sleep 300", "background": True}
    file = "wait_for", {"file": "built.txt", "event": "appears", "timeout": "2 minutes"}
    done, seen = play(place, level, [builds, file, ("wait_for", {"time": "1 second"}), ("jobs", {"action": "list"})])
    assert done.status == 0, done
    assert "built.txt has appeared (3 bytes), after" in seen[1] and seen[2] == "waited 1 s", seen
    assert "j1  running" in seen[3], "a wait ends no job"


def test_a_wait_that_would_end_a_job_is_refused_and_says_how_else(place: Stage, level: str) -> None:
    runs = "bash", {"command": "exec sleep 300", "background": True}
    done, seen = play(place, level, [runs, ("wait_for", {"file": "never.txt"}), ("jobs", {"action": "list"})])
    assert done.status == 0, done
    assert "waiting would end the turn and stop j1" in seen[1] and "10 minutes" in seen[1], seen
    assert "j1  running" in seen[2], seen


class Counting(BaseHTTPRequestHandler):
    """A server of the person."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""


def test_a_server_of_the_person_is_none_of_a_job_and_gets_no_request(place: Stage) -> None:
    need("bwrap")
    asked: list[str] = []
    with HTTPServer(("127.0.0.1", 0), type("Own", (Counting,), {"asked": asked})) as own:
        threading.Thread(target=own.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{own.server_port}/"
        place.settings(QUICK + PRICED + f'[hosts."127.0.0.1:{own.server_port}"]\nkey = "CI_TOKEN"\n')
        runs = "bash", {"command": "exec sleep 300", "background": True}
        place.environment["CI_TOKEN"] = "s3cr3t"
        done, seen = play(place, "auto", [runs, ("wait_for", {"url": url, "timeout": "2 seconds"})])
        own.shutdown()
    assert done.status == 0 and "not yet, after 2 s" in seen[1] and not asked, (seen, asked)


def test_a_rule_that_denies_an_address_holds_for_servers_of_jobs_too(place: Stage) -> None:
    need("bwrap")
    place.settings(QUICK + PRICED + '[rules]\ndeny = ["wait_for(http://127.0.0.1:*)"]\n')
    port = free()
    done, seen = play(place, "auto", [serve(port), ("wait_for", {"url": f"http://127.0.0.1:{port}/"})])
    assert done.status == 0 and "not permitted: deny wait_for" in seen[1], json.dumps(seen)
