"""What a resumed session reads of former requests says the same as all of them would."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from ledger.conftest import AT, epoch, manifest, new, on, user
from search import sample

from nexus_cli.core.usage import Usage
from nexus_cli.engine.requests.request_history import read_requests
from nexus_cli.ledger import Ledger
from nexus_cli.ledger.requests import MAX_RECENT, MAX_REPORTED, RequestRow

LONG, SHORT = 8, 3
"""Requests, and forks, at most."""


def known(ledger: Ledger, session: str, which: str) -> dict[str, Any]:
    """What `resume` makes of the requests: of each epoch the newest and the smallest, when it was used, and whether the
    provider told of a cache."""
    found = read_requests(ledger.log(session), which)
    rows = [row for row in (*found.source, *found.lanes[ledger.session(session).main_lane]) if row.reported_tokens]
    newest: dict[int, RequestRow] = {}
    smallest: dict[int, int] = {}
    for row in rows:
        newest.pop(row.manifest.epoch, None)
        newest[row.manifest.epoch] = row
        smallest[row.manifest.epoch] = min(row.reported_tokens, smallest.get(row.manifest.epoch, row.reported_tokens))
    return {
        "proven": found.proven,
        "used": {number: times[-1] for number, times in found.used.items()},
        "newest": [(number, row.lane, row.manifest.step) for number, row in newest.items()],
        "smallest": smallest,
    }


def grow(ledger: Ledger, session: str, chance: random.Random, clock: list[datetime], back: bool) -> None:
    """Some requests more: answered, refused, without figures or without an end; now and then a new epoch."""
    lane = ledger.session(session).main_lane
    for _ in range(chance.randint(1, LONG)):
        entry = on(ledger, lane).last_id() + 1
        on(ledger, lane).append(user(entry))
        current = on(ledger, lane).current_epoch()
        if current is None or chance.random() < 0.25:
            current = epoch(on(ledger, lane).next_epoch(), current.id if current else None, (), entry - 1)
            on(ledger, lane).begin_epoch(current, [])
        step = on(ledger, lane).step() + 1
        clock[0] += timedelta(seconds=chance.choice([1, 1, -3600]) if back else 1)
        at = clock[0].isoformat().replace("+00:00", "Z")
        on(ledger, lane).record_request(replace(manifest(step, entry, current.id), at=at), [], [])
        end = chance.random()
        if end < 0.15:
            on(ledger, lane).record_reply(None, step, Usage(chance.choice([0, 500]), 1), "error", False)
        elif end < 0.85:
            read = 64 if chance.random() < 0.3 else 0
            on(ledger, lane).record_reply(None, step, Usage(chance.randint(100, 1000), 1, read), "stop", True)


@pytest.mark.matrix
@pytest.mark.parametrize("back", sample([False, True], 2), ids=["a clock that goes on", "a clock that is set back"])
def test_the_notable_requests_say_what_all_of_them_would(back: bool) -> None:
    for seed in range(60):
        chance, clock = random.Random(seed), [datetime.fromisoformat(AT.replace("Z", "+00:00"))]
        ledger = Ledger.open(None)
        sessions = [str(new(ledger).id)]  # type: ignore[attr-defined]
        grow(ledger, sessions[0], chance, clock, back)
        for _ in range(chance.randint(0, SHORT)):
            source = chance.choice(sessions)
            last = ledger.log(source).last_id()
            fork = ledger.fork_session(source, at=AT, entry=chance.choice([None, chance.randint(1, last)]))
            sessions.append(fork.id)
            grow(ledger, chance.choice(sessions), chance, clock, back)
        for session in sessions:
            assert known(ledger, session, "notable") == known(ledger, session, "all"), f"seed {seed}"
            every = ledger.log(session).requests()
            of_epoch = [row for row in every if row.reported and row.manifest.epoch == every[-1].manifest.epoch]
            assert ledger.log(session).requests("reported") == of_epoch[-MAX_REPORTED:], f"seed {seed}"
        ledger.close()


@pytest.mark.matrix
def test_a_resume_reads_the_newest_requests_of_a_very_long_lane_alone() -> None:
    ledger = Ledger.open(None)
    info: Any = new(ledger)
    log = ledger.log(info.id)
    log.append(user(1))
    log.begin_epoch(epoch(0, None, (), 0), [])
    log.record_request(manifest(1, 1, 0), [], [])
    log.record_reply(None, 1, Usage(50, 1), "stop", True)
    columns = ("lane", "epoch", "last_entry", "arguments", "sha256", "estimate", "at", "finish", "reported")
    copied = f"{', '.join(columns)}, output, cache_read, cache_write, reasoning, cost, cached, sent"
    with ledger.db.write():
        ledger.db.run(
            "WITH RECURSIVE steps (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM steps WHERE n <= ?)"
            f" INSERT INTO requests (step, input, {copied}) SELECT n, 50 + n, {copied} FROM requests, steps",
            MAX_RECENT,
        )
    rows = log.requests("notable")
    assert [row.manifest.step for row in rows] == [2, MAX_RECENT + 1], "the smallest and the newest of them"
    assert log.session_requests("notable") == rows and len(log.requests()) == MAX_RECENT + 1
    assert len(log.requests("reported")) == MAX_REPORTED
    ledger.close()
