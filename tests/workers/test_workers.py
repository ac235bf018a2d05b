"""Workers of a session: side by side, within their parent's budget and rights, and nothing of them is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from search import sample
from workers.crew import (
    SETTINGS,
    Crew,
    Person,
    Reply,
    calls_made,
    content,
    crewed,
    doing,
    handing,
    of_worker,
    results,
    run,
)
from worktrees.repository import make_project

from nexus_cli.commands.forms import find_form
from nexus_cli.config.hook_tables import HookTable
from nexus_cli.config.paths import places
from nexus_cli.core.approval import Allow, Deny
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import AgentEvent, Notice, StepStart, ToolCallEvent, ToolResultEvent, TurnEnd, WorkerState
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import Request
from nexus_cli.core.usage import Usage
from nexus_cli.engine.requests import spending
from nexus_cli.ledger import Ledger
from nexus_cli.reports.event_texts import describe_worker
from nexus_cli.reports.timeline import session_timeline
from nexus_cli.service_list import WORKERS
from nexus_cli.session.factory import open_session
from nexus_cli.workers.worker import Worker
from nexus_cli.workers.workers import MOST_DEPTH, SessionWorkers
from nexus_cli.worktrees.apply_worktree import apply_worktree
from nexus_cli.worktrees.worktrees import diff_worktree, list_worktrees


def test_workers_of_one_message_run_side_by_side_and_report_in_call_order(tmp_path: Path) -> None:
    both: list[str] = []
    met = asyncio.Event()

    async def meets(request: Request) -> str:
        both.append("here")
        await asyncio.wait_for(met.wait() if len(both) < 2 else _set(met), 120)
        return f"report on {'ONE' if 'ONE' in str(request.messages) else 'TWO'}"

    crew = Crew({"ONE": meets, "TWO": meets, "root": handing("ONE", "TWO")})
    events, outcome = run(crewed(crew, tmp_path), "root")
    assert outcome.ok and outcome.text == "all is done" and outcome.steps == 2
    first, second = results(events)
    assert first.startswith("[w1 · finished · 1 step") and first.endswith("report on ONE")
    assert second.startswith("[w2 · finished") and second.endswith("report on TWO")
    assert [type(one) for one in of_worker(events, "w1")][-2:] == [TurnEnd, WorkerState]
    assert {one.lane for one in events if isinstance(one, AgentEvent)} == {
        one.id for one in _ledger_workers(_root_id())
    }


@pytest.mark.matrix
def test_a_worker_is_a_row_of_the_timeline_and_its_own_session_was_begun_by_an_agent(tmp_path: Path) -> None:
    run(crewed(Crew({"ONE": doing("1"), "root": handing("ONE")}), tmp_path), "root")
    with closing(Ledger.open(places().ledger)) as ledger:
        value = session_timeline(ledger, _root_id())
        (row,) = (row for row in value["rows"] if row["kind"] == "worker")
        own = session_timeline(ledger, str(row["session"]))
    (worker,) = _ledger_workers(_root_id())
    assert (row["worker"], row["session"], row["state"], row["text"]) == ("w1", worker.id, "finished", "ONE")
    assert row["actor"]["type"] == "agent" and row["cost_usd"] == worker.cost_usd
    assert row["at"] >= own["rows"][-1]["at"], "it says that the worker has finished"
    assert worker.id in find_form("timeline")(value, 80) and "worker w1" in find_form("timeline")(value, 80)
    begun = next(row for row in own["rows"] if row["kind"] == "user")
    assert begun["trigger"] == {"type": "worker"} and begun["actor"]["type"] == "agent" and begun["text"] == "ONE"
    assert own["totals"]["tokens"] < value["totals"]["tokens"]


def test_a_workers_first_request_begins_with_its_parents_bytes(tmp_path: Path) -> None:
    narrow = {"task": "TWO", "limits": {"tools": []}}
    crew = Crew({"ONE": doing("1"), "TWO": doing("2"), "root": handing("ONE", narrow)})
    run(crewed(crew, tmp_path), "root")
    by_role = {name: [request for role, request in crew.seen if role == name] for name in ("root", "ONE", "TWO")}
    parent, one, two = by_role["root"][0], by_role["ONE"], by_role["TWO"]
    for request in (*one, *two):
        assert request.messages[0] == parent.messages[0] and request.messages[0]["role"] == "system"
        assert request.tools == parent.tools
    assert "# Task\nONE" in one[0].messages[1]["content"] and len(one[0].messages) == 2


def test_the_rules_of_a_worker_stand_in_its_first_message(tmp_path: Path) -> None:
    recipes = places().config / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "judge.toml").write_text('description = "It judges"\n[overrides]\ncontract = "Judge, change nothing."\n')
    tasks = ({"task": "ONE"}, {"task": "TWO", "recipe": "judge"})
    crew = Crew({"ONE": doing("1"), "TWO": doing("2"), "root": handing(*tasks)})
    run(crewed(crew, tmp_path), "root")
    first = {role: str(request.messages[1]["content"]) for role, request in crew.seen if role != "root"}
    for text in first.values():
        assert text.index("You are a worker.") < text.index("Your last message is the report.") < text.index("# Task")
    assert "# Role\nJudge, change nothing." in first["TWO"] and "# Role" not in first["ONE"]


def test_named_files_come_with_the_task_where_they_may_be_read_unasked(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside.txt"
    project.mkdir()
    (project / "a.py").write_text("inside = 1\n")
    outside.write_text("not for you")
    task = {"task": "ONE", "files": ["a.py", str(outside), "gone.py"]}
    crew = Crew({"ONE": doing("seen"), "root": handing(task)})
    run(crewed(crew, project, allow="ask"), "root")
    sent = next(request for role, request in crew.seen if role == "ONE").messages[1]["content"]
    assert "inside = 1" in sent and "not for you" not in sent
    assert f"{outside}: not shown (reading it needs permission)" in sent and "gone.py: not shown" in sent


def test_hooks_decide_on_the_files_that_come_with_a_task(tmp_path: Path) -> None:
    for name in ("secret.txt", "open.txt"):
        (tmp_path / name).write_text(f"inside {name}")
    guard = HookTable("PreToolUse", "grep -q secret && { echo keep out >&2; exit 2; }; exit 0", matcher="read_file")
    crew = Crew({"ONE": doing("seen"), "root": handing({"task": "ONE", "files": ["secret.txt", "open.txt"]})})
    run(crewed(crew, tmp_path, settings=replace(SETTINGS, hook=(guard,))), "root")
    sent = next(request for role, request in crew.seen if role == "ONE").messages[1]["content"]
    assert "inside open.txt" in sent and "inside secret.txt" not in sent
    assert "secret.txt: not shown (hook" in sent and "keep out" in sent


# Budget


@pytest.mark.matrix
def test_a_budget_is_reserved_before_the_worker_starts_and_the_rest_is_given_back(tmp_path: Path) -> None:
    held: list[Limits] = []

    def looks(request: Request) -> str:
        held.append(session.engine.spending.reserved["w1"])
        return "done"

    crew = Crew({"ONE": looks, "root": handing("ONE")})
    session = crewed(crew, tmp_path, limits=Limits(max_steps=41, max_total_tokens=60_000, max_cost=4.0))
    _, outcome = run(session, "root")
    assert outcome.ok, outcome.error
    (part,) = held
    assert part.max_steps == 30 and part.max_cost == pytest.approx((4.0 - 0.25) * 3 / 4)
    assert part.max_total_tokens == int((60_000 - 2010) * 3 / 4)
    (sent,) = [content(request) for role, request in crew.seen if role == "ONE"]
    assert "- Your budget: 30 requests, 43,492 tokens, $2.81." in sent
    spending = session.engine.spending
    assert spending.reserved == {} and spending.worker_steps == 1
    assert outcome.usage == Usage(6000, 30, cost_usd=0.75), "the parent's is the sum"
    with closing(Ledger.open(places().ledger)) as ledger:
        root = ledger.sessions()[0]
        assert root.cost_usd == pytest.approx(0.75) and ledger.workers(root.id)[0].cost_usd == pytest.approx(0.25)


def test_what_workers_hold_nobody_else_can_spend(tmp_path: Path) -> None:
    asked = {"task": "ONE", "limits": {"max_steps": 100}}
    busy = lambda request: [("bash", {"command": f"echo {calls_made(request)}"})]  # noqa: E731
    crew = Crew({"ONE": busy, "root": handing(asked, "TWO"), "TWO": doing("x")})
    events, outcome = run(crewed(crew, tmp_path, limits=Limits(max_steps=6)), "root")
    one, two = results(events)
    assert "w1 failed: limit max_steps reached" in one, "five were left, and it wanted a hundred"
    assert "no worker was started: limit max_steps reached" in two
    assert outcome.ok and outcome.text == "all is done", "one step stays for reading the reports"


@pytest.mark.matrix
def test_workers_of_one_message_get_equal_parts(tmp_path: Path) -> None:
    names = [f"TASK {number} " for number in range(8)]
    looks = [("glob", {"pattern": "*"})]
    crew = Crew(
        {"TASK": doing(looks, looks, looks, "found"), "root": handing(*names)}, usage=Usage(2000, 10, cost_usd=0.01)
    )
    session = crewed(crew, tmp_path, limits=Limits(max_steps=60, max_cost=4.0))
    events, outcome = run(session, "root")
    assert outcome.ok and all("finished" in one and one.endswith("found") for one in results(events))
    told = {str(one.get("content")) for role, request in crew.seen if role == "TASK" for one in request.messages}
    budgets = {line for text in told for line in text.splitlines() if "Your budget" in line}
    assert len(budgets) == 1 and "5 requests, $0.37" in budgets.pop(), budgets


@pytest.mark.matrix
@pytest.mark.parametrize(("most", "workers", "began"), [(3, 1, 0), (4, 1, 1), (6, 5, 1)])
def test_a_worker_that_begins_has_a_request_to_work_and_one_to_report(
    most: int, workers: int, began: int, tmp_path: Path
) -> None:
    looks = [("glob", {"pattern": "*"})]
    crew = Crew({"TASK": doing(looks, "found"), "root": handing(*[f"TASK {number}" for number in range(workers)])})
    events, outcome = run(crewed(crew, tmp_path, limits=Limits(max_steps=most)), "root")
    done = [one for one in results(events) if one.endswith("found")]
    refused = [one for one in results(events) if "too little budget is left for a worker" in one]
    assert outcome.ok and len(done) == began and len(done) + len(refused) == workers, results(events)


def works_until_told(request: Request) -> Any:
    """A worker that runs one command after the other until its budget has one request left."""
    if "last request of your budget" in str(request.messages[-1]["content"]):
        return "half of it"
    return [("bash", {"command": f"echo {calls_made(request)}"})]


@pytest.mark.matrix
def test_a_worker_reports_with_the_last_request_of_its_budget(tmp_path: Path) -> None:
    crew = Crew({"ONE": works_until_told, "root": handing({"task": "ONE", "limits": {"max_steps": 9}})})
    events, outcome = run(crewed(crew, tmp_path), "root")
    (report,) = results(events)
    assert outcome.ok and "9 steps" in report and report.endswith("half of it")
    words = "its budget was used up; the work may be unfinished"
    assert words in report
    assert words in [one.result.warning for one in events if isinstance(one, ToolResultEvent)], "no tick for it"
    messages = next(request.messages for role, request in crew.seen if role == "ONE")
    told = [str(one.get("content")) for one in messages if one["role"] == "tool"]
    assert [number for number, text in enumerate(told, 1) if "5 requests are left" in text] == [4]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("limits", "told"),
    sample(
        [
            ({"max_cost": 1.1}, "$0.8500 left"),
            ({"max_total_tokens": 15_000}, "tokens left"),
            ({"timeout": 1e3}, "s left"),
        ],
        3,
    ),
)
def test_a_worker_is_told_when_its_budget_ends_soon_and_reports_before_it_does(
    limits: dict[str, Any], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed, monotonic = [0.0], time.monotonic
    monkeypatch.setattr(spending, "time", SimpleNamespace(monotonic=lambda: monotonic() + passed[0]))

    def slow(request: Request) -> Any:
        passed[0] += 70.0
        return works_until_told(request)

    crew = Crew({"ONE": slow, "root": handing({"task": "ONE", "limits": limits})})
    events, _ = run(crewed(crew, tmp_path), "root")
    assert results(events)[0].endswith("half of it") and "used up" in results(events)[0]
    messages = [str(one.get("content")) for one in crew.seen[-2][1].messages]
    assert sum("The budget of this task is nearly used up" in text and told in text for text in messages) == 1, messages


@pytest.mark.matrix
def test_a_worker_that_its_time_limit_cuts_in_a_command_says_what_it_did(tmp_path: Path) -> None:
    files = ("write_file", {"path": "a.txt", "content": "x"}), ("bash", {"command": "exit 3"})
    work = doing([*files], [("bash", {"command": "echo half; sleep 60"})], "never said")
    crew = Crew({"ONE": work, "root": handing({"task": "ONE"})})
    events, outcome = run(crewed(crew, tmp_path, limits=Limits(max_steps=40, timeout=10)), "root")
    (report,) = results(events)
    assert outcome.ok and outcome.text == "all is done", "its parent has the time to read it"
    assert "2 steps" in report and "failed: exit 3 (exit 3) · changed while it worked: a.txt · " in report, report
    assert (
        "It did not finish its report. Last activity: bash echo half; sleep 60, which had printed:\nhalf\n" in report
    ), report
    assert "w1 failed: limit timeout reached" in report


def test_the_report_of_a_failed_worker_says_why_it_failed(tmp_path: Path) -> None:
    async def root(request: Request) -> Any:
        await asyncio.sleep(0.03)  # the fifth equal call in a row would end the turn
        if not calls_made(request):
            return [("agent", {"task": "ONE", "wait": False})]
        return "read" if "w1 · failed" in content(request) else [("agents", {"action": "read", "agent": "w1"})]

    session = crewed(Crew({"ONE": lambda request: "", "root": root}), tmp_path)
    (report,) = (text for text in results(run(session, "root")[0], "agents") if "w1 · failed" in text)
    assert report.endswith("neither text nor tool calls"), report


@pytest.mark.matrix
def test_a_worker_that_its_time_limit_cuts_in_a_request_says_so(tmp_path: Path) -> None:
    async def slow(request: Request) -> str:
        await asyncio.sleep(60)
        return "never said"

    crew = Crew({"ONE": slow, "root": handing({"task": "ONE", "limits": {"timeout": 0.5}})})
    (report,) = results(run(crewed(crew, tmp_path), "root")[0])
    assert "It did not finish its report. Last activity: waiting for the model\n" in report, report


@pytest.mark.matrix
@pytest.mark.parametrize("limits", [{"max_cost": 0.03}, {"max_total_tokens": 40_000}])
def test_a_worker_whose_requests_the_cache_makes_cheap_reports_too(limits: dict[str, Any], tmp_path: Path) -> None:
    crew = Crew({"ONE": works_until_told, "root": handing({"task": "ONE", "limits": limits})})
    crew.usage = Usage(6000, 10, cost_usd=0.001)
    events, _ = run(crewed(crew, tmp_path), "root")
    assert results(events)[0].endswith("half of it") and "used up" in results(events)[0], results(events)
    assert sum(role == "ONE" for role, _ in crew.seen) > 3


@pytest.mark.matrix
def test_what_a_worker_used_does_not_end_its_parent_early(tmp_path: Path) -> None:
    looks = [("glob", {"pattern": "*"})]
    handed: Any = [("agent", {"task": "LEAF", "limits": {"max_cost": 1.0}})]
    crew = Crew(
        {
            "LEAF": doing(looks, looks, "leaf"),
            "MIDDLE": doing(handed, looks, looks, "middle is done"),
            "root": handing("MIDDLE"),
        }
    )
    crew.usage = Usage(2000, 10, cost_usd=0.1)
    events, outcome = run(crewed(crew, tmp_path, limits=Limits(max_steps=60, max_cost=2.0)), "root")
    assert outcome.ok and results(events)[0].endswith("middle is done") and "used up" not in results(events)[0]


@pytest.mark.matrix
def test_a_large_result_leaves_room_for_the_report(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text("some words of a long file\n" * 2_000)

    def reads(request: Request) -> Any:
        last = str(request.messages[-1]["content"])
        return "half of it" if "last request of your budget" in last else [("read_file", {"path": "large.txt"})]

    crew = Crew({"ONE": reads, "root": handing({"task": "ONE", "limits": {"max_total_tokens": 30_000}})})
    events, _ = run(crewed(crew, tmp_path), "root")
    assert results(events)[0].endswith("half of it"), results(events)


def test_a_worker_that_writes_its_report_is_not_steered(tmp_path: Path) -> None:
    said: list[str] = []

    async def busy(request: Request) -> Any:
        last = str(request.messages[-1]["content"])
        if "last request of your budget" not in last:
            return [("bash", {"command": "true"})]
        workers = session.workers
        assert workers is not None
        said.append((await workers.steer("w1", "and more")).text)
        return "half of it"

    crew = Crew({"ONE": busy, "root": handing({"task": "ONE", "limits": {"max_steps": 3}})})
    session = crewed(crew, tmp_path)
    events, _ = run(session, "root")
    assert "its budget is used up" in said[0] and "w1 · finished" in results(events)[0], results(events)


@pytest.mark.matrix
def test_calls_of_the_last_request_are_refused_and_end_the_worker(tmp_path: Path) -> None:
    busy = lambda request: [("bash", {"command": f"echo {calls_made(request)} >> ran"})]  # noqa: E731
    crew = Crew({"ONE": busy, "root": handing({"task": "ONE", "limits": {"max_steps": 3}})})
    events, outcome = run(crewed(crew, tmp_path), "root")
    assert outcome.ok and "w1 failed: limit max_steps reached" in results(events)[0]
    assert (tmp_path / "ran").read_text().split() == ["0", "1"] and "1 call refused" in results(events)[0]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("limits", "said"),
    [({"max_steps": 2}, "max_steps"), ({"max_total_tokens": 200}, "max_total_tokens"), ({"timeout": 0.3}, "timeout")],
)
def test_a_worker_that_never_ends_is_stopped_at_its_limit_and_its_parent_goes_on(
    limits: dict[str, Any], said: str, tmp_path: Path
) -> None:
    count = iter(range(10**6))
    endless = lambda request: [("bash", {"command": f"sleep 0.1; echo {next(count)}"})]  # noqa: E731
    crew = Crew({"ONE": endless, "root": handing({"task": "ONE", "limits": limits})})
    events, outcome = run(crewed(crew, tmp_path), "root")
    assert outcome.ok and outcome.text == "all is done"
    assert "w1 failed:" in results(events)[0] and said in results(events)[0]


# Rights


def test_the_rights_of_a_worker_are_never_more_than_its_parents(tmp_path: Path) -> None:
    write = [("write_file", {"path": "a.txt", "content": "x"})]
    task = {"task": "ONE", "limits": {"allow": "auto"}}
    crew = Crew({"ONE": doing(write, "tried"), "root": handing(task)})
    events, _ = run(crewed(crew, tmp_path, allow="ask"), "root")
    assert not (tmp_path / "a.txt").exists() and "1 call refused" in results(events)[0]
    narrow = {"task": "ONE", "limits": {"allow": "ask"}}
    crew = Crew({"ONE": doing(write, "tried"), "root": handing(narrow)})
    run(crewed(crew, tmp_path, allow="all"), "root")
    assert not (tmp_path / "a.txt").exists(), "and less where the call says so"
    crew = Crew({"ONE": doing(write, "tried"), "root": handing("ONE")})
    events, outcome = run(crewed(crew, tmp_path, allow="edit"), "root")
    assert (tmp_path / "a.txt").read_text() == "x" and outcome.changed == ("a.txt",)
    assert "changed while it worked: a.txt" in results(events)[0]


@pytest.mark.parametrize("answer", [Allow(), Deny("use pytest")])
def test_what_would_ask_is_one_question_to_the_parents_person_that_names_the_worker(
    answer: Allow | Deny, tmp_path: Path
) -> None:
    person = Person(lambda question: answer)
    crew = Crew({"ONE": doing([("bash", {"command": "touch made"})], "after"), "root": handing("ONE")})
    events, _ = run(crewed(crew, tmp_path, allow="ask", approver=person), "root")
    assert [(one.agent, one.call.name) for one in person.asked] == [("w1", "bash")]
    assert (tmp_path / "made").exists() is isinstance(answer, Allow)
    assert results(events)[0].endswith("after")


def test_a_call_that_the_person_declines_ends_the_worker_and_each_reader_is_told_by_whom(tmp_path: Path) -> None:
    person = Person(lambda question: Deny(stops=True))
    crew = Crew({"ONE": doing([("bash", {"command": "touch made"})], "after"), "root": handing("ONE")})
    events, _ = run(crewed(crew, tmp_path, allow="ask", approver=person), "root")
    assert results(events)[0].endswith("w1 failed: stopped: the person declined bash touch made"), results(events)
    (first,) = [request for role, request in crew.seen if role == "ONE"]
    assert "A call that the person declines ends your work." in content(first)
    row = next(one for one in reversed(of_worker(events, "w1")) if isinstance(one, WorkerState)).worker
    assert "you declined bash touch made" in describe_worker(row)


def test_no_worker_where_the_limits_say_so(tmp_path: Path) -> None:
    crew = Crew({"ONE": doing("x"), "root": handing("ONE")})
    events, outcome = run(crewed(crew, tmp_path, limits=Limits(max_steps=9, sub_agents=False)), "root")
    assert results(events) == ["this run is not allowed to start workers"]
    assert [row["limit"] for row in outcome.denied] == ["sub_agents"]


def test_workers_nest_two_deep_and_no_deeper(tmp_path: Path) -> None:
    def down(task: str) -> Callable[[Request], Reply]:
        return lambda request: content(request)[-400:] if calls_made(request) else [("agent", {"task": task})]

    crew = Crew({"DEEP": doing("too deep"), "MIDDLE": down("DEEP"), "HIGH": down("MIDDLE"), "root": handing("HIGH")})
    events, _ = run(crewed(crew, tmp_path), "root")
    assert MOST_DEPTH == 2 and "DEEP" not in {role for role, _ in crew.seen}
    assert "this run is not allowed to start workers" in results(events)[0]
    assert {one.agent for one in events if isinstance(one, AgentEvent)} == {"w1", "w1.1"}


def test_only_so_many_run_at_once_and_the_others_wait(tmp_path: Path) -> None:
    running, most = 0, 0
    places_taken = asyncio.Event()

    async def work(request: Request) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            places_taken.set()
        await asyncio.wait_for(places_taken.wait(), 120)
        await asyncio.sleep(0.02)
        running -= 1
        return "ok"

    crew = Crew({"TASK": work, "root": handing(*[f"TASK {n}" for n in range(7)])})
    events, _ = run(crewed(crew, tmp_path), "root")
    assert most == 3 and all(one.endswith("ok") for one in results(events))
    assert _states(events).count("waiting") == 4 and _states(events).count("running") == 7
    most = 0
    run(crewed(crew, tmp_path, limits=Limits(max_steps=40, sub_agent_budget=1)), "root")
    assert most == 1


# Results


@pytest.mark.matrix
def test_a_report_beyond_the_cap_is_a_drop_that_can_be_read(tmp_path: Path) -> None:
    large = "".join(f"line {number}\n" for number in range(100_000))
    crew = Crew({"ONE": doing(large), "root": handing("ONE")})
    session = crewed(crew, tmp_path)
    _, outcome = run(session, "root")
    assert outcome.ok
    last = crew.seen[-1][1].messages[-1]["content"]
    assert "left out" in last and len(last) < 60_000
    with closing(Ledger.open(places().ledger)) as ledger:
        (drop,) = [one for one in ledger.log(session.id).drops() if one.cause == "output_cap"]
        assert large.rstrip() in str(ledger.log(session.id).original(drop.id))


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"task": "  "}, "no worker was started"),
        ({"task": "x", "recipe": "wroker"}, "Did you mean worker"),
        ({"task": "x", "limits": {"max_cost": -1}}, "max_cost must be above 0"),
        ({"task": "x", "limits": {"max_stepz": 1}}, "max_stepz"),
    ],
)
def test_a_wrong_call_is_a_result_that_says_what_is_wrong(task: dict[str, Any], said: str, tmp_path: Path) -> None:
    events, outcome = run(crewed(Crew({"root": handing(task)}), tmp_path), "root")
    assert outcome.ok and said in results(events)[0]


# In the background, and the tool `agents`


@pytest.mark.matrix
@pytest.mark.parametrize("asks", [False, True])
def test_a_run_of_one_turn_ends_only_when_its_workers_have_reported(asks: bool, tmp_path: Path) -> None:
    async def slow(request: Request) -> str:
        await asyncio.sleep(0.05)
        return "the slow report"

    def root(request: Request) -> Any:
        if not calls_made(request):
            return [("agent", {"task": "ONE", "wait": False})]
        return "heard it" if "the slow report" in content(request) else "waiting"

    events, outcome = run(crewed(Crew({"ONE": slow, "root": root}), tmp_path, interactive=asks, one_turn=True), "root")
    assert "w1 works in the background" in results(events)[0]
    assert outcome.text == "heard it" and outcome.steps == 3


@pytest.mark.matrix
async def test_a_person_goes_on_while_a_worker_works_and_is_told_when_it_has_ended(tmp_path: Path) -> None:
    may_end = asyncio.Event()

    async def slow(request: Request) -> str:
        await may_end.wait()
        return "the report"

    def root(request: Request) -> Any:
        said = content(request)
        if "read it" in said:
            return [("agents", {"action": "read", "agent": "w1"})]
        return [("agent", {"task": "ONE", "wait": False})] if not calls_made(request) else f"saw {said[:400]}"

    aside: list[Any] = []
    session = crewed(Crew({"ONE": slow, "root": root}), tmp_path, interactive=True, front="chat")

    ended = asyncio.Event()

    def listen(one: Any) -> None:
        aside.append(one)
        if _states([one])[-1:] == ["finished"]:
            ended.set()

    session.listen(listen)
    try:
        first = [event async for event in session.run("root")]
        may_end.set()
        await asyncio.wait_for(ended.wait(), 120)
        second = [event async for event in session.run("read it")]
        report = results(second, "agents")[0]
    finally:
        await session.aclose()
    assert isinstance(first[-1], TurnEnd) and first[-1].outcome.ok
    assert _states(first) == ["waiting", "running"] and _states(aside) == ["finished"]
    assert report.startswith("[w1 · finished") and report.endswith("the report")


@pytest.mark.matrix
@pytest.mark.parametrize("is_told", [True, False])
def test_the_end_of_a_worker_whose_report_nobody_read_is_told_once(is_told: bool, tmp_path: Path) -> None:
    crew = Crew({"ONE": doing("the report"), "root": handing({"task": "ONE", "wait": False})})
    session = crewed(crew, tmp_path, interactive=True, front="chat")

    async def talk() -> None:
        over = asyncio.Event()
        session.listen(lambda one: over.set() if _states([one])[-1:] == ["finished"] else None)
        for words in ("root", "and?")[: 1 + is_told]:
            events = [event async for event in session.run(words)]
            if _states(events)[-1:] != ["finished"]:
                await asyncio.wait_for(over.wait(), 300)
        await session.aclose()

    asyncio.run(talk())
    with closing(Ledger.open(places().ledger)) as ledger:
        fork = ledger.fork_session(session.id, at="2026-01-01T00:00:00Z").id
    for name, times in ((fork, int(is_told)), (session.id, 1)):  # a fork has it from the history alone
        crew = Crew({"root": doing("on")})
        run(crewed(crew, tmp_path, name), "go on")
        assert str(crew.seen[0][1].messages).count("worker w1 finished") == times


@pytest.mark.matrix
async def test_each_end_of_a_worker_that_was_steered_is_told_also_if_its_report_was_not_read(tmp_path: Path) -> None:
    crew, over = Crew({"ONE": doing("the report"), "root": handing({"task": "ONE", "wait": False})}), asyncio.Event()
    session = crewed(crew, tmp_path, interactive=True, front="chat")
    session.listen(lambda one: over.set() if _states([one])[-1:] == ["finished"] else None)
    try:
        if _states([event async for event in session.run("root")])[-1:] != ["finished"]:
            await asyncio.wait_for(over.wait(), 120)
        for times in (1, 2):
            assert [event async for event in session.run("and?")]
            assert str(crew.seen[-1][1].messages).count("worker w1 finished") == times
            assert session.workers is not None
            over.clear()
            assert (await session.workers.steer("w1", "look again", wait=False)).text.endswith("in the background.")
            await asyncio.wait_for(over.wait(), 120)
    finally:
        await session.aclose()


@pytest.mark.matrix
async def test_nothing_follows_the_end_of_a_turn_while_background_work_goes_on(tmp_path: Path) -> None:
    session = crewed(Crew({"root": doing("done")}), tmp_path, interactive=True, front="chat")
    aside: list[Any] = []
    session.listen(aside.append)

    async def work() -> None:
        while not aside:
            session.engine.control.emit_from_background(Notice("at work"))
            await asyncio.sleep(0)

    working = asyncio.create_task(work())
    try:
        events = [event async for event in session.run("root")]
        await working
    finally:
        await session.aclose()
    assert Notice("at work") in events and isinstance(events[-1], TurnEnd) and events[-1].outcome.ok
    assert aside == [Notice("at work")]


async def test_a_person_moves_running_workers_to_the_background_and_gets_their_reports(tmp_path: Path) -> None:
    may_end = asyncio.Event()

    async def slow(request: Request) -> str:
        await may_end.wait()
        return "the report"

    def root(request: Request) -> Any:
        if "read it" in content(request):
            return [("agents", {"action": "read", "agent": "w1"})]
        return [("agent", {"task": "ONE"})] if not calls_made(request) else f"I go on. {content(request)[:400]}"

    session = crewed(Crew({"ONE": slow, "root": root}), tmp_path, interactive=True, front="chat")

    ended, released, first = asyncio.Event(), list[str](), list[Any]()
    session.listen(lambda one: ended.set() if _states([one])[-1:] == ["finished"] else None)
    try:
        async for event in session.run("root"):
            first.append(event)
            if isinstance(event, AgentEvent) and isinstance(event.event, StepStart):
                assert session.workers is not None
                released += session.workers.release()
                assert session.workers.release() == [] and session.workers.running() == ["w1"]
        assert released == ["w1"]
        may_end.set()
        await asyncio.wait_for(ended.wait(), 120)
        report = results([event async for event in session.run("read it")], "agents")[0]
    finally:
        await session.aclose()
    assert results(first, "agent")[0].startswith("The person moved w1 to the background")
    assert first[-1].outcome.ok and first[-1].outcome.text.startswith("I go on.")
    assert report.startswith("[w1 · finished") and report.endswith("the report")


@pytest.mark.matrix
def test_a_result_says_which_commands_failed_whatever_the_report_says(tmp_path: Path) -> None:
    lines = (("exit 3",), ("false | cat", "[ -e ok ]", "yes | head -1"), ("touch ok",), ("[ -e ok ]",))
    steps = [[("bash", {"command": line}) for line in step] for step in lines]
    session = crewed(Crew({"root": handing("LIE"), "LIE": doing(*steps, "All tests pass.")}), tmp_path)
    events, _ = run(session, "root")
    facts, _, words = results(events, "agent")[0].partition("\n")
    workers = session.workers
    assert workers is not None
    failed = "failed: exit 3 (exit 3) · failed: false | cat (exit 1) · changed while it worked: ok · session "
    assert words == "All tests pass." and f" · {failed}{workers.rows()[0]['session']}]" in facts, facts
    assert "-e ok" not in facts and "yes" not in facts, facts


async def test_a_session_is_not_left_while_a_worker_works_for_it(tmp_path: Path) -> None:
    async def slow(request: Request) -> str:
        await asyncio.sleep(60)
        return ""

    crew = Crew({"ONE": slow, "root": handing({"task": "ONE", "wait": False})})
    session = crewed(crew, tmp_path, interactive=True, front="chat")

    again = replace(session.options, resume=session.id)
    try:
        async for _ in session.run("root"):
            pass
        with pytest.raises(NexusError, match="leaving would stop w1"):
            open_session(session.options, SETTINGS, approver=None, earlier=session)
        services = (WORKERS,)
        same = open_session(again, SETTINGS, approver=None, earlier=session, services=services)
        assert same.workers is not None and same.workers.running() == ["w1"] and session.workers is None
        await same.workers.aclose()
        assert same.workers.running() == []
    finally:
        await session.aclose()


def test_a_running_worker_is_listed_steered_and_stopped(tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def listens(request: Request) -> Any:
        is_told = "hear this" in content(request)
        return [("bash", {"command": f"touch {begun}; sleep 60" if is_told else "sleep 0.01"})]

    async def root(request: Request) -> Any:
        step = calls_made(request)
        if step == 3:
            async with asyncio.timeout(300):
                while not begun.exists():  # noqa: ASYNC110  (a command makes it)
                    await asyncio.sleep(0.01)
        return [
            [("agent", {"task": "ONE", "wait": False})],
            [("agents", {"action": "list"})],
            [("agents", {"action": "steer", "agent": "w1", "text": "hear this"})],
            [("agents", {"action": "stop", "agent": "w1"}), ("agents", {"action": "read", "agent": "w7"})],
            "over",
        ][step]

    events, outcome = run(crewed(Crew({"ONE": listens, "root": root}), tmp_path), "root")
    listed, steered, stopped, unknown = results(events, "agents")
    assert listed.startswith("w1 · ") and "gets this with its next step" in steered
    assert "w1 · stopped" in stopped and "there is no worker 'w7'. Workers: w1" in unknown
    assert outcome.ok
    *_, cut = (one.result for one in of_worker(events, "w1") if isinstance(one, ToolResultEvent))
    assert cut.error == "interrupted while it ran: the session that started this worker stopped the turn"


def test_after_its_report_a_worker_goes_on_unless_its_recipe_ends_there(tmp_path: Path) -> None:
    recipes = places().config / "recipes"
    recipes.mkdir(parents=True)
    (recipes / "once.toml").write_text('description = "It ends"\n[limits]\nterminal_ends = true\n')

    def root(request: Request) -> Any:
        return [
            [("agent", {"task": "ONE", "recipe": "once"}), ("agent", {"task": "ONE"})],
            [("agents", {"action": "steer", "agent": one, "text": "and more"}) for one in ("w1", "w2")],
            "over",
        ][calls_made(request)]

    crew = Crew({"ONE": lambda request: f"heard {content(request)[-8:]}", "root": root})
    events, _ = run(crewed(crew, tmp_path), "root")
    over, more = results(events, "agents")
    assert over == "w1 has reported and ended. Start another worker." and more.endswith("heard and more")


@pytest.mark.matrix
@pytest.mark.parametrize("typed", [False, True], ids=["by a model", "by the person"])
async def test_only_what_the_person_types_to_a_worker_is_theirs(tmp_path: Path, typed: bool) -> None:
    rule, heard = "always deploy on Fridays", asyncio.Event()

    async def listens(request: Request) -> Any:
        if rule not in content(request):
            await asyncio.sleep(0.01)
            return "heard" if heard.is_set() else [("bash", {"command": "sleep 0.01"})]
        heard.set()
        return [("remember", {"text": rule, "slot": "project", "quote": rule})]

    async def root(request: Request) -> Any:
        steer = [("agents", {"action": "steer", "agent": "w1", "text": rule})]
        steps = [[("agent", {"task": "ONE", "wait": False})], [("agents", {"action": "list"})] if typed else steer]
        if (step := calls_made(request)) < len(steps):
            return steps[step]
        async with asyncio.timeout(300):
            await heard.wait()
        return "over"

    crew = Crew({"ONE": listens, "root": root})

    session = crewed(crew, tmp_path)
    async for event in session.run("root"):
        if typed and isinstance(event, AgentEvent) and isinstance(event.event, StepStart) and not heard.is_set():
            running = session.workers
            assert running is not None
            await running.steer("w1", rule, wait=False, source="person")
    await session.aclose()
    with closing(Ledger.open(places().ledger)) as ledger:
        states = {str(fact.state) for fact in ledger.facts.list_facts()}
    assert states == {"kept" if typed else "proposed"}
    sender = "[nexus: from the agent that started you, not from the person]\n"
    messages = [one for role, asked in crew.seen for one in asked.messages if role == "ONE" and one["role"] == "user"]
    heard_texts = [text for one in messages if (text := str(one["content"])).endswith(rule)]
    assert heard_texts and all((sender in text) != typed for text in heard_texts), heard_texts


@pytest.mark.matrix
async def test_what_workers_did_stands_in_the_record_of_their_session_after_a_compaction(tmp_path: Path) -> None:
    project = tmp_path / "project"
    make_project(project)
    one = doing(
        [
            ("write_file", {"path": "by_worker.txt", "content": "x"}),
            ("bash", {"command": "echo 1 failed; exit 4"}),
            ("agent", {"task": "INNER"}),
        ],
        "all is well",
    )
    inner = doing([("bash", {"command": "false | cat"})], "fine")
    apart = doing([("write_file", {"path": "sub/apart.txt", "content": "x"})], "fine")
    tasks: list[str | dict[str, Any]] = ["ONE", {"task": "APART", "worktree": True}]

    def root(request: Request) -> Any:
        if "about to be replaced" in content(request):
            return "Goal: by_worker.txt was never written.\nNext: write it."
        if "fill" in content(request):
            return "so it is " * 300
        return handing(*tasks)(request)

    settings = replace(SETTINGS, models={"openai/played": {"window": 24_000}})
    crew = Crew({"INNER": inner, "ONE": one, "APART": apart, "root": root, "CONTEXT SUMMARY": root})
    session = crewed(crew, project, settings=settings)
    for words in ("root", *(f"fill {number}" for number in range(5))):
        async for _ in session.run(words):
            pass
    (*_, done) = await session.compact()
    assert getattr(done, "ok", False), done
    head = next(item.message.content for item in session.context.conversation.items if item.form == "summary")
    await session.aclose()
    record = str(head).rpartition("Record of the work")[2]
    assert "- by_worker.txt (changed by w1)" in record and "- sub/apart.txt in worktree " in record
    assert "- echo 1 failed; exit 4 (run by w1) -> exit 4: 1 failed" in record
    assert "- false | cat (run by w1.1) -> exit 0 (pipe: 1 0)" in record


@pytest.mark.parametrize(("mode", "starts"), [("react_loop", False), ("plan_execute", True), (None, True)])
def test_only_a_plan_goes_on_while_a_worker_works(mode: str | None, starts: bool, tmp_path: Path) -> None:
    crew = Crew({"ONE": doing("ok"), "root": handing({"task": "ONE", "wait": False})})
    events, _ = run(crewed(crew, tmp_path, limits=Limits(max_steps=9, mode=mode)), "root")
    assert ("works in the background" in results(events)[0]) is starts


# Worktrees


@pytest.mark.matrix
def test_a_worker_in_a_worktree_changes_a_copy_that_is_reviewed_and_applied(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    (project / "sub/b.txt").write_text("two\n")
    write = [("write_file", {"path": "c.txt", "content": "changed\n"}), ("bash", {"command": "cat b.txt"})]
    crew = Crew(
        {
            "ONE": doing(write, "did it"),
            "TWO": doing("only looked"),
            "root": handing({"task": "ONE", "worktree": True}, {"task": "TWO", "worktree": True}),
        }
    )
    session = crewed(crew, project / "sub")
    events, outcome = run(session, "root")
    one, two = results(events)
    assert outcome.ok and outcome.changed == () and not (project / "sub/c.txt").exists()
    name = f"{session.id[-6:].lower()}-w1"
    assert name in one and "`apply` it" in one and "had no new changes and was removed" in two
    (record,) = list_worktrees(project)
    assert record.name == name and b"+changed" in diff_worktree(record)
    assert {info.worktree for info in _ledger_workers(session.id)} == {name, name[:-1] + "2"}
    apply_worktree(record)
    assert (project / "sub/c.txt").read_text() == "changed\n"


# Stops and kills


@pytest.mark.matrix
def test_a_worker_is_stopped_with_its_parent_and_its_session_is_kept(tmp_path: Path) -> None:
    crew = Crew({"ONE": doing([("bash", {"command": "sleep 60"})]), "root": handing("ONE", "ONE")})
    session, whys = crewed(crew, tmp_path), set[str]()

    async def stopped() -> TurnEnd:
        end = None
        try:
            async for event in session.run("root"):
                end = event
                if isinstance(event, AgentEvent) and isinstance(event.event, ToolCallEvent):
                    session.cancel("person")
                if isinstance(event, AgentEvent) and isinstance(event.event, ToolResultEvent):
                    whys.add(event.event.result.error.partition(": ")[2])
            assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        finally:
            await session.aclose()
        assert isinstance(end, TurnEnd)
        return end

    outcome = asyncio.run(stopped()).outcome
    assert outcome.error and outcome.error["kind"] == "aborted"
    assert whys == {"the person stopped the turn"}, "also a worker, whose parent they stopped"
    kept = _ledger_workers(session.id)
    assert len(kept) >= 1 and all(one.turns == 1 for one in kept)
    again = crewed(Crew({"root": doing("on we go")}), tmp_path, session.id)
    assert [one.state for one in SessionWorkers(again).all()] == ["stopped", "stopped"]
    assert run(again, "go on")[1].text == "on we go"


@pytest.mark.matrix
def test_a_worker_is_not_told_of_the_pages_of_nexus_that_its_task_names(tmp_path: Path) -> None:
    crew = Crew({"ONE": doing("seen"), "root": handing("ONE")})
    run(crewed(crew, tmp_path), "tell me about nexus: root")
    told = {role: "`nexus docs WORDS`" in str(request.messages) for role, request in crew.seen}
    assert told == {"root": True, "ONE": False}


@pytest.mark.matrix
def test_after_a_kill_reports_are_there_and_a_running_worker_can_go_on(tmp_path: Path) -> None:
    """Two workers, one done and one at work, when the process is killed; nothing is asked twice."""
    child = os.fork()
    if not child:
        done = asyncio.Event()

        async def quick(request: Request) -> str:
            asyncio.get_running_loop().call_later(0.2, done.set)
            return "the first report"

        async def dies(request: Request) -> Any:
            if not calls_made(request):
                return [("bash", {"command": "echo half"})]
            await done.wait()
            os.kill(os.getpid(), signal.SIGKILL)

        run(crewed(Crew({"ONE": quick, "TWO": dies, "root": handing("ONE", "TWO")}), tmp_path), "root")
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    root = _root_id()
    before = {one.id: one.cost_usd for one in _ledger_workers(root)}

    def goes_on(request: Request) -> Any:
        text = str([message for message in request.messages if message["role"] == "tool"])
        if "outcome unknown" in text and "went on" not in text:
            return [("agents", {"action": "steer", "agent": "w2", "text": "go on"})]
        return "over"

    crew = Crew({"ONE": doing("not again"), "TWO": doing("x", "went on"), "root": goes_on})
    events, outcome = run(crewed(crew, tmp_path, root), "")
    (two,) = results(events)  # that of the first was recorded when it came, or is given now
    one = next(one["content"] for one in crew.seen[0][1].messages if one["role"] == "tool")
    assert outcome.ok and one.endswith("the first report") and "w1 · finished" in one
    assert "outcome unknown" in two and "[w2 · interrupted: nexus exited · " in two and " · 0 s" not in two
    assert results(events, "agents")[0].endswith("went on")
    assert [role for role, _ in crew.seen] == ["root", "TWO", "root"]
    assert len(before) == len(_ledger_workers(root)) == 2


def _states(events: list[Any]) -> list[str]:
    """The states of workers that were told."""
    return [one.event.worker["state"] for one in events if isinstance(getattr(one, "event", None), WorkerState)]


async def _set(event: asyncio.Event) -> None:
    event.set()


def _root_id() -> str:
    with closing(Ledger.open(places().ledger)) as ledger:
        return ledger.sessions()[0].id


def _ledger_workers(root: str) -> list[Any]:
    with closing(Ledger.open(places().ledger)) as ledger:
        return ledger.workers(root)


def test_the_seconds_of_a_worker_are_those_of_all_its_work_as_its_steps_are() -> None:
    worker = Worker("w1", "c1", "task", seconds=49.0)
    worker.begin()
    worker.note(StepStart(1))
    assert 49.0 <= worker.seconds < 60.0
