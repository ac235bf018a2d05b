"""The logger writes one lane of one session, and fulfils the services that other rooms are handed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from nexus_cli.context import ContextConfig, ContextManager
from nexus_cli.core.entry import Cause, Drop, Entry, Epoch, Kind, Manifest
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import Message, Role
from nexus_cli.core.services import Calibration, Calibrations, Counts, FixedValues, Log, Recall, SeenFileStore
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import Ledger
from nexus_cli.reports.timeline import session_timeline
from nexus_cli.session.logger import LogConfig, SessionLogger

AT = "2026-01-13T14:30:00.000Z"


def noon() -> datetime:
    return datetime(2026, 1, 13, 12, tzinfo=UTC)


def said(number: int, text: str) -> Entry:
    return Entry(number, AT, "person", Kind.USER, Message(Role.USER, text))


EPOCH = Epoch(0, None, "start", "m", "be brief", ({"type": "function"},), "{}", (), 0)


@pytest.fixture
def config(tmp_path: Path) -> LogConfig:
    return LogConfig(tmp_path / "data" / "ledger.db", folder=tmp_path, model="openai/m", recipe="ask")


def test_a_logger_begins_a_session_as_it_is_told(config: LogConfig, tmp_path: Path) -> None:
    log = SessionLogger(config, clock=noon)
    made = log.session
    assert (made.folder, made.project, made.model, made.recipe) == (str(tmp_path), str(tmp_path), "openai/m", "ask")
    assert made.created == "2026-01-13T12:00:00.000Z" and made.main_lane == log.lane
    assert (log.last_id(), log.cursor(), log.step(), log.next_epoch(), log.current_epoch()) == (0, 0, 0, 0, None)
    log.close()


@pytest.mark.matrix
def test_the_timeline_of_a_program_begins_with_the_model_of_its_logger(config: LogConfig) -> None:
    log = SessionLogger(config)
    manager = ContextManager(config=ContextConfig(), logger=log)
    manager.add_user_message("hello")
    manager.build_messages()
    assert session_timeline(log.ledger, log.session.id)["rows"][0]["text"] == "recipe ask, openai/m"
    log.close()


def test_a_relative_folder_is_kept_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = SessionLogger(LogConfig(tmp_path / "data" / "ledger.db", folder=Path(".")))
    assert log.session.folder == str(tmp_path)
    log.close()


def test_it_serves_as_every_service_that_it_promises(config: LogConfig) -> None:
    log = SessionLogger(config)
    services: tuple[Log, Recall, SeenFileStore, Calibrations, Counts] = (log, log, log, log, log)
    assert isinstance(services[1], Recall) and isinstance(services[2], SeenFileStore)
    log.calibrate("m", Calibration(1.5, 1, (0.1,)))
    log.store_count("o200k_base", b"d" * 32, 12)
    log.note("/p/a", "aa", "read")  # commits what waits for the next transaction, too
    assert log.calibration("m") == Calibration(1.5, 1, (0.1,))
    assert log.stored_count("o200k_base", b"d" * 32) == 12 and log.stored_count("o200k_base", b"e" * 32) is None
    assert log.digest("/p/a") == "aa" and log.digest("/p/b") is None
    log.close()


def test_another_process_finds_the_lane_as_it_was_left(config: LogConfig) -> None:
    log = SessionLogger(config)
    identity = log.session.id
    log.append(said(1, "please"))
    log.begin_epoch(EPOCH, [])
    log.record_request(Manifest(1, 0, 1, {"model": "m"}, "ab" * 32, 9, AT), [FixedValues(1, "now", 4, b"l" * 32)], [])
    log.record_reply(None, 1, Usage(9, 1, cost_usd=0.5), "stop", True)
    log.record_start("c1", "bash")
    log.close()
    log = SessionLogger(config, session=identity)
    assert [(entry.message.content, entry.preamble) for entry in log.read(1, log.last_id())] == [("please", "now")]
    assert (log.cursor(), log.step(), log.next_epoch(), log.current_epoch()) == (1, 1, 1, EPOCH)
    assert log.epoch(0) == EPOCH and log.line_hashes(0, 1) == ([], [(1, b"l" * 32)])
    (row,) = log.requests()
    assert (row.finish, row.reported, row.usage) == ("stop", True, Usage(9, 1, cost_usd=0.5))
    newest = log.last_request()
    assert newest is not None and newest.manifest == row.manifest
    assert log.was_started("c1") and not log.was_started("c2")
    assert log.session.first_text == "please"
    with pytest.raises(NexusError, match="epoch 1: the session has no such epoch"):
        log.epoch(1)
    log.close()


def test_a_fork_leaves_its_parent_alone_and_shares_its_drop_numbers(config: LogConfig) -> None:
    log = SessionLogger(config)
    log.append(said(1, "one"))
    log.begin_epoch(EPOCH, [])
    side = log.open_lane("compact", 1)
    side.append(said(2, "summarise"))
    log.append(said(2, "two"))
    assert [entry.message.content for entry in side.read(1, 9)] == ["one", "summarise"]
    assert [entry.message.content for entry in log.read(1, 9)] == ["one", "two"]
    assert side.current_epoch() == EPOCH and side.session.id == log.session.id
    assert [log.next_drop(), side.next_drop(), log.next_drop()] == ["d1", "d2", "d3"]
    alone = log.open_lane("goal")
    assert alone.last_id() == 0 and alone.current_epoch() is None and alone.next_epoch() == 1
    assert log.last_id() == 2
    log.close()


def test_recall_gives_the_whole_back_and_counts(config: LogConfig) -> None:
    log = SessionLogger(config)
    log.append(said(1, "long ago"))
    log.record_drop(Drop(log.next_drop(), "result", 10, Cause.OUTPUT_CAP, AT, text="all of it"))
    log.record_drop(Drop(log.next_drop(), "1 entry", 10, Cause.COMPACTION, AT, entries=(1, 1)))
    assert (log.original("d1"), log.original("d2"), log.original("d3")) == ("all of it", "[1] user\nlong ago", None)
    for name in ("d1", "d2", "d3", "d1"):
        log.count_recall(name)
    assert [drop.recalls for drop in log.ledger.log(log.session.id).drops()] == [2, 1]
    log.close()


def test_a_new_session_is_held_by_its_logger(config: LogConfig) -> None:
    log = SessionLogger(config)
    other = Ledger.open(config.path)
    assert not other.lock(log.session.id)
    log.close()
    log.close()
    assert other.lock(other.sessions()[0].id)
    other.close()


def test_nothing_is_written_where_nothing_is_to_be_saved(tmp_path: Path) -> None:
    log = SessionLogger(LogConfig(tmp_path / "data" / "ledger.db", folder=tmp_path, save=False))
    log.append(said(1, "secret"))
    assert log.ledger.path is None and log.read(1, 1)[0].message.content == "secret"
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_without_a_path_it_is_the_persons_own_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    log = SessionLogger()
    assert log.ledger.path == tmp_path / "home" / "data" / "ledger.db" and log.session.folder == str(tmp_path)
    log.close()


def test_an_unknown_session_is_a_usage_error(config: LogConfig) -> None:
    with pytest.raises(NexusError) as caught:
        SessionLogger(config, session="01J")
    assert caught.value.kind == "usage"
