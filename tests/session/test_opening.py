"""What is refused, and what is resolved, before a session is there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from session.played import Played

from nexus_cli.config.paths import places
from nexus_cli.config.settings import CompactSettings, Settings
from nexus_cli.core.entry import Kind
from nexus_cli.core.errors import InUseError, NexusError
from nexus_cli.core.message import Message, Role
from nexus_cli.ledger import Ledger, SessionInfo
from nexus_cli.session import factory
from nexus_cli.session.factory import open_session
from nexus_cli.session.open_session import lock_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session


@pytest.mark.parametrize("model", ["/", "openai/", "unheard-of/model"])
def test_a_model_that_cannot_be_asked_leaves_no_session_behind(model: str, tmp_path: Path) -> None:
    with pytest.raises(NexusError) as refused:
        open_session(Options(tmp_path, model), Settings(), approver=None)
    assert refused.value.kind == "usage"
    ledger = Ledger.open(places().data / "ledger.db")
    try:
        assert not ledger.sessions()
    finally:
        ledger.close()


def test_a_session_that_cannot_be_resumed_stays_as_it_is_and_free_for_others(tmp_path: Path) -> None:
    made, mine, other = (Ledger.open(places().data / "ledger.db") for _ in range(3))
    info = made.create_session(
        folder="/p", project="/p", model="openai/m", recipe="chat", at="2026-01-13T14:30:00.000Z"
    )
    options = Options(tmp_path, "unheard-of/model", resume=info.id)
    try:
        with pytest.raises(NexusError):
            open_session(options, Settings(), approver=None, ledger=mine)
        assert other.session(info.id) == info and other.lock(info.id)
        with pytest.raises(InUseError):
            open_session(options, Settings(), approver=None, ledger=mine)
    finally:
        for ledger in (made, mine, other):
            ledger.close()


def test_an_opening_that_is_stopped_leaves_neither_a_session_nor_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the provider of a new session is made, and behind the lock of one that is resumed."""

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    def lock_and_stop(ledger: Ledger, session: SessionInfo) -> None:
        lock_session(ledger, session)
        raise KeyboardInterrupt

    ledger, options = Ledger.open(places().data / "ledger.db"), Options(tmp_path, "openai/m")
    try:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(factory, "make_provider", stop)
            open_session(options, Settings(), approver=None, ledger=ledger)
        assert not ledger.sessions()
        info = ledger.create_session(folder="/p", project="/p", model="openai/m", recipe="chat", at="")
        monkeypatch.setattr(factory, "lock_session", lock_and_stop)
        with pytest.raises(KeyboardInterrupt):
            open_session(replace(options, resume=info.id), Settings(), approver=None, ledger=ledger)
        assert not ledger.locked_sessions()
    finally:
        ledger.close()


@contextmanager
def opened(options: Options, settings: Settings | None = None) -> Iterator[Session]:
    """A session whose provider is our own."""
    provider = Played(lambda _: "yes")
    session = open_session(options, settings or Settings(), approver=None, provider=provider)
    try:
        yield session
    finally:
        asyncio.run(session.aclose())


def test_a_provider_of_ones_own_has_names_of_its_own(tmp_path: Path) -> None:
    with opened(Options(tmp_path, "mine")) as session:
        assert session.id


def test_the_model_that_sums_up_may_be_an_alias(tmp_path: Path) -> None:
    settings = Settings(alias={"small": "openai/gpt-4o-mini"}, compact=CompactSettings(model="small"))
    with opened(Options(tmp_path, "openai/m"), settings) as session:
        assert session.engine.other_model(settings.compact.model).info.name == "openai/gpt-4o-mini"


def test_an_effort_that_means_nothing_is_told(tmp_path: Path) -> None:
    with opened(Options(tmp_path, "openai/gpt-4o", effort="high")) as session:
        assert "openai/gpt-4o has no known effort levels; effort high is not sent" in session.notices


def test_the_repl_continues_its_own_newest_session_and_ask_the_newest_of_any_kind(tmp_path: Path) -> None:
    def begun(front: str) -> str:
        with opened(Options(tmp_path, "mine", front=front)) as session:
            asyncio.run(session.compact())  # begins the lane
            session.engine.conversation.append(Kind.USER, Message(Role.USER, "words"), "person")
            return session.id

    def continued(front: str, **chosen: Any) -> str:
        with opened(Options(tmp_path, "mine", front=front, **{"newest": True} | chosen)) as session:
            return session.id

    run = begun("ask")
    with pytest.raises(NexusError, match="only runs of `nexus ask`") as refused:
        continued("chat")
    assert "nexus -r" in refused.value.hint and continued("ask") == run
    talk, later = begun("chat"), begun("ask")
    assert (continued("chat"), continued("ask")) == (talk, later)
    assert continued("ask", newest=False, resume=talk) == talk
    assert continued("chat") == talk, "a turn of ask in a session leaves it a session"
    assert continued("chat", newest=False, resume=later) == later == continued("chat"), "opened in the REPL it is one"
