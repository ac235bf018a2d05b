"""Read the requests of a session from the ledger: its own, and those of the session it was forked from.

A resumed session loads from them what may still be cached; reports show them with their cache hits and misses.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import ClassVar

from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.cache_diagnosis import CacheFacts, Diagnosis
from nexus_cli.conversation.fingerprints import Difference, Fingerprint
from nexus_cli.conversation.sent_requests import SentRequest, SentRequests
from nexus_cli.core.clock import seconds_between
from nexus_cli.core.entry import Epoch, WindowItem, sum_tokens
from nexus_cli.core.errors import NexusError
from nexus_cli.core.grouping import group_pairs
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.rewrite_cost import miss_cost
from nexus_cli.core.usage import Usage
from nexus_cli.ledger import LaneLog, Ledger, RequestRow
from nexus_cli.provider.model_info import load_model_info
from nexus_cli.provider.prompt_cache import cache_life_of


@dataclass(frozen=True, slots=True)
class RequestHistory:
    """The requests of a session."""

    source: Sequence[RequestRow]
    """Requests of the session it was forked from, which its main conversation continues."""
    lanes: Mapping[int, Sequence[RequestRow]]
    """Its own requests by conversation, the main conversation first; each oldest first."""
    used: Mapping[int, Sequence[str]]
    """Times of the requests of each epoch, those of the source included, oldest first."""
    proven: bool
    """True if the provider has reported cache use for any of them."""


def read_requests(main: LaneLog, which: str = "all") -> RequestHistory:
    """Read the requests of the session with the main lane of a log (`which`: a filter of the ledger)."""
    inherited = main.inherited_requests(which)
    by_lane = {main.lane: [], **group_pairs((row.lane, row) for row in main.session_requests(which))}
    rows = [*inherited.before, *inherited.beside, *(row for several in by_lane.values() for row in several)]
    used = group_pairs((row.manifest.epoch, row.manifest.at) for row in rows)
    for several in used.values():
        several.sort()
    usages = [row.reported_usage for row in rows if row.reported_usage]
    return RequestHistory(
        inherited.before, by_lane, used, any(usage.cache_read or usage.cache_write for usage in usages)
    )


@dataclass(eq=False)
class RequestPair:
    """One request of a conversation, and the newest one before it with reported usage."""

    json_fields: ClassVar = """
        lane:conversation.log.agent step:row.manifest.step at:row.manifest.at model:row.model epoch:row.manifest.epoch
        input:row.usage.input reported:row.reported expected read:row.reported_usage.cache_read
        written:row.reported_usage.cache_write missed:diagnosis.missed hit cost_usd cause:diagnosis.kind
        ours:diagnosis.ours why:diagnosis.why
    """
    conversation: ConversationRequests
    row: RequestRow
    before: RequestRow | None
    used: str
    """Time of the last request in the epoch of `before`, in any conversation; "" without `before`."""

    @classmethod
    def read_session(cls, ledger: Ledger, session: str, settings: Settings) -> list[list[RequestPair]]:
        """Return the requests of a session by conversation, the main conversation first; each oldest first."""
        history = read_requests(ledger.log(session))
        main = [*history.source, *next(iter(history.lanes.values()))]
        conversations: list[list[RequestPair]] = []
        for lane, rows in history.lanes.items():
            conversation = ConversationRequests(settings, ledger.log(session, lane), proven=history.proven)
            before = None if conversations else _newest(history.source)
            for row in rows:
                before = before or (_forked_from(row, main) if conversations else None)
                conversation.requests.append(cls(conversation, row, before, _last_use(before, row, history.used)))
                before = row if row.reported_tokens else before
            conversations.append(conversation.requests)
        return conversations

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """The diagnosis of the request's use of the cache."""
        if not self.row.was_answered:
            why = f" ({self.row.finish})" if self.row.finish else ""
            return Diagnosis("unanswered", why=f"the request was not answered{why}")
        if not self.row.reported:
            return Diagnosis("unreported", why="the provider reported no token counts for this request")
        verdict, first = self.facts.diagnose(), ""
        if not self.facts.before and self.row.manifest.step > 1:
            first = "no earlier request to compare with"
        elif not self.facts.before and self.facts.read:
            first = "first request of this session; another session had sent the same prefix"
        return replace(verdict, why=first) if first else verdict

    @cached_property
    def facts(self) -> CacheFacts:
        """The comparison with the request before, from the figures in the ledger."""
        of, usage, before, life = self.conversation, self.row.usage or Usage(), self.before, cache_life_of(self.info)
        if self.row.usage is None or before is None:
            return CacheFacts(life, usage.input, usage.cache_read)
        last_use = datetime.fromisoformat(self.used) if self.used else None
        age = seconds_between(last_use, datetime.fromisoformat(self.row.manifest.at))
        if before.manifest.epoch == self.row.manifest.epoch:
            epoch = of.epoch(before.manifest.epoch)
            request = two = SentRequest(epoch, (), before.manifest.last, before.reported_tokens, life=life)
            shared = request.tokens
        else:
            step = self.row.manifest.step
            rows = [pair.before for pair in of.requests if pair.before and pair.row.manifest.step <= step]
            request, two = of.sent(before), of.sent(self.row)
            shared, _ = replace(request, least=of.smallest_like(rows, request.epoch)).shares(two.epoch, two.items)
        return two.compare(request, usage, shared=shared, age=age, proven=of.proven, differ=self.find_difference)

    @property
    def expected(self) -> int:
        """Tokens that should have been in the cache."""
        return self.row.manifest.cached or self.facts.expected

    @property
    def hit(self) -> float | None:
        """Share of the input that was read from the cache."""
        usage = self.row.reported_usage
        return round(usage.cache_read / usage.input, 4) if usage and usage.input else None

    @property
    def cost_usd(self) -> float | None:
        """The extra cost of the miss."""
        usage, missed = self.row.usage, self.diagnosis.missed
        return miss_cost(self.info, missed, usage) if usage and missed else 0.0

    @property
    def info(self) -> ModelInfo:
        """The model of the request."""
        return self.conversation.info(self.row)

    @property
    def epochs(self) -> list[Epoch]:
        """The epoch of the request, and that of the one before it, if there is one."""
        return [self.conversation.epoch(row.manifest.epoch) for row in (self.row, self.before) if row]

    def find_difference(self) -> Difference | None:
        """Return the first difference from the request before, by the hashes of the sent messages."""
        if self.before is None:
            return None
        before, after = (self.conversation.fingerprint_of(row) for row in (self.before, self.row))
        return before.first_difference(after)


