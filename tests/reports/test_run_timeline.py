"""The timeline of a run that waited, and of a space: what began it, whom it waited for, whom it triggered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nexus_cli.commands.forms import find_form
from nexus_cli.core.entry import Entry, Kind, Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import to_json_value
from nexus_cli.core.message import Message, Role
from nexus_cli.core.run import AGENT, HUMAN, Entity, Space, Wait
from nexus_cli.ledger import Ledger
from nexus_cli.reports.run_timeline import run_timeline
from nexus_cli.reports.runs import run_report
from nexus_cli.reports.space_timeline import find_reader, space_timeline
from nexus_cli.reports.timeline import session_timeline


def at(minute: int) -> str:
    return f"2026-02-18T15:{minute:02}:00.000Z"


@pytest.fixture
def ledger() -> Any:
    opened = Ledger.open(None)
    yield opened
    opened.close()


def make_space(ledger: Ledger) -> tuple[Space, Entity, Entity, Entity]:
    husam, ahmad = (ledger.spaces.entity(name, HUMAN) for name in ("Husam", "Ahmad"))
    agent = ledger.spaces.entity("DataAnalyst", AGENT, {"folder": "/p"})
    return ledger.spaces.create("Project Alpha", at(0), members=[husam, ahmad, agent]), husam, ahmad, agent


def append(
    ledger: Ledger, session: str, minute: int, kind: Kind, actor: str, text: str, *memos: tuple[str, dict[str, Any]]
) -> None:
    log = ledger.log(session)
    entry = log.last_id() + 1
    message = Message(Role.ASSISTANT if kind is Kind.ASSISTANT else Role.USER, text)
    noted = [Memo(name, at(minute), entry, value) for name, value in memos]
    log.append(Entry(entry, at(minute), actor, kind, message), noted)


def play(ledger: Ledger) -> tuple[int, Space]:
    """A message triggers an agent, which asks somebody, waits, and goes on after the reply."""
    space, husam, ahmad, agent = make_space(ledger)
    posted = ledger.spaces.post(space, husam, "@DataAnalyst pull the Q4 numbers", at(1))
    ((_, key),) = posted.triggered
    run = ledger.runs.claim(key, "here:7", 60.0, at(2))
    assert run is not None
    session = ledger.create_session(folder="/p", project="/p", model="m", recipe="tick_event", at=at(2)).id
    ledger.runs.attach(run, session)
    facts = {"source": "space", "facts": dict(run.trigger)}
    append(
        ledger,
        session,
        2,
        Kind.USER,
        f"Husam (human, {husam.id})",
        "pull the Q4 numbers",
        ("trigger", facts),
        ("run", {"run": key, "signals": []}),
    )
    asked = ledger.spaces.post(space, agent, "@Ahmad which quarter?", at(3), waits=True).message
    wait = Wait("reply", "a reply of Ahmad", {"space": space.key, "message": asked.key, "from": [ahmad.key]}, 1.8e9)
    append(ledger, session, 3, Kind.ASSISTANT, "agent", "I ask Ahmad", ("wait", {"wait": to_json_value(wait)}))
    ledger.spaces.post(space, ahmad, "the fourth", at(5))
    (signal,) = ledger.runs.signals(key)
    assert ledger.runs.claim(key, "there:9", 60.0, at(6)) is not None
    append(
        ledger,
        session,
        6,
        Kind.USER,
        f"Ahmad (human, {ahmad.id})",
        "the fourth",
        ("trigger", {"source": "resume"}),
        ("run", {"run": key, "signals": [signal.key]}),
    )
    return key, space


def test_a_run_that_was_queued_in_a_session_stands_behind_what_was_before(ledger: Ledger) -> None:
    space, husam, *_ = make_space(ledger)
    session = ledger.create_session(folder="/p", project="/p", model="m", recipe="tick_event", at=at(1)).id
    append(ledger, session, 2, Kind.USER, "user", "hello")
    ((_, key),) = ledger.spaces.post(space, husam, "@DataAnalyst go on", at(3)).triggered
    run = ledger.runs.claim(key, "here:7", 60.0, at(4))
    assert run is not None
    ledger.runs.attach(run, session)
    rows: Any = run_timeline(ledger, f"run-{key}")["rows"]
    assert [row["kind"] for row in rows] == ["start", "user", "queued", "running"]


def test_a_run_is_queued_claimed_waits_is_signalled_and_ends(ledger: Ledger) -> None:
    key, _ = play(ledger)
    value: Any = run_timeline(ledger, f"run-{key}")
    kinds = [row["kind"] for row in value["rows"]]
    assert kinds == [
        "queued",
        "start",
        "user",
        "claimed",
        "assistant",
        "waiting",
        "signal",
        "user",
        "resumed",
        "running",
    ]
    rows = dict(zip(kinds, value["rows"], strict=True))
    assert rows["queued"]["actor"] == {"id": "ent-1", "name": "Husam", "type": "human"}
    assert rows["queued"]["trigger"]["type"] == "space_message" and rows["queued"]["why"] == "mention"
    assert rows["waiting"]["text"] == "a reply of Ahmad" and rows["signal"]["taken"] is True
    assert rows["waiting"]["until"] == "2027-01-15T08:00:00.000Z"
    assert rows["resumed"]["signals"] == ["reply"] and rows["running"]["text"] == "claimed by there:9"
    begun, answered = (row for row in value["rows"] if row["kind"] == "user")
    assert begun["trigger"]["type"] == "space_message" and begun["trigger"]["triggerSource"] == "mention"
    assert begun["actor"]["name"] == "Husam" and answered["trigger"] == {"type": "resume"}
    assert answered["actor"] == {"id": "ent-2", "name": "Ahmad", "type": "human"}
    run = ledger.runs.get(key)
    ledger.runs.finish(run, "done", at(7), report="42 in all", cost=0.5)
    value = run_timeline(ledger, str(key))
    assert (value["rows"][-1]["kind"], value["rows"][-1]["text"], value["run"]["state"]) == (
        "done",
        "42 in all",
        "done",
    )
    assert value["run"]["resumes"] == 1 and value["totals"]["rows"] == len(value["rows"])
    for width in (40, 80):
        text = find_form("timeline")(value, width)
        whole = " ".join(text.split())
        assert max(map(len, text.splitlines())) <= width
        assert (
            f"run-{key} done" in whole
            and "a reply of Ahmad" in whole
            and "Ahmad (resume, not sent yet): the fourth" in whole
        )
    part = run_timeline(ledger, str(key), 3)
    assert part["rows"] == value["rows"][-3:] and part["earlier"] == len(value["rows"]) - 3
    whole_session = session_timeline(ledger, run.session)
    assert [row["kind"] for row in whole_session["rows"]] == [
        kind for kind in kinds if kind not in ("queued", "signal", "running")
    ]


def test_an_event_is_named_by_its_service_and_what_it_says(ledger: Ledger) -> None:
    event = {"event": "check_run", "payload": {"action": "completed", "check_run": {"conclusion": "failure"}}}
    facts = {"type": "service", "service": "ci", "instruction": "look", **event}
    key = ledger.runs.queue("service", "ci", facts, {}, at(1))
    assert key is not None
    ledger.runs.signal(key, "service", {"service": "ci", "payload": "plain words"}, at(2))
    queued, signal = run_timeline(ledger, str(key))["rows"]
    assert (queued["text"], signal["text"]) == ("service ci: check_run failure", "service ci: an event plain words")
    assert "service ci: an event plain words, not processed yet" in find_form("run")(
        run_report(ledger, ledger.runs.get(key)), 80
    )


def test_a_run_without_a_session_has_its_states(ledger: Ledger) -> None:
    key = ledger.runs.queue("plan", "the report", {"type": "plan"}, {}, at(1))
    assert key is not None
    value = run_timeline(ledger, str(key))
    assert [row["kind"] for row in value["rows"]] == ["queued"] and value["session"] == ""
    ledger.runs.cancel(key, at(2))
    assert [row["kind"] for row in run_timeline(ledger, str(key))["rows"]] == ["queued", "cancelled"]
    text = find_form("timeline")(run_timeline(ledger, str(key)), 80)
    assert "run-1 cancelled" in text and any(line.endswith(" cancelled") for line in text.splitlines()), text


def test_a_space_says_who_said_what_what_is_new_and_whom_it_triggered(ledger: Ledger) -> None:
    key, space = play(ledger)
    carried = {"who": "Husam", "text": "tell the others", "space": "1:1"}
    agent = space.members[2]
    ledger.spaces.post(space, agent, 'the report "is" done [NEW] <- TRIGGER\x1b[2J', at(8), origin=carried)
    ahmad = find_reader(space, "ahmad")
    assert ahmad is not None and find_reader(space, "") is None
    value = space_timeline(ledger, space, ahmad)
    first, asked, _, report = value["rows"]
    assert first["actor"] == {"id": "ent-1", "name": "Husam", "type": "human"} and first["message"] == "msg-1"
    (run,) = first["runs"]
    assert (run["run"], run["agent"], run["source"]) == (f"run-{key}", "DataAnalyst", "mention") and run["session"]
    assert [row["trigger"] is not None for row in value["rows"]] == [True, False, False, False]
    assert asked["waits"] is True and report["origin"] == carried and 'asked "tell the others"' in report["why"]
    assert [row["seen"] for row in value["rows"]] == [
        number <= ledger.spaces.seen(space, ahmad) for number in range(1, 5)
    ]
    ledger.spaces.mark_seen(space.key, ahmad.key, 3)
    value = space_timeline(ledger, space, ahmad)
    assert [row["seen"] for row in value["rows"]] == [True, True, True, False]
    assert ledger.spaces.seen(space, ahmad) == 3, "looking marks nothing"
    text = find_form("timeline")(value, 80)
    assert (
        f"-> DataAnalyst (mention): run-{key} running" in text
        and "(new) means unread by Ahmad" in " ".join(text.split())
        and "\x1b" not in text
    )
    assert text.count("DataAnalyst (new): [msg-4]") == text.count("(new):") == 1
    assert [row["seen"] for row in space_timeline(ledger, space, None)["rows"]] == [None] * 4
    part = space_timeline(ledger, space, ahmad, 2)
    assert part["rows"] == value["rows"][-2:] and part["earlier"] == 2 and part["totals"] == value["totals"]
    assert max(map(len, find_form("timeline")(value, 40).splitlines())) <= 40


def test_nobody_and_nothing_unknown_has_a_timeline(ledger: Ledger) -> None:
    space, *_ = make_space(ledger)
    with pytest.raises(NexusError, match="Sarah") as nobody:
        find_reader(replace(space, members=()), "Sarah")
    assert nobody.value.hint == "Members: none"
    for wrong in ("run-9", "x", ""):
        with pytest.raises(NexusError) as caught:
            run_timeline(ledger, wrong)
        assert caught.value.kind == "usage"
