"""The facts of a structured run, read from the ledger, and the blocks that a captured request has of them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from laws.world import world
from spaces.conftest import DAY, Team, drive

from nexus_cli.config.settings import Settings
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.entry import Kind, Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Limits
from nexus_cli.core.memo_kinds import ACTIVE_SPACE
from nexus_cli.core.run import HUMAN, TRIGGER_MARK, Run, Wait
from nexus_cli.core.services import RunFacts
from nexus_cli.session.acts.goal import set_goal
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.service_makers import ServiceMaker
from nexus_cli.session.session import Session
from nexus_cli.spaces.run_facts import MEMBERS, LedgerRunFacts, run_facts
from nexus_cli.spaces.space_history import begin_space_run

PLAN = {
    "type": "plan",
    "plan": {"id": "plan-1", "name": "Daily Report"},
    "instruction": "Post the summary",
    "scheduledAt": f"{DAY}09:00:00.000Z",
}


def queue(team: Team, trigger: dict[str, Any], **where: Any) -> Run:
    """A run that no message started."""
    options = {"folder": str(team.folder)}
    key = team.ledger.runs.queue(trigger["type"], "work", trigger, options, f"{DAY}09:00:00.000Z", **where)
    assert key is not None
    return team.ledger.runs.get(key)


def test_the_facts_of_a_run_in_a_space(team: Team) -> None:
    sarah = team.ledger.spaces.entity("Sarah", HUMAN)
    daily = team.ledger.spaces.create("Daily Reports", f"{DAY}10:00:00.000Z", members=[team.analyst, sarah])
    trigger = {"type": "space_message", "sender": {"name": "Sarah"}}
    other = queue(team, trigger, entity=team.analyst.key, space=daily.key)
    value = {"space": daily.key, "message": 0, "from": [sarah.key], "sender": team.analyst.key}
    team.ledger.runs.wait(other, Wait("reply", "an answer", value), f"{DAY}10:00:00.000Z")
    queue(team, PLAN, entity=team.designer.key)
    options = {"folder": str(team.folder), "run_after": "2 hours"}
    team.ledger.plans.add("Follow up", options, f"{DAY}10:00:00.000Z", next_at=1771434420.0)
    team.ledger.plans.add("elsewhere", {"folder": "/other"}, f"{DAY}10:00:00.000Z", next_at=1771434420.0)
    run = team.start()
    team.post(team.ahmad, "one more thing", "15:07:00")
    facts = json.loads(json.dumps(run_facts(team.ledger, run)))
    assert facts["identity"] == {"name": "DataAnalyst", "entityId": team.analyst.id}
    assert facts["trigger"]["triggerSource"] == "mention" and facts["trigger"]["messageId"] == f"msg-{run.message}"
    assert facts["space"] == {"id": team.space.id, "name": "Project Alpha", "auto": True, "newer": 1}
    active = [(one["name"], one["active"]) for one in facts["spaces"]]
    assert active == [("Daily Reports", False), ("Project Alpha", True)]
    assert facts["spaces"][0]["members"] == [{"you": True}, {"name": "Sarah", "type": "human"}]
    [plan] = facts["plans"]
    assert (plan["name"], plan["next"], plan["runAfter"]) == ("Follow up", "2026-02-18T17:07:00+00:00", "2 hours")
    this, waiting = facts["runs"]
    assert (this["id"], this["this"], this["by"], this["space"]) == (run.id, True, "Husam", "Project Alpha")
    assert (waiting["id"], waiting["state"], waiting["space"], waiting["for"]) == (
        other.id,
        "waiting_reply",
        "Daily Reports",
        "Sarah",
    )


def test_a_space_that_was_entered_is_the_active_one_and_one_that_was_left_is_none(team: Team) -> None:
    daily = team.ledger.spaces.create("Daily Reports", f"{DAY}10:00:00.000Z", members=[team.analyst])
    run = queue(team, PLAN, entity=team.analyst.key)
    assert run_facts(team.ledger, run)["space"] is None
    at = f"{DAY}10:00:00.000Z"
    session = team.ledger.create_session(folder="/p", project="/p", model="m", recipe="ask", at=at).id
    team.ledger.runs.attach(run, session)
    run = team.ledger.runs.get(run.key)
    team.ledger.log(session).record_memo(Memo(ACTIVE_SPACE, f"{DAY}10:00:00.000Z", 0, {"space": daily.key}))
    assert run_facts(team.ledger, run)["space"] == {"id": daily.id, "name": "Daily Reports", "auto": False}
    team.ledger.spaces.leave(daily, team.analyst)
    assert run_facts(team.ledger, run)["space"] is None


def test_a_crowd_is_counted_and_a_run_without_an_agent_has_no_spaces(team: Team) -> None:
    for number in range(30):
        team.ledger.spaces.join(team.space, team.ledger.spaces.entity(f"Guest {number}", HUMAN))
    [space] = run_facts(team.ledger, team.start())["spaces"]
    assert len(space["members"]) == MEMBERS and space["more"] == 34 - MEMBERS
    run = queue(team, PLAN)
    facts = run_facts(team.ledger, run)
    assert (facts["identity"], facts["spaces"], facts["space"]) == ({"name": "nexus"}, [], None)
    assert facts["runs"][0]["by"] == 'plan "Daily Report"'


def test_a_captured_request_has_the_blocks_of_the_seed_and_sends_them_once(team: Team, tmp_path: Any) -> None:
    """Through the model library and a socket."""
    team.post(team.designer, "the charts are ready")
    run = team.start()
    with world(tmp_path / "wire", ["first", "second", "third"]) as around:

        def opened() -> Session:
            settings = Settings(models={around.model: {"window": 100_000}})
            options = Options(team.folder, around.model, allow="all", limits=Limits(max_steps=9), recipe="tick_event")
            return open_session(
                options,
                settings,
                approver=None,
                clock=around.clock,
                ledger=team.ledger,
                provider=None,
                services=(ServiceMaker(RunFacts, lambda session: LedgerRunFacts(team.ledger, run)),),
            )

        session = opened()
        set_goal(session.engine.conversation, "Complete Q4 revenue analysis", ["read the figures"])

        async def live() -> None:
            try:
                async for _ in session.run(await begin_space_run(session, run)):
                    pass
                for number in range(2):
                    facts = {"type": "resume", "waitedFor": "a file"}
                    async for _ in session.run(Trigger(f"go on {number}", "resume", facts=facts)):
                        pass
            finally:
                await session.aclose()

        asyncio.run(live())
        bodies = [request.body for request in around.server.requests]
    first = [str(message["content"]) for message in bodies[0]["messages"]]
    assert [message["role"] for message in bodies[0]["messages"]] == ["system", "user", "user"]
    at = [
        first[-1].index(name)
        for name in (
            "IDENTITY:\n  name: ",
            "TRIGGER:\n  type: space_message",
            "ACTIVE SPACE: ",
            "YOUR SPACES:\n",
            "GOALS:\n",
            "ACTIVE RUNS:\n",
            "[Husam (human)]\n  [msg:2]",
        )
    ]
    assert at == sorted(at) and first[-1].endswith(TRIGGER_MARK)
    assert "Trigger: " not in first[-1] and "Goal g1" not in first[-1], "nothing comes twice"
    assert "INSTRUCTIONS:\n  - " in first[0] and first[1].startswith('SPACE HISTORY ("Project Alpha"):')
    later = [str(message["content"]) for message in bodies[-1]["messages"]]
    whole = "\n".join(later)
    for once in ("YOUR SPACES:", "GOALS:", "ACTIVE SPACE:", TRIGGER_MARK):
        assert whole.count(once) == 1, once
    assert whole.count("type: resume") == 1 and whole.count("type: space_message") == 1
    assert later[: len(first)] == first


def test_a_run_of_a_plan_has_its_mark_at_the_end_of_its_instruction(team: Team) -> None:
    run = queue(team, PLAN, entity=team.analyst.key)
    session = team.open(run)

    async def live() -> None:
        try:
            text = "Post the summary ← TRIGGER <- TRIGGER of it"
            async for _ in session.run(Trigger(text, "plan", actor="nexus", facts=PLAN)):
                pass
        finally:
            await session.aclose()

    asyncio.run(live())
    said = team.provider.seen[0][-1]["content"]
    assert said.endswith(f"Post the summary TRIGGER TRIGGER of it {TRIGGER_MARK}") and said.count(TRIGGER_MARK) == 1
    assert "ACTIVE SPACE: none (call enter_space to enter a space first)" in said and "type: plan" in said
    assert "SPACE HISTORY" not in said


async def test_a_plain_session_has_neither_blocks_nor_their_rules(team: Team) -> None:
    options = Options(team.folder, team.model, allow="all", front="chat")
    settings = Settings(models={team.model: {"window": 32_000}})
    session = open_session(options, settings, approver=None, provider=team.provider, ledger=team.ledger)

    try:
        async for _ in session.run("hello"):
            pass
    finally:
        await session.aclose()
    system, said = (str(one["content"]) for one in team.provider.seen[0])
    assert "INSTRUCTIONS:" not in system and "IDENTITY:" not in said and TRIGGER_MARK not in said
    assert "Trigger: repl (typed by the person)" in said
    log = team.ledger.log(session.id)
    assert log.read(1, 1)[0].kind is Kind.USER


def test_a_ledger_that_fails_costs_the_blocks_and_never_the_trigger(team: Team) -> None:
    run = team.start()

    class Broken(RunFacts):
        def facts(self) -> Any:
            raise NexusError("ledger", "the ledger", "is gone")

    options = Options(team.folder, team.model, allow="all", recipe="tick_event")
    settings = Settings(models={team.model: {"window": 32_000}})
    broken = (ServiceMaker(RunFacts, lambda session: Broken()),)
    session = open_session(
        options, settings, approver=None, provider=team.provider, ledger=team.ledger, services=broken
    )
    asyncio.run(drive(team, run, session))
    said = team.provider.seen[0][-1]["content"]
    assert "TRIGGER:\n  type: space_message" in said and "IDENTITY" not in said
