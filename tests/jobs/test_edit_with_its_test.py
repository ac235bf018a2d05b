"""The job: "double the rate": the model sends the edit with its test in one message, first with lines that are not in
the file. The suite does not run on the old tree, also not after a kill between the two."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Stage, calls, end, stage, until
from server.received import tool_results

SUITE = f"echo run >> suite.log; {shlex.quote(sys.executable)} -c 'import price; assert price.RATE == 4'"
GUESSED = {"path": "price.py", "edits": [{"old": "RATE = 3", "new": "RATE = 4"}]}
READ = {"path": "price.py", "edits": [{"old": "RATE = 2", "new": "RATE = 4"}]}
NOT_RUN = "[nexus: not run: the edit of price.py before it failed]"
HOLD = """
[[hook]]
event = "PreToolUse"
matcher = "read_file"
command = "touch held; while [ ! -e go ]; do sleep 0.05; done"
"""


def model(body: Any) -> dict[str, Any]:
    """Guesses, then edits what the refusal has shown."""
    results = tool_results(body)
    look, test = ("read_file", {"path": "price.py"}), ("bash", {"command": SUITE})
    if not results:
        return calls(("edit_file", GUESSED), look, test)
    if len(results) == 3:
        assert "RATE = 2" in results[0] and "RATE = 2" in results[1], results
        assert results[2] == NOT_RUN, results
        return calls(("edit_file", READ), test)
    assert results[-1].endswith("[exit status 0]"), results
    return {"text": "doubled"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, model) as made:
        (made.folder / "price.py").write_text("RATE = 2\n")
        yield made


def assert_done(place: Stage) -> None:
    assert (place.folder / "price.py").read_text() == "RATE = 4\n"
    assert (place.folder / "suite.log").read_text() == "run\n", "the suite ran once, on the edited file"


def test_the_suite_runs_once_on_the_edited_file(place: Stage) -> None:
    done = place.ask("--allow", "all", "--json", "double the rate")
    assert done.status == 0 and done.result["text"] == "doubled", done
    assert done.result["steps"] == 3 and not done.result["denied"]
    assert_done(place)


def test_after_a_kill_behind_the_failed_edit_the_suite_still_does_not_run(place: Stage) -> None:
    place.settings(QUICK + PRICED + HOLD)
    child = place.begin("ask", "--allow", "all", "double the rate")
    try:
        assert until((place.folder / "held").exists)
        child.send_signal(signal.SIGKILL)
        child.wait()
    finally:
        end(child)
    (place.folder / "go").touch()
    done = place.ask("-c", "--allow", "all")
    assert done.status == 0 and done.text == "doubled\n", done
    assert_done(place)
