"""Replay: rebuild every request of a session from the ledger alone and compare each line with the one sent (law 8).

Reads nothing outside the ledger, neither the defaults nor the working folder.
"""

from __future__ import annotations

from nexus_cli.conversation.groups import arrange
from nexus_cli.conversation.render import Wire
from nexus_cli.core.entry import Epoch, WindowItem
from nexus_cli.core.errors import NexusError
from nexus_cli.core.json_value import JsonDict
from nexus_cli.ledger import LaneLog, Ledger, RequestRow, pick_request

AT_ONCE = 500
"""Entries read in one query."""


def check(ledger: Ledger, session: str, step: int | None = None) -> JsonDict:
    """Return `ok`, the number of `requests` checked, and `first_difference` in one line or None.

    Without `step` checks the requests of every conversation and the rest of the session, with it one request of the
    main conversation. Raises `UsageError` if that does not exist.
    """
    info = ledger.session(session)
    logs = [ledger.log(session)] if step is not None else ledger.logs(session)
    checked = 0
    for log in logs:
        rows = log.requests()
        if step is not None:
            rows = [pick_request(rows, step)]
        difference, count = _check_lane(log, rows)
        checked += count
        if difference:
            prefix = "" if log.lane == info.main_lane else f"side lane {log.lane}, "
            return {"version": 1, "ok": False, "requests": checked, "first_difference": prefix + difference}
    damage = _check_unsent(logs) if step is None else ""
    return {"version": 1, "ok": not damage, "requests": checked, "first_difference": damage or None}


def _check_unsent(logs: list[LaneLog]) -> str:
    """Return the first damage outside requests (unsent entries and epochs, texts of drops), "" for none."""
    try:
        for number in range(logs[0].next_epoch()):
            _read_epoch_if_present(logs[0], number)
        for log in logs:
            for first in range(1, log.last_id() + 1, AT_ONCE):
                log.read(first, first + AT_ONCE - 1)
            log.memos()
        for drop in logs[0].drops():
            if drop.entries is None:
                logs[0].original(drop.id)
    except NexusError as error:
        return f"outside any request: {error}"
    return ""


def _read_epoch_if_present(log: LaneLog, epoch: int) -> None:
    """Read an epoch if it exists: a forked session lacks those that its source began after the fork."""
    try:
        log.epoch(epoch)
    except NexusError as error:
        if error.kind != "usage":
            raise


def _check_lane(log: LaneLog, rows: list[RequestRow]) -> tuple[str, int]:
    """Return the first difference in the requests of one conversation, and the number of requests compared."""
    epoch: Epoch | None = None
    wire: Wire | None = None
    reached = 0
    for number, row in enumerate(rows, 1):
        manifest = row.manifest
        try:
            if epoch is None or wire is None or epoch.id != manifest.epoch:
                epoch = log.epoch(manifest.epoch)
                wire, reached = Wire(epoch), epoch.base
                head, _ = log.line_hashes(epoch.id, epoch.base)
                rebuilt = wire.extend(arrange(epoch.head))
                for place, (was, now) in enumerate(zip(head, rebuilt, strict=True)):
                    if was != now:
                        return f"request {manifest.step}, line {place + 3}: the beginning of epoch {epoch.id}", number
            difference = _tail(log, epoch, wire, reached, manifest.last)
        except (NexusError, ValueError) as error:
            return f"request {manifest.step}, {error}", number
        if difference:
            return f"request {manifest.step}, {difference}", number
        reached = manifest.last
        if wire.sha256 != manifest.sha256:
            return f"request {manifest.step}, lines 1 and 2: tools or system text", number
    return "", len(rows)


def _tail(log: LaneLog, epoch: Epoch, wire: Wire, reached: int, last: int) -> str:
    before = len(wire.messages) + 2
    try:
        items = arrange(map(WindowItem.of, log.read(reached + 1, last)))
    except NexusError as error:
        return _unreadable(log, range(reached + 1, last + 1), before) or str(error)
    rebuilt = wire.extend(items)
    _, stored = log.line_hashes(epoch.id, last)
    was = dict(stored)
    for place, (item, now) in enumerate(zip(items, rebuilt, strict=True)):
        if was.get(item.entry) != now:
            return f"line {before + place}: entry {item.entry}"
    return ""


def _unreadable(log: LaneLog, numbers: range, line: int) -> str:
    """Describe the first unreadable entry and its line; `line` is that of the first entry."""
    for number in numbers:
        try:
            log.read(number, number)
        except NexusError as error:
            return f"line {line + number - numbers.start}: entry {number}: {error}"
    return ""
