"""The job: "when CI fails, look into it". One push breaks forty checks of a matrix, and GitHub sends forty webhooks.

They have one cause and are one paid run, which is told of each check once, also if the server is killed with -9 between
the events and the run, and in its midst. A check that fails after the run has ended starts another one.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jobs.test_ci import SECRET, Hooks
from program.stage import PRICED, QUICK, Stage, end, stage, until
from search import variant

CHECKS = 40
SERVICE = """
[services.ci]
instruction = "Find out why this check failed."
sender = "github"
secret = "HOOK_SECRET"
filter = ["event=check_run", "check_run.conclusion=failure"]
debounce = 0.1
"""
SLOW = 600.0
"""Seconds after which a model answers that does not answer before its server is killed."""


def failed(number: int, sha: str = "4b2f") -> dict[str, Any]:
    run = {"name": f"unit-{number}", "head_sha": sha, "conclusion": "failure"}
    return {"action": "completed", "check_run": run, "repository": {"full_name": "ana/shop"}}


def names_in(body: Any) -> list[str]:
    """The checks that a request tells of, as often as it does."""
    said = [str(one["content"]) for one in body["messages"] if one["role"] == "user"]
    return re.findall(r"unit-\d+", "\n".join(said))


class Analyst:
    """A model that looks into the checks that it is told of, and does not answer before the events have come."""

    def __init__(self) -> None:
        self.delays = [SLOW, SLOW]

    def __call__(self, body: Any) -> dict[str, Any]:
        delay = self.delays.pop(0) if self.delays else 0
        return {"text": f"{len(set(names_in(body)))} checks failed.", "delay": delay}


@pytest.fixture(params=["sqlite", variant("postgres")])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    ledger = ""
    if request.param == "postgres":
        ledger = f'[ledger]\nurl = "{request.getfixturevalue("postgres").new_database()}"\n'
    with stage(tmp_path, Analyst()) as made:
        made.settings(QUICK + PRICED + SERVICE + ledger)
        yield made


@contextmanager
def serving(place: Stage) -> Iterator[tuple[Hooks, Any]]:
    child = place.begin("serve", "--json", env={"HOOK_SECRET": SECRET})
    try:
        assert child.stdout is not None
        yield Hooks(json.loads(child.stdout.readline())["url"]), child
    finally:
        end(child)


def runs(place: Stage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = place.run("runs", "list", "--json").result["runs"]
    return found


def kill(child: Any) -> None:
    os.kill(child.pid, signal.SIGKILL)
    child.wait()


def test_forty_checks_of_one_commit_are_one_run_also_over_kills_of_the_server(place: Stage) -> None:
    with serving(place) as (hooks, child):
        assert hooks.send("check_run", failed(0), "d-0") == (202, {"run": "run-1"})
        assert until(lambda: bool(place.server.requests))
        for number in range(1, 20):
            assert hooks.send("check_run", failed(number), f"d-{number}") == (202, {"joined": "run-1"})
        kill(child)  # the model has not answered, and knows of one check
    with serving(place) as (hooks, child):
        assert until(lambda: len(place.server.requests) > 1)
        for number in range(15, CHECKS):  # GitHub repeats what it got no answer to
            assert hooks.send("check_run", failed(number), f"d-{number}") == (202, {"joined": "run-1"})
        kill(child)  # it knows of twenty
    with serving(place) as (hooks, _):
        assert until(lambda: runs(place)[0]["state"] == "done", 120), runs(place)
        (run,) = runs(place)
        told = [names_in(one.body) for one in place.server.requests]
        assert told == [[f"unit-{number}" for number in range(some)] for some in (1, 20, CHECKS)]
        assert (run["events"], run["key"], run["last_words"]) == (CHECKS, "ana/shop 4b2f", "40 checks failed.")

        assert hooks.send("check_run", failed(7), "d-7") == (202, {"joined": "run-1"}), "repeated after the end"
        assert hooks.send("check_run", failed(77), "d-77") == (202, {"run": "run-2"}), "the run is done"
        assert hooks.send("check_run", failed(78, "c0ffee"), "d-78") == (202, {"run": "run-3"}), "another commit"
        assert until(lambda: [one["state"] for one in runs(place)] == ["done"] * 3, 120), runs(place)
        assert names_in(place.server.requests[-1].body) in (["unit-77"], ["unit-78"])

    shown = place.run("runs", "show", "run-1").text
    assert "service ci (40 events)" in shown and "check_run failure unit-39" in shown, shown
    assert "service ci (40 events)" in place.run("runs").text
