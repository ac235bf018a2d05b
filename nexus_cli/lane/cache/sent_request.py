"""A request that reached its provider: what a cache may hold of the next one, and the figures of two in a row."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256

from nexus_cli.context.window.fingerprints import Difference, Fingerprint, common_messages, render_fingerprint
from nexus_cli.context.window.groups import flatten, group_tokens, group_tool_calls
from nexus_cli.context.window.render import Wire
from nexus_cli.core.entry import Epoch, WindowItem
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import canonical
from nexus_cli.lane.cache.diagnosis import CacheFacts, diagnose
from nexus_cli.provider.prompt_cache import CacheLife, cache_life

MOST_EPOCHS = 4
"""Earlier epochs remembered with their requests: an undo returns to one."""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """One request as it was sent. Holds references, copies nothing: what was sent never changes."""

    epoch: Epoch
    tail: Sequence[WindowItem]
    """Items appended under the epoch; those after `last` came later."""
    last: int
    tokens: int
    """As the provider reported it."""
    cached: bool = True
    """Up to here the provider has reported some use of a cache."""
    least: tuple[int, int] = (0, 0)
    """Tokens, as reported and by our count, of the smallest request with the same system text and schemas; 0 if this is
    the only one. It shows how many tokens those two take."""
    begins: str = ""
    """Hash of system text and schemas, see `prefix_hash`."""
    life: CacheLife | None = None
    """Cache lifetime of its model."""

    @property
    def items(self) -> list[WindowItem]:
        return [*self.epoch.head, *(item for item in self.tail if item.entry <= self.last)]

    @property
    def fixed(self) -> int:
        """Our count of system text and schemas."""
        return self.epoch.system_tokens + self.epoch.tools_tokens

    def fingerprint(self) -> Fingerprint:
        return render_fingerprint(self.epoch, self.items)

    def shares(self, epoch: Epoch, items: Sequence[WindowItem]) -> tuple[int, int]:
        """Return what a request of `items` under another epoch has in common with it: tokens as the provider counts,
        and messages on the wire."""
        common = self._common(epoch, items)
        if common is None:
            return 0, 0
        wire, messages = Wire(epoch), group_tokens(tuple(self.items))
        wire.extend(common)
        reported, counted = self.least if all(self.least) else (self.tokens, self.fixed + messages)
        fixed = min(self.tokens, round(reported * self.fixed / counted))
        share = min(1.0, group_tokens(tuple(common)) / messages) if messages else 1.0
        return fixed + round((self.tokens - fixed) * share), len(wire.messages)

    def common(self, epoch: Epoch, items: Sequence[WindowItem]) -> int:
        """Return tokens of the same by our count."""
        common = self._common(epoch, items)
        return 0 if common is None else self.fixed + group_tokens(tuple(common))

    def _common(self, epoch: Epoch, items: Sequence[WindowItem]) -> list[WindowItem] | None:
        """Return the messages that both begin with; None if system text or schemas already differ."""
        same = common_messages(self.fingerprint(), render_fingerprint(epoch, items))
        return None if same < 0 else flatten(group_tool_calls(items))[:same]


def compare_requests(
    before: SentRequest,
    now: SentRequest,
    usage: Usage,
    *,
    shared: int,
    age: float | None,
    proven: bool,
    differ: Callable[[], Difference | None],
) -> CacheFacts:
    """Return the figures of a request that was answered with `usage` beside the one before it.

    `shared`, `age` and `proven` as in `CacheFacts`; `differ` finds the first difference, if something was missed.
    """
    fresh = 0
    if before.epoch is not now.epoch:
        items = now.items
        new = sum(item.tokens for item in items if item.entry > before.last)
        fresh = round(usage.input * new / max(1, now.fixed + sum(item.tokens for item in items)))
    facts = CacheFacts(
        now.life,
        usage.input,
        usage.cache_read,
        before.tokens,
        shared,
        age,
        fresh=fresh,
        proven=proven,
        former=before.life,
    )
    found = differ() if diagnose(facts).missed else None
    if found is None:
        return facts
    cause = "" if before.epoch is now.epoch else now.epoch.cause
    return replace(facts, difference=found, cause=cause, source=source_of(found, now.epoch, before.epoch))


def source_of(found: Difference, *epochs: Epoch) -> str:
    """Return where the section that differs comes from in the first of `epochs` that says it; "" for other parts."""
    if found.kind != "section":
        return ""
    named = (one for epoch in epochs for one in json.loads(epoch.sections) if one.get("id") == found.what)
    return next((str(one["source"]) for one in named if one.get("source")), "")


@dataclass
class CacheHistory:
    """Requests of a lane and its forks that a cache may still hold.

    A copy for a fork shares the containers: what either lane sends, both may find in a cache.
    """

    last: SentRequest | None = None
    """The lane's newest request that reached the provider; a fork begins with that of its parent."""
    cold: int = 0
    """Tokens that the lane's requests sent without finding them in a cache; where it was resumed, about as many."""
    earlier: dict[int, SentRequest] = field(default_factory=dict)
    """The newest requests under the epochs that were used last, by epoch, those of forks among them."""
    least: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By what requests begin with, the smallest one: tokens as reported and by our count."""
    uses: dict[int, datetime] = field(default_factory=dict)
    """When each epoch was used last, by this lane or by a fork."""
    last_usage: Usage | None = None
    """Usage of the lane's newest answered request."""

    def candidates(self) -> list[tuple[SentRequest, datetime | None]]:
        """Return the last request, then the newest ones under former epochs, each with the last use of its epoch."""
        if self.last is None:
            return []
        others = (one for one in reversed(self.earlier.values()) if one.epoch is not self.last.epoch)
        return [(one, self.uses.get(one.epoch.id)) for one in (self.last, *others)]


def cache_life_of(info: ModelInfo) -> CacheLife | None:
    """Return what is known of the cache of a model."""
    return cache_life(info.name, info.provider, caches=info.cache)


def prefix_hash(epoch: Epoch) -> str:
    """Return a hash of what its requests begin with: model, system text and schemas."""
    return sha256(canonical([epoch.model, epoch.system, list(epoch.tools)])).hexdigest()
