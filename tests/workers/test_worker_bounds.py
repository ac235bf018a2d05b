"""What could get around a worker's bounds: rights wider than its session's, money that is counted twice or not at all,
a kill between any two commits."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from search import sample
from session.played import MODEL
from workers.crew import SETTINGS, Crew, Person, calls_made, content, crewed, doing, handing, results, run

from nexus_cli.config.paths import places
from nexus_cli.config.settings import AssessSettings
from nexus_cli.core.approval import Allow, Answer, Question
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.event import AgentEvent, TurnEnd
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import Request
from nexus_cli.engine.calls.dispatch import Dispatcher
from nexus_cli.engine.requests.engine import Engine
from nexus_cli.ledger import Ledger, SessionInfo, database
from nexus_cli.service_list import WORKERS
from nexus_cli.session import assessment
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.workers import workers as workers_module
from nexus_cli.workers.workers import SessionWorkers

WRITE = [("write_file", {"path": "a.txt", "content": "x"})]
LASTING = {"task": "ONE", "recipe": "lasting"}
"""A worker that goes on after its report."""


@pytest.fixture(autouse=True)
def recipes() -> None:
    """Recipes of the person."""
    folder = places().config / "recipes"
    folder.mkdir(parents=True)
    (folder / "lasting.toml").write_text('description = "It goes on"\n')
    (folder / "reader.toml").write_text('description = "It reads"\n[limits]\nallow = "read"\n')
    (folder / "few.toml").write_text('description = "Few tools"\n[limits]\ntools = ["agent", "read_file"]\n')


# Rights


def test_a_worker_has_only_the_tools_that_its_call_and_its_parents_recipe_name(tmp_path: Path) -> None:
    task = {"task": "ONE", "limits": {"tools": ["read_file"]}}
    events, _ = run(crewed(Crew({"ONE": doing(WRITE, "tried"), "root": handing(task)}), tmp_path), "root")
    assert not (tmp_path / "a.txt").exists() and "1 call refused" in results(events)[0]
    crew = Crew({"ONE": doing(WRITE, "tried"), "root": handing("ONE")})
    events, _ = run(crewed(crew, tmp_path, recipe="few"), "root")
    assert not (tmp_path / "a.txt").exists() and "1 call refused" in results(events)[0]


@pytest.mark.parametrize("task", sample(["ONE", "MIDDLE"], 2))
def test_a_level_chosen_while_workers_run_reaches_no_further_for_them_than_for_their_parent(
    task: str, tmp_path: Path
) -> None:
    def one(request: Request) -> Any:
        if calls_made(request):
            return "tried"
        session.set_level("all")
        return WRITE

    crew = Crew({"ONE": one, "MIDDLE": handing("ONE"), "root": handing(task)})
    session = crewed(crew, tmp_path, recipe="reader", allow="ask")
    run(session, "root")
    assert session.status().allow == "ask" and not (tmp_path / "a.txt").exists()


def test_what_a_turn_was_assessed_to_confirm_its_workers_confirm_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def assessed(engine: Engine, dispatcher: Dispatcher, words: str) -> Limits:
        return Limits(confirm=True if words == "root" else None)

    monkeypatch.setattr(assessment, "assess", assessed)
    crew = Crew({"ONE": doing(WRITE, "tried"), "root": handing("ONE")})
    session = crewed(crew, tmp_path, settings=replace(SETTINGS, assess=AssessSettings(MODEL)))
    events, _ = run(session, "root")
    assert not (tmp_path / "a.txt").exists() and "1 call refused" in results(events)[0]


@pytest.mark.matrix
def test_what_is_allowed_for_good_in_a_worktree_is_not_allowed_in_the_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "b.txt").write_text("b")
    for git in (["init", "-q"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "first"]):
        subprocess.run(["git", *git], cwd=project, check=True)
    person = Person(lambda question: Allow(always=True))
    crew = Crew({"ONE": doing(WRITE, "tried"), "root": handing({"task": "ONE", "worktree": True})})
    session = crewed(crew, project, allow="ask", approver=person)
    events, _ = run(session, "root")
    assert len(person.asked) == 1 and "changed a.txt" in results(events)[0]
    assert not session.dispatcher.always and not (project / "a.txt").exists()


def test_a_session_that_reads_no_files_gets_none_by_naming_them_to_a_worker(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("inside = 1\n")
    (places().config / "recipes" / "blind.toml").write_text('description = "x"\n[limits]\ntools = ["agent"]\n')
    crew = Crew({"ONE": doing("seen"), "root": handing({"task": "ONE", "files": ["a.py"]})})
    run(crewed(crew, tmp_path, recipe="blind"), "root")
    sent = str(next(request for role, request in crew.seen if role == "ONE").messages)
    assert "inside = 1" not in sent and "a.py: not shown (this run is not allowed to read files)" in sent


@pytest.mark.matrix
def test_an_answer_for_good_answers_the_same_question_of_other_workers(tmp_path: Path) -> None:
    asked: list[Question] = []
    both = asyncio.Event()

    class Slow:
        async def ask(self, question: Question) -> Answer:
            asked.append(question)
            if len(asked) == 2:
                both.set()
            await asyncio.wait_for(both.wait(), 120)
            if question is not asked[0]:
                await asyncio.Event().wait()
            return Allow(always=True)

    touch = [("bash", {"command": "touch made"})]
    crew = Crew({"ONE": doing(touch, "1"), "TWO": doing(touch, "2"), "root": handing("ONE", "TWO")})
    events, outcome = run(crewed(crew, tmp_path, allow="ask", approver=Slow(), limits=Limits(timeout=600)), "root")
    assert outcome.ok and {one.agent for one in asked} == {"w1", "w2"}
    assert all("refused" not in one for one in results(events))


def test_a_run_that_hands_nothing_over_lets_no_earlier_worker_go_on(tmp_path: Path) -> None:
    run(crewed(Crew({"ONE": doing("1"), "root": handing(LASTING)}), tmp_path), "root")
    crew = Crew({"ONE": doing("never"), "root": steers})
    session = crewed(crew, tmp_path, _root().id, limits=Limits(max_steps=9, sub_agents=False))
    events, _ = run(session, "steer it")
    assert "this run is not allowed to start workers" in results(events, "agents")[0]
    assert {role for role, _ in crew.seen} == {"root"}


def test_a_fork_reads_the_workers_of_its_source_and_does_not_use_them(tmp_path: Path) -> None:
    run(crewed(Crew({"ONE": doing("1"), "root": handing(LASTING)}), tmp_path), "root")
    source = _root().id
    with closing(Ledger.open(places().ledger)) as ledger:
        fork = ledger.fork_session(source, at="2026-01-01T00:00:00Z").id
    crew = Crew({"ONE": doing("never"), "root": steers})
    events, _ = run(crewed(crew, tmp_path, fork), "steer it")
    assert f"w1 belongs to session {source}, of which this session is a copy" in results(events, "agents")[0]
    assert {role for role, _ in crew.seen} == {"root"}


# Money


@pytest.mark.matrix
@pytest.mark.parametrize("nested", [False, True])
def test_a_stopped_run_counts_what_its_workers_in_the_background_used(nested: bool, tmp_path: Path) -> None:
    async def slow(request: Request) -> Any:
        if not calls_made(request):
            return [("bash", {"command": "echo half"})]
        session.cancel("person")
        await asyncio.sleep(60)

    behind = {"task": "ONE", "wait": False}
    crew = Crew({"ONE": slow, "MIDDLE": handing(behind), "root": handing("MIDDLE" if nested else behind)})
    session = crewed(crew, tmp_path)
    _, outcome = run(session, "root")
    assert outcome.error and outcome.error["kind"] == "aborted"
    assert outcome.usage.cost_usd == pytest.approx(_root().cost_usd)
    answers = 1.0 if nested else 0.75
    assert answers < (outcome.usage.cost_usd or 0) < answers + 0.01, "and the estimate of the request that was stopped"


@pytest.mark.matrix
async def test_a_worker_that_is_steered_while_it_closes_is_paid_for_once_each_time(tmp_path: Path) -> None:
    steered: list[asyncio.Task[Any]] = []
    is_steered = asyncio.Event()

    async def root(request: Request) -> Any:
        if not calls_made(request):
            return [("agent", LASTING | {"wait": False})]
        async with asyncio.timeout(300):
            await is_steered.wait()
            await steered[0]
        return "over"

    session = crewed(Crew({"ONE": doing("heard"), "root": root}), tmp_path, interactive=True, front="chat")

    try:
        async for one in session.run("root"):
            if isinstance(one, AgentEvent) and isinstance(one.event, TurnEnd) and not steered:
                assert session.workers is not None
                steered.append(asyncio.create_task(session.workers.steer("w1", "more")))
                is_steered.set()
    finally:
        await session.aclose()
    spending = session.engine.spending
    assert spending.worker_steps == 2 and spending.reserved == {}
    assert spending.usage.cost_usd == pytest.approx(_root().cost_usd) == pytest.approx(1.0)


@pytest.mark.matrix
def test_a_report_that_was_read_is_not_sent_and_paid_for_again(tmp_path: Path) -> None:
    def root(request: Request) -> Any:
        step = calls_made(request)
        more = [("agents", {"action": "steer", "agent": "w1", "text": f"more {step}"})]
        return [[("agent", LASTING | {"wait": False})], [("bash", {"command": "sleep 0.3"})], more, more, "over"][step]

    crew = Crew({"ONE": doing("heard"), "root": root})
    _, outcome = run(crewed(crew, tmp_path), "root")
    assert outcome.text == "over" and [role for role, _ in crew.seen].count("root") == 5
    assert outcome.usage.cost_usd == pytest.approx(_root().cost_usd) == pytest.approx(2.0)


@pytest.mark.matrix
async def test_a_worker_steered_between_two_turns_has_a_time_limit_of_its_own(tmp_path: Path) -> None:
    crew = Crew({"ONE": doing("heard"), "root": handing(LASTING)})
    session = crewed(crew, tmp_path, limits=Limits(max_steps=9, timeout=600), interactive=True, front="chat")

    try:
        async for _ in session.run("root"):
            pass
        session._control.deadline = time.monotonic() - 1.0
        assert session.workers is not None
        worker: Any = session.workers.find("w1")
        said = await session.workers.steer("w1", "more")
    finally:
        await session.aclose()
    assert said.text.endswith("heard") and 0 < worker.scope.timeout <= 600, "0 would be none"


@pytest.mark.matrix
def test_the_steps_of_a_workers_own_workers_come_out_of_its_parents_limit(tmp_path: Path) -> None:
    step = [("glob", {"pattern": "*"})]
    crew = Crew(
        {
            "LEAF": doing(step, [("glob", {"pattern": "a"})], "leaf"),
            "MIDDLE": handing("LEAF"),
            "root": handing("MIDDLE"),
        }
    )
    session = crewed(crew, tmp_path, limits=Limits(max_steps=200))
    run(session, "root")
    spending = session.engine.spending
    assert (spending.steps, spending.worker_steps) == (2, 5) and len(crew.seen) == 7


@pytest.mark.matrix
def test_a_stop_while_workers_are_stopped_loses_no_sum(tmp_path: Path) -> None:
    async def slow(request: Request) -> Any:
        if not calls_made(request):
            return [("glob", {"pattern": "*"})]
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            asyncio.get_running_loop().call_soon(session.cancel, "person")
            await asyncio.sleep(0.05)

    async def root(request: Request) -> Any:
        if not calls_made(request):
            return [("agent", {"task": "ONE", "wait": False})]
        await begun.wait()
        raise ProviderError("auth", "no key any more")

    begun = asyncio.Event()
    session = crewed(Crew({"ONE": slow, "root": root}), tmp_path)
    _, outcome = run(session, "root")
    assert outcome.error and outcome.error["kind"] == "auth"
    assert outcome.usage.cost_usd == pytest.approx(_root().cost_usd)
    assert 0.5 < (outcome.usage.cost_usd or 0) < 0.51, "two answers, and the estimate of the request that was stopped"


@pytest.mark.matrix
def test_workers_without_end_leave_their_session_a_step(tmp_path: Path) -> None:
    behind = [{"task": f"TASK {number}", "wait": False} for number in range(50)]
    crew = Crew({"TASK": doing("x"), "root": handing(*behind)})
    events, outcome = run(crewed(crew, tmp_path, limits=Limits(max_steps=30)), "root")
    assert any("too little budget is left for a worker" in one for one in results(events))
    assert outcome.ok, outcome.error


def test_workers_that_let_their_own_go_on_do_not_wait_for_each_others_place(tmp_path: Path) -> None:
    both, heard = asyncio.Event(), list[str]()

    async def middle(request: Request) -> Any:
        if "AGAIN" in content(request):
            heard.append("")
            if len(heard) == 2:
                both.set()
            await asyncio.wait_for(both.wait(), 120)
            return [("agents", {"action": "steer", "agent": "", "text": "more"})]
        return "told" if calls_made(request) else [("agent", {"task": "LEAF", "recipe": "lasting"})]

    again = [("agents", {"action": "steer", "agent": name, "text": "AGAIN"}) for name in ("w1", "w2")]
    tasks = [[("agent", {"task": f"MIDDLE {number}", "recipe": "lasting"})] for number in (1, 2)]
    crew = Crew({"LEAF": doing("leaf"), "MIDDLE": middle, "root": doing(*tasks, again, "over")})
    limits = Limits(max_steps=100, sub_agent_budget=2, timeout=600)
    _, outcome = run(crewed(crew, tmp_path, limits=limits), "root")
    assert outcome.ok and outcome.text == "over", outcome.error


# Failures and kills


def test_a_bug_in_starting_a_worker_is_its_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks(*_: Any) -> str:
        raise OSError("disk")

    monkeypatch.setattr(workers_module, "first_message", breaks)
    events, outcome = run(crewed(Crew({"ONE": doing("x"), "root": handing("ONE")}), tmp_path), "root")
    assert outcome.ok and "w1 failed: a bug in nexus: OSError" in results(events)[0]


def test_workers_killed_before_they_began_have_never_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three have their sessions, two wait for a place; none of them was told its task."""

    def root(request: Request) -> Any:
        return [("agent", {"task": f"TASK {number}", "wait": False}) for number in range(5)]

    async def dies(*_: Any) -> str:
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    child = os.fork()
    if not child:
        try:
            monkeypatch.setattr(workers_module, "first_message", dies)
            run(crewed(Crew({"TASK": doing("x"), "root": root}), tmp_path), "root")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    crew = Crew({"TASK": doing("never"), "root": steers})
    session = crewed(crew, tmp_path, _root().id)
    assert [(one.id, one.state) for one in SessionWorkers(session).all()] == [(f"w{n}", "stopped") for n in range(1, 6)]
    events, _ = run(session, "steer it")
    assert results(events, "agents") == ["w1 never started. Start another worker."]
    assert {role for role, _ in crew.seen} == {"root"}


