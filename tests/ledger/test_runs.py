"""Runs, signals, spaces and plans: claims under a fence, waits in one commit with their entry, messages with what
follows from them."""

from __future__ import annotations

from typing import Any

import pytest

from nexus_cli.config.ledger_place import LedgerPlace
from nexus_cli.core.entry import Entry, Kind, Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import to_json_value
from nexus_cli.core.message import Message, Role
from nexus_cli.core.run import AGENT, FAILED, HUMAN, Entity, Run, Space, Wait, find_mentions
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import Ledger, SessionInfo, sessions

AT = "2026-02-18T15:06:55.000Z"


def queue(ledger: Ledger, **where: Any) -> Run:
    key = ledger.runs.queue("plan", "a title", {"type": "plan"}, {}, AT, **where)
    assert key is not None
    return ledger.runs.get(key)


def claim(ledger: Ledger, run: Run, seconds: float = 60.0, **more: Any) -> Run:
    claimed = ledger.runs.claim(run.key, "here:1", seconds, AT, **more)
    assert claimed is not None
    return claimed


def make_session(ledger: Ledger) -> SessionInfo:
    return ledger.create_session(folder="/p", project="/p", model="m", recipe="ask", at=AT)


def append(ledger: Ledger, session: str, kind: Kind, *memos: tuple[str, dict[str, Any]]) -> None:
    log = ledger.log(session)
    entry = log.last_id() + 1
    role = Role.USER if kind is Kind.USER else Role.ASSISTANT
    log.append(Entry(entry, AT, "x", kind, Message(role, "text")), [Memo(name, AT, entry, v) for name, v in memos])


def wait_memo(wait: Wait) -> tuple[str, dict[str, Any]]:
    return "wait", {"wait": to_json_value(wait), "type": "ask", "title": "t", "trigger": {"type": "ask"}, "options": {}}


@pytest.mark.matrix
def test_a_run_is_claimed_once_and_again_when_its_lease_has_ended(ledger: Ledger) -> None:
    run = queue(ledger)
    first = claim(ledger, run)
    assert first.fence == 1 and ledger.runs.claim(run.key, "there:2", 60.0, AT) is None
    assert claim(ledger, run, -1.0, is_dead=True).fence == 2
    assert [one.key for one in ledger.runs.due()] == [run.key] and claim(ledger, run).fence == 3


def test_a_cause_queues_one_run(ledger: Ledger) -> None:
    run = queue(ledger, cause="msg-1 ent-2")
    assert ledger.runs.queue("plan", "t", {}, {}, AT, cause="msg-1 ent-2") is None
    assert ledger.runs.list_runs() == [run]


def test_a_loser_records_nothing(ledger: Ledger, place: LedgerPlace) -> None:
    run = claim(ledger, queue(ledger))
    late = Ledger.open(place)
    late.runs.hold(run, 60.0)
    session = make_session(late)
    late.runs.attach(run, session.id)
    taken_over = claim(ledger, run, is_dead=True)
    with pytest.raises(NexusError, match="took it over"):
        append(late, session.id, Kind.USER)
    with pytest.raises(NexusError):
        late.runs.finish(run, "done", AT)
    assert ledger.log(session.id).last_id() == 0 and ledger.runs.get(run.key).state == "running"
    ledger.runs.hold(taken_over, 60.0)
    ledger.runs.finish(taken_over, "done", AT, report="it is done")
    assert ledger.runs.get(run.key).report == "it is done"
    late.close()


def test_a_cancelled_run_keeps_its_cost(ledger: Ledger) -> None:
    run, free = claim(ledger, queue(ledger)), queue(ledger)
    session = make_session(ledger)
    ledger.runs.attach(run, session.id)
    with ledger.db.write():
        ledger.db.run("UPDATE sessions SET cost = 0.25 WHERE id = ?", session.id)
    ledger.runs.cancel(run.key, AT)
    ledger.runs.cancel(free.key, AT)
    assert ledger.runs.get(run.key).cost_usd == 0.25 and ledger.runs.get(free.key).cost_usd is None


