"""The newest request of a lane that reached its provider: what its cache may hold of the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nexus_cli.context.fingerprints import Fingerprint, in_common, rendered
from nexus_cli.context.groups import arrange, flatten, size
from nexus_cli.context.render import Wire
from nexus_cli.core.entry import Epoch, Slot
from nexus_cli.provider.cache_life import CacheLife


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as it was sent. Holds references, copies nothing: what was sent never changes."""

    epoch: Epoch
    tail: Sequence[Slot]
    """What was appended under the epoch; slots after `last` came later."""
    last: int
    tokens: int
    """As the provider reported it."""
    cached: bool = True
    """Up to here the provider has reported some use of a cache."""
    life: CacheLife | None = None
    """What is known of the cache of its model, where the lane asks another one now."""

    @property
    def slots(self) -> list[Slot]:
        """The messages of the request."""
        return [*self.epoch.head, *(slot for slot in self.tail if slot.entry <= self.last)]

    @property
    def counted(self) -> int:
        """Our count of the whole request."""
        return self.epoch.system_tokens + self.epoch.tools_tokens + size(tuple(self.slots))

    def fingerprint(self) -> Fingerprint:
        """Its parts."""
        return rendered(self.epoch, self.slots)

    def shares(self, epoch: Epoch, slots: Sequence[Slot]) -> tuple[int, int]:
        """What a request of `slots` under another epoch has in common with it: tokens, and messages on the wire."""
        counted, messages = self.common(epoch, slots)
        return min(self.tokens, round(self.tokens * counted / max(1, self.counted))), messages

    def common(self, epoch: Epoch, slots: Sequence[Slot]) -> tuple[int, int]:
        """The same in tokens by our count."""
        same = in_common(self.fingerprint(), rendered(epoch, slots))
        if same < 0:
            return 0, 0
        common = flatten(arrange(slots))[:same]
        wire = Wire(epoch)
        wire.extend(common)
        return epoch.system_tokens + epoch.tools_tokens + size(tuple(common)), len(wire.messages)
