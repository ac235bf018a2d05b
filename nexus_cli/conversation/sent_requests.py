"""Requests that reached the provider: their common prefix with the next one, and the comparison of two in a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar

from nexus_cli.conversation.cache_diagnosis import CacheFacts, expected_cached
from nexus_cli.conversation.fingerprints import Difference, Fingerprint, common_messages, render_fingerprint
from nexus_cli.conversation.groups import arrange
from nexus_cli.conversation.render import Wire
from nexus_cli.core.clock import local_now, seconds_between
from nexus_cli.core.entry import Epoch, WindowItem, sum_tokens
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.usage import Usage
from nexus_cli.provider.prompt_cache import CacheLife, cache_life_of


@dataclass(frozen=True, slots=True)
class SentRequest:
    """One request as it was sent. Holds references instead of copies: sent content never changes."""

    epoch: Epoch
    tail: Sequence[WindowItem]
    """Items appended in the epoch; those after `last` are not part of the request."""
    last: int
    tokens: int
    """Input tokens as reported by the provider."""
    cached: bool = True
    """True if the provider has reported cache use, up to this request."""
    least: tuple[int, int] = (0, 0)
    """Reported and counted tokens of the smallest request with the same system text and schemas; 0 if unknown. Used to
    estimate the tokens of those two."""
    begins: str = ""
    """`Epoch.prefix_hash`."""
    life: CacheLife | None = None
    """Cache lifetime of its model."""

    @property
    def items(self) -> list[WindowItem]:
        return [*self.epoch.head, *(item for item in self.tail if item.entry <= self.last)]

    def fingerprint(self) -> Fingerprint:
        return render_fingerprint(self.epoch, self.items)

    def shares(self, epoch: Epoch, items: Sequence[WindowItem]) -> tuple[int, int]:
        """Return the common prefix with a request of `items` under `epoch`: tokens as the provider counts them, and
        the number of wire messages."""
        common = self._common(epoch, items)
        if common is None:
            return 0, 0
        wire, messages = Wire(epoch), sum_tokens(self.items)
        wire.extend(common)
        reported, counted = self.least if all(self.least) else (self.tokens, self.epoch.header_tokens + messages)
        fixed = min(self.tokens, round(reported * self.epoch.header_tokens / counted))
        share = min(1.0, sum_tokens(common) / messages) if messages else 1.0
        return fixed + round((self.tokens - fixed) * share), len(wire.messages)

    def common(self, epoch: Epoch, items: Sequence[WindowItem]) -> int:
        """Return the tokens of the same prefix, by our count."""
        common = self._common(epoch, items)
        return 0 if common is None else self.epoch.header_tokens + sum_tokens(common)

    def compare(
        self,
        before: SentRequest,
        usage: Usage,
        *,
        shared: int,
        age: float | None,
        proven: bool,
        differ: Callable[[], Difference | None] | None = None,
    ) -> CacheFacts:
        """Compare the request, with its `usage`, to the one before, by values of `CacheFacts`; on a miss `differ` is
        called, by default for a comparison of all parts."""
        fresh, is_same = 0, before.epoch is self.epoch
        if not is_same:
            items = self.items
            new = sum(item.tokens for item in items if item.entry > before.last)
            fresh = round(usage.input * new / max(1, self.epoch.header_tokens + sum_tokens(items)))
        facts = CacheFacts(
            self.life,
            usage.input,
            usage.cache_read,
            before.tokens,
            shared,
            age,
            fresh=fresh,
            proven=proven,
            former=before.life,
        )
        find = differ or (lambda: None if is_same else before.fingerprint().first_difference(self.fingerprint()))
        difference = find() if facts.diagnose().missed else None
        if difference is None:
            return facts
        cause = "" if is_same else self.epoch.cause
        return replace(facts, difference=difference, cause=cause, source=difference.source_in(self.epoch, before.epoch))

    def _common(self, epoch: Epoch, items: Sequence[WindowItem]) -> list[WindowItem] | None:
        """Return the messages of the common prefix; None if system text or schemas differ."""
        common = common_messages(self.fingerprint(), render_fingerprint(epoch, items))
        return None if common < 0 else arrange(items)[:common]


@dataclass(frozen=True, slots=True)
class Outlook:
    """The expected cache hit of a request."""

    tokens: int = 0
    """Expected cached tokens, from the previous request or one of a former epoch."""
    messages: int = 0
    """Wire messages of those tokens if a new epoch begins, else 0."""
    shared: int = 0
    """Tokens of the prefix in common with the previous request."""
    age: float | None = None
    """Seconds since the last use of that prefix; None if unknown."""
    at: datetime = field(default_factory=local_now)
    previous: int = 0
    """Tokens of the previous request, 0 if there is none."""


@dataclass
class SentRequests:
    """Requests of a conversation and its forks that may still be cached.

    A fork shares the containers: requests of either may produce cache hits in both.
    """

    most_epochs: ClassVar = 4
    """Earlier epochs whose requests are remembered: an undo may return to one."""
    last: SentRequest | None = None
    """The conversation's newest request with reported usage; a fork starts with its parent's."""
    earlier: dict[int, SentRequest] = field(default_factory=dict)
    """Newest request of each recently used epoch, forks included, by epoch id."""
    least: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Reported and counted tokens of the smallest request, by prefix hash."""
    uses: dict[int, datetime] = field(default_factory=dict)
    """Time of the last request in each epoch, by this conversation or a fork."""
    last_usage: Usage | None = None
    """Usage of the conversation's newest answered request."""

    def record(self, request: SentRequest, counted: int, usage: Usage, at: datetime) -> SentRequest | None:
        """Record that a request of `counted` tokens by our count reached the provider at this time. Return the request
        with what its `usage` tells of it; None if nothing was reported."""
        before, epoch = self.last, request.epoch
        self.uses[epoch.id] = at
        if not usage.input:
            return None
        cached = bool(usage.cache_read or usage.cache_write) or (before is not None and before.cached)
        begins = epoch.prefix_hash if before is None or before.epoch is not epoch else before.begins
        mine = (usage.input, counted)
        least = self.least[begins] = min(mine, self.least.get(begins, mine))
        self.last = replace(request, cached=cached, least=least, begins=begins)
        self.earlier.pop(epoch.id, None)
        self.earlier[epoch.id] = self.last
        while len(self.earlier) > self.most_epochs:
            del self.earlier[next(iter(self.earlier))]
        return self.last

    def outlook(self, epoch: Epoch, items: Sequence[WindowItem], info: ModelInfo, now: datetime) -> Outlook:
        """Return the best cache hit, over all earlier requests, of a request of `items` under `epoch` to this model."""
        life, last, outlooks = cache_life_of(info), self.last, list[Outlook]()
        if last is None:
            return Outlook(at=now)
        extends = last.epoch is epoch
        for request in [last] if extends else self._requests():
            shared, messages = (request.tokens, 0) if extends else request.shares(epoch, items)
            age = seconds_between(self.uses.get(request.epoch.id), now)
            outlooks.append(Outlook(expected_cached(life, shared, age), messages, shared, age, now, last.tokens))
        best = max(outlooks, key=lambda outlook: outlook.tokens)
        return replace(outlooks[0], tokens=best.tokens, messages=best.messages)

    def _requests(self) -> list[SentRequest]:
        """Return the last request, then the newest of each former epoch."""
        last = self.last
        return (
            [last, *(request for request in reversed(self.earlier.values()) if request.epoch is not last.epoch)]
            if last
            else []
        )

    def is_warm(self, model: str, info: ModelInfo, now: datetime) -> bool:
        """True if the last request may still be cached, or its cache lifetime is unknown. A request to another model
        than `model` does not count, unless that is ""."""
        last = self.last
        return last is None or (model in ("", last.epoch.model) and self._may_be_cached(last, info, now))

    def seconds_until_cold(self, now: datetime) -> float:
        """Return the seconds after which the last request is certainly no longer cached; 0 if that is unknown."""
        if (last := self.last) is None or last.life is None or (used := self.uses.get(last.epoch.id)) is None:
            return 0.0
        return last.life.max_seconds - (now - used).total_seconds()

    def shared_tokens(self, epoch: Epoch, info: ModelInfo, now: datetime) -> int:
        """Return the tokens, by our count, of the longest prefix of an epoch that may still be cached."""
        cached = (request for request in self._requests() if self._may_be_cached(request, info, now))
        return max((request.common(epoch, epoch.head) for request in cached), default=0)

    def _may_be_cached(self, request: SentRequest, info: ModelInfo, now: datetime) -> bool:
        life = cache_life_of(info)
        if life is None:
            return True
        seconds = seconds_between(self.uses.get(request.epoch.id), now)
        return request.tokens >= life.min_tokens and (seconds is None or seconds <= life.max_seconds)
