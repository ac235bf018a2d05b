"""A process is killed at any commit of a run that waits: the next one goes on, no run is lost, nothing is done twice.

What was done is counted in a file outside the ledger: tools append a line to it.
"""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from runs.stage import Played, Reply, queue, run_due, sent, stored
from search import SEARCHES, variant

from nexus_cli.config.paths import places
from nexus_cli.core.request import Request
from nexus_cli.ledger import Ledger, database
from nexus_cli.reports.check_replay import check

MOST = 60
"""Commits of the whole life of such a run, schema included, are fewer."""


def work(request: Request) -> Reply:
    """One line, a wait, another line, a report: read off what was sent alone."""
    text = sent(request)
    calls = {call["id"]: call for message in request.messages for call in message.get("tool_calls") or ()}
    names = [call["function"]["arguments"] for call in calls.values()]
    if "RESUME" in text:
        return "done" if any("second" in name for name in names) else [("bash", {"command": "echo second >> out"})]
    if any("first" in name for name in names):
        return [("wait_for", {"file": "go", "event": "appears"})]
    return [("bash", {"command": "echo first >> out"})]


def die_at(number: int, when: str) -> None:
    """Let this process be killed around its commit of this number."""
    commits, real = itertools.count(1), database.commit

    def commit(connection: Any) -> None:
        mine = next(commits) == number
        if mine and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        real(connection)
        if mine and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)

    database.commit = commit


def run_in_child(number: int, when: str) -> bool:
    """One pass of a runner in a process that is killed around its commit `number`; False if it had fewer."""
    child = os.fork()
    if not child:
        try:
            die_at(number, when)
            run_due(Played(work))
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def lines(folder: Path) -> list[str]:
    out = folder / "out"
    return out.read_text().split() if out.exists() else []


def finish(key: int, folder: Path) -> None:
    """Let other processes go on with a run until it has ended."""
    for _ in range(4):
        run_due(Played(work))
        if stored(key).has_ended:
            return
        (folder / "go").touch()


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("phase", "when"),
    [
        ("at first", "before"),
        variant(("at first", "after")),
        variant(("after the wait", "before")),
        ("after the wait", "after"),
    ],
)
def test_no_kill_around_a_commit_loses_a_run_or_does_anything_twice(phase: str, when: str, _isolated: Path) -> None:
    kills = 0
    # After a commit all is as it is before the next one: every other number meets every state.
    for number in range(1, MOST, 1 if SEARCHES else 2):
        folder = _isolated / phase / f"{number}" / "project"
        folder.mkdir(parents=True)
        run = queue(f"work {number}", folder)
        if phase == "after the wait":
            run_due(Played(work))
            assert stored(run.key).state == "waiting_reply"
            (folder / "go").touch()
        killed = run_in_child(number, when)
        kills += killed
        finish(run.key, folder)
        now = stored(run.key)
        assert (now.state, now.resumes, now.error) == ("done", 1, ""), f"commit {number}"
        done = lines(folder)
        assert len(set(done)) == len(done) and set(done) <= {"first", "second"}, f"commit {number}: {done}"
        assert killed or done == ["first", "second"]
        ledger = Ledger.open(places().ledger)
        assert check(ledger, now.session)["ok"] and not ledger.runs.signals(run.key)
        ledger.close()
        if not killed:
            break
    assert (8 if SEARCHES else 4) < kills < MOST - 1
