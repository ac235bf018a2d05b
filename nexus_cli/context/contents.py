"""What the window of a lane holds by kind of content: what `nexus_cli.context.meter` makes its estimates from.

How far each kind is off is learned in `nexus_cli.context.factors`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_

from nexus_cli.context.kinds import NOTHING, Profile, Profiles, fixed
from nexus_cli.core.entry import Epoch, Slot

Window = Callable[[], tuple[Epoch, Sequence[Slot]]]
NEWEST = 8
"""Messages at the end of a window that may still be put in another form: they are added up each time."""


class Contents:
    """A window, looked at anew each time: it grows, and a new epoch is another one."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._profiles = Profiles()
        self._stood: list[Slot] = []
        self._sum: Profile = tuple(NOTHING)
        """Of `_stood`: what the window began with when it was last looked at."""

    def fixed(self) -> Profile:
        """What stands in every request of the epoch: system text and schemas."""
        epoch, _ = self._window()
        return fixed(epoch.system_tokens, epoch.tools_tokens)

    def messages(self) -> Profile:
        """All messages. What stood there before is not added up again."""
        slots = self._window()[1]
        settled = max(0, len(slots) - NEWEST)
        if settled < len(self._stood) or not all(map(is_, self._stood, slots)):
            self._stood, self._sum = [], tuple(NOTHING)
        if more := slots[len(self._stood) : settled]:
            self._stood += more
            self._sum = _both(self._sum, self._profiles.total(more))
        return _both(self._sum, self._profiles.total(slots[settled:]))

    def since(self, entry: int) -> Profile:
        """The messages after an entry."""
        return self._profiles.total([slot for slot in self._window()[1] if slot.entry > entry])

    def upto(self, entry: int) -> Profile:
        """All that a request holds whose last message is `entry`."""
        parts = zip(self.fixed(), self.messages(), self.since(entry), strict=True)
        return tuple(beside + shown - later for beside, shown, later in parts)


def _both(one: Profile, other: Profile) -> Profile:
    return tuple(map(sum, zip(one, other, strict=True)))
