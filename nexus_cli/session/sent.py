"""The newest request of a lane that reached its provider: what its cache may hold of the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from nexus_cli.context.window.fingerprints import Fingerprint, in_common, rendered
from nexus_cli.context.window.groups import flatten, group_tokens, group_tool_calls
from nexus_cli.context.window.render import Wire
from nexus_cli.core.entry import Epoch, Slot
from nexus_cli.core.wire import canonical
from nexus_cli.provider.prompt_cache import CacheLife


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
    least: tuple[int, int] = (0, 0)
    """The smallest request that began with the same system text and schemas: tokens as reported and by our count. They
    make most of it, so that it tells what they take; 0 where this is the only one."""
    begins: str = ""
    """What it begins with, see `beginning`."""
    life: CacheLife | None = None
    """What is known of the cache of its model, where the lane asks another one now."""

    @property
    def slots(self) -> list[Slot]:
        """The messages of the request."""
        return [*self.epoch.head, *(slot for slot in self.tail if slot.entry <= self.last)]

    @property
    def fixed(self) -> int:
        """Our count of system text and schemas."""
        return self.epoch.system_tokens + self.epoch.tools_tokens

    def fingerprint(self) -> Fingerprint:
        """Its parts."""
        return rendered(self.epoch, self.slots)

    def shares(self, epoch: Epoch, slots: Sequence[Slot]) -> tuple[int, int]:
        """What a request of `slots` under another epoch has in common with it: tokens as the provider counts, and
        messages on the wire."""
        common = self._common(epoch, slots)
        if common is None:
            return 0, 0
        wire, messages = Wire(epoch), group_tokens(tuple(self.slots))
        wire.extend(common)
        reported, counted = self.least if all(self.least) else (self.tokens, self.fixed + messages)
        fixed = min(self.tokens, round(reported * self.fixed / counted))
        share = min(1.0, group_tokens(tuple(common)) / messages) if messages else 1.0
        return fixed + round((self.tokens - fixed) * share), len(wire.messages)

    def common(self, epoch: Epoch, slots: Sequence[Slot]) -> int:
        """Tokens of the same by our count."""
        common = self._common(epoch, slots)
        return 0 if common is None else self.fixed + group_tokens(tuple(common))

    def _common(self, epoch: Epoch, slots: Sequence[Slot]) -> list[Slot] | None:
        """The messages that both begin with; None where already what stands before the messages differs."""
        same = in_common(self.fingerprint(), rendered(epoch, slots))
        return None if same < 0 else flatten(group_tool_calls(slots))[:same]


def beginning(epoch: Epoch) -> str:
    """A hash of what its requests begin with: model, system text and schemas."""
    return sha256(canonical([epoch.model, epoch.system, list(epoch.tools)])).hexdigest()
