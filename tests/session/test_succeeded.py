"""A session after another one in the same process: another model, another session; and what a session tells of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from session.played import MODEL, Person, Played, the_ledger
from session.played import Answer as Reply

from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.approval import Allow
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import CompactionDone, Event, ToolResultEvent, TurnEnd
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import Delta, Request, TextDelta
from nexus_cli.engine import turn
from nexus_cli.reports.context import live_report
from nexus_cli.reports.export import session_pieces
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

OTHER = "openai/other"
SETTINGS = Settings(models={MODEL: {"window": 16_000}, OTHER: {"window": 32_000}})


def _open(
    folder: Path, provider: Played, person: Person | None = None, earlier: Session | None = None, **more: object
) -> Session:
    options = replace(Options(folder, MODEL), **more)  # type: ignore[arg-type]
    return open_session(options, SETTINGS, approver=person, provider=provider, earlier=earlier)


async def _turn(session: Session, words: str) -> list[Event]:
    return [event async for event in session.run(words)]


def _shell_then_done(request: Request) -> Reply:
    return "done" if request.messages[-1]["role"] == "tool" else [("bash", {"command": "touch hi; ls"})]


@pytest.mark.matrix
async def test_the_same_session_goes_on_under_another_model_with_what_was_allowed(tmp_path: Path) -> None:
    provider, person = Played(_shell_then_done), Person(Allow(always=True))

    first = _open(tmp_path, provider, person)
    await _turn(first, "one")
    second = _open(tmp_path, provider, person, first, model=OTHER, resume=first.id)
    events = await _turn(second, "two")
    assert second.id == first.id and second.status().budget > first.status().budget
    await second.aclose()
    assert any(isinstance(event, ToolResultEvent) and "hi" in event.result.text for event in events)
    assert len(person.asked) == 1, "what was allowed for the session holds on"
    assert provider.seen[-1][1]["content"].endswith("one")
    with the_ledger() as ledger:
        assert ledger.session(second.id).model == OTHER and ledger.session(second.id).turns == 2


@pytest.mark.matrix
async def test_what_a_message_without_a_request_had_to_tell_is_told_under_another_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first turn after the end of a job cost too much, so the person chose another model."""

    async def refuse(*arguments: object) -> None:
        raise NexusError("limit", "the request", "it would cost too much")

    provider = Played(lambda request: "done")
    session = _open(tmp_path, provider)
    await _turn(session, "one")
    session.engine.notices.keep("j1", "job j1 ended")
    with monkeypatch.context() as patch:
        patch.setattr(turn, "call_model", refuse)
        await _turn(session, "two")
    session.engine.notices.keep("j2", "job j2 ended")
    session = _open(tmp_path, provider, earlier=session, model=OTHER, resume=session.id)
    for _ in range(2):
        await _turn(session, "three")
        assert [str(provider.seen[-1]).count(f"job {job} ended") for job in ("j1", "j2")] == [1, 1]
    await session.aclose()


@pytest.mark.matrix
async def test_another_session_starts_clean_and_frees_the_one_before(tmp_path: Path) -> None:
    provider, person = Played(_shell_then_done), Person(Allow(always=True))

    first = _open(tmp_path, provider, person)
    await _turn(first, "one")
    second = _open(tmp_path, provider, person, first)
    assert second.id != first.id
    with the_ledger() as elsewhere:
        assert elsewhere.lock(first.id) and not elsewhere.lock(second.id)
    await _turn(second, "two")
    assert len(person.asked) == 2, "what was allowed in one session is not allowed in the next"
    await second.aclose()


@pytest.mark.matrix
async def test_after_an_error_the_earlier_session_goes_on(tmp_path: Path) -> None:
    provider = Played(lambda request: "fine")

    first = _open(tmp_path, provider)
    await _turn(first, "one")
    for wrong in ({"resume": "nothing-like-it"}, {"recipe": "no-such-recipe"}):
        with pytest.raises(NexusError):
            _open(tmp_path, provider, None, first, **wrong)
    events = await _turn(first, "two")
    assert events[-1].outcome.ok  # type: ignore[union-attr]
    await first.aclose()


