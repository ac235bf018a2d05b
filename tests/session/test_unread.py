"""Instructions that cannot be read in time: the person and the model are told, and the session gets them later."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sections.held_up import give_up, wait_until
from session.played import MODEL, Played, opened, the_ledger

from nexus_cli.config.settings import Settings
from nexus_cli.core import event
from nexus_cli.core.daemon_task import DaemonTask
from nexus_cli.core.entry import Cause
from nexus_cli.core.event import Event, TurnEnd
from nexus_cli.reports.check_replay import check
from nexus_cli.reports.context import context_report
from nexus_cli.sections import contributor
from nexus_cli.sections import instruction_files as loading
from nexus_cli.sections.contributors import instructions
from nexus_cli.session import section_sources
from nexus_cli.session.options import Options
from nexus_cli.session.session import Session

Disk = tuple[threading.Event, list[DaemonTask[Any]]]
"""Set when the disk answers; the reads of it."""
LINE = "[nexus: instructions could not be read: took longer than 0 s]"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """The instruction files are not read while its event is not set."""
    there, layers = threading.Event(), loading.instruction_layers

    def slowly(*args: Any) -> Any:
        there.wait()
        return layers(*args)

    monkeypatch.setattr(contributor, "instruction_layers", slowly)
    yield there, give_up(monkeypatch, "instructions", there)
    there.set()


def said(session: Session, disk: Disk, *words: str) -> list[Event]:
    """Turns; after the first the disk answers."""

    async def live() -> list[Event]:
        seen: list[Event] = []
        try:
            for number, text in enumerate(words):
                seen += [one async for one in session.run(text)]
                if not number:
                    disk[0].set()
                    await asyncio.to_thread(wait_until, lambda: all(task.ended for task in disk[1]))
        finally:
            await session.aclose()
        return seen

    return asyncio.run(live())


def test_the_model_and_the_person_are_told_and_the_next_turn_has_them(tmp_path: Path, disk: Disk) -> None:
    (tmp_path / "NEXUS.md").write_text("A rule of the project.")
    provider = Played(lambda request: "done")
    session = opened(provider, tmp_path)
    events = said(session, disk, "one", "two", "three")
    assert [one.outcome.ok for one in events if isinstance(one, TurnEnd)] == [True] * 3
    systems = [str(one[0]["content"]) for one in provider.seen]
    assert systems[0].endswith(LINE) and systems[0].startswith("You are nexus") and "A rule" not in systems[0]
    assert systems[1] == systems[2] and "A rule of the project." in systems[1] and LINE not in systems[1]
    told = [one.text for one in events if isinstance(one, event.Notice)]
    assert told[0] == "context section instructions was left out: took longer than 0 s"
    assert len([text for text in told if "finished loading: instructions" in text]) == 1
    with the_ledger() as ledger:
        [drop] = ledger.log(session.id).drops()
        assert drop.cause is Cause.LIMIT and drop.what == LINE[8:-1]
        log = ledger.log(session.id)
        assert log.epoch(1).cause == "reload" and check(ledger, session.id)["ok"]


@pytest.mark.matrix
def test_another_process_looks_again(tmp_path: Path, disk: Disk) -> None:
    (tmp_path / "NEXUS.md").write_text("A rule of the project.")
    provider = Played(lambda request: "done")
    session = said_id(provider, tmp_path, disk)
    said(opened(provider, tmp_path, session), disk, "two", "three")
    assert "A rule of the project." in str(provider.seen[-1][0]["content"])


def said_id(provider: Played, folder: Path, disk: Disk) -> str:
    """A session whose only turn had no instructions."""
    session = opened(provider, folder)
    said(session, disk, "one")
    assert LINE in str(provider.seen[-1][0]["content"])
    return session.id


def test_a_binary_file_of_a_project_ends_no_turn(tmp_path: Path) -> None:
    (tmp_path / "NEXUS.md").write_bytes(b"\0\1\2")
    provider = Played(lambda request: "done")
    session = opened(provider, tmp_path)
    events = said(session, (threading.Event(), []), "one")
    assert [one.outcome.ok for one in events if isinstance(one, TurnEnd)] == [True]
    [told] = [one.text for one in events if isinstance(one, event.Notice) and "NEXUS.md" in one.text]
    assert "is not a text file" in told and told.endswith("; skipped")


def test_the_report_of_a_new_session_does_not_wait_for_what_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, discover = threading.Event(), contributor.discover

    def read(sources: contributor.Sources) -> None:
        free.wait()

    hung = contributor.Contributor("hung", instructions.CONTRIBUTORS[0].layer, read, instructions.render)
    give_up(monkeypatch, "hung")
    monkeypatch.setattr(section_sources, "discover", lambda: {**discover(), "hung": hung})
    value = context_report(Options(tmp_path, MODEL), Settings(models={MODEL: {"window": 16_000}}), None)
    assert "context section hung was left out: took longer than 0 s" in value["notices"]
    assert not free.is_set()
