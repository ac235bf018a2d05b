"""`nexus runs` in a terminal: the runs that wait for the person, one after the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from nexus_cli.commands import runs
from nexus_cli.commands.verb import Report, Source
from nexus_cli.core.run import DONE, FAILED, WAITING
from nexus_cli.runs import run_approvals


@pytest.mark.parametrize(
    "ends,asked",
    [
        ({"run-2": (DONE, 0), "run-1": (DONE, 0)}, ["run-2", "run-1"]),
        ({"run-2": (FAILED, 1), "run-1": (DONE, 0)}, ["run-2", "run-1"]),
        ({"run-2": (WAITING, 3)}, ["run-2"]),
    ],
)
def test_a_run_that_fails_does_not_keep_the_next_one_from_asking(
    ends: dict[str, tuple[str, int]], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed: list[str] = []

    def resume(source: Source, run: str) -> Report[Any]:
        resumed.append(run)
        return Report("run", {}, status=ends[run][1])

    def find(name: str) -> SimpleNamespace:
        return SimpleNamespace(state=ends[name][0])

    waiting = [SimpleNamespace(id=name, key=name) for name in ("run-1", "run-2")]
    table = SimpleNamespace(waiting=lambda: waiting, is_own=lambda run: True, get=find)
    ledger = SimpleNamespace(runs=table)
    source = SimpleNamespace(is_json=False, ledger=ledger, show=lambda report: None, approver=object, live=None)
    monkeypatch.setattr(runs, "build_list", lambda source: Report("runs", {}))
    monkeypatch.setattr(run_approvals, "asks_approval", lambda run: True)
    monkeypatch.setattr(runs, "resume_run", resume)
    report = runs.list_and_answer(cast("Source", source))
    assert resumed == asked and report.status == ends[asked[-1]][1]