@dataclass
class ConversationRequests:
    """The requests of one conversation, oldest first, with a cache of their epochs and models."""

    settings: Settings
    log: LaneLog
    requests: list[RequestPair] = field(default_factory=list)
    proven: bool = False
    """True if the provider has reported cache use in the session."""
    _epochs: dict[int, Epoch] = field(default_factory=dict)
    _tails: dict[int, Sequence[WindowItem]] = field(default_factory=dict)
    """Items appended in an epoch, if already loaded."""
    _infos: dict[str, ModelInfo] = field(default_factory=dict)

    def info(self, row: RequestRow) -> ModelInfo:
        if row.model not in self._infos:
            self._infos[row.model] = load_model_info(row.model, self.settings)
        return self._infos[row.model]

    def epoch(self, number: int) -> Epoch:
        if number not in self._epochs:
            self._epochs[number] = self.log.epoch(number)
        return self._epochs[number]

    def sent(self, row: RequestRow) -> SentRequest:
        """Load a request as it was sent. Raises `NexusError` if its epoch or entries cannot be read."""
        epoch, last = self.epoch(row.manifest.epoch), row.manifest.last
        tail = self._tails.get(epoch.id)
        if tail is None:
            tail = [WindowItem.of(entry) for entry in self.log.read(epoch.base + 1, last)]
        return SentRequest(epoch, tail, last, row.reported_tokens, life=cache_life_of(self.info(row)))

    def smallest_like(self, rows: Iterable[RequestRow], like: Epoch) -> tuple[int, int]:
        """Return the reported and counted tokens of the smallest of `rows` with the prefix of the epoch `like`; 0, 0 if
        none can be read."""
        begins = like.prefix_hash
        for row in sorted((row for row in rows if row.reported_tokens), key=lambda row: row.reported_tokens):
            try:
                if self.epoch(row.manifest.epoch).prefix_hash == begins:
                    request = self.sent(row)
                    return request.tokens, request.epoch.header_tokens + sum_tokens(request.items)
            except NexusError:
                continue
        return 0, 0

    def fingerprint_of(self, row: RequestRow) -> Fingerprint:
        """Build the fingerprint of a request from the hashes in the ledger."""
        epoch = self.epoch(row.manifest.epoch)
        return Fingerprint.of_hashes(epoch, *self.log.line_hashes(epoch.id, row.manifest.last))


