"""Search: every place once, the newest first, whatever the text looks like."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger.conftest import AT, calling, user

from nexus_cli.core.entry import Entry, Kind
from nexus_cli.core.message import Message, Role, ToolCall, replace_surrogates
from nexus_cli.ledger import Ledger, SessionInfo
from nexus_cli.ledger.search import search


def at(number: int) -> str:
    return f"2026-01-13T14:{number // 60:02}:{number % 60:02}.000Z"


def new(ledger: Ledger, folder: str = "/p") -> SessionInfo:
    return ledger.create_session(folder=folder, project=folder, model="openai/m", recipe="chat", at=AT)


def said(ledger: Ledger, texts: dict[int, str], folder: str = "/p") -> str:
    """A session in which these texts were said at these seconds; its id."""
    session = new(ledger, folder)
    for number, (second, text) in enumerate(texts.items(), 1):
        ledger.log(session.id).append(replace(user(number, text), at=at(second)))
    return session.id


def places(ledger: Ledger, text: str, **more: object) -> list[tuple[str, int]]:
    return [(hit.session, hit.entry) for hit in search(ledger.db, text, **more).hits]  # type: ignore[arg-type]


@pytest.mark.matrix
def test_entries_of_all_sessions_of_a_folder_come_newest_first(ledger: Ledger) -> None:
    one = said(ledger, {1: "alpha", 5: "alpha again", 9: "beta"})
    two = said(ledger, {3: "ALPHA", 7: "alpha last"})
    other = said(ledger, {8: "alpha elsewhere"}, "/q")
    assert places(ledger, "alpha", folder="/p") == [(two, 2), (one, 2), (two, 1), (one, 1)]
    assert places(ledger, "alpha")[0] == (other, 1)
    assert not places(ledger, "gamma") and not places(ledger, "alpha", folder="/nowhere")


def test_the_limit_is_kept_and_told(ledger: Ledger) -> None:
    session = said(ledger, {number: f"word {number}" for number in range(1, 121)})
    found = search(ledger.db, "word", limit=7)
    assert [hit.entry for hit in found.hits] == list(range(120, 113, -1)) and found.more
    found = search(ledger.db, "word", limit=120)
    assert len(found.hits) == 120 and not found.more and found.hits[-1].session == session


ODD = ("100%", "a_b", "it's", '"quoted"', "a\x00b", "(x", "[/bold]", "{}", "%s", "\\", "é漢")


@pytest.mark.matrix
@pytest.mark.parametrize("text", ODD)
def test_every_text_is_plain_text(ledger: Ledger, text: str) -> None:
    session = said(ledger, {1: "axb 100 it s quoted", 2: f"before {text} after"})
    assert places(ledger, text) == [(session, 2)]


@given(st.text(min_size=1, max_size=12), st.text(max_size=20), st.text(max_size=20))
def test_what_was_said_is_found(text: str, before: str, after: str) -> None:
    ledger = Ledger.open(None)
    try:
        session = said(ledger, {1: before + text + after})
        assert places(ledger, replace_surrogates(text)) == [(session, 1)]
    finally:
        ledger.close()


def test_what_a_tool_was_asked_is_found_with_its_name(ledger: Ledger) -> None:
    session = new(ledger)
    ledger.log(session.id).append(calling(1))
    call = ToolCall("c2", "write_file", {"path": "src/deep.py", "content": 'say "hi"\nthere'})
    ledger.log(session.id).append(Entry(2, at(2), "agent", Kind.ASSISTANT, Message(Role.ASSISTANT, "", (call,))))
    for text in ("src/DEEP", 'say "hi"', "write_file src"):
        assert places(ledger, text) == [(session.id, 2)]


def test_the_snippet_is_one_line_with_what_was_found(ledger: Ledger) -> None:
    said(ledger, {1: "x" * 500 + "\nthe\tneedle here\n" + "y" * 500})
    (hit,) = search(ledger.db, "NEEDLE").hits
    assert "the needle here" in hit.snippet and hit.snippet[0] == hit.snippet[-1] == "…" and "\n" not in hit.snippet
    assert len(hit.snippet) < 200


def test_what_a_fork_shares_is_found_once_also_when_its_source_is_deleted(ledger: Ledger) -> None:
    source = said(ledger, {1: "shared one", 2: "shared two", 3: "shared three"})
    early = ledger.fork_session(source, at=at(4), entry=1).id
    late = ledger.fork_session(source, at=at(4), entry=2)
    ledger.log(late.id).append(replace(user(3, "shared own"), at=at(9)))
    assert places(ledger, "shared") == [(late.id, 3), (source, 3), (source, 2), (source, 1)]
    ledger.delete_session(source)
    assert places(ledger, "shared") == [(late.id, 3), (late.id, 2), (late.id, 1)]
    ledger.delete_session(late.id)
    assert places(ledger, "shared") == [(early, 1)]


def test_a_damaged_text_is_counted_and_the_search_goes_on(ledger: Ledger) -> None:
    session = said(ledger, {1: "needle one", 2: "needle two"})
    with ledger.db.write():
        ledger.db.run("UPDATE blobs SET data = ? WHERE id = (SELECT blob FROM entries WHERE id = 2)", b"\0")
    found = search(ledger.db, "needle")
    assert [(hit.session, hit.entry) for hit in found.hits] == [(session, 1)] and found.damaged == 1
