"""Plans over the ledger: fired once by whoever looks, missed times, the tool, and who may do what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs.stage import MODEL, SETTINGS, Played, Reply, opened, say

from nexus_cli.config.paths import places
from nexus_cli.config.settings import RunSettings
from nexus_cli.core.errors import NexusError
from nexus_cli.core.run import Plan
from nexus_cli.ledger import Ledger, database
from nexus_cli.runs.fire_plans import PUNCTUAL, decide_firing, fire_due
from nexus_cli.runs.plan_service import MAX_OF_AGENTS, NewPlan, PlanService, add_plan, plans_report, resume_plan
from nexus_cli.service_list import PLANS
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

NOW = 1_800_000_000.0


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    made = Ledger.open(places().ledger)
    yield made
    made.close()


def planned(ledger: Ledger, folder: Path, **more: Any) -> Plan:
    return add_plan(ledger, NewPlan("work", options={"folder": str(folder), "model": MODEL}, **more), RunSettings())


def plan(next_at: float, cron: str = "*/10 * * * *", missed: str = "once") -> Plan:
    return Plan(1, "work", {}, "", cron, "UTC", missed, next_at)


def ignore(line: str) -> None:
    raise AssertionError(line)


@pytest.mark.matrix
@given(st.integers(0, 30_000), st.sampled_from(["once", "skip"]))
def test_missed_times_are_one_run_or_none_and_the_plan_goes_on(minutes: int, missed: str) -> None:
    """Against the definition, for a plan of every ten minutes that was due so long ago."""
    due = NOW // 600 * 600 - minutes * 60 // 600 * 600
    firing = decide_firing(plan(due, missed=missed), NOW)
    assert firing.next_at == NOW // 600 * 600 + 600
    count = int((NOW - due) // 600) + 1
    if missed == "skip" and NOW - due > PUNCTUAL:
        assert firing.facts is None
        return
    assert firing.facts is not None and firing.facts["type"] == "plan"
    if missed == "once" and count > 1:  # the newest is on time
        number = min(count - 1, 1_000)
        assert firing.facts["missed"] == number
        told = "at least 1,000" if number == 1_000 else f"{number}"
        assert f"[nexus: missed {told} run" in firing.facts["instruction"]
    else:
        assert "missed" not in firing.facts


def test_a_plan_of_one_time_is_done_after_it() -> None:
    for missed, late, runs in (("once", 10.0, True), ("skip", 10.0, True), ("once", 9e5, True), ("skip", 9e5, False)):
        firing = decide_firing(plan(NOW - late, cron="", missed=missed), NOW)
        assert firing.next_at is None and (firing.facts is not None) == runs
        assert not firing.facts or ("missed" in firing.facts) == (late > PUNCTUAL)


def test_a_plan_keeps_the_duration_that_it_was_made_by(ledger: Ledger, tmp_path: Path) -> None:
    assert planned(ledger, tmp_path, within="2 hours").options["run_after"] == "2 hours"
    assert "run_after" not in planned(ledger, tmp_path, cron="0 9 * * *", zone="UTC").options


def test_the_trigger_has_the_keys_of_the_seed(ledger: Ledger, tmp_path: Path) -> None:
    made = planned(ledger, tmp_path, cron="0 9 * * *", zone="UTC", name="Daily Report")
    assert made.next_at is not None
    facts = decide_firing(made, made.next_at).facts
    assert facts is not None and facts == {
        "type": "plan",
        "plan": {"name": "Daily Report", "id": "plan-1"},
        "instruction": "work",
        "scheduledAt": facts["scheduledAt"],
    }
    assert facts["scheduledAt"].endswith("T09:00:00.000Z")


def test_a_full_disk_fires_nothing_and_the_plan_stays_due(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = planned(ledger, tmp_path, within="1h")
    ledger.plans.change(made.key, next_at=ledger.runs.now() - 1)

    def full(connection: Any) -> None:
        raise NexusError("ledger", "the ledger could not be written", "the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(database, "commit", full)
        with pytest.raises(NexusError, match="full"):
            fire_due(ledger, ignore)
    assert ledger.runs.list_runs() == [] and len(fire_due(ledger, ignore)) == 1


def test_a_zone_that_is_gone_pauses_the_plan_and_fires_the_others(ledger: Ledger, tmp_path: Path) -> None:
    keys = [planned(ledger, tmp_path, cron="* * * * *", zone="UTC").key for _ in range(2)]
    for key in keys:
        ledger.plans.change(key, next_at=ledger.runs.now() - 1)
    with ledger.db.write():
        ledger.db.run("UPDATE plans SET zone = 'Mars/Olympus' WHERE key = ?", keys[0])
    said: list[str] = []
    assert len(fire_due(ledger, said.append)) == 1
    assert ledger.plans.get(keys[0]).paused and len(said) == 1 and "Mars/Olympus" in said[0]


@pytest.mark.matrix
def test_a_pause_is_no_absence(ledger: Ledger, tmp_path: Path) -> None:
    made = planned(ledger, tmp_path, cron="* * * * *", zone="UTC")
    ledger.plans.change(made.key, paused=True, next_at=ledger.runs.now() - 1e6)
    assert fire_due(ledger, ignore) == []
    began = ledger.runs.now()
    resumed = resume_plan(ledger, ledger.plans.get(made.key))
    assert not resumed.paused and resumed.next_at is not None and began < resumed.next_at <= ledger.runs.now() + 60
    assert resume_plan(ledger, resumed).next_at == resumed.next_at


def test_a_plan_follows_a_clock_that_was_set_back_and_repeats_nothing(ledger: Ledger, tmp_path: Path) -> None:
    made = planned(ledger, tmp_path, cron="0 * * * *", zone="UTC")
    assert made.next_at is not None
    ledger.plans.change(made.key, next_at=made.next_at - 3600.0)
    assert len(fire_due(ledger, ignore)) == 1
    with ledger.db.write():  # as if it had run in ten years
        ledger.db.run("UPDATE plans SET last_at = last_at + 3e8, next_at = next_at + 3e8")
    assert fire_due(ledger, ignore) == [] and ledger.plans.get(made.key).next_at == made.next_at
    ledger.plans.change(made.key, next_at=made.next_at - 3600.0)
    assert fire_due(ledger, ignore) == []


def test_a_plan_whose_run_is_still_queued_queues_no_other(ledger: Ledger, tmp_path: Path) -> None:
    made = planned(ledger, tmp_path, cron="0 * * * *", zone="UTC")
    assert made.next_at is not None
    for number in (1, 2):
        ledger.plans.change(made.key, next_at=made.next_at - number * 3600.0)
        fire_due(ledger, ignore)
    (run,) = ledger.runs.list_runs()
    ledger.runs.claim(run.key, "here:1", 60.0, "2026-01-01T00:00:00.000Z")
    ledger.plans.change(made.key, next_at=made.next_at - 3 * 3600.0)
    assert len(fire_due(ledger, ignore)) == 1


# The tool


def plans_of(calls: list[dict[str, Any]], folder: Path, **more: Any) -> tuple[list[str], Ledger]:
    """What a session's calls of `plan` gave, and the ledger."""
    replies: Iterator[Reply] = iter([*([("plan", call)] for call in calls), "done"])
    provider = Played(lambda request: next(replies))
    options = Options(folder, MODEL, **{"allow": "edit", **more})
    settings = replace(SETTINGS, runs=RunSettings())
    services = (PLANS,)
    session = open_session(options, settings, approver=None, provider=provider, services=services)
    say(session, "plan something")
    results = [str(one["content"]) for one in provider.seen[-1].messages if one["role"] == "tool"]
    return results, Ledger.open(places().ledger)


