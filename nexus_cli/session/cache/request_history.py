"""Earlier requests of a session, read from the ledger: of earlier processes and of the session it was forked from.

A running session continues from them and the reports show them. `nexus_cli.session.next_request.cache_expectation`
decides what a cache may hold of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from nexus_cli.config.settings import Settings
from nexus_cli.context.window.lane import Lane, item_of
from nexus_cli.core.entry import Entry, Epoch
from nexus_cli.core.errors import NexusError
from nexus_cli.ledger import LaneLog, Ledger, RequestRow
from nexus_cli.session.cache.diagnosis import seconds_between
from nexus_cli.session.cache.last_request import MOST_EPOCHS, CacheHistory, SentRequest, cache_life_of, prefix_hash
from nexus_cli.session.lane_state import LaneState
from nexus_cli.session.open_session import load_model_info


@dataclass(frozen=True, slots=True)
class RequestHistory:
    """The requests of a session."""

    source: Sequence[RequestRow]
    """Requests of the session it was forked from, which its main lane continues."""
    lanes: Mapping[int, Sequence[RequestRow]]
    """Its own by lane, the main one first; oldest first."""
    used: Mapping[int, Sequence[str]]
    """When each epoch was used, by the source too, oldest first."""
    proven: bool
    """True if the provider has ever reported use of a cache."""


def read_requests(ledger: Ledger, session: str, which: str = "all") -> RequestHistory:
    """Return the requests of a session (`which`: a filter of the ledger); raise `NexusError("usage", ...)` if there is
    no such session."""
    logs = ledger.logs(session)
    own, others = {log.lane: log.requests(which) for log in logs}, logs[0].inherited_requests(which)
    rows = [*others.before, *others.beside, *(row for several in own.values() for row in several)]
    used: dict[int, list[str]] = {}
    for row in rows:
        used.setdefault(row.manifest.epoch, []).append(row.manifest.at)
    for several in used.values():
        several.sort()
    told = [row.usage for row in rows if row.usage and row.reported]
    return RequestHistory(others.before, own, used, any(usage.cache_read or usage.cache_write for usage in told))


def was_answered(row: RequestRow) -> bool:
    """True if a provider took the request up: one that never reached it, or was refused, has used nothing."""
    return row.usage is not None and (row.reported or row.usage.input > 0)


def reported_tokens(row: RequestRow) -> int:
    """Return the input tokens that the provider reported for a request; 0 if it reported none."""
    return row.usage.input if row.usage and row.reported else 0


def smallest_like(
    rows: Iterable[RequestRow], like: Epoch, epoch: Callable[[int], Epoch], read: Callable[[int, int], Iterable[Entry]]
) -> tuple[int, int]:
    """Return the smallest of these requests that began like those under `like`: tokens as reported and by our count.

    Both are 0 if there is none that can be read. `epoch` and `read` give an epoch of their lane by number, and entries.
    """
    smallest: dict[int, RequestRow] = {}
    for row in rows:
        one = smallest.setdefault(row.manifest.epoch, row)
        if reported_tokens(row) and (not reported_tokens(one) or reported_tokens(row) < reported_tokens(one)):
            smallest[row.manifest.epoch] = row
    begins = prefix_hash(like)
    for row in sorted(filter(reported_tokens, smallest.values()), key=reported_tokens):
        try:
            found = epoch(row.manifest.epoch)
            if prefix_hash(found) == begins:
                items = [*found.head, *map(item_of, read(found.base + 1, row.manifest.last))]
                messages = sum(item.tokens for item in items)
                return reported_tokens(row), found.system_tokens + found.tools_tokens + messages
        except NexusError:
            continue
    return 0, 0


def load_history(lane_state: LaneState, ledger: Ledger, log: LaneLog, settings: Settings) -> CacheHistory:
    """Return what the lane sent before: its newest request, and the newest under each of its last epochs that a cache
    may still hold."""
    history = CacheHistory()
    try:
        before = read_requests(ledger, log.session_id, "notable")
    except NexusError:
        return history  # damage in answered requests affects no later one
    history.uses.update({epoch: datetime.fromisoformat(times[-1]) for epoch, times in before.used.items()})
    newest: dict[int, RequestRow] = {}
    rows = (*before.source, *before.lanes[log.lane])
    for row in rows:
        if reported_tokens(row):
            newest.pop(row.manifest.epoch, None)
            newest[row.manifest.epoch] = row
    if not newest:
        return history
    last = next(reversed(newest))
    for epoch in list(newest)[-MOST_EPOCHS:]:
        try:
            begins = prefix_hash(like := _epoch(lane_state.lane, log, epoch))
            small = smallest_like(rows, like, lambda number: _epoch(lane_state.lane, log, number), log.read)
            if all(small):  # also sizes the same beginning when it is no longer cached
                history.least[begins] = small
            if epoch == last or not _is_expired(lane_state, history.uses.get(epoch)):
                sent = _sent(lane_state, ledger, log, newest[epoch], settings)
                history.earlier[epoch] = replace(sent, cached=before.proven, least=small, begins=begins)
        except NexusError:
            continue  # likewise
    history.last = history.earlier.get(last)
    history.cold = reported_tokens(newest[last])  # the window was sent at least once
    return history


def _is_expired(lane_state: LaneState, used: datetime | None) -> bool:
    """True if no cache holds any more what was sent under an epoch that was `used` last then."""
    life, seconds = cache_life_of(lane_state.model.info), seconds_between(used, lane_state.clock())
    return life is not None and seconds is not None and seconds > life.max_seconds


def _epoch(lane: Lane, log: LaneLog, number: int) -> Epoch:
    """Return an epoch of the lane by its number, the present one as it is at hand."""
    return lane.epoch if number == lane.epoch.id else log.epoch(number)


def _sent(lane_state: LaneState, ledger: Ledger, log: LaneLog, row: RequestRow, settings: Settings) -> SentRequest:
    """Return a request as it was sent; `NexusError` where its epoch cannot be read."""
    epoch, tail, last = _epoch(lane_state.lane, log, row.manifest.epoch), lane_state.lane.tail, row.manifest.last
    if epoch is not lane_state.lane.epoch:
        tail = [item_of(entry) for entry in log.read(epoch.base + 1, last)]
    other = epoch.model != lane_state.model.info.name
    life = cache_life_of(load_model_info(ledger, epoch.model, settings)) if other else None
    return SentRequest(epoch, tail, last, reported_tokens(row), life=life)
