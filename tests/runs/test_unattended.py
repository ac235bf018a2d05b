"""What binds runs that nobody watches: level, dollars, dollars of a day; the look back; what is told afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from runs.stage import AT, MODEL, SETTINGS, Played, Reply, last, run_due, sent

from nexus_cli.cli.serve.serve_once import has_work, run_line
from nexus_cli.commands.forms import find_form
from nexus_cli.config.paths import places
from nexus_cli.config.settings import RunSettings, SpaceSettings
from nexus_cli.core.approval import Allow, Answer, Defer, Deny, Question
from nexus_cli.core.clock import format_utc, local_now
from nexus_cli.core.limits import Limits
from nexus_cli.core.message import ToolCall
from nexus_cli.core.request import Request
from nexus_cli.core.run import AGENT, HUMAN, Brake, Entity, Run, Signal, Wait
from nexus_cli.ledger import Ledger
from nexus_cli.reports.runs import describe_run, describe_runs, run_report
from nexus_cli.runs.missed_runs import describe_rest, pop_missed_runs_notes
from nexus_cli.runs.run_approvals import RunApprover, answers_of
from nexus_cli.runs.run_kind import RunHooks
from nexus_cli.runs.unattended import ALL_RESERVED, UnattendedRules, look_back

COST = 0.25
"""Dollars of a request here."""


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    made = Ledger.open(places().ledger)
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def queue(ledger: Ledger, folder: Path, title: str = "work", kind: str = "plan", **options: Any) -> Run:
    said = {"folder": str(folder), "model": MODEL, "allow": "ask", **options}
    key = ledger.runs.queue(kind, title, {"type": kind, "instruction": title}, said, AT)
    assert key is not None
    return ledger.runs.get(key)


def drive(provider: Any, rules: UnattendedRules, **more: Any) -> list[Run]:
    settings = replace(SETTINGS, runs=rules.settings)
    return run_due(provider, holds_back=rules.holds_back, settings=settings, at_once=1, **more)


def well(request: Request) -> Reply:
    return "well"


@pytest.mark.matrix
def test_the_dollars_of_a_day_hold_back_what_is_queued_until_the_next_day(ledger: Ledger, folder: Path) -> None:
    rules = UnattendedRules(RunSettings(max_cost=0.3, max_cost_day=0.6))
    for number in range(4):
        queue(ledger, folder, f"work {number}")
    assert [run.state for run in drive(Played(well), rules)] == ["done", "done"]
    assert drive(Played(well), rules) == []
    (held, _) = ledger.runs.list_runs(["queued"])
    assert "0.5 of 0.6 USD" in rules.holds_back(ledger, held)
    tomorrow = UnattendedRules(rules.settings, lambda: local_now() + timedelta(days=1))
    assert tomorrow.holds_back(ledger, held) == ""
    assert len(drive(Played(well), tomorrow)) == 2


@pytest.mark.matrix
def test_a_rest_that_is_too_small_for_the_first_request_holds_the_run_over(ledger: Ledger, folder: Path) -> None:
    dear = {MODEL: {"window": 64_000, "max_output": 2000, "input_price": 60.0, "output_price": 60.0}}
    rules = UnattendedRules(RunSettings(max_cost=1.0, max_cost_day=0.4))

    def run(rules: UnattendedRules) -> list[str]:
        settings = replace(SETTINGS, models=dear, runs=rules.settings)
        return [one.state for one in run_due(Played(well), holds_back=rules.holds_back, settings=settings)]

    for number in range(2):
        queue(ledger, folder, f"work {number}")
    assert run(rules) == ["done", "queued"] and run(rules) == []
    held = ledger.runs.get(2)
    said = rules.holds_back(ledger, held)
    assert said == (
        "0.25 of 0.4 USD for unattended runs have been spent today; the rest is not enough for run-2; "
        "queued runs continue tomorrow"
    )
    with ledger.db.write():  # a day has passed
        ledger.db.run("UPDATE requests SET at = '2026-01-01T00:00:00.000Z'")
    assert run(rules) == ["done"] and ledger.runs.get(2).report == "well"
    poor = UnattendedRules(RunSettings(max_cost=1.0, max_cost_day=0.05))
    with ledger.db.write():
        ledger.db.run("UPDATE requests SET at = '2026-01-01T00:00:00.000Z'")
    queue(ledger, folder, "never")
    assert run(poor) == ["failed"], "no day has enough for it"


@pytest.mark.matrix
def test_a_run_is_told_its_budget_once_in_its_first_message(ledger: Ledger, folder: Path) -> None:
    queue(ledger, folder, max_steps=9, max_cost=2.5)
    told: list[str] = []

    def look(request: Request) -> Reply:
        told.append(sent(request))
        return "done" if len(told) > 1 else [("glob", {"pattern": "*"})]

    (run,) = drive(Played(look), UnattendedRules(RunSettings(max_cost=3, max_cost_day=90)))
    words = "Your budget: 9 requests, $2.50. The last request is for the report: no calls run in it."
    assert run.state == "done", run
    assert [text.count(words) for text in told] == [1, 1], told


@pytest.mark.matrix
def test_a_plan_has_dollars_of_its_own_for_a_day(ledger: Ledger, folder: Path) -> None:
    rules = UnattendedRules(RunSettings(max_cost=0.3, max_cost_day=9.0))
    for name in (*["dear"] * 101, "cheap"):
        queue(ledger, folder, name, max_cost_day=0.3 if name == "dear" else None)
    assert [run.title for run in drive(Played(well), rules)] == ["dear", "cheap"]
    assert 'of 0.3 USD for "dear" have been spent' in rules.holds_back(ledger, ledger.runs.list_runs(["queued"])[0])


def test_running_runs_count_by_what_they_may_still_cost(ledger: Ledger, folder: Path) -> None:
    rules = UnattendedRules(RunSettings(max_cost=0.4, max_cost_day=1.0))
    first, second, third = (queue(ledger, folder, str(number)) for number in range(3))
    for run in (first, second):
        assert rules.holds_back(ledger, run) == ""
        ledger.runs.claim(run.key, "here:1", 60.0, AT)
    assert rules.bind_options(ledger, second)["left"] == pytest.approx(0.6)
    assert rules.holds_back(ledger, third) == ALL_RESERVED
    assert rules.holds_back(ledger, queue(ledger, folder, "mine", kind="ask")) == ""


@pytest.mark.matrix
def test_what_waits_for_the_dollars_of_others_goes_on_after_them(ledger: Ledger, folder: Path) -> None:
    rules = UnattendedRules(RunSettings(max_cost=0.4, max_cost_day=1.0))
    for number in range(3):
        queue(ledger, folder, str(number))
    settings = replace(SETTINGS, runs=rules.settings)
    assert len(run_due(Played(well), holds_back=rules.holds_back, settings=settings)) == 3


@pytest.mark.matrix
def test_a_cap_that_was_asked_for_holds_or_nothing_runs(ledger: Ledger, folder: Path) -> None:
    unpriced = replace(SETTINGS, models={MODEL: {"window": 64_000}})
    queue(ledger, folder)
    queue(ledger, folder, max_cost_day=1.0)
    free, capped = run_due(Played(well), settings=unpriced)
    assert free.state == "done" and capped.state == "failed" and "price" in capped.error


def test_work_that_nobody_watches_plans_nothing_for_the_next_minutes(ledger: Ledger, folder: Path) -> None:
    def reply(request: Request) -> Reply:
        if "action" in last(request) or "ahead" in last(request) or "plan-" in last(request):
            return "well"
        soon = (datetime.now().astimezone() + timedelta(minutes=2)).strftime("%M %H * * *")
        times = [{"in": "1 minute"}, {"in": "1 hour"}, {"cron": soon}]
        return [("plan", {"action": "add", "prompt": "again", **words}) for words in times]

    queue(ledger, folder, allow="edit")
    model = Played(reply)
    drive(model, UnattendedRules(RunSettings()))
    made, daily = ledger.plans.list_plans()
    assert daily.next_at is not None and daily.next_at - ledger.runs.now() > 80_000, "it leaves out the next minutes"
    assert "at least 5 min in the future" in str(model.seen[-1].messages)
    assert made.next_at is not None and made.next_at - ledger.runs.now() > 3000


def test_serve_once_looks_after_runs_of_processes_that_are_gone(ledger: Ledger, folder: Path) -> None:
    assert not has_work(ledger)
    ledger.runs.claim(queue(ledger, folder).key, "gone:1", 60.0, AT)
    assert has_work(ledger)


@pytest.mark.matrix
def test_a_killed_run_has_paid_what_it_paid(ledger: Ledger, folder: Path) -> None:
    rules = UnattendedRules(RunSettings(max_cost=1.0, max_cost_day=1.0))
    run = queue(ledger, folder)
    drive(Played(well), rules)
    midnight = format_utc(local_now().replace(hour=0, minute=0, second=0, microsecond=0))
    with ledger.db.write():  # as if it had been killed before its end was recorded
        ledger.db.run("UPDATE runs SET state = 'running', cost = NULL, lease = 0 WHERE key = ?", run.key)
    assert ledger.runs.spent_since(midnight) == pytest.approx(COST)


def test_no_run_goes_beyond_the_settings_of_the_person_and_the_rights_of_who_planned_it(
    ledger: Ledger, folder: Path
) -> None:
    rules = UnattendedRules(RunSettings(allow="edit", max_cost=2.0))
    rights = Limits(tools=frozenset({"read_file"}), max_steps=7, allow="auto", max_cost=0.9)
    assert Limits.from_json(rights.to_json()) == rights
    bound = rules.bind_options(ledger, queue(ledger, folder, allow="all", limits=rights.to_json()))
    assert (bound["allow"], bound["max_cost"], bound["max_steps"]) == ("edit", 0.9, 7)
    assert bound["tools"] == frozenset({"read_file"})
    provider = Played(
        lambda request: "done" if request.messages[-1]["role"] == "tool" else [("glob", {"pattern": "*"})]
    )
    (done,) = drive(provider, rules)
    assert done.state == "done" and "read_file" in last(provider.seen[-1])


def test_after_work_that_changed_something_with_a_failure_the_model_looks_back_in_two_forms(
    ledger: Ledger, folder: Path
) -> None:
    def reply(request: Request) -> Reply:
        if "look back goes on" in sent(request):
            return "learned"
        if "look back at your work" in last(request):
            return [("search_memory", {"query": "habits", "slot": "agent"})]
        if "change it" in last(request):
            calls = [("write_file", {"path": "a.txt", "content": "new\n"})]
            return [("read_file", {"path": "gone.txt"}), *calls] if "in vain" in last(request) else calls
        return "done"

    provider = Played(reply)
    hooks = {"plan": RunHooks(end=look_back)}
    rules = UnattendedRules(RunSettings(max_cost=5.0, max_cost_day=50.0))
    queue(ledger, folder, "change it after a look in vain", allow="edit", recipe="tick_autonomous")
    queue(ledger, folder, "only look", recipe="tick_autonomous")
    queue(ledger, folder, "change it as expected", allow="edit", recipe="tick_autonomous")
    changed, looked, smooth = drive(provider, rules, hooks=hooks)
    assert (changed.state, changed.report, looked.state, smooth.state) == ("done", "done", "done", "done")
    assert (folder / "a.txt").read_text() == "new\n" and len(provider.seen) == 2 + 2 + 1 + 2
    words = sent(provider.seen[3])
    assert -1 < words.find("look back at your work") < words.find("look back goes on")
    assert not any("look back" in sent(request) for request in provider.seen[4:])
    assert changed.cost_usd == pytest.approx(4 * COST) and looked.cost_usd == pytest.approx(COST)


@pytest.mark.matrix
def test_the_look_back_is_paid_from_what_is_left_of_the_run(ledger: Ledger, folder: Path) -> None:
    def reply(request: Request) -> Reply:
        if "look back" in sent(request):
            return [("search_memory", {"query": f"x{len(provider.seen)}", "slot": "agent"})]
        calls = [("write_file", {"path": "a", "content": "x"}), ("read_file", {"path": "gone"})]
        return "done" if request.messages[-1]["role"] == "tool" else calls

    provider = Played(reply)
    rules = UnattendedRules(RunSettings(max_cost=0.9))
    queue(ledger, folder, allow="edit")
    (run,) = drive(provider, rules, hooks={"plan": RunHooks(end=look_back)})
    assert run.state == "done" and run.report == "done"
    assert run.cost_usd is not None and run.cost_usd <= 0.9 + COST and len(provider.seen) <= 4


@pytest.mark.matrix
def test_what_was_done_while_the_person_was_away_is_told_once_and_in_that_project(
    ledger: Ledger, folder: Path, tmp_path: Path
) -> None:
    rules = UnattendedRules(RunSettings(max_cost_day=50.0))
    assert pop_missed_runs_notes(ledger, folder) == []
    for _ in range(3):
        queue(ledger, folder, "Daily Report")
    queue(ledger, folder / "gone", "elsewhere")
    queue(ledger, folder, "typed", kind="ask")
    drive(Played(lambda request: "All quiet.\nNothing else \x1b[31m"), rules)
    (note,) = pop_missed_runs_notes(ledger, folder)
    assert note.report.startswith("All quiet.\nNothing else") and note.run == "run-3"
    assert note.line.startswith('while you were away: plan Daily Report ran 3 times; run-3: "All quiet. Nothing else')
    assert pop_missed_runs_notes(ledger, folder) == []
    (other,) = pop_missed_runs_notes(ledger, folder / "gone")
    assert "plan elsewhere ran once and failed" in other.line
    assert datetime.fromisoformat(ledger.runs.get(1).updated)
    queue(ledger, folder, "Daily Report")
    drive(Played(well), rules)
    (note,) = pop_missed_runs_notes(ledger, folder)
    assert note.line == 'while you were away: plan Daily Report ran once; run-6: "well"'


def test_a_run_that_waits_for_a_time_names_no_command_for_an_answer(ledger: Ledger, folder: Path) -> None:
    queue(ledger, folder, "Daily Report")
    claimed = ledger.runs.claim(1, "here:1", 60.0, AT)
    assert claimed is not None
    ledger.runs.wait(claimed, Wait("time", "2026-02-19 09:00", {}, 4e9), AT)
    line = describe_rest(ledger, ledger.runs.get(1))
    assert line == "run-1 (plan Daily Report) waits for 2026-02-19 09:00"


@pytest.mark.matrix
def test_a_long_answer_is_cut_at_a_word_and_the_command_for_the_whole_is_named(ledger: Ledger, folder: Path) -> None:
    said = "The suite of the shop fails in several places, all of them about taxes. " * 20
    queue(ledger, folder, "Daily Report")
    (run,) = drive(Played(lambda request: said), UnattendedRules(RunSettings(max_cost_day=50.0)))
    (note,) = pop_missed_runs_notes(ledger, folder)
    for line, quote in ((note.line, '"'), (run_line(run), "")):
        beginning, mark, rest = line.partition("…")
        words = beginning.split(": ")[-1].removeprefix(quote)
        assert mark and said.startswith(f"{words} ") and rest == f"{quote} (nexus runs show run-1)", line
    assert note.report.endswith("…") and len(note.report) <= 600


def test_a_run_whose_process_was_killed_is_told_until_it_is_taken_up(ledger: Ledger, folder: Path) -> None:
    queue(ledger, folder, "Daily Report")
    owner = ledger.reconnect()
    assert owner.lock("run-1") and owner.runs.claim(1, "here:1", 60.0, AT) is not None
    assert pop_missed_runs_notes(ledger, folder) == [] and not describe_run(ledger, ledger.runs.get(1))["broken_off"]
    owner.close()
    for _ in range(2):
        (note,) = pop_missed_runs_notes(ledger, folder)
        assert note.line == "run-1 (plan Daily Report) was interrupted; to resume it: nexus runs resume run-1"
    value = {"runs": describe_runs(ledger, ledger.runs.list_runs())}
    assert find_form("runs")(value, 80).startswith("run-1 · interrupted · ") and "nexus runs resume run-1" in find_form(
        "runs"
    )(value, 80)
    shown = find_form("run")(run_report(ledger, ledger.runs.get(1)), 80)
    assert shown.startswith("run-1 interrupted") and "nexus runs resume run-1" in shown
    drive(Played(well), UnattendedRules(RunSettings(max_cost_day=50.0)))
    assert "resumed once" in find_form("run")(run_report(ledger, ledger.runs.get(1)), 80)
    (note,) = pop_missed_runs_notes(ledger, folder)
    assert note.line.endswith('run-1: "well"')


def test_an_approval_that_a_run_waits_for_is_told_too(ledger: Ledger, folder: Path) -> None:
    queue(ledger, folder, "Daily Report", ask=True)
    drive(Played(lambda request: [("bash", {"command": "rm -rf build"})]), UnattendedRules(RunSettings()))
    (note,) = pop_missed_runs_notes(ledger, folder)
    assert note.line.startswith(
        "run-1 (plan Daily Report) waits for approval: bash rm -rf build (to answer: /runs resume run-1)"
    )
    assert pop_missed_runs_notes(ledger, folder) == [note], "it is told until it is answered"
    assert pop_missed_runs_notes(ledger, folder / "gone") == []


def test_several_questions_of_one_step_are_all_announced_before_one_answer_holds_for_them() -> None:
    asked = [ToolCall(f"c{number}", "bash", {"command": f"touch {number}"}) for number in (1, 2, 3)]
    approver = RunApprover({})
    for call in asked:
        asyncio.run(approver.ask(Question(call, f"bash {call.arguments['command']}", "it writes")))
    wait = approver.make_wait()
    assert wait is not None and wait.why == "approval: bash touch 1 and 2 more"
    assert [one["call"] for one in wait.value["questions"]] == ["c1", "c2", "c3"]


def test_a_yes_for_the_session_covers_the_same_rules_and_calls_and_nothing_else() -> None:
    def question(command: str, *stores: str, kind: str = "run") -> Question:
        return Question(
            ToolCall(f"c {command}", "bash", {}), f"bash {command}", "it writes", command, kind=kind, stores=stores
        )

    first, exact = question("npm test a", "bash(npm test *)"), question("make")
    asks = RunApprover({})
    for one in (first, exact):
        asyncio.run(asks.ask(one))
    wait = asks.make_wait()
    assert wait is not None
    said = {one["call"]: {"answer": "session", "scope": one["scope"]} for one in wait.value["questions"]}
    signal = Signal(1, 1, "", "approval", {"answers": json.loads(json.dumps(said))})
    old = Signal(2, 1, "", "approval", {"calls": ["c9"], "answer": "no", "text": "later"})
    answers = answers_of([signal, old])
    approver = RunApprover(answers)

    def answer(one: Question) -> Answer:
        return asyncio.run(approver.ask(one))

    assert answer(first) == Allow(always=True) and answer(replace(first, call=ToolCall("c8", "bash"))) == Allow()
    assert answer(question("npm test b", "bash(npm test *)")) == Allow()
    assert answer(replace(exact, call=ToolCall("c7", "bash"))) == Allow()
    assert answer(replace(exact, call=ToolCall("c9", "bash"))) == Deny("later")
    others = [
        question("npm test b", "bash(npm test *)", "bash(rm *)"),
        replace(first, call=ToolCall("c4", "bash"), kind="network"),
        question("make all"),
        replace(exact, call=ToolCall("c6", "bash"), profile="none"),
        replace(exact, call=ToolCall("c5", "bash"), kind="network"),
    ]
    assert [answer(one) for one in others] == [Defer()] * 5


def test_an_answer_about_a_changed_definition_covers_no_other_definition() -> None:
    def question(diff: str) -> Question:
        rule = ("mcp__rug__note",)
        return Question(ToolCall("c1", rule[0], {}), rule[0], "changed", diff, kind="definition", stores=rule)

    asks = RunApprover({})
    asyncio.run(asks.ask(question("+ first")))
    wait = asks.make_wait()
    assert wait is not None
    answers = {"c1": {"answer": "session", "scope": wait.value["questions"][0]["scope"]}}
    approver = RunApprover(answers)
    assert asyncio.run(approver.ask(question("+ first"))) == Allow(always=True)
    assert asyncio.run(approver.ask(question("+ second"))) == Defer()


def test_a_question_that_the_person_closes_stays_open_and_a_no_does_not() -> None:
    class Person:
        def __init__(self, answer: Answer) -> None:
            self.answer = answer

        async def ask(self, question: Question) -> Answer:
            return self.answer

    question = Question(ToolCall("c1", "bash", {}), "bash make", "it writes", "make", kind="run")
    for given, answer in ((Deny("closed", said=False), Defer()), (Deny("use npm", stops=True), Deny("use npm"))):
        approver = RunApprover({}, Person(given))
        assert asyncio.run(approver.ask(question)) == answer
        assert (approver.make_wait() is not None) is (answer == Defer())


def test_a_run_that_the_rest_of_a_message_is_too_small_for_says_so_in_the_space(ledger: Ledger, folder: Path) -> None:
    def make_agent(name: str) -> Entity:
        return ledger.spaces.entity(name, AGENT, {"folder": str(folder), "model": MODEL, "allow": "ask"})

    ana, first, second = ledger.spaces.entity("Ana", HUMAN), make_agent("First"), make_agent("Second")
    space = ledger.spaces.create("Team", AT, members=[ana, first, second])
    root = ledger.spaces.post(space, ana, "@First look", AT).message.key
    claimed = ledger.runs.claim(1, "elsewhere:1", 60.0, AT)
    assert claimed is not None
    ledger.runs.finish(claimed, "done", AT, cost=0.2999)
    brake = Brake(dollars=0.3)
    ledger.spaces.post(space, first, "@Second look too", AT, hops=1, root=root, brake=brake)
    (run,) = run_due(Played(well), settings=replace(SETTINGS, spaces=SpaceSettings(max_cost=0.3)))
    assert run.state == "failed" and "limit max_cost reached" in run.error
    (told,) = [one.notice for one in ledger.spaces.read(space) if one.notice]
    assert told.startswith(
        "no more agents were started: the runs of msg-1 have cost $0.30, which reaches the limit spaces.max_cost"
    )