@pytest.mark.matrix
@pytest.mark.parametrize("number", sample(range(4, 43, 3), 12, 12))
def test_whichever_commit_is_the_last_each_request_is_paid_for_once(number: int, tmp_path: Path) -> None:
    def crew(root: Any) -> Crew:
        step = [("glob", {"pattern": "half"})]
        return Crew({"ONE": doing(step, "report 1"), "TWO": doing(step, "report 2"), "root": root})

    child = os.fork()
    if not child:
        commits, commit = itertools.count(1), database.commit

        def dies(connection: Any) -> None:
            commit(connection)
            if next(commits) == number:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            database.commit = dies
            run(crewed(crew(handing("ONE", "TWO")), tmp_path), "root")
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    root = _root().id
    with closing(Ledger.open(places().ledger)) as ledger:
        before = ledger.usage(root)
        for held in (root, *(worker.id for worker in ledger.workers(root))):
            while not ledger.lock(held):  # a process that the killed one was about to start has its locks till then
                time.sleep(0.01)
        logs = [ledger.log(worker.id) for worker in ledger.workers(root)]
        last = [log.read(log.last_id(), log.last_id())[0].message.content for log in logs if log.last_id()]

    def goes_on(request: Request) -> Any:
        said = [str(one["content"]) for one in request.messages if one["role"] == "tool"]
        if not said:
            return [("agent", {"task": "ONE"}), ("agent", {"task": "TWO"})]
        cut_off = [name for name in ("w1", "w2") if f"nexus exited while {name} worked" in str(said)]
        if len(said) > 2 or not cut_off:
            return "over"
        return [("agents", {"action": "steer", "agent": name, "text": "go on"}) for name in cut_off]

    resumed = crew(goes_on)
    events, outcome = run(crewed(resumed, tmp_path, root), "")
    assert outcome.ok and all("report" in one for one in results(events, "agents"))
    roles = [role for role, _ in resumed.seen]
    assert not ("report 1" in last and "ONE" in roles) and not ("report 2" in last and "TWO" in roles)
    with closing(Ledger.open(places().ledger)) as ledger:
        assert ledger.usage(root) == before + outcome.usage
        assert ledger.usage(root).cost_usd == pytest.approx(ledger.session(root).cost_usd)


