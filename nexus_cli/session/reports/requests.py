"""The requests of a session's lanes, each beside the one before it that the provider had counted."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from nexus_cli.config.settings import Settings
from nexus_cli.context.window.fingerprints import Difference, Fingerprint, fingerprint, first_difference, name_of
from nexus_cli.context.window.groups import flatten, group_tool_calls
from nexus_cli.context.window.lane import item_of
from nexus_cli.core.entry import Epoch, WindowItem
from nexus_cli.core.request import ModelInfo
from nexus_cli.ledger import LaneLog, Ledger, RequestRow
from nexus_cli.provider.prompt_cache import CacheLife
from nexus_cli.session.cache.diagnosis import CacheFacts, seconds_between
from nexus_cli.session.cache.last_request import SentRequest, cache_life_of
from nexus_cli.session.cache.request_history import read_requests, reported_tokens, smallest_like
from nexus_cli.session.opening import load_model_info


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, and the newest one before it of which the provider reported what it took."""

    row: RequestRow
    before: RequestRow | None
    used: str
    """When the beginning of the one before was last used, in any lane; ""."""


@dataclass
class Trail:
    """The requests of one lane, oldest first."""

    ledger: Ledger
    settings: Settings
    log: LaneLog
    requests: list[Asked]
    proven: bool
    """The provider has told of a cache at some time in the session."""
    _epochs: dict[int, Epoch] = field(default_factory=dict)
    _infos: dict[str, ModelInfo] = field(default_factory=dict)
    _facts: dict[int, CacheFacts | None] = field(default_factory=dict)

    def info(self, row: RequestRow) -> ModelInfo:
        """The model that was asked."""
        name = str(row.manifest.arguments.get("model", ""))
        if name not in self._infos:
            self._infos[name] = load_model_info(self.ledger, name, self.settings)
        return self._infos[name]

    def life(self, row: RequestRow) -> CacheLife | None:
        """What is known of its cache."""
        return cache_life_of(self.info(row))

    def facts(self, asked: Asked) -> CacheFacts | None:
        """What is known before anything is compared; None for a first request and for one without figures."""
        step = asked.row.manifest.step
        if step not in self._facts:
            self._facts[step] = self._gathered(asked)
        return self._facts[step]

    def _gathered(self, asked: Asked) -> CacheFacts | None:
        usage, before = asked.row.usage, asked.before
        if usage is None or before is None or before.usage is None:
            return None
        last_use = datetime.fromisoformat(asked.used) if asked.used else None
        seconds = seconds_between(last_use, datetime.fromisoformat(asked.row.manifest.at))
        shared = before.usage.input if self._same(asked) else self._shared(asked, before, before.usage.input)
        fresh = 0 if self._same(asked) else round(usage.input * self._fresh(asked, before))
        other = self.info(before).name != self.info(asked.row).name
        return CacheFacts(
            before.usage.input, shared, usage.input, usage.cache_read, seconds, proven=self.proven, fresh=fresh,
            former=self.life(before) if other else None,
        )  # fmt: skip

    def _fresh(self, asked: Asked, before: RequestRow) -> float:
        """Share of a request under a new epoch that came after the request before it."""
        epoch, tail = self._epoch(asked.row.manifest.epoch), self._tail(asked.row)
        items = [*epoch.head, *tail]
        new = sum(item.tokens for item in items if item.entry > before.manifest.last)
        return new / max(1, epoch.system_tokens + epoch.tools_tokens + sum(item.tokens for item in items))

    def compared(self, asked: Asked, facts: CacheFacts) -> CacheFacts:
        """`facts` with what differed from the request before."""
        found = self.difference(asked)
        if found is None:
            return facts
        return replace(facts, difference=found, cause=self.cause(asked), source=self.source(asked, found))

    def difference(self, asked: Asked) -> Difference | None:
        """The first part in which the request differs from the one before, by the hashes of what was sent."""
        if asked.before is None:
            return None
        return first_difference(self._print(asked.before), self._print(asked.row))

    def cause(self, asked: Asked) -> str:
        """What began the epoch of the request, where that is another than before; else ""."""
        return "" if self._same(asked) else self._epoch(asked.row.manifest.epoch).cause

    def source(self, asked: Asked, found: Difference) -> str:
        """Where the section that differs comes from."""
        if found.kind != "section" or asked.before is None:
            return ""
        epochs = (self._epoch(row.manifest.epoch) for row in (asked.row, asked.before))
        named = (one for epoch in epochs for one in json.loads(epoch.sections) if one.get("id") == found.what)
        return next((str(one["source"]) for one in named if one.get("source")), "")

    def _same(self, asked: Asked) -> bool:
        return asked.before is not None and asked.before.manifest.epoch == asked.row.manifest.epoch

    def _shared(self, asked: Asked, before: RequestRow, tokens: int) -> int:
        """Tokens that a request has in common with the one before it, which was sent under another epoch."""
        epoch, held = self._epoch(asked.row.manifest.epoch), self._epoch(before.manifest.epoch)
        step = asked.row.manifest.step
        rows = [one.before for one in self.requests if one.before and one.row.manifest.step <= step]
        small = smallest_like(rows, held, self._epoch, self.log.read)
        sent = SentRequest(held, self._tail(before), before.manifest.last, tokens, least=small)
        return sent.shares(epoch, [*epoch.head, *self._tail(asked.row)])[0]

    def _epoch(self, number: int) -> Epoch:
        if number not in self._epochs:
            self._epochs[number] = self.log.epoch(number)
        return self._epochs[number]

    def _tail(self, row: RequestRow) -> list[WindowItem]:
        """What the request held behind the head of its epoch."""
        first = self._epoch(row.manifest.epoch).base + 1
        return [item_of(entry) for entry in self.log.read(first, row.manifest.last)]

    def _print(self, row: RequestRow) -> Fingerprint:
        """The parts of a request as it was sent, by the hashes that stand in the ledger."""
        epoch = self._epoch(row.manifest.epoch)
        head, entries = self.log.line_hashes(epoch.id, row.manifest.last)
        items = flatten(group_tool_calls(epoch.head))
        named = [(name_of(item), line.hex()) for item, line in zip(items, head, strict=False)]
        return fingerprint(epoch, [*named, *((f"entry {entry}", line.hex()) for entry, line in entries)])


