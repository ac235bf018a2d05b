"""What an open session does: from the line in its lock and the calls of its newest step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.commands.forms import find_form
from nexus_cli.commands.sessions import running_report, stop_running
from nexus_cli.core.entry import Entry, Kind
from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.ledger import Ledger

AT = "2026-01-01T00:00:00.000Z"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger.open(tmp_path / "ledger.db")
    yield made
    made.close()


def open_session(ledger: Ledger, **more: Any) -> str:
    made = ledger.create_session(folder="/f", project="/f", model="m", recipe="ask", at=AT, **more)
    ledger.log(made.id).append(Entry(1, AT, "person", Kind.USER, Message(Role.USER, "clean up"), "", 1))
    assert ledger.lock(made.id)
    return made.id


def states(ledger: Ledger) -> list[tuple[str, str | None]]:
    return [(one["state"], one["what"]) for one in running_report(ledger)["running"]]


def test_a_call_that_has_not_started_asks_and_one_that_has_runs(ledger: Ledger) -> None:
    session = open_session(ledger)
    assert states(ledger) == [("idle", None)]
    ledger.mark_busy(session, True)
    assert states(ledger) == [("runs", None)]
    calls = (ToolCall("c1", "bash", {"command": "rm -rf build"}),)
    log = ledger.log(session)
    log.append(Entry(2, AT, "agent", Kind.ASSISTANT, Message(Role.ASSISTANT, "", calls), "", 1))
    assert states(ledger) == [("asks", "bash rm -rf build")]
    text = find_form("running")(running_report(ledger), 120)
    assert "asks" in text and "clean up · bash rm -rf build" in text and "sessions stop" in text
    log.record_start("c1", "bash")
    assert states(ledger) == [("runs", "bash rm -rf build")]
    ledger.mark_busy(session, False)
    assert states(ledger) == [("idle", None)], "an interrupted turn does not run"
    ledger.release(session)
    assert states(ledger) == []


def test_workers_are_stopped_by_their_parent_and_closed_sessions_not_at_all(ledger: Ledger) -> None:
    parent = open_session(ledger)
    worker = open_session(ledger, spawner=parent)
    (row,) = (one for one in running_report(ledger)["running"] if one["kind"] == "worker")
    assert row["id"] == worker and row["parent"] == parent
    with pytest.raises(NexusError, match="worker of another session"):
        stop_running(ledger, worker)
    assert stop_running(ledger, parent).is_here
    ledger.release(parent)
    with pytest.raises(NexusError, match="no process has it open"):
        stop_running(ledger, parent)
