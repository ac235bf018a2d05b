"""Requests: the manifest of each, recorded before its first byte is sent, and its outcome."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import pairwise
from typing import Any

from nexus_cli.core.elide import plural
from nexus_cli.core.entry import Manifest
from nexus_cli.core.errors import UsageError
from nexus_cli.core.services import FixedValues
from nexus_cli.core.shared_types import T
from nexus_cli.core.usage import Cost, Usage
from nexus_cli.core.wire import canonical
from nexus_cli.ledger import blobs, entries, epochs, lanes, sessions
from nexus_cli.ledger.database import Database, Query

LOST = "lost"
"""Finish of a request whose process was ended before the answer."""
USAGE = tuple(
    "input output cache_read cache_write reasoning cost cost_input cost_cached cost_written cost_output saved".split()
)
"""Columns of a usage: see `read_usage`."""
_OPEN = "finish IS NULL AND lane IN (SELECT l.id FROM lanes l JOIN sessions s ON s.key = l.session WHERE s.id = ?)"
"""The condition for requests of a session without an outcome."""
LOST_QUERY = f"SELECT step FROM requests WHERE {_OPEN}"
"""Query of these requests, by the id of the session."""


@dataclass(frozen=True, slots=True)
class RequestRow:
    """One request and its outcome."""

    manifest: Manifest
    usage: Usage | None
    """None until the request ends."""
    finish: str | None
    reported: bool
    """True if the provider reported the usage, false if nexus estimated it."""
    lane: int
    sent_body: str
    """The library that built the body, its version, and the body's SHA-256; "" if the transport did not show it."""
    session: str = ""
    """The session that sent it, if that is not the lane's own."""

    @property
    def is_unfinished(self) -> bool:
        """True if it is under way, or its process was ended before the answer."""
        return self.finish in (None, LOST)

    @property
    def was_answered(self) -> bool:
        """True if a provider processed the request. A request that failed or was refused has no usage."""
        return self.usage is not None and not self.is_unfinished and (self.reported or self.usage.input > 0)

    @property
    def model(self) -> str:
        """The model that it was sent to."""
        return str(self.manifest.arguments.get("model", ""))

    @property
    def reported_usage(self) -> Usage | None:
        """The usage that the provider reported."""
        return self.usage if self.reported else None

    @property
    def reported_tokens(self) -> int:
        """Input tokens that the provider reported; 0 if it reported none."""
        return self.reported_usage.input if self.reported_usage else 0

    @property
    def counted(self) -> Usage:
        """The usage; without an outcome our estimate, of an unknown price."""
        return self.usage or Usage(self.manifest.estimate, cost_usd=None)


@dataclass(frozen=True, slots=True)
class InheritedRequests:
    """The requests under the epochs that a lane shares with the lanes it was forked from, oldest first in each lane."""

    before: tuple[RequestRow, ...] = ()
    """Those whose messages the lane has exactly as they were sent."""
    beside: tuple[RequestRow, ...] = ()
    """Those that continue the same beginning differently."""


def record(
    db: Database,
    lane: int,
    manifest: Manifest,
    fixed: Sequence[FixedValues],
    head_lines: Sequence[bytes],
    with_preambles: Sequence[FixedValues] = (),
) -> None:
    """Record a request before it is sent: manifest, settled entries, cursor; inside a transaction.

    Its step is the lane's alone: the ledger refuses one that was recorded. Raises as `entries.settle`.
    """
    epoch, session = epochs.key_values(db, lane, manifest.epoch), lanes.session_of(db, lane)
    stored = blobs.put(db, session, canonical(dict(manifest.arguments)))
    entries.settle(db, lane, fixed)
    epochs.settle_head(db, epoch, head_lines, with_preambles)
    db.run(
        "INSERT INTO requests (lane, step, epoch, last_entry, arguments, sha256, estimate, at, cached)"
        f" VALUES (?, ?, {epochs.KEY}, ?, {db.blob_id}, ?, ?, ?, ?)",
        lane,
        manifest.step,
        *epoch,
        manifest.last,
        *stored,
        bytes.fromhex(manifest.sha256),
        manifest.estimate,
        manifest.at,
        manifest.cached,
    )
    db.run("UPDATE lanes SET cursor = ? WHERE id = ?", manifest.last, lane)