def read_trails(ledger: Ledger, session: str, settings: Settings) -> list[Trail]:
    """The lanes of a session that sent something, its main lane first."""
    told = read_requests(ledger, session)
    main = [*told.source, *next(iter(told.lanes.values()))]
    made: list[Trail] = []
    for lane, rows in told.lanes.items():
        asked: list[Asked] = []
        before = None if made else _newest(told.source)
        for row in rows:
            before = before or (_forked_from(row, main) if made else None)
            asked.append(Asked(row, before, _last_use(before, row, told.used)))
            before = row if reported_tokens(row) else before
        made.append(Trail(ledger, settings, ledger.log(session, lane), asked, told.proven))
    return [made[0], *(trail for trail in made[1:] if trail.requests)]


def _newest(rows: Sequence[RequestRow]) -> RequestRow | None:
    """The newest of which the provider reported what it took."""
    return next((row for row in reversed(rows) if reported_tokens(row)), None)


def _forked_from(row: RequestRow, main: Sequence[RequestRow]) -> RequestRow | None:
    """The request of the main lane that a side lane's first one goes on from: they share an epoch."""
    epoch, last, at = row.manifest.epoch, row.manifest.last, row.manifest.at
    earlier = (one for one in main if one.manifest.epoch == epoch and one.manifest.last <= last)
    return _newest([one for one in earlier if one.manifest.at <= at])


def _last_use(before: RequestRow | None, row: RequestRow, times: Mapping[int, Sequence[str]]) -> str:
    """The newest time at which the epoch of `before` was used, by it or by a fork, before `row` was sent."""
    if before is None:
        return ""
    used = times[before.manifest.epoch]
    place = bisect_left(used, row.manifest.at)
    return max(before.manifest.at, used[place - 1]) if place else before.manifest.at
