"""The job: "the shop's server gives wrong totals", by an agent that runs the server while it tests it.

The server stays in the background while other commands ask it; nothing of the person's own network is in its reach, and
nothing runs on when the program has ended, however it ends.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Stage, calls, stage, until
from programs import need
from search import sample
from server.received import tool_results

APP = """\
import http.server

class Shop(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        prices = [int(one) for one in self.path.partition("?")[2].split(",")]
        body = b"total %d" % max(prices)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

print("listening", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Shop).serve_forever()
"""
CHECK = """\
import sys, time, urllib.request
for _ in range(100):
    try:
        print(urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/?1,2,3", timeout=5).read().decode())
        break
    except OSError as error:
        last = error
        time.sleep(0.05 if sys.argv[1] == "8000" else 0)
else:
    print("unreachable:", last)
"""
Call = tuple[str, dict[str, Any]]


class Script:
    """A model that makes its calls one after the other, and then reports what it saw."""

    def __init__(self, *steps: Call) -> None:
        self.steps = steps
        self.seen: list[str] = []

    def __call__(self, body: Any) -> dict[str, Any]:
        self.seen = tool_results(body)
        if len(self.seen) < len(self.steps):
            return calls(self.steps[len(self.seen)])
        return {"text": "Totals are sums now."}


def bash(command: str, **more: Any) -> Call:
    return "bash", {"command": command, **more}


def serve() -> Call:
    return bash("exec python3 app.py", background=True)


def jobs(action: str, job: str = "", **more: str) -> Call:
    return "jobs", {"action": action, **({"job": job} if job else {}), **more}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, None) as made:
        (made.folder / "app.py").write_text(APP)
        (made.folder / "check.py").write_text(CHECK)
        yield made


def wall(place: Stage, backend: str, more: str = "") -> None:
    """Make commands run in the walls of `backend`, with `more` settings."""
    if backend == "bwrap":
        need("bwrap")
    place.settings(QUICK + PRICED + f'[sandbox]\nbackend = "{backend}"\n{more}')


def processes(word: str) -> list[int]:
    """Return the pids of processes with `word` in their command line."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if word.encode() in line:
            found.append(int(name))
    return found


@pytest.mark.parametrize("backend", sample(["bwrap", "landlock"], 2))
def test_a_server_is_run_tested_mended_and_stopped(place: Stage, backend: str) -> None:
    wall(place, backend)
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        own.listen()
        script = Script(
            serve(),
            bash("python3 check.py 8000"),
            ("edit_file", {"path": "app.py", "edits": [{"old": "max(prices)", "new": "sum(prices)"}]}),
            jobs("stop", "j1"),
            serve(),
            bash("python3 check.py 8000"),
            jobs("read", "j2"),
            jobs("list"),
            bash(f"python3 check.py {own.getsockname()[1]}"),
            jobs("stop", "j2"),
            bash("python3 check.py 8000"),
        )
        place.script(script)
        done = place.ask("--allow", "auto", "--json", "The totals of the shop are wrong.")
    assert done.status == 0 and done.result["text"] == "Totals are sums now.", done
    started, wrong, _, stopped, again, right, read, listed, person, _, gone = script.seen
    assert "j1" in started and "j2" in again, script.seen
    assert "total 3" in wrong and "total 6" in right, script.seen
    assert "j1" in stopped and "stopped" in stopped, stopped
    assert "listening" in read and "GET /?1,2,3" in read, read
    assert re.search(r"j1 .*stopped", listed) and re.search(r"j2 .*running", listed), listed
    assert "unreachable" in person and "unreachable" in gone, "the person's own network is out of reach"
    assert not processes("python3 app.py")


def test_the_end_of_a_job_is_told_once_with_status_and_last_lines(place: Stage) -> None:
    ends = bash("for n in 1 2 3 4 5 6 7 8 9; do echo line $n; done; sleep 1.2; echo the end; exit 7", background=True)
    script = Script(ends, bash("sleep 2"), bash("true"))
    place.script(script)
    bodies = record(place, script)
    done = place.ask("--allow", "all", "Run the long test.")
    assert done.status == 0, done
    told = [str(one.get("content")) for one in bodies[-1]["messages"] if "ended after" in str(one.get("content"))]
    assert len(told) == 1 and "j1" in told[0] and "exit status 7" in told[0] and "the end" in told[0], told
    assert "line 1" not in told[0]


def record(place: Stage, script: Callable[[Any], dict[str, Any]]) -> list[Any]:
    """Return the list of request bodies, which grows."""
    bodies: list[Any] = []

    def answer(body: Any) -> dict[str, Any]:
        bodies.append(body)
        return script(body)

    place.script(answer)
    return bodies


def test_ask_waits_for_the_job_that_the_turn_waits_for_and_ends_the_others(place: Stage) -> None:
    script = Script(
        bash("sleep 1; echo built > out.txt; echo done building", background=True),
        bash("exec sleep 98.7654", background=True),
        ("wait_for", {"process": "j1"}),
    )
    place.script(script)
    done = place.ask("--allow", "all", "Build it.")
    assert done.status == 0, done
    assert (place.folder / "out.txt").read_text() == "built\n"
    assert "exit status 0" in script.seen[2] and "done building" in script.seen[2], script.seen
    assert any("j2" in line and "sleep 98.7654" in line for line in done.told), done.told
    assert not any("j1" in line and "ended with" in line for line in done.told), done.told
    assert until(lambda: not processes("sleep 98.7654"))


def test_a_job_reads_input_and_its_output_is_bounded(place: Stage) -> None:
    wall(place, "bwrap")
    script = Script(
        bash("while read -r word; do echo got $word; done", background=True),
        jobs("write", "j1", text="tea"),
        jobs("read", "j1"),
        jobs("read", "j1"),
        bash("sleep 0.7; head -c 60000000 /dev/zero | tr '\\0' x; echo; echo last", background=True),
        ("wait_for", {"process": "j2"}),
        bash("sleep 0.7; printf 'a\\0b\\n'; exec cat", background=True),
        jobs("read", "j3"),
        jobs("read", "nope"),
    )
    place.script(script)
    done = place.ask("--allow", "auto", "Try it.")
    assert done.status == 0, done
    _, _, first, second, _, large, _, binary, unknown = script.seen
    assert "got tea" in first and "got tea" not in second, script.seen
    assert "last" in large and "bytes not kept: " in large and len(large) < 100_000, large[-300:]
    assert "\0" not in binary and "j3 running" in binary, binary
    assert "j1" in unknown and "nope" in unknown, unknown


@pytest.mark.parametrize("backend", sample(["bwrap", "landlock", "off"], 3))
def test_jobs_end_with_a_killed_program(place: Stage, backend: str) -> None:
    wall(place, backend)
    level = "all" if backend == "off" else "auto"
    # a child that leaves its session, too
    line = "setsid sh -c 'sleep 97.654321' & exec sleep 97.654321"
    script = Script(bash(line, background=True), bash("sleep 60"))
    place.script(script)
    child = place.begin("ask", "--allow", level, "Serve.")
    try:
        assert until(lambda: len(script.seen) == 1 and len(processes("sleep 97.654321")) >= 2)
        time.sleep(0.3)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert until(lambda: not processes("sleep 97.654321")), "it outlived the program"
    place.script(after := Script())
    bodies = record(place, after)
    done = place.ask("-c", "--allow", level, "What became of it?")
    assert done.status == 0 and any("j1" in str(one.get("content")) for one in bodies[-1]["messages"][1:]), bodies
    assert "ended with the session" in json.dumps(bodies[-1]["messages"])


@pytest.mark.parametrize("backend", sample(["bwrap", "landlock"], 2, 1))
def test_an_approved_edit_of_a_guarded_file_stays_when_the_job_ends(place: Stage, backend: str) -> None:
    wall(place, backend, '[rules]\nallow = ["edit_file(*.md)"]\n')
    for name in ("AGENTS.md", "CLAUDE.md", "GEMINI.md"):
        (place.folder / name).write_text("Sum the prices.\n")
    lines = "sleep 0.6; echo evil >> CLAUDE.md; echo evil >> GEMINI.md; exec sleep 93.2109"

    def edit(name: str) -> Call:
        return "edit_file", {"path": name, "edits": [{"old": "Sum", "new": "Add"}]}

    script = Script(bash(lines, background=True), edit("AGENTS.md"), bash("sleep 1"), edit("GEMINI.md"), jobs("stop"))
    place.script(script)
    done = place.ask("--allow", "auto", "Say it better.")
    assert done.status == 0, done
    assert (place.folder / "AGENTS.md").read_text() == "Add the prices.\n", script.seen
    assert (place.folder / "CLAUDE.md").read_text() == "Sum the prices.\n", script.seen
    kept = (place.folder / "GEMINI.md").read_text()
    assert kept == ("Add the prices.\n" if backend == "bwrap" else "Sum the prices.\n"), "never with the job's own line"


def test_what_a_job_changes_in_a_turn_stays_until_the_person_names_it(place: Stage) -> None:
    wall(place, "bwrap")
    before = {name: (place.folder / name).read_bytes() for name in os.listdir(place.folder)}
    begin = "until [ -e own.txt ]; do sleep 0.1; done; sleep 1"
    job = f"{begin}; echo made > made.txt; rm check.py; sed -i s/total/sum/ app.py; sleep 0.2"
    edit = "edit_file", {"path": "app.py", "edits": [{"old": "listening", "new": "serving"}]}
    place.script(Script(bash(job, background=True), edit, bash("echo own > own.txt"), ("wait_for", {"process": "j1"})))
    done = place.ask("--allow", "auto", "--json", "Generate it.")
    assert done.status == 0, done
    assert set(done.result["files_changed"]) == {"made.txt", "check.py", "app.py", "own.txt"}, done.result
    assert 'b"sum %d' in (place.folder / "app.py").read_text()
    undone = place.run("undo", "--json")
    assert undone.status == 1 and undone.result["removed"] == ["own.txt"], undone
    assert [one["path"] for one in undone.result["kept"]] == ["app.py", "check.py", "made.txt"], undone
    text = (place.folder / "app.py").read_text()
    assert 'b"sum %d' in text and "listening" in text, "the edit is taken back, the job's line stays"
    undone = place.run("undo", *(one["path"] for one in undone.result["kept"]), "--json")
    assert undone.status == 0, undone
    assert {name: (place.folder / name).read_bytes() for name in os.listdir(place.folder)} == before, undone


def test_what_the_person_does_while_a_job_runs_is_never_taken_back_unasked(place: Stage) -> None:
    wall(place, "bwrap")
    (place.folder / "mine.txt").write_text("v1\n")
    script = Script(bash("sleep 30", background=True))

    def model(body: Any) -> dict[str, Any]:
        if tool_results(body):
            (place.folder / "mine.txt").write_text("the person's work\n")
            (place.folder / "only.txt").write_text("the only copy\n")
        return script(body)

    place.script(model)
    done = place.ask("--allow", "auto", "Serve it.")
    assert done.status == 0, done
    shown = place.run("undo")
    assert shown.status == 1 and "mine.txt" in shown.text and "with their paths" in " ".join(shown.text.split()), shown
    assert place.run("undo", "--json").result["turn"] is None
    assert (place.folder / "mine.txt").read_text() == "the person's work\n"
    assert (place.folder / "only.txt").read_text() == "the only copy\n"
    undone = place.run("undo", "only.txt", "--json")
    assert undone.status == 0 and undone.result["removed"] == ["only.txt"], undone
    assert place.run("redo", "--json").result["restored"] == ["only.txt"]


def test_the_original_of_what_a_job_and_then_an_edit_changed_can_be_reached(place: Stage) -> None:
    wall(place, "bwrap")
    original = (place.folder / "app.py").read_bytes()
    edit = "edit_file", {"path": "app.py", "edits": [{"old": "max(prices)", "new": "sum(prices)"}]}
    job = "sleep 0.8; sed -i s/total/sum/ app.py; touch wrote; sleep 30"
    script = Script(bash(job, background=True), ("read_file", {"path": "app.py"}), edit)

    def model(body: Any) -> dict[str, Any]:
        assert not tool_results(body) or until(lambda: (place.folder / "wrote").exists())
        return script(body)

    place.script(model)
    done = place.ask("--allow", "auto", "Generate it.")
    assert done.status == 0 and b"sum(prices)" in (place.folder / "app.py").read_bytes(), done
    undone = place.run("undo", "--json")
    assert (place.folder / "app.py").read_bytes() == original.replace(b"total", b"sum"), undone
    assert "app.py" in [one["path"] for one in undone.result["kept"]], undone
    assert place.run("undo", "app.py").status == 0
    assert (place.folder / "app.py").read_bytes() == original