def read_usage(row: Sequence[Any]) -> Usage:
    """Return the usage of a request, or the sums of several, from its columns `USAGE`."""
    return Usage(*(*row[:6], Cost(*row[6:])))


def record_outcome(
    db: Database, lane: int, step: int, usage: Usage, finish: str, reported: bool, sent_body: str
) -> None:
    """Record the outcome of request `step` unless it has one; inside a transaction."""
    is_open = "lane = ? AND step = ? AND finish IS NULL"
    condition = f"EXISTS (SELECT 1 FROM requests WHERE {is_open})"
    sessions.add_cost(db, lanes.session_of(db, lane), usage, condition, lane, step)
    *used, cost = astuple(usage)
    db.run(
        f"UPDATE requests SET finish = ?, reported = ?, {' = ?, '.join(USAGE)} = ?, sent = ? WHERE {is_open}",
        finish,
        int(reported),
        *used,
        *cost,
        sent_body,
        lane,
        step,
    )


def close_lost_requests(db: Database, session: str) -> None:
    """Record the outcome of requests of a session whose process was ended: our estimate, without a price. The caller
    holds the session's lock."""
    if rows := db.all(LOST_QUERY, session):
        key = sessions.key_of(db, session)
        with db.write():
            for _ in rows:
                sessions.add_cost(db, key, Usage(cost_usd=None))
            sums = "input = estimate, output = 0, cache_read = 0, cache_write = 0, reasoning = 0"
            db.run(f"UPDATE requests SET finish = '{LOST}', reported = 0, {sums} WHERE {_OPEN}", session)


def finish_query(db: Database, lane: int, entry: int) -> Query:
    """Return the query of the finish of the request whose reply is `entry`, which `lane` shows."""
    source_lane = next((part.lane for part in lanes.ancestry(db, lane) if part.first <= entry <= part.last), lane)
    return (
        "SELECT finish FROM requests WHERE lane = ? AND last_entry < ? ORDER BY step DESC LIMIT 1",
        source_lane,
        entry,
    )


MAX_REPORTED, MAX_RECENT = 8, 2_000
_RECENT = (
    f"FROM lanes l JOIN requests q ON q.lane = l.id AND q.step > -{MAX_RECENT} +"
    " (SELECT step FROM requests WHERE lane = l.id AND last_entry <= {last} ORDER BY step DESC LIMIT 1)"
    " WHERE l.id IN ({own}) AND q.last_entry <= {last}"
)
_OF_EPOCHS = (
    "SELECT lane, step FROM (SELECT q.lane, q.step, row_number() OVER (PARTITION BY q.lane, q.epoch ORDER BY {}) AS"
    f" place {_RECENT} {{}}) AS ranked WHERE place = 1"
)
_REPORTED = "AND reported = 1 AND input > 0"


def _notable(own: str, last: int) -> str:
    selections = (
        ("step DESC", ""),
        ("at DESC", ""),
        ("step DESC", _REPORTED),
        ("input", _REPORTED),
        ("step DESC", f"{_REPORTED} AND cache_read + cache_write > 0"),
    )
    rows = (_OF_EPOCHS.format(order, which, own=own, last=last) for order, which in selections)
    return " UNION ".join(rows)


WHICH: Mapping[str, Callable[[str, int], str]] = {
    "all": lambda own, last: f"SELECT lane, step FROM requests WHERE lane IN ({own})",
    "newest": lambda own, last: f"SELECT lane, step FROM requests WHERE lane IN ({own}) ORDER BY step DESC LIMIT 1",
    "reported": lambda own, last: (
        f"SELECT q.lane, q.step {_RECENT.format(own=own, last=last)} AND q.reported = 1 AND q.epoch ="
        f" (SELECT epoch FROM requests WHERE lane IN ({own}) ORDER BY step DESC LIMIT 1)"
        f" ORDER BY q.step DESC LIMIT {MAX_REPORTED}"
    ),
    "notable": _notable,
}
"""Lane and step of the requests of the lanes of the SQL `own`, up to the entry `last`; of the newest and the reported
ones of a single lane. The last two look at the newest `MAX_RECENT` requests of each lane alone. The reported ones are
the newest `MAX_REPORTED` of the current epoch with reported usage. The notable requests of each epoch are the newest
by step and by time, the newest and the smallest with reported usage, and the newest with reported cache use."""


