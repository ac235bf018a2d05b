"""A ledger in which levels have their former names: `read` and `run`, as version 0.2 wrote them.

`former_levels.db.gz` was written by that version: a session at `run`, with a worker at `read`, then at `read`; a run at
`run` that waits for an approval; a plan and an agent at `run`.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runs.stage import MODEL, SETTINGS, Played, last, run_due
from session.played import context_report

from nexus_cli.config.paths import places
from nexus_cli.core.memo_kinds import DECISION, LIMITS_IN_FORCE, WORKER
from nexus_cli.core.request import Request
from nexus_cli.ledger import Ledger, SessionInfo
from nexus_cli.reports.check_replay import check
from nexus_cli.reports.decisions import decisions_report
from nexus_cli.reports.runs import describe_run
from nexus_cli.runs.plan_service import plan_value
from nexus_cli.runs.run_approvals import answer_run
from nexus_cli.session.options import Options
from nexus_cli.workers.worker import Worker

RECORDED_IN = "/tmp/older/levels"


@pytest.fixture
def former(tmp_path: Path) -> Iterator[Ledger]:
    """The ledger of the former version, whose folder is now one of this test."""
    path = places().ledger
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(gzip.decompress((Path(__file__).parent / "former_levels.db.gz").read_bytes()))
    path.chmod(0o600)
    (tmp_path / "project" / ".git").mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        for table, column in (("runs", "options"), ("plans", "options"), ("sessions", "folder")):
            connection.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (RECORDED_IN, str(tmp_path)))
    connection.close()
    opened = Ledger.open(path)
    yield opened
    opened.close()


def spoken(ledger: Ledger) -> SessionInfo:
    """The session of a person, which is no run."""
    return next(one for one in ledger.sessions() if one.front == "chat")


def test_it_was_written_with_the_former_names(former: Ledger) -> None:
    (options,) = former.db.one("SELECT options FROM runs") or ()
    assert json.loads(options)["allow"] == json.loads(options)["limits"]["allow"] == "run"


def test_what_was_decided_and_limited_is_reported_in_the_words_of_now(former: Ledger) -> None:
    log = former.log(spoken(former).id)
    value = decisions_report(log)
    assert [(row["decision"], row["level"], row["from"], row.get("bound_by")) for row in value["decisions"]] == [
        ("allow", "auto", "level auto", "command line"),
        ("allow", "auto", "built in", None),
        ("ask", "ask", "level ask", "/permissions"),
    ]
    assert [part["from"] for part in value["decisions"][0]["parts"]] == ["level auto"]
    limits = [
        bound for memo in log.memos(LIMITS_IN_FORCE) for bound in memo.value["limits"] if bound["name"] == "allow"
    ]
    assert [bound["value"] for bound in limits] == ["auto", "ask"]
    assert [bound["said"] for bound in limits] == [{"command line": "auto"}, {"/permissions": "ask"}]
    assert {memo.kind for memo in log.memos()} >= {DECISION, WORKER}
    assert Worker.from_json(log.memos(WORKER)[-1].value).scope.allow == "ask"


def test_a_report_on_an_old_request_has_the_level_of_then(former: Ledger, tmp_path: Path) -> None:
    session = spoken(former).id
    assert check(former, session)["ok"], "the bytes that were sent stay"
    options = Options(tmp_path / "project", MODEL)
    for step, level in ((1, "auto"), (former.log(session).step(), "ask")):
        value = context_report(options, SETTINGS, session, step)
        assert [bound["value"] for bound in value["limits"] if bound["name"] == "allow"] == [level]


def test_plans_runs_and_agents_keep_their_level(former: Ledger) -> None:
    (run,), (plan,) = former.runs.list_runs(), former.plans.list_plans()
    rows: list[Any] = [describe_run(former, run), plan_value(plan, 0.0)]
    assert [(row["allow"], row["level"]) for row in rows] == [("run", "auto")] * 2
    assert run.may_write and plan.options["allow"] == "auto"
    agent = former.spaces.find_entity("Bot")
    assert agent is not None and agent.options["allow"] == "auto"


@pytest.mark.matrix
def test_a_run_that_waited_goes_on_at_its_level(former: Ledger, tmp_path: Path) -> None:
    def reply(request: Request) -> Any:
        return [("bash", {"command": "touch later"})] if "beside.txt" in last(request) else "all is done"

    (run,) = former.runs.list_runs()
    answer_run(former, run, ["yes"])
    (done,) = run_due(Played(reply))
    assert (done.state, done.report) == ("done", "all is done"), done
    assert (tmp_path / "beside.txt").exists() and (tmp_path / "project" / "later").exists()
    decision = former.log(done.session).memos(DECISION)[-1].value
    assert (decision["subject"], decision["level"], decision["from"]) == ("touch later", "auto", "level auto")
