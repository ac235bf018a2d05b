"""What the window of a lane holds by kind of content: what `nexus_cli.context.meter` makes its estimates from.

How far each kind is off is learned in `nexus_cli.context.factors`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nexus_cli.context.kinds import Profile, Profiles, fixed
from nexus_cli.core.entry import Epoch, Slot

Window = Callable[[], tuple[Epoch, Sequence[Slot]]]


class Contents:
    """A window, looked at anew each time: it grows, and a new epoch is another one."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._profiles = Profiles()

    def fixed(self) -> Profile:
        """What stands in every request of the epoch: system text and schemas."""
        epoch, _ = self._window()
        return fixed(epoch.system_tokens, epoch.tools_tokens)

    def messages(self) -> Profile:
        """All messages."""
        return self._profiles.total(self._window()[1])

    def since(self, entry: int) -> Profile:
        """The messages after an entry."""
        return self._profiles.total(slot for slot in self._window()[1] if slot.entry > entry)

    def upto(self, entry: int) -> Profile:
        """All that a request holds whose last message is `entry`."""
        parts = zip(self.fixed(), self.messages(), self.since(entry), strict=True)
        return tuple(beside + shown - later for beside, shown, later in parts)