OF_SESSION = "SELECT id FROM lanes WHERE session = ?1"
"""SQL for all lanes of a session, as `own`."""


def select_requests(which: str, own: str = "?1", last: int = lanes.END) -> str:
    """Return the query of the requests that `which` selects, by lane, oldest first."""
    return (
        "SELECT r.step, e.id, r.last_entry, b.hash, r.sha256, r.estimate, r.at, r.finish, r.reported, r.cached, r.sent,"
        f" b.codec, b.data, r.lane, r.{', r.'.join(USAGE)} FROM ({WHICH[which](own, last)}) w"
        " JOIN requests r ON r.lane = w.lane"
        " AND r.step = w.step JOIN epochs e ON e.key = r.epoch LEFT JOIN blobs b ON b.id = r.arguments"
        " ORDER BY r.lane, r.step"
    )


def list_requests(db: Database, key: int, which: str, own: str = "?1", last: int = lanes.END) -> list[RequestRow]:
    """Return the requests that `which` selects (see `WHICH`), by lane, oldest first: those of the lane `key`, or with
    `OF_SESSION` of the session of this key."""
    rows = db.all(select_requests(which, own, last), key)
    texts = {row[3]: (row[3], *row[11:13]) for row in rows}
    arguments = {digest: json.loads(blobs.unpack(*text)) for digest, text in texts.items()}
    return [
        RequestRow(
            Manifest(row[0], row[1], row[2], dict(arguments[row[3]]), row[4].hex(), row[5], row[6], row[9]),
            None if row[7] is None else read_usage(row[14:]),
            row[7],
            bool(row[8]),
            row[13],
            row[10],
        )
        for row in rows
    ]


def read_inherited(db: Database, lane: int, which: str) -> InheritedRequests:
    """Return the requests of the lanes that `lane` was forked from, before the fork and beside it."""
    inherited_requests = InheritedRequests()
    chain = lanes.ancestry(db, lane)
    epoch = last_sent = lanes.END
    for child, parent in pairwise(chain):
        origin = db.value("SELECT e.id FROM lanes l JOIN epochs e ON e.key = l.origin WHERE l.id = ?", child.lane)
        if origin is None:
            break
        epoch, last_sent = min(epoch, origin), min(last_sent, child.sent)
        find_other = "SELECT id FROM sessions WHERE key = ? AND key <> ?"
        sender_session = db.value(find_other, parent.session, chain[0].session) or ""
        ends = (lanes.END,) if which == "all" else (last_sent, lanes.END)
        by_step = {row.manifest.step: row for last in ends for row in list_requests(db, parent.lane, which, last=last)}
        shared = [
            replace(by_step[step], session=sender_session)
            for step in sorted(by_step)
            if by_step[step].manifest.epoch <= epoch
        ]
        before = [row for row in shared if row.manifest.last <= last_sent]
        beside = [row for row in shared if row.manifest.last > last_sent]
        inherited_requests = InheritedRequests(
            (*before, *inherited_requests.before), (*beside, *inherited_requests.beside)
        )
    return inherited_requests


def pick_request(requests: Sequence[T], step: int, option: str = "", hint: str = "Requests are numbered from 1") -> T:
    """Return request `step`, counted from 1.

    Raises `UsageError` with the step (or `option`) and the number of requests if it does not exist.
    """
    if 1 <= step <= len(requests):
        return requests[step - 1]
    sent_count = f"this session has sent {plural(len(requests), 'request')}"
    why = sent_count if requests else "this session has not sent a request yet"
    raise UsageError(option or f"--step {step}", why, hint if requests else "Send a message first")
