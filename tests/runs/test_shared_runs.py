"""Runs of a shared ledger: each has the rights of one role, works on its machines alone, and asks nobody else."""

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
from ledger.postgres import Server, sharing
from runs.stage import AT, MODEL, SETTINGS, Played, Reply, show
from search import sample

from nexus_cli.cli.shell_command import ShellSource
from nexus_cli.commands.runs import pause_run, select_runs
from nexus_cli.config.settings import RunSettings
from nexus_cli.core.errors import NexusError
from nexus_cli.core.request import Request
from nexus_cli.core.run import AGENT, APPROVAL, HUMAN, WAITING, Run
from nexus_cli.ledger import Ledger
from nexus_cli.reports.runs import broken_runs
from nexus_cli.runs.missed_runs import waiting_runs
from nexus_cli.runs.plan_service import NewPlan, add_plan, fire_now
from nexus_cli.runs.run_approvals import answer_run, require_own
from nexus_cli.runs.runner import Runner
from nexus_cli.runs.unattended import UnattendedRules, trust_options
from nexus_cli.spaces.people import find_agent

HERS = RunSettings(allow="ask", max_cost=0.5, max_cost_day=1.0)


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

    def insert(self, kind: str, role: str = "", **options: Any) -> None:
        """A run that a role queues by hand; by none it is an older one, which anybody could have written."""
        said = {"folder": str(self.project), "model": MODEL, "allow": "all", "rules": ["bash(*)"], **options}
        self.sql(
            "INSERT INTO runs (state, type, title, run_trigger, options, project, made_by, principal, created,"
            " updated) VALUES"
            f" ('queued', '{kind}', 't', '{{\"type\": \"{kind}\", \"instruction\": \"go\"}}', '{json.dumps(said)}',"
            f" '{self.project}', 'ana', '{role}', '{AT}', '{AT}')",
            role=role or "nexus",
        )

    def serve(self, reply: Callable[[Request], Reply], role: str = "ana") -> list[Run]:
        """What Ana's `nexus serve --once` does."""

        async def once() -> list[Run]:
            with closing(self.open(role)) as ledger:
                runner = Runner(ledger, provider=Played(reply), settings=replace(SETTINGS, runs=HERS), show=show)
                try:
                    return await runner.run_due()
                finally:
                    await runner.aclose()

        return asyncio.run(once())


@pytest.fixture
def team(postgres: Server, tmp_path: Path) -> Iterator[Team]:
    postgres.make_roles()
    project = tmp_path / "project"
    subprocess.run(["git", "init", "-q", project], check=True)
    made = Team(postgres, project)
    made.sql(sharing(str(project), "ana", "ben"), role="nexus")
    yield made
    postgres.drop(made.url)


def writes(request: Request) -> Reply:
    """A model that wants to leave a mark, until it was told no."""
    told = str(request.messages[-1].get("content"))
    return [("bash", {"command": "touch mark"})] if "go" in told and "mark" not in told else "well"


KINDS = ["ask", "repl", "plan", "service", "space_message"]


@pytest.mark.parametrize("kind", sample(KINDS, 3))
def test_a_colleagues_row_never_runs_on_ones_own_machine(team: Team, kind: str) -> None:
    team.insert(kind, "ben")
    assert team.serve(writes) == [] and not (team.project / "mark").exists()
    (run,) = team.serve(writes, role="ben")
    assert run.state in ("done", "failed", "waiting_reply")


@pytest.mark.matrix
@pytest.mark.parametrize("kind", sample(KINDS, 3))
def test_an_older_row_runs_no_command_that_the_machine_does_not_allow(team: Team, kind: str) -> None:
    team.insert(kind)
    (run,) = team.serve(writes)
    assert not (team.project / "mark").exists() and run.state in ("done", "failed", "waiting_reply")


def test_a_run_of_an_unknown_type_is_refused(team: Team) -> None:
    team.insert("zzz", "ana")
    (run,) = team.serve(writes)
    assert not (team.project / "mark").exists() and run.state == "failed"
    assert "unknown run type 'zzz'" in run.error