@pytest.mark.matrix
def test_of_a_killed_run_in_the_background_the_resumed_one_is_told(tmp_path: Path) -> None:
    """One worker has ended, one is at work; the run has read neither report."""
    child = os.fork()
    if not child:

        async def slow(request: Request) -> Any:
            if calls_made(request):
                os.kill(os.getpid(), signal.SIGKILL)
            return [("bash", {"command": "sleep 0.3"})]

        async def late(request: Request) -> Any:
            await asyncio.sleep(20 if calls_made(request) else 0)
            return [("agent", {"task": one, "wait": False}) for one in ("ONE", "TWO")]

        try:
            run(crewed(Crew({"ONE": doing("the report"), "TWO": slow, "root": late}), tmp_path), "root")
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    def reads(request: Request) -> Any:
        return "over" if "the report" in content(request) else [("agents", {"action": "read", "agent": "w1"})]

    told = []
    for _ in range(2):
        crew = Crew({"root": reads})
        run(crewed(crew, tmp_path, _root().id), "go on")
        told.append(next(str(one["content"]) for one in reversed(crew.seen[0][1].messages) if one["role"] == "user"))
    assert "worker w1 finished" in told[0] and "worker w2 interrupted: nexus exited" in told[0]
    assert "worker w" not in told[1], "what a message has told is not told again"
    with closing(Ledger.open(places().ledger)) as ledger:
        two = ledger.usage(ledger.workers(_root().id)[1].id)
    rows = {row["id"]: row for row in SessionWorkers(crewed(Crew({}), tmp_path, _root().id)).rows()}
    assert rows["w2"]["tokens"] == two.input + two.output > 2010, "with the request that the kill cut off"