def test_a_write_extends_the_lease_and_a_cancelled_run_records_nothing(ledger: Ledger, place: LedgerPlace) -> None:
    run = claim(ledger, queue(ledger), 1.0)
    runner = Ledger.open(place)
    runner.runs.hold(run, 1000.0)
    runner.runs.renew()
    lease = ledger.runs.get(run.key).lease
    assert lease is not None and lease > ledger.runs.now() + 900
    assert ledger.runs.cancel(run.key, AT).state == "running"
    with pytest.raises(NexusError, match="cancelled"):
        runner.runs.renew()
    assert ledger.runs.get(run.key).state == "cancelled" and not ledger.runs.due()
    runner.close()


def test_a_run_waits_with_the_entry_that_says_so_and_goes_on_after_its_signal(ledger: Ledger) -> None:
    session = make_session(ledger)
    append(ledger, session.id, Kind.USER)
    append(ledger, session.id, Kind.ASSISTANT, wait_memo(Wait("file", "a.txt changes", {"path": "/p/a.txt"}, 5e9)))
    run = ledger.runs.of_session(session.id)
    assert run is not None and run.state == "waiting_reply" and run.waits is not None and run.waits.until == 5e9
    assert ledger.runs.waiting() == [run] and not ledger.runs.due()
    ledger.runs.signal(run.key, "file", {}, AT)
    assert ledger.runs.waiting() == [] and [one.key for one in ledger.runs.due()] == [run.key]
    claim(ledger, run)
    (signal,) = ledger.runs.signals(run.key)
    append(ledger, session.id, Kind.USER, ("run", {"run": run.key, "signals": [signal.key]}))
    now = ledger.runs.get(run.key)
    assert (now.state, now.waits, now.resumes) == ("running", None, 1) and not ledger.runs.signals(run.key)


def test_a_signal_before_its_wait_counts(ledger: Ledger) -> None:
    session = make_session(ledger)
    run = claim(ledger, queue(ledger))
    ledger.runs.attach(run, session.id)
    ledger.runs.signal(run.key, "person", {}, AT)
    append(ledger, session.id, Kind.ASSISTANT, wait_memo(Wait("time", "tomorrow", {}, 5e9)))
    assert [one.key for one in ledger.runs.due()] == [run.key]


def test_a_claim_that_is_given_back_is_as_it_was(ledger: Ledger) -> None:
    run = queue(ledger)
    ledger.runs.release_claim(claim(ledger, run), AT)
    assert ledger.runs.get(run.key).state == "queued"
    ledger.runs.wait(claim(ledger, run), Wait("time", "later", {}, 5e9), AT)
    ledger.runs.signal(run.key, "person", {}, AT)
    ledger.runs.release_claim(claim(ledger, run), AT)
    assert ledger.runs.get(run.key).state == "waiting_reply" and ledger.runs.due()


def people(ledger: Ledger, *agents: str) -> tuple[Space, list[Entity]]:
    every = [ledger.spaces.entity("Husam", HUMAN), *(ledger.spaces.entity(name, AGENT) for name in agents)]
    return ledger.spaces.create("Project Alpha", AT, members=every), every


def test_names_are_one_whatever_their_case_and_of_one_kind(ledger: Ledger) -> None:
    made = ledger.spaces.entity("Husam", HUMAN)
    assert ledger.spaces.entity("husam", HUMAN) == made
    with pytest.raises(NexusError, match="a person has this name"):
        ledger.spaces.entity("HUSAM", AGENT)
    assert ledger.spaces.entity("\uff28usam ", HUMAN) == made
    assert ledger.spaces.entity("Jose\u0301  Maria", HUMAN).name == "Jos\u00e9 Maria"
    for bad in ("", "a\nb", 'a"b', "a@b", "x" * 65, "a\u202eb", "[SEEN]", "You", "Nexus"):
        with pytest.raises(NexusError):
            ledger.spaces.entity(bad, HUMAN)


def test_mentions_are_whole_names_and_the_longest_counts() -> None:
    names = ["Ana", "Anatol", "Jane Doe"]
    assert find_mentions("@anatol and (@Jane Doe), a@Ana.org, @Anat, @Ana!", names) == ["Anatol", "Jane Doe", "Ana"]
    assert find_mentions("@ivan, @Jose\u0301", ["\u0130van", "Jos\u00e9"]) == ["Jos\u00e9"], "folds unlike it is found"