@pytest.mark.matrix
async def test_a_model_that_is_refused_leaves_session_and_locks_as_they_were(tmp_path: Path) -> None:
    provider = Played(lambda request: "fine")
    capped = replace(SETTINGS, limits=Limits(max_steps=9, max_cost=1.0))

    other = _open(tmp_path, provider)
    await _turn(other, "other")
    await other.aclose()
    first = _open(tmp_path, provider)
    await _turn(first, "one")
    for resume in (first.id, other.id):
        options = Options(tmp_path, "openai/unpriced-thing", resume=resume)
        with pytest.raises(NexusError, match="price"):
            open_session(options, capped, approver=None, provider=provider, earlier=first)
    with the_ledger() as elsewhere:
        assert elsewhere.lock(other.id) and not elsewhere.lock(first.id)
        assert {elsewhere.session(one).model for one in (first.id, other.id)} == {MODEL}
    await first.aclose()
    kept = first.id, other.id
    with the_ledger() as ledger:
        assert {info.id for info in ledger.sessions()} == set(kept)


@pytest.mark.matrix
async def test_what_waits_in_a_session_goes_over_to_its_successor(tmp_path: Path) -> None:
    provider = Played(lambda request: "fine")

    first = _open(tmp_path, provider)
    await _turn(first, "one")
    (tmp_path / "NEXUS.md").write_text("Say moin.\n")
    first.reload()
    first.steer("and also this")
    second = _open(tmp_path, provider, None, first, allow="edit", resume=first.id)
    assert second.undelivered == ("and also this",) and not first.undelivered
    await _turn(second, "two")
    await second.aclose()
    assert "Say moin." in str(provider.seen[-1][0]), "the reload was not forgotten"


class Silent(Played):
    """A provider that never answers."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Wait until the request is given up."""
        await asyncio.Event().wait()
        yield TextDelta("")


@pytest.mark.matrix
def test_words_are_kept_however_early_the_turn_is_stopped(tmp_path: Path) -> None:
    provider = Silent(lambda request: "")

    async def run(steps: int) -> str:
        session = _open(tmp_path, provider)
        events = asyncio.create_task(_turn(session, "these words"))
        for _ in range(steps):
            await asyncio.sleep(0)
        session.cancel("person")
        async with asyncio.timeout(30):
            seen = await events
        assert isinstance(seen[-1], TurnEnd) and not seen[-1].outcome.ok
        await session.aclose()
        return session.id

    for steps in (2, 3, 5, 8, 13, 40):
        kept = asyncio.run(run(steps))
        with the_ledger() as ledger:
            (entry, *_) = ledger.log(kept).read(1, 9)
            assert entry.message.content == "these words", steps


async def test_a_ledger_that_fails_between_turns_is_told_and_its_copy_is_whole(tmp_path: Path) -> None:
    provider = Played(lambda request: "fine")

    session = _open(tmp_path, provider)
    await _turn(session, "one")
    assert session.ledger is not None and session.record is not None
    session.ledger.db.run("PRAGMA query_only = ON")
    await session.share("long", "x " * 20_000)
    assert not session.saved
    (notice,) = session.take_notices()
    assert "memory" in notice and not session.take_notices()
    await _turn(session, "two")
    info = session.ledger.session(session.id)
    text = "".join(session_pieces(session.record, info, "md"))
    assert "one" in text and "two" in text and text.count("fine") == 2
    (drop,) = session.record.drops()
    assert session.record.original(drop.id) == "x " * 20_000
    await session.aclose()


@pytest.mark.matrix
async def test_a_session_that_is_not_saved_can_be_succeeded_in_memory(tmp_path: Path) -> None:
    provider = Played(lambda request: "fine")

    first = _open(tmp_path, provider, save=False)
    await _turn(first, "remember me")
    again = _open(tmp_path, provider, None, first, save=False, resume=first.id, model=OTHER)
    await _turn(again, "two")
    assert any("remember me" in str(message["content"]) for message in provider.seen[-1])
    await again.aclose()
    assert not places().ledger.exists()


