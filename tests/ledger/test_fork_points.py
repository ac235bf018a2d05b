"""Where a session may be forked, and what a fork takes for begun: its own past, never what others did afterwards."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest
from ledger.older import make_older
from search import sample

from nexus_cli.core.entry import Entry, Kind
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.ledger import Ledger, SessionInfo


def calling(make: SimpleNamespace, number: int, *calls: str) -> Entry:
    message = Message(Role.ASSISTANT, "", tuple(ToolCall(call, "bash", {}) for call in calls))
    return Entry(number, make.at, "agent", Kind.ASSISTANT, message)


def worked(ledger: Ledger, make: SimpleNamespace) -> SessionInfo:
    """1 words, 2 two calls, 3 and 4 their results in the order in which they ended, 5 a call, 6 its result, 7 words,
    8 two calls of which 9 answers the second."""
    info: SessionInfo = make.new(ledger)
    for entry in (
        make.user(1),
        calling(make, 2, "c2a", "c2b"),
        make.result(3, call="c2b"),
        make.result(4, call="c2a"),
        calling(make, 5, "c5a"),
        make.result(6, call="c5a"),
        make.user(7),
        calling(make, 8, "c8a", "c8b"),
        make.result(9, call="c8b"),
    ):
        ledger.log(info.id).append(entry)
    return info


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("asked", "given"),
    sample([(0, 0), (1, 1), (2, 1), (3, 1), (4, 4), (5, 4), (6, 6), (7, 7), (8, 7), (9, 9), (None, 9)], 4),
)
def test_a_fork_never_parts_a_call_from_its_result(
    ledger: Ledger, make: SimpleNamespace, asked: int | None, given: int
) -> None:
    parent = worked(ledger, make)
    fork = ledger.fork_session(parent.id, at=make.at, entry=asked)
    assert fork.entries == ledger.log(fork.id).last_id() == given


@pytest.mark.matrix
def test_calls_that_the_parent_starts_after_the_fork_are_not_the_forks(ledger: Ledger, make: SimpleNamespace) -> None:
    parent = worked(ledger, make)
    ledger.log(parent.id).record_start("c8a", "bash")
    fork = ledger.fork_session(parent.id, at=make.at, entry=7)
    whole = ledger.fork_session(parent.id, at=make.at)
    grandchild = ledger.fork_session(fork.id, at=make.at)
    assert [ledger.log(one.id).was_started("c8a") for one in (fork, grandchild, whole)] == [False, False, True]
    for own in (fork, grandchild):
        ledger.log(own.id).append(calling(make, 8, "c8a"))
        ledger.log(own.id).record_start("c8a", "bash")
        assert ledger.log(own.id).was_started("c8a")


def test_calls_of_a_main_lane_are_not_those_of_a_side_lane(ledger: Ledger, make: SimpleNamespace) -> None:
    info = worked(ledger, make)
    ledger.log(info.id).record_start("c8a", "bash")
    early, late = (ledger.log(info.id).open_lane("side", entry) for entry in (7, 9))
    assert not early.was_started("c8a") and late.was_started("c8a")


def test_an_older_ledger_learns_at_which_entry_its_calls_were_started(path: Path, make: SimpleNamespace) -> None:
    old = Ledger.open(path)
    parent = worked(old, make)
    forks = [old.fork_session(parent.id, at=make.at, entry=entry) for entry in (7, None)]
    old.close()
    make_older(path, 1)
    with sqlite3.connect(path) as connection:
        row = (parent.main_lane, "c8a", "bash", make.at)
        connection.execute("INSERT INTO started (lane, call, name, at) VALUES (?, ?, ?, ?)", row)
    connection.close()
    ledger = Ledger.open(path)
    assert [ledger.log(fork.id).was_started("c8a") for fork in forks] == [False, True]
    ledger.close()