def test_an_older_row_works_only_in_the_project_that_is_shared(team: Team, tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    team.insert("plan", folder=str(private))
    team.insert("plan", folder="")
    runs = team.serve(lambda request: "well")
    assert [run.state for run in runs] == ["failed"] * 2 and all("not part of the shared" in run.error for run in runs)


DOLLARS = ["1e9", "NaN", "-Infinity", "Infinity"]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("dollars", "kind"),
    # The gate has each amount once, and both kinds.
    sample(
        [(DOLLARS[at], kind) for at in range(4) for kind in (("service", "ask") if at % 2 else ("ask", "service"))], 2
    ),
)
def test_the_dollars_of_a_day_bind_whatever_a_row_says(team: Team, kind: str, dollars: str) -> None:
    for _ in range(3):
        team.insert(kind, max_cost=float(dollars))

    def works_on(request: Request) -> Reply:
        return [("read_file", {"path": f"x{len(request.messages)}"})]

    team.serve(works_on)
    with closing(team.open("ana")) as ledger:
        assert ledger.runs.spent_since("2000") <= HERS.max_cost_day + 0.25, "one request is over before it is counted"


@pytest.mark.matrix
@pytest.mark.parametrize("is_inside", [True, False])
def test_a_colleagues_message_starts_an_agent_with_its_owners_options(
    team: Team, tmp_path: Path, is_inside: bool
) -> None:
    folder, project = str(team.project if is_inside else tmp_path), str(team.project)
    with closing(team.open("ana")) as ledger, closing(team.open("ben")) as theirs:
        agent = ledger.spaces.entity("Bot", AGENT, {"folder": folder, "model": MODEL, "allow": "ask"})
        ben = theirs.spaces.entity("Ben", HUMAN)
        space = ledger.spaces.create("room", AT, project=project, members=[ben, agent])
        ((_, key),) = theirs.spaces.post(theirs.spaces.get(space.key), ben, "go", AT).triggered
    assert team.serve(writes, role="ben") == []
    (run,) = team.serve(writes)
    assert run.key == key and not (team.project / "mark").exists()
    if not is_inside:
        assert run.state == "failed" and "not part of the shared project" in run.error
        return
    with closing(team.open("ana")) as ledger:
        assert ledger.session(run.session).folder == folder


def test_a_nexus_that_a_colleague_made_has_none_of_its_rules_here(team: Team) -> None:
    project = str(team.project)
    forged = {"folder": project, "model": MODEL, "allow": "all", "max_cost": 99.0, "rules": ["bash(*)"]}
    with closing(team.open("ana")) as ledger, closing(team.open("ben")) as theirs:
        nexus, ana = theirs.spaces.entity("nexus", AGENT, forged), ledger.spaces.entity("Ana", HUMAN)
        space = ledger.spaces.create("room", AT, project=project, members=[ana, nexus])
        ((_, key),) = ledger.spaces.post(space, ana, "go", AT).triggered
        said = trust_options(ledger, ledger.runs.get(key))
        bound = UnattendedRules(HERS).bind_options(ledger, replace(ledger.runs.get(key), options=said))
        assert (bound["allow"], bound["max_cost"], bound["rules"]) == ("ask", HERS.max_cost, ())


@pytest.mark.matrix
def test_a_colleague_sees_that_a_run_broke_off_but_not_of_one_that_goes_on(team: Team) -> None:
    team.insert("plan", "ana")
    with closing(team.open("ana")) as ana, closing(team.open("ben")) as ben:
        assert ana.lock("run-1") and ana.runs.claim(1, "here:1", 60.0, AT) is not None
        assert broken_runs(ben, ben.runs.list_runs()) == [] == broken_runs(ana, ana.runs.list_runs())
        ana.unlock("run-1")
        assert [run.id for run in broken_runs(ben, ben.runs.list_runs())] == ["run-1"]


def add_own_plan(ledger: Ledger, team: Team, **options: Any) -> Run:
    """A run of a plan that Ana made."""
    said = {"folder": str(team.project), "model": MODEL, "allow": "ask", **options}
    return ledger.runs.get(fire_now(ledger, add_plan(ledger, NewPlan("go", within="1h", options=said), HERS)))