@pytest.mark.matrix
def test_an_agents_plan_has_no_more_rights_than_its_session_and_the_person_sees_it(tmp_path: Path) -> None:
    results, ledger = plans_of(
        [
            {"action": "add", "prompt": "look again", "in": "2 hours"},
            {"action": "add", "prompt": "each morning", "cron": "0 9 * * *"},
            {"action": "list"},
            {"action": "remove", "id": "plan-1"},
            {"action": "list"},
        ],
        tmp_path,
    )
    assert "plan-1" in results[0] and "each morning" in results[2] and "look again" not in results[4]
    (value,) = plans_report(ledger)["plans"]
    assert (value["by"], value["allow"], value["folder"]) == ("agent", "edit", str(tmp_path)) and value["session"]
    assert ledger.plans.get(2).options["limits"]["allow"] == "edit"
    assert value["max_cost"] is None  # that of the settings: a model without a price has none
    _, ledger = plans_of([{"action": "add", "prompt": "more", "in": "1h"}], tmp_path, allow="all")
    assert ledger.plans.get(3).options["allow"] == "auto"  # the most that the person's settings let nobody watch


def test_what_an_agent_may_not_plan_is_an_error_that_it_can_read(ledger: Ledger, tmp_path: Path) -> None:
    theirs = planned(ledger, tmp_path, within="1h")
    results, _ = plans_of(
        [
            {"action": "add", "prompt": "x", "cron": "* * * * *"},
            {"action": "add", "prompt": "x"},
            {"action": "add", "prompt": "x", "at": "1999-01-01"},
            {"action": "add", "in": "1h"},
            {"action": "remove", "id": theirs.id},
            {"action": "remove", "id": "plan-99"},
        ],
        tmp_path,
    )
    for result, words in zip(
        results,
        ("1 min", "time is missing", "past", "prompt is missing", "the person created it", "no such"),
        strict=True,
    ):
        assert words in result
    assert [one.id for one in ledger.plans.list_plans()] == [theirs.id]


@pytest.mark.matrix
def test_agents_make_so_many_plans_and_no_more(tmp_path: Path) -> None:
    results, ledger = plans_of(
        [{"action": "add", "prompt": f"x{n}", "in": "1h"} for n in range(MAX_OF_AGENTS + 1)], tmp_path
    )
    assert "no more plans" in results[-1] and len(ledger.plans.list_plans()) == MAX_OF_AGENTS


def test_a_call_that_a_kill_cut_off_says_which_plan_it_made(tmp_path: Path) -> None:
    _, ledger = plans_of([{"action": "add", "prompt": "x", "in": "1h"}], tmp_path)
    (made,) = ledger.plans.list_plans()
    session = opened(Played(lambda request: "x"), tmp_path, made.options["session"])
    service = PlanService(session)
    found = service.recover(made.options["call"])
    assert found is not None and made.id in found.output and service.recover("c99") is None


def test_in_a_session_that_is_not_saved_nothing_is_planned(tmp_path: Path) -> None:
    results, ledger = plans_of([{"action": "add", "prompt": "x", "in": "1h"}], tmp_path, save=False)
    assert "not saved" in results[0] and ledger.plans.list_plans() == []


def test_no_plan_goes_beyond_the_persons_settings(ledger: Ledger, tmp_path: Path) -> None:
    new = NewPlan("x", within="1h", options={"folder": str(tmp_path), "allow": "all"})
    with pytest.raises(NexusError, match="unattended runs may have at most the level auto"):
        add_plan(ledger, new, RunSettings())
    assert add_plan(ledger, new, replace(RunSettings(), allow="all")).options["allow"] == "all"