def _newest(rows: Sequence[RequestRow]) -> RequestRow | None:
    """Return the newest request with reported input."""
    return next((row for row in reversed(rows) if row.reported_tokens), None)


def _forked_from(row: RequestRow, main: Sequence[RequestRow]) -> RequestRow | None:
    """Return the request of the main conversation that the first request of a fork extends; None without a common
    epoch."""
    epoch, last, sent_at = row.manifest.epoch, row.manifest.last, row.manifest.at
    earlier = (
        request_row for request_row in main if request_row.manifest.epoch == epoch and request_row.manifest.last <= last
    )
    return _newest([request_row for request_row in earlier if request_row.manifest.at <= sent_at])


def _last_use(before: RequestRow | None, row: RequestRow, times: Mapping[int, Sequence[str]]) -> str:
    """Return the time of the last request in the epoch of `before`, in any conversation, until `row`; "" if that is
    None."""
    if before is None:
        return ""
    used = times[before.manifest.epoch]
    place = bisect_left(used, row.manifest.at)
    return max(before.manifest.at, used[place - 1]) if place else before.manifest.at


def load_history(context: ContextManager, log: LaneLog, settings: Settings) -> SentRequests:
    """Load what a conversation has sent: its newest request, and that of each recent epoch, perhaps still cached."""
    history = SentRequests()
    try:
        before = read_requests(log, "notable")
    except NexusError:
        return history  # old requests that cannot be read must not prevent new ones
    history.uses.update({epoch: datetime.fromisoformat(times[-1]) for epoch, times in before.used.items()})
    newest: dict[int, RequestRow] = {}
    rows = [row for row in (*before.source, *before.lanes[log.lane]) if row.reported_tokens]
    history.last_usage = next((row.usage for row in reversed(before.lanes[log.lane])), None)
    for row in rows:
        newest.pop(row.manifest.epoch, None)
        newest[row.manifest.epoch] = row
    if not newest:
        return history
    last, conversation, info = next(reversed(newest)), context.conversation, context.model.info
    stored = ConversationRequests(
        settings,
        log,
        _epochs={conversation.epoch.id: conversation.epoch},
        _tails={conversation.epoch.id: conversation.tail},
        _infos={info.name: info},
    )
    for epoch in list(newest)[-history.most_epochs :]:
        try:
            begins = (like := stored.epoch(epoch)).prefix_hash
            small = stored.smallest_like(rows, like)
            if all(small):  # also measures the prefix if it is no longer cached
                history.least[begins] = small
            if epoch == last or not _is_expired(context, history.uses.get(epoch)):
                request = stored.sent(newest[epoch])
                history.earlier[epoch] = replace(request, cached=before.proven, least=small, begins=begins)
        except NexusError:
            continue  # as above
    history.last = history.earlier.get(last)
    return history


def _is_expired(context: ContextManager, used: datetime | None) -> bool:
    """True if requests of an epoch that was last `used` at this time are no longer cached."""
    life, seconds = cache_life_of(context.model.info), seconds_between(used, context.conversation.clock())
    return life is not None and seconds is not None and seconds > life.max_seconds