@pytest.mark.matrix
def test_a_worker_steered_after_a_switch_of_model_begins_an_epoch_of_the_new_one(tmp_path: Path) -> None:
    other = "openai/other"
    settings = replace(SETTINGS, models={**SETTINGS.models, other: SETTINGS.models[MODEL]})
    run(crewed(Crew({"ONE": doing("1"), "root": handing(LASTING)}), tmp_path, settings=settings), "root")
    crew = Crew({"ONE": doing("went on"), "root": steers})
    options = Options(tmp_path, other, resume=_root().id, allow="all", limits=Limits(max_steps=9))
    session = open_session(options, settings, approver=None, provider=crew, services=(WORKERS,))
    events, _ = run(session, "steer it")
    assert results(events, "agents")[0].endswith("went on")
    sent = dict(crew.seen)
    assert sent["ONE"].messages[0] == sent["root"].messages[0] and sent["ONE"].tools == sent["root"].tools
    with closing(Ledger.open(places().ledger)) as ledger:
        epoch = ledger.log(ledger.workers(_root().id)[0].id).current_epoch()
    assert epoch is not None and epoch.model == other


def steers(request: Request) -> Any:
    """A resumed parent: steers its first worker when it is told to, then ends."""
    due = request.messages[-1]["role"] == "user" and "steer it" in content(request)
    return [("agents", {"action": "steer", "agent": "w1", "text": "more"})] if due else "over"


def _root() -> SessionInfo:
    with closing(Ledger.open(places().ledger)) as ledger:
        return ledger.sessions()[0]