@pytest.mark.matrix
@pytest.mark.parametrize(("name", "options"), [("nexus", {}), ("coder", {"agent": "coder"})])
def test_a_plan_of_ones_own_keeps_its_rights_whatever_its_agent_may(
    team: Team, tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    with closing(team.open("ana")) as ledger:
        agent = ledger.spaces.entity(name, AGENT, {"folder": str(tmp_path), "allow": "all", "max_cost": 9.0})
        ledger.spaces.create("room", AT, members=[agent])
        run = add_own_plan(ledger, team, max_cost=0.05, **options)
        assert run.entity == agent.key and trust_options(ledger, run) == run.options
        assert (run.options["folder"], run.options["allow"], run.options["max_cost"]) == (
            str(team.project),
            "ask",
            0.05,
        )


@pytest.mark.matrix
@pytest.mark.parametrize("place", sample(["no space", "another space", "a space of another folder"], 3))
@pytest.mark.parametrize("kind", ["plan", "service", "space_message"])
def test_an_older_row_gains_nothing_from_an_agent_of_ones_own(
    team: Team, tmp_path: Path, kind: str, place: str
) -> None:
    with closing(team.open("ana")) as ledger:
        inside = place != "a space of another folder"
        folder = team.project if inside else tmp_path
        agent = ledger.spaces.entity("Bot", AGENT, {"folder": str(folder), "allow": "all", "max_cost": 9.0})
        space = ledger.spaces.create("room", AT, project=str(team.project), members=[] if inside else [agent])
        team.insert(kind, max_cost=5.0)
        where = f", space = {space.key}" if place != "no space" else ""
        team.sql(f"UPDATE runs SET entity = {agent.key}{where}", role="nexus")
        (run,) = ledger.runs.list_runs()
        said = trust_options(ledger, run)
        assert (said["folder"], said["rules"], said["max_cost"]) == (str(team.project), (), 5.0)
        bound = UnattendedRules(HERS).bind_options(ledger, replace(run, options=said))
        assert (bound["allow"], bound["max_cost"]) == ("ask", HERS.max_cost)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["plan", "service", "repl"])
def test_a_run_of_ones_own_keeps_its_rights_once_others_see_it(team: Team, kind: str) -> None:
    """Its session is of the project."""
    with closing(team.open("ana")) as ledger, closing(team.open("ben")) as theirs:
        said = {"folder": str(team.project), "model": MODEL, "max_cost": 0.05, "rules": ["bash(make *)"]}
        run = ledger.runs.get(ledger.runs.queue(kind, "t", {}, said, AT) or 0)
        claimed = ledger.runs.claim(run.key, "here:1", 60.0, AT)
        assert claimed is not None
        project = str(team.project)
        ledger.runs.make_session(claimed, folder=project, project=project, model=MODEL, recipe="run", at=AT)
        assert theirs.runs.get(run.key).options == said, "he sees it"
        assert trust_options(ledger, ledger.runs.get(run.key)) == said


@pytest.mark.matrix
def test_a_colleagues_row_that_names_a_plan_of_ones_own_stops_none_of_its_runs(team: Team) -> None:
    with closing(team.open("ana")) as ledger:
        plan = ledger.plans.add("go", {"folder": str(team.project)}, AT, next_at=1.0)
        team.insert("plan", "ben")
        team.sql(f"UPDATE runs SET plan = {plan.key}", role="nexus")
        (key,) = ledger.plans.fire(plan, None, AT, [("the cause", {})])
        assert ledger.runs.get(key).principal == "ana"


@pytest.mark.matrix
def test_the_dollars_of_a_day_are_those_of_ones_own_runs(team: Team) -> None:
    for role in ("ana", "ben"):
        team.insert("plan", role, max_cost=0.5)
        team.serve(lambda request: "well", role=role)
    with closing(team.open("ana")) as ledger:
        (spent,) = ledger.db.all("SELECT sum(cost) FROM requests")
        assert 0 < ledger.runs.spent_since("2000") < spent[0]


@pytest.mark.matrix
def test_an_older_row_that_names_a_plan_of_ones_own_has_none_of_its_rules(team: Team) -> None:
    with closing(team.open("ana")) as ledger:
        own = add_own_plan(ledger, team, rules=["bash(make *)"])
        ledger.runs.cancel(own.key, AT)
        team.insert("plan")
        team.sql(f"UPDATE runs SET plan = {own.plan} WHERE state = 'queued'", role="nexus")
        (run,) = ledger.runs.list_runs(["queued"])
        assert run.plan == own.plan and trust_options(ledger, run)["rules"] == ()


