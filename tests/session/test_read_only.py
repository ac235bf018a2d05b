"""A session is gone on with where its ledger can be read and not written: in memory, after one warning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from session.played import MODEL, Answer, Played, opened, say, the_ledger
from session.summed import Summariser, ended, live, living

from nexus_cli.commands.memory import keep_fact
from nexus_cli.config.paths import places
from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.core.event import Notice
from nexus_cli.core.memory import MemorySlot
from nexus_cli.ledger import Ledger
from nexus_cli.session.factory import open_session
from nexus_cli.session.options import Options

OTHER = "openai/other"
SETTINGS = Settings(models={MODEL: {"window": 16_000}, OTHER: {"window": 32_000}})


def begun(folder: Path, words: str = "the first words") -> str:
    """A session of one turn that has ended; nothing can be written to its ledger any more."""
    session = opened(Played(lambda request: "the first answer"), folder)
    assert say(session, words)[1].ok
    with the_ledger() as ledger:
        keep_fact(ledger, MemorySlot.USER, "The person wants every answer in French.", "", "2026-01-13T14:30:00.000Z")
    closed()
    return session.id


def closed() -> None:
    """Where the locks lie stands a file: nothing can be opened for writing, whoever asks."""
    locks = places().data / "locks"
    for lock in locks.iterdir():
        lock.unlink()
    locks.rmdir()
    locks.write_text("")


def kept() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in places().data.rglob("*") if path.is_file()}


@pytest.mark.matrix
@pytest.mark.parametrize("how", [{"newest": True}, {"resume": "the session"}, {"newest": True, "model": OTHER}])
def test_the_history_is_at_hand_and_what_follows_is_not_kept(how: dict[str, Any], tmp_path: Path) -> None:
    id_ = begun(tmp_path)
    before = kept()
    if "resume" in how:
        how = {"resume": id_}
    provider = Played(lambda request: "the second answer")
    options = Options(tmp_path, **{"model": MODEL, "allow": "all", **how})
    session = open_session(options, SETTINGS, approver=None, provider=provider)
    assert session.id == id_ and not session.saved
    [warning] = session.notices
    assert "ledger" in warning and warning.endswith("later messages are kept in memory and lost when the session ends")
    events, outcome = say(session, "go on, every answer")
    assert outcome.ok and outcome.text == "the second answer"
    assert not [event for event in events if isinstance(event, Notice)]
    text = str(provider.seen[0])
    assert "the first words" in text and "the first answer" in text and "in French" in text
    assert kept() == before


def test_with_require_save_nothing_is_asked(tmp_path: Path) -> None:
    begun(tmp_path)
    provider = Played(lambda request: "no")
    options = Options(tmp_path, MODEL, newest=True, require_save=True)
    with pytest.raises(NexusError) as refused:
        open_session(options, SETTINGS, approver=None, provider=provider)
    assert refused.value.kind == "ledger" and not provider.seen


def test_a_folder_without_a_session_is_told_so(tmp_path: Path) -> None:
    begun(tmp_path)
    (tmp_path / "other").mkdir()
    with pytest.raises(NexusError, match="no session in"):
        open_session(Options(tmp_path / "other", MODEL, newest=True), SETTINGS, approver=None, provider=Played(str))


@pytest.mark.matrix
def test_it_works_calls_compacts_and_remembers_nothing(tmp_path: Path) -> None:
    async def saved() -> str:
        turns = (f"TURN{number} make a list" for number in range(5))
        async with living(tmp_path, Summariser(), *turns) as session:
            return session.id

    id_ = live(saved())
    closed()
    before = kept()

    def work(request: Any) -> Answer:
        if request.messages[-1]["role"] == "tool":
            return "done"
        return [("remember", {"slot": "user", "text": "likes lists"}), ("bash", {"command": "echo it runs"})]

    async def again() -> None:
        provider = Played(Summariser(work=work))
        async with living(tmp_path, None, "and now", provider=provider, again=id_) as session:
            results = [str(message["content"]) for message in provider.seen[-1] if message["role"] == "tool"][-2:]
            assert "not saved" in results[0] and "it runs" in results[1]
            assert ended(await session.compact()).ok and not session.saved
            assert len(session.drops()) == 1

    live(again())
    assert kept() == before
    look = Ledger.open_for_reading(places().ledger)
    assert not look.writes and look.lock(id_)
    look.close()
