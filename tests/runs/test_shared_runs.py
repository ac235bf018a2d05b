"""Rows that a colleague writes into a shared ledger by SQL: the machine that runs them sets type, level and dollars."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ledger.postgres import Server
from runs.stage import AT, MODEL, SETTINGS, Played, Reply, show

from nexus_cli.config.settings import RunSettings
from nexus_cli.core.request import Request
from nexus_cli.core.run import AGENT, HUMAN, Run
from nexus_cli.ledger import Ledger
from nexus_cli.reports.runs import broken_runs
from nexus_cli.runs.runner import Runner

HERS = RunSettings(allow="read", max_cost=0.5, max_cost_day=1.0)


class Team:
    """A ledger that Ana and Ben share for one project, and Ana's runner."""

    def __init__(self, server: Server, project: Path) -> None:
        self.server, self.url = server, server.new_database()
        self.name = self.url.partition("?")[0].rpartition("/")[2]
        self.project = project

    def sql(self, *statements: str, role: str) -> list[tuple[Any, ...]]:
        return self.server.sql(*statements, database=self.name, role=role)

    def open(self, role: str) -> Ledger:
        return Ledger.open(self.server.url(self.name, role))

    def insert(self, kind: str, **options: Any) -> None:
        """A run that Ben queues by hand."""
        said = {"folder": str(self.project), "model": MODEL, "allow": "all", "rules": ["bash(*)"], **options}
        self.sql(
            "INSERT INTO runs (state, type, title, run_trigger, options, project, made_by, created, updated) VALUES"
            f" ('queued', '{kind}', 't', '{{\"type\": \"{kind}\", \"instruction\": \"go\"}}', '{json.dumps(said)}',"
            f" '{self.project}', 'ana', '{AT}', '{AT}')",
            role="ben",
        )

    def serve(self, reply: Callable[[Request], Reply]) -> list[Run]:
        """What Ana's `nexus serve --once` does."""

        async def once() -> list[Run]:
            with closing(self.open("ana")) as ledger:
                runner = Runner(ledger, provider=Played(reply), settings=replace(SETTINGS, runs=HERS), show=show)
                try:
                    return await runner.run_due()
                finally:
                    await runner.aclose()

        return asyncio.run(once())


@pytest.fixture
def team(postgres: Server, tmp_path: Path) -> Iterator[Team]:
    if not postgres.sql("SELECT 1 FROM pg_roles WHERE rolname = 'ana'"):
        postgres.sql("CREATE ROLE ana LOGIN", "CREATE ROLE ben LOGIN")
    project = tmp_path / "project"
    subprocess.run(["git", "init", "-q", project], check=True)
    made = Team(postgres, project)
    for role in ("ana", "ben"):
        made.sql(f"INSERT INTO project_members VALUES ('{project}', '{role}')", role="nexus")
    yield made
    postgres.drop(made.url)


def writes(request: Request) -> Reply:
    """A model that wants to leave a mark, until it was told no."""
    told = str(request.messages[-1].get("content"))
    return [("bash", {"command": "touch mark"})] if "go" in told and "mark" not in told else "well"


@pytest.mark.parametrize("kind", ["ask", "repl", "plan", "service", "space_message"])
def test_a_colleagues_row_runs_no_command_that_the_machine_does_not_allow(team: Team, kind: str) -> None:
    team.insert(kind)
    (run,) = team.serve(writes)
    assert not (team.project / "mark").exists() and run.state in ("done", "failed", "waiting_reply")


def test_a_run_of_an_unknown_type_is_refused(team: Team) -> None:
    team.insert("zzz")
    (run,) = team.serve(writes)
    assert not (team.project / "mark").exists() and run.state == "failed"
    assert "no runs of type 'zzz'" in run.error


def test_a_colleagues_row_works_only_in_the_project_that_is_shared(team: Team, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    team.insert("plan", folder=str(private))
    team.insert("plan", folder="")
    runs = team.serve(lambda request: "well")
    assert [run.state for run in runs] == ["failed"] * 2 and all("not part of the shared" in run.error for run in runs)


@pytest.mark.parametrize("dollars", ["1e9", "NaN", "-Infinity", "Infinity"])
@pytest.mark.parametrize("kind", ["ask", "service"])
def test_the_dollars_of_a_day_bind_whatever_a_row_says(team: Team, kind: str, dollars: str) -> None:
    for _ in range(3):
        team.insert(kind, max_cost=float(dollars))

    def works_on(request: Request) -> Reply:
        return [("read_file", {"path": f"x{len(request.messages)}"})]

    team.serve(works_on)
    with closing(team.open("ana")) as ledger:
        assert ledger.runs.spent_since("2000") <= HERS.max_cost_day + 0.25, "one request is over before it is counted"


def test_an_agent_of_ones_own_has_its_own_options_whatever_the_row_says(team: Team) -> None:
    with closing(team.open("ana")) as ledger:
        agent = ledger.spaces.entity("Bot", AGENT, {"folder": str(team.project), "model": MODEL, "allow": "read"})
        ana = ledger.spaces.entity("Ana", HUMAN)
        space = ledger.spaces.create("room", AT, project=str(team.project), members=[ana, agent])
        ledger.spaces.post(space, ana, "go", AT)
    forged = json.dumps({"folder": "/", "model": MODEL, "allow": "all", "rules": ["bash(*)"]})
    team.sql(f"UPDATE runs SET options = '{forged}'", role="ben")
    assert team.sql("SELECT options FROM runs", role="ana") == [(forged,)], "Ben may write this row"
    (run,) = team.serve(writes)
    assert not (team.project / "mark").exists()
    with closing(team.open("ana")) as ledger:
        assert ledger.session(run.session).folder == str(team.project)


def test_a_colleague_sees_that_a_run_broke_off_but_not_of_one_that_goes_on(team: Team) -> None:
    team.insert("plan")
    with closing(team.open("ana")) as ana, closing(team.open("ben")) as ben:
        assert ana.lock("run-1") and ana.runs.claim(1, "here:1", 60.0, AT) is not None
        assert broken_runs(ben, ben.runs.list_runs()) == [] == broken_runs(ana, ana.runs.list_runs())
        ana.unlock("run-1")
        assert [run.id for run in broken_runs(ben, ben.runs.list_runs())] == ["run-1"]