def test_a_mention_triggers_its_agent_and_in_a_space_of_two_every_message_does(ledger: Ledger) -> None:
    space, (husam, ana, bob) = people(ledger, "Ana", "Bob")
    assert ledger.spaces.post(space, husam, "hello all", AT).triggered == ()
    ((agent, key),) = ledger.spaces.post(space, husam, "@Ana look", AT, waits=True).triggered
    trigger = ledger.runs.get(key).trigger
    assert agent == ana and trigger["triggerSource"] == "mention" and trigger["senderExpectsReply"]
    ledger.spaces.leave(space, bob)
    ((_, key),) = ledger.spaces.post(ledger.spaces.get(space.key), husam, "and this", AT).triggered
    assert ledger.runs.get(key).trigger["triggerSource"] == "auto"


def test_a_call_posts_once(ledger: Ledger) -> None:
    space, (_, ana) = people(ledger, "Ana")
    first = ledger.spaces.post(space, ana, "done", AT, session="S", call="c1")
    assert ledger.spaces.post(space, ana, "done", AT, session="S", call="c1").message == first.message
    assert ledger.spaces.count(space) == 1 and ledger.spaces.find_posted("S", "c1") == first.message


def wait_for_reply(ledger: Ledger, space: Space, agent: Entity, asked: list[Entity]) -> Run:
    message = ledger.spaces.post(space, agent, "well?", AT, waits=True).message
    run = claim(ledger, queue(ledger, entity=agent.key))
    session = make_session(ledger)
    ledger.runs.attach(run, session.id)
    value = {"space": space.key, "message": message.key, "from": [one.key for one in asked], "sender": agent.key}
    append(ledger, session.id, Kind.ASSISTANT, wait_memo(Wait("reply", "a reply", value)))
    return run


def test_a_reply_resumes_the_run_that_waits_for_it_and_triggers_no_second_one(ledger: Ledger) -> None:
    space, (husam, ana, _) = people(ledger, "Ana", "Bob")
    run = wait_for_reply(ledger, space, ana, [husam])
    posted = ledger.spaces.post(space, husam, "@Ana yes, @Bob too", AT)
    assert posted.resumed == (run.key,) and [one.name for one, _ in posted.triggered] == ["Bob"]
    assert [one.value for one in ledger.runs.signals(run.key)] == [{"message": posted.message.key}]


def test_every_one_who_was_asked_has_to_answer(ledger: Ledger) -> None:
    space, (husam, ana, bob) = people(ledger, "Ana", "Bob")
    run = wait_for_reply(ledger, space, ana, [husam, bob])
    assert ledger.spaces.post(space, husam, "yes", AT).resumed == ()
    assert ledger.spaces.post(space, bob, "yes", AT).resumed == (run.key,)


def test_who_asked_an_agent_that_ends_without_an_answer_waits_no_longer(ledger: Ledger) -> None:
    space, (_, ana, bob) = people(ledger, "Ana", "Bob")
    for answers in (True, False):
        run = wait_for_reply(ledger, space, ana, [bob])
        question = ledger.spaces.read(space)[-1]
        asked = claim(ledger, queue(ledger, entity=bob.key, space=space.key, message=question.key))
        if answers:
            ledger.spaces.post(space, bob, "yes", AT)
        ledger.runs.finish(asked, FAILED, AT, error="no key")
        signals = [(one.kind, one.value.get("name")) for one in ledger.runs.signals(run.key)]
        assert signals == ([("reply", None)] if answers else [("unanswered", "Bob")])


def test_an_agent_that_ended_before_the_wait_began_counts_too(ledger: Ledger) -> None:
    space, (_, ana, bob) = people(ledger, "Ana", "Bob")
    message = ledger.spaces.post(space, ana, "well?", AT, waits=True).message
    asked = queue(ledger, entity=bob.key, space=space.key, message=message.key)
    ledger.runs.cancel(asked.key, AT)
    session = make_session(ledger)
    value = {"space": space.key, "message": message.key, "from": [bob.key], "sender": ana.key}
    append(ledger, session.id, Kind.ASSISTANT, wait_memo(Wait("reply", "a reply", value)))
    run = ledger.runs.of_session(session.id)
    assert run is not None and [one.kind for one in ledger.runs.signals(run.key)] == ["unanswered"]