@pytest.mark.matrix
@pytest.mark.parametrize("leave", ["close", "succeed"])
async def test_a_session_in_which_nothing_was_said_leaves_no_trace(tmp_path: Path, leave: str) -> None:
    provider = Played(lambda request: "fine")

    first = _open(tmp_path, provider)
    if leave == "succeed":
        second = _open(tmp_path, provider, None, first)
        await _turn(second, "hello")
        await second.aclose()
    else:
        await first.aclose()
    gone = first.id
    with the_ledger() as ledger:
        assert gone not in [info.id for info in ledger.sessions()]
        assert len(ledger.sessions()) == (leave == "succeed")


@pytest.mark.matrix
async def test_the_status_tells_where_a_session_stands(tmp_path: Path) -> None:
    provider = Played(_shell_then_done)

    session = _open(tmp_path, provider, allow="all")
    assert session.status().cached is None and session.status().drops == 0
    assert live_report(session)["session"] is None, "before the first turn it is the first of a new session"
    await _turn(session, "one")
    status = session.status()
    assert (status.model, status.allow, status.folder) == (MODEL, "all", str(tmp_path))
    assert 0 < status.used < status.budget and status.cost_usd == 0.5 and status.saved
    assert live_report(session)["budget"]["used"]["total"] == status.used
    assert not session.is_open() and not session.busy
    await session.aclose()


async def test_words_for_a_running_turn_can_be_taken_back(tmp_path: Path) -> None:
    seen: list[str] = []
    session: list[Session] = []

    def script(request: Request) -> Reply:
        if len(seen) == 0:
            seen.append("first")
            session[0].steer("forget it")
            session[0].steer("do this")
            assert session[0].undelivered == ("forget it", "do this")
            for words in session[0].take_back()[1:]:
                session[0].steer(words)
        return "fine"

    provider = Played(script)

    session.append(_open(tmp_path, provider))
    await _turn(session[0], "one")
    await session[0].aclose()
    said = [str(message["content"]) for message in provider.seen[-1] if message["role"] == "user"]
    assert any("do this" in words for words in said) and not any("forget it" in words for words in said)


@pytest.mark.matrix
async def test_what_is_shared_is_as_long_as_one_tool_result_and_the_rest_a_drop(tmp_path: Path) -> None:
    session = _open(tmp_path, Played(lambda request: "fine"))
    assert await session.share("ls", "short") == '<shell command="ls">\nshort\n</shell>'
    text = "".join(f"line {number}\n" for number in range(20_000))
    shared = await session.share("seq", text)
    (drop,) = session.ledger.log(session.id).drops() if session.ledger else []
    kept = session.ledger.log(session.id).original(drop.id) if session.ledger else None
    assert drop.id in shared and kept == text
    await session.aclose()
    assert kept is not None and len(shared) < len(kept) / 4


@pytest.mark.matrix
async def test_after_a_switch_of_model_and_in_a_fork_nothing_is_told_twice(tmp_path: Path) -> None:
    provider = Played(_shell_then_done)

    session = _open(tmp_path, provider, Person(Allow(always=True)))
    await _turn(session, "one")
    session = _open(tmp_path, provider, Person(Allow(always=True)), session, model=OTHER, resume=session.id)
    await _turn(session, "two")
    assert session.ledger is not None
    fork = session.ledger.fork_session(session.id, at="2027-01-01T00:00:00.000Z").id
    session = _open(tmp_path, provider, Person(Allow(always=True)), session, resume=fork, model=MODEL)
    await _turn(session, "three")
    await session.aclose()
    assert str(provider.seen[-1]).count("Session started") == 1


@pytest.mark.matrix
async def test_a_compaction_on_command_makes_small_what_is_there(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        asked = str(request.messages[-1]["content"])
        summing = "summ" in asked.lower() and "turn" not in asked[:8]
        return "Goal: all of it. Next: nothing." if summing else "word " * 280

    session = _open(tmp_path, Played(script), model=OTHER)
    for number in range(10):
        await _turn(session, f"turn {number}")
    before = session.context.conversation.counted
    assert before < session.status().budget * 0.26, "far from full"
    events = await session.compact()
    done = [event for event in events if isinstance(event, CompactionDone)]
    assert done and done[0].ok and done[0].after < 0.62 * before, done
    await session.aclose()