def asks(request: Request) -> Reply:
    """A model that wants to leave a mark, and asks again whenever it was not allowed to."""
    told = str(request.messages[-1].get("content"))
    has_run = any(word in told for word in ("denied", "(no output)", "exit"))
    return "well" if has_run else [("bash", {"command": "touch mark"})]


@pytest.mark.matrix
def test_only_who_was_asked_approves_a_call_on_their_machine(team: Team) -> None:
    mark = team.project / "mark"
    with closing(team.open("ana")) as ledger:
        add_own_plan(ledger, team, ask=True)
    (run,) = team.serve(asks)
    assert run.state == WAITING and run.waits is not None and run.waits.kind == APPROVAL
    with closing(team.open("ben")) as theirs:
        seen = theirs.runs.get(run.key)
        with pytest.raises(NexusError, match="this run belongs to ana"):
            answer_run(theirs, seen, ["session"])
        value = {"answers": {one["call"]: {"answer": "session"} for one in run.waits.value["questions"]}}
        theirs.runs.signal(run.key, APPROVAL, value, AT)  # as by SQL
    (again,) = team.serve(asks)
    assert not mark.exists() and again.state == WAITING, "it asks again"
    with closing(team.open("ana")) as ledger:
        assert answer_run(ledger, again, ["yes"])
    (ended,) = team.serve(asks)
    assert mark.exists() and ended.state == "done"


@pytest.mark.matrix
def test_a_question_is_left_to_the_machine_of_who_is_asked(team: Team) -> None:
    with closing(team.open("ana")) as ledger:
        add_own_plan(ledger, team, ask=True)
    (run,) = team.serve(asks)
    with closing(team.open("ana")) as ledger, closing(team.open("ben")) as theirs:
        assert waiting_runs(ledger, team.project) == [run] and not waiting_runs(theirs, team.project)
        assert ledger.runs.is_own(run) and answer_run(ledger, run, ["yes"])
    with closing(team.open("ben")) as theirs:
        assert not theirs.runs.is_own(theirs.runs.get(run.key))
    assert team.serve(asks, role="ben") == [] and not (team.project / "mark").exists()


def test_all_runs_are_only_ones_own(team: Team) -> None:
    with closing(team.open("ana")) as ledger, closing(team.open("ben")) as theirs:
        run = add_own_plan(ledger, team)
        claimed = ledger.runs.claim(run.key, "here:1", 60.0, AT)
        assert claimed is not None
        project = str(team.project)
        ledger.runs.make_session(claimed, folder=project, project=project, model=MODEL, recipe="run", at=AT)
        own = theirs.runs.queue("service", "t", {}, {"folder": project}, AT)
        assert theirs.runs.get(run.key), "he sees it"
        selected = select_runs(ShellSource(lambda: theirs), "", True, "", "", "")
        assert [one.key for one in selected] == [own]
        assert [one.key for one in select_runs(ShellSource(lambda: ledger), "", True, "", "", "")] == [run.key]


def test_a_pause_of_a_space_is_for_ones_own_runs_there_and_a_resumption_of_anothers_is_refused(team: Team) -> None:
    with closing(team.open("ana")) as ledger, closing(team.open("ben")) as theirs:
        hers, his = ledger.spaces.entity("Bot", AGENT), theirs.spaces.entity("Ping", AGENT)
        space = ledger.spaces.create("room", AT, project=str(team.project), members=[hers])
        ben = theirs.spaces.entity("Ben", HUMAN)
        theirs.spaces.join(space, ben)
        theirs.spaces.join(space, his)
        theirs.spaces.post(theirs.spaces.get(space.key), ben, "@Bot and @Ping go", AT)
        pause_run(ShellSource(lambda: theirs), space="room")
        assert {run.entity: run.is_paused for run in ledger.runs.list_runs()} == {hers.key: False, his.key: True}
        (run,) = ledger.runs.list_runs(entity=hers.key)
        with pytest.raises(NexusError, match="this run belongs to ana"):
            require_own(theirs, run)
        with pytest.raises(NexusError, match="belongs to another user"):
            find_agent(theirs, SETTINGS, "Bot", team.project)