def test_a_reply_between_the_message_and_the_wait_counts(ledger: Ledger) -> None:
    space, (husam, ana) = people(ledger, "Ana")
    message = ledger.spaces.post(space, ana, "well?", AT, waits=True).message
    ledger.spaces.post(space, husam, "yes", AT)
    session = make_session(ledger)
    value = {"space": space.key, "message": message.key, "from": [], "sender": ana.key}
    append(ledger, session.id, Kind.ASSISTANT, wait_memo(Wait("reply", "a reply", value)))
    run = ledger.runs.of_session(session.id)
    assert run is not None and [one.kind for one in ledger.runs.signals(run.key)] == ["reply"]


def test_the_cursor_of_a_member_only_goes_on(ledger: Ledger) -> None:
    space, (husam, ana) = people(ledger, "Ana")
    keys = [ledger.spaces.post(space, husam, f"{number}", AT).message.key for number in range(3)]
    assert ledger.spaces.seen(space, husam) == keys[-1], "who has read everything has read what they post"
    ledger.spaces.mark_seen(space.key, ana.key, keys[1])
    ledger.spaces.mark_seen(space.key, ana.key, keys[0])
    assert ledger.spaces.seen(space, ana) == keys[1]
    ledger.spaces.post(space, ana, "mine", AT)
    assert ledger.spaces.seen(space, ana) == keys[1], "what it did not read stays new"
    assert [one.key for one in ledger.spaces.read(space, limit=2, before=keys[2])] == keys[:2]


def test_a_plan_fires_once_however_many_see_that_it_is_due(ledger: Ledger) -> None:
    plan = ledger.plans.add("report", {"allow": "ask"}, AT, next_at=100.0, cron="0 9 * * *", zone="UTC", name="Daily")
    with pytest.raises(NexusError, match="with this name already exists"):
        ledger.plans.add("other", {}, AT, next_at=100.0, name="Daily")
    assert ledger.plans.due(99.0) == [] and ledger.plans.due(100.0) == [plan]
    (key,) = ledger.plans.fire(plan, 200.0, AT, [("plan-1 100", {"type": "plan"})])
    assert ledger.plans.fire(plan, 200.0, AT, [("plan-1 100 b", {"type": "plan"})]) == []
    run = ledger.runs.get(key)
    assert run.plan == plan.key and run.options == {"allow": "ask"} and ledger.plans.find("Daily").next_at == 200.0
    assert ledger.plans.change(plan.key, paused=True).paused and ledger.plans.due(1e9) == []
    ledger.plans.remove(plan.key)
    assert ledger.plans.list_plans() == [] and ledger.runs.get(key).plan == plan.key


def test_a_pause_stays_while_a_run_is_held_over(ledger: Ledger) -> None:
    run = queue(ledger)
    claimed = claim(ledger, run)
    ledger.runs.set_paused(run.key, True, AT)
    ledger.runs.release_claim(claimed, AT, {"needs": 0.5})
    held = ledger.runs.get(run.key)
    assert held.is_paused and held.state == "queued" and held.options["needs"] == 0.5


def test_an_agent_works_once_in_a_folder_however_that_is_written(ledger: Ledger) -> None:
    agent = ledger.spaces.entity("Ana", AGENT)
    first, second = (
        ledger.runs.queue("plan", "t", {}, {"folder": folder}, AT, entity=agent.key) for folder in ("/p", "/./p/")
    )
    claim(ledger, ledger.runs.get(first or 0))
    assert ledger.runs.claim(second or 0, "here:1", 60.0, AT) is None


def test_the_dollars_of_a_message_include_the_workers_of_a_run_that_has_not_ended(ledger: Ledger) -> None:
    run = queue(ledger, cause="msg-7 ent-1")
    session = ledger.runs.make_session(claim(ledger, run), folder="/p", project="/p", model="m", recipe="r", at=AT)
    with ledger.db.write():
        worker = sessions.create(
            ledger.db, folder="/p", project="/p", model="m", recipe="r", name="", at=AT, spawner=session, front="run"
        )
        sessions.add_cost(ledger.db, sessions.key_of(ledger.db, worker.id), Usage(1, cost_usd=5.0))
    assert ledger.runs.count_caused(7) == (1, 5.0)
