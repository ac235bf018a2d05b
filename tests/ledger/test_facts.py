"""Facts in the ledger: stored once, found by any text, and forgotten for good."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search import sample

from nexus_cli.config.ledger_place import LedgerPlace
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memory import LONGEST, Fact, FactState, MemorySlot
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.relevance import rank_relevant

AT, LATER = "2026-01-13T14:30:00.000Z", "2026-01-14T14:30:00.000Z"
KEPT, PROPOSED = FactState.KEPT, FactState.PROPOSED
USER, PROJECT, AGENT = MemorySlot


def keep(ledger: Ledger, text: str, slot: MemorySlot = PROJECT, **more: Any) -> Fact:
    values: dict[str, Any] = {"state": KEPT, "at": AT, "actor": "person", "project": "/p"} | more
    return ledger.facts.add(slot, text, **values)


def texts(facts: list[Fact]) -> list[str]:
    return [fact.text for fact in facts]


@pytest.mark.matrix
def test_a_fact_is_one_sound_line_of_bounded_length(ledger: Ledger) -> None:
    assert keep(ledger, " use\n tabs\0\ud800 \x1b[2J ").text == "use tabs \ufffd [2J"
    assert len(keep(ledger, "é" * LONGEST).text) == LONGEST
    for bad in ("", " \n\0 ", "x" * (LONGEST + 1)):
        with pytest.raises(ValueError, match=r"a fact|the text is empty"):
            keep(ledger, bad)
    assert len(ledger.facts.list_facts()) == 2


@pytest.mark.matrix
def test_the_same_text_in_a_slot_is_one_fact(ledger: Ledger) -> None:
    first = keep(ledger, "Use tabs.")
    assert keep(ledger, "use  TABS", at=LATER) == first
    assert keep(ledger, "use tabs", USER).id != first.id != keep(ledger, "use tabs", project="/other").id
    assert keep(ledger, "use tabs", USER, project="/other").project == "", "the person is the same in every project"


@pytest.mark.matrix
def test_a_proposal_that_the_person_states_is_kept_from_then_on(ledger: Ledger) -> None:
    proposal = keep(ledger, "use tabs", state=PROPOSED, actor="tool:bash", session="s", entry=3)
    kept = keep(ledger, "Use tabs", at=LATER)
    assert (kept.id, kept.state, kept.actor, kept.entry) == (proposal.id, KEPT, "person", 0)
    assert keep(ledger, "use tabs", state=PROPOSED, actor="agent").state is KEPT, "and no proposal takes that back"


def test_proposals_are_listed_first_and_found_by_no_search(ledger: Ledger) -> None:
    keep(ledger, "deploy with fly")
    keep(ledger, "deploy with heroku", state=PROPOSED)
    keep(ledger, "answers in German", USER)
    assert texts(ledger.facts.list_facts("/p")) == ["deploy with heroku", "answers in German", "deploy with fly"]
    assert texts(ledger.facts.search("deploy", "/p")) == ["deploy with fly"]
    assert texts(ledger.facts.read_kept("/p")) == ["answers in German", "deploy with fly"]
    waits = ledger.facts.list_facts(state=PROPOSED)[0]
    accepted = ledger.facts.accept(waits.id, LATER)
    assert accepted and accepted.state is KEPT and ledger.facts.accept(waits.id, LATER) == accepted
    assert set(texts(ledger.facts.search("deploy", "/p"))) == {"deploy with fly", "deploy with heroku"}


def test_a_project_sees_its_own_facts_and_those_that_hold_everywhere(ledger: Ledger) -> None:
    keep(ledger, "deploy with fly")
    keep(ledger, "deploy with heroku", project="/other")
    keep(ledger, "deploy on Fridays never", AGENT)
    assert set(texts(ledger.facts.search("deploy", "/p"))) == {"deploy with fly", "deploy on Fridays never"}
    assert len(ledger.facts.search("deploy")) == 3
    assert texts(ledger.facts.search("deploy", "/p", (AGENT,))) == ["deploy on Fridays never"]
    assert texts(ledger.facts.list_facts("/none")) == ["deploy on Fridays never"]


def test_the_rarer_word_ranks_higher(ledger: Ledger) -> None:
    for number in range(8):
        keep(ledger, f"service number {number} logs to stdout")
    keep(ledger, "service orion logs to a file")
    assert ledger.facts.search("service orion", "/p")[0].text == "service orion logs to a file"
    assert len(ledger.facts.search("service", "/p", limit=3)) == 3


HOSTILE = [
    '"',
    '""',
    "'",
    "*",
    "^x",
    "a AND",
    "OR",
    "NOT deploy",
    "NEAR(a b)",
    "words:deploy",
    "deploy*",
    "(",
    ")",
    "{a}:b",
    "-deploy",
    "deploy\0x",
    "\ud800",
    "\x1b[2J",
    "a" * 1_000_000,
    "deploy " * 100_000,
    "%_",
    "é漢😀",
    " ".join(map(str, range(50_000))),
]


@pytest.mark.matrix
@pytest.mark.parametrize("text", sample(HOSTILE, 4), ids=range(len(HOSTILE)))
def test_no_text_breaks_a_search(ledger: Ledger, text: str) -> None:
    fact = keep(ledger, "deploy with fly")
    found = ledger.facts.search(text, "/p")
    assert found == ([fact] if re.search(r"\bdeploy\b", text) else [])
    assert rank_relevant([fact.text], text, allow_common=True) == [] or "deploy" in text


def test_any_text_is_stored_and_found_by_its_own_words(path: Path) -> None:
    ledger = Ledger.open(path)

    @given(st.text(max_size=60), st.text(max_size=60))
    def law(text: str, query: str) -> None:
        try:
            fact = keep(ledger, text)
        except ValueError:
            return
        ledger.facts.search(query, "/p")
        if re.search("[a-zA-Z0-9]", fact.text):
            assert fact in ledger.facts.search(fact.text, "/p", limit=10_000)
        ledger.facts.forget(fact.id, AT)
        assert ledger.facts.search(fact.text, "/p") == []

    law()
    ledger.close()


def bytes_of(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.glob("ledger.db*"))


@pytest.mark.matrix
@pytest.mark.parametrize("others", [0, 40])
def test_a_forgotten_text_leaves_the_file(ledger: Ledger, path: Path, others: int) -> None:
    for number in range(others):
        keep(ledger, f"fact {number} about the service")
    fact = keep(ledger, "the code is Xylophonqqk", quote="quoted Zanzibarqqk", session="s", entry=1)
    for number in range(others):
        keep(ledger, f"further {number} about the service")
    assert b"ylophonqqk" in bytes_of(path) and ledger.facts.search("xylophonqqk")
    assert ledger.facts.forget(fact.id.upper(), LATER) == fact
    assert ledger.facts.find(fact.id) is None and ledger.facts.forget(fact.id, LATER) is None
    assert not ledger.facts.search("xylophonqqk") and len(ledger.facts.list_facts()) == 2 * others
    left = bytes_of(path).lower()
    assert b"ylophon" not in left and b"anzibarq" not in left
    assert keep(ledger, "another").id != fact.id, "a number is never given twice"


def test_what_is_kept_gives_way_only_when_the_merged_fact_is_accepted(ledger: Ledger) -> None:
    ids = [keep(ledger, text).id for text in ("use tabs", "tabs, not spaces", "never spaces")]
    merged = ledger.facts.merge(ids[:2], "use tabs, not spaces", LATER)
    assert (merged.state, merged.actor, merged.project) == (PROPOSED, "nexus", "/p")
    assert merged.source == "merged from other facts"
    assert merged.replaces == ("m1", "m2") and {fact.id for fact in ledger.facts.list_facts()} == {*ids, merged.id}
    assert ledger.facts.merge(ids[:2], "Use tabs, not spaces.", LATER) == merged, "said twice it is one proposal"
    assert texts(ledger.facts.search("tabs", "/p")) == ["use tabs", "tabs, not spaces"]
    accepted = ledger.facts.accept(merged.id, LATER)
    assert accepted and (accepted.state, accepted.accepted, accepted.replaces) == (KEPT, LATER, ())
    assert {fact.id for fact in ledger.facts.list_facts()} == {ids[2], merged.id}
    assert ledger.facts.merge([merged.id, ids[2]], "never spaces", LATER).replaces == (ids[2], merged.id)


def test_proposals_alone_give_way_at_once_and_hand_on_what_they_replace(ledger: Ledger) -> None:
    kept = keep(ledger, "use tabs")
    first = ledger.facts.merge([kept.id], "tabs in Go", LATER)
    second = keep(ledger, "tabs in make", state=PROPOSED)
    both = ledger.facts.merge([first.id, second.id], "tabs in Go and make", LATER)
    assert both.replaces == (kept.id,) and {fact.id for fact in ledger.facts.list_facts()} == {kept.id, both.id}
    assert ledger.facts.merge([both.id], "Tabs in Go and make", LATER) == both
    ledger.facts.forget(both.id, LATER)
    assert ledger.facts.list_facts() == [kept]
    again = ledger.facts.merge([kept.id], "tabs in Go", LATER)
    assert keep(ledger, "tabs in Go").replaces == () and ledger.facts.accept(again.id, LATER)
    assert kept in ledger.facts.list_facts(), "what the person says again replaces nothing"


@pytest.mark.matrix
@pytest.mark.parametrize("bad", [[], ["m99"], ["m1", "m2"], ["x"], ["m1", "m99"]])
def test_what_cannot_be_merged_stays_as_it_is(ledger: Ledger, bad: list[str]) -> None:
    keep(ledger, "use tabs")
    keep(ledger, "use tabs", USER)
    with pytest.raises(NexusError) as caught:
        ledger.facts.merge(bad, "tabs", LATER)
    assert caught.value.kind == "usage" and len(ledger.facts.list_facts()) == 2


@pytest.mark.matrix
@pytest.mark.parametrize("bad", ["", "m", "m0", "m1", "1", "m1 OR 1=1", "m" + "9" * 40, "\0", "\ud800", "m٣"])
def test_an_unknown_id_is_none(ledger: Ledger, bad: str) -> None:
    assert ledger.facts.find(bad) is ledger.facts.accept(bad, AT) is ledger.facts.forget(bad, AT) is None
    with pytest.raises(NexusError, match="no such fact") as caught:
        ledger.facts.get(bad)
    assert "\n" not in caught.value.line


def test_a_fact_outlives_its_session_without_its_words(ledger: Ledger, make: SimpleNamespace, path: Path) -> None:
    made = make.new(ledger)
    ledger.log(made.id).append(make.user(1, "Zanzibarqqk tabs please"))
    fact = keep(ledger, "tabs please", session=made.id, entry=1, quote="Zanzibarqqk tabs")
    assert fact.source == f"session {made.id}, entry 1"
    ledger.delete_session(made.id)
    left = ledger.facts.get(fact.id)
    assert (left.text, left.source, left.quote) == ("tabs please", "a deleted session", "")
    assert ledger.facts.search("tabs") == [left] and b"Zanzibarq" not in bytes_of(path)


def test_a_fact_beside_borrowed_ones_has_the_id_that_the_ledger_of_origin_would_give_it(ledger: Ledger) -> None:
    for text in ("tabs", "spaces", "fly"):
        keep(ledger, text)
    borrower = Ledger.open(None)
    borrower.facts.borrow(ledger.facts.list_facts())
    assert borrower.facts.list_facts() == ledger.facts.list_facts()
    assert keep(borrower, "new").id == keep(ledger, "new").id == "m4"
    borrower.close()


@pytest.mark.matrix
def test_processes_that_remember_at_once_all_do(place: LedgerPlace, make: SimpleNamespace) -> None:
    Ledger.open(place).close()

    def work(number: int, say: object) -> None:
        ledger = Ledger.open(place)
        for turn in range(5):
            keep(ledger, f"process {number} says {turn}")
            keep(ledger, "what they share")
        ledger.close()

    assert [status for status, _ in make.together(3, work)] == [0, 0, 0]
    ledger = Ledger.open(place)
    assert len(ledger.facts.list_facts()) == 16 and len(ledger.facts.search("process says", limit=99)) == 15
    ledger.close()


@pytest.mark.matrix
def test_past_sessions_are_known_by_their_titles(ledger: Ledger, make: SimpleNamespace) -> None:
    named = [make.new(ledger, at=f"2026-01-0{day}T00:00:00.000Z") for day in range(1, 5)]
    other = make.new(ledger, "/q")
    for info in (*named, other, make.new(ledger, recipe="map")):
        ledger.log(info.id).append(make.user(1, f"words of {info.id}\n\n<stdin>\nx"))
    ledger.rename_session(named[0].id, "the first")
    fork = ledger.fork_session(named[1].id, at=LATER)
    assert {one.title for one in ledger.episodes("/p")} == {"the first", *(f"words of {i.id}" for i in named[1:])}
    assert {one.session for one in ledger.episodes("/p", fork.id)} == {info.id for info in (named[0], *named[2:])}
    assert {one.session for one in ledger.episodes("/p", named[1].id)} == {info.id for info in (named[0], *named[2:])}
    assert ledger.episodes("/none") == []


def test_a_fact_that_is_forgotten_while_another_thread_reads_is_not_known_afterwards(
    ledger: Ledger, make: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = ledger.facts
    kept = facts.add(MemorySlot.PROJECT, "indent with tabs", state=FactState.KEPT, at=make.at, actor="person")
    real, writer = ledger.db._add_recent, threading.Thread(target=facts.forget, args=(kept.id, make.at))

    def forgotten_meanwhile(answers: Any) -> Any:
        writer.start()
        writer.join(0.3)
        return real(answers)

    with monkeypatch.context() as patch:
        patch.setattr(ledger.db, "_add_recent", forgotten_meanwhile)
        assert facts.read_kept("") == [kept]
    writer.join()
    assert facts.read_kept("") == []
