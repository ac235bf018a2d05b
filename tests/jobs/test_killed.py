"""The job: "the machine died in the middle of it": nexus is killed while its command wipes the folder; one command of
another process gives all of it back."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs.test_only_copy import open_project
from jobs.test_taken_back import own_files, report
from program.stage import Stage, end
from search import variant

from nexus_cli.undo.follow_changes import KILLED_MEANWHILE


@pytest.fixture(params=["bwrap", variant("landlock")])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    with open_project(tmp_path, request.param) as made:
        yield made


def kill_in(place: Stage, command: str, sign: str, *more: str) -> None:
    """Let a turn run `command`, and kill nexus once the file `sign` is there."""
    child = place.begin("ask", *more, "--allow", "auto", f"RUN {command}; touch {sign}; sleep 600 END")
    try:
        deadline = time.monotonic() + 60
        while not (place.folder / sign).exists():
            assert child.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        child.wait()
    finally:
        end(child)


def test_what_a_killed_turn_wiped_comes_back(place: Stage) -> None:
    before = own_files(place.folder)
    kill_in(place, "rm -rf src .env data.db; echo > price.py", "wiped")
    shown = place.run("diff")
    assert shown.status == 0 and "-KEY=secret" in shown.text, shown
    asked = place.run("undo")
    assert asked.status == 2 and "undo --turn 1" in "".join(asked.told), asked
    value = report(place.run("undo", "--turn", "1", "--json"))
    assert {"src/idea.txt", ".env", "data.db", "price.py"} <= {*value["restored"]} and value["removed"] == ["wiped"]
    assert not value["kept"] and own_files(place.folder) == before
    (told,) = value["unfollowed"]
    assert KILLED_MEANWHILE in told
