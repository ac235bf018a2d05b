"""The state of one lane: its window, its next request, the history of its cache, and what its turns share.

Leaves building it to `factory`, and opening side lanes, with what they share with it, to `lane_forks`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nexus_cli.config.settings import Settings
from nexus_cli.context.sections.collect import EpochDraft
from nexus_cli.context.window.groups import is_request
from nexus_cli.context.window.lane import Lane, Notes
from nexus_cli.context.work_record import WorkLog
from nexus_cli.core.clock import Clock
from nexus_cli.core.entry import Drop, WindowItem
from nexus_cli.core.event import Event
from nexus_cli.lane.cache.sent_request import CacheHistory
from nexus_cli.lane.control import Control
from nexus_cli.lane.lane_window import LaneWindow, Model
from nexus_cli.lane.next_request import LimitsInForce
from nexus_cli.lane.spending import Spending
from nexus_cli.lane.upcoming import Upcoming
from nexus_cli.tools.registry import find_tool


@dataclass(frozen=True, slots=True)
class Preamble:
    """Text that we add to the next request."""

    text: str
    settle: Callable[[], None]
    """To be called when it stands in the window: what is in it is not told again."""


class PromptAssembler(Protocol):
    """Assembles what we add to the requests of a lane."""

    async def draft_epoch(self, window: LaneWindow) -> EpochDraft:
        """Return system text and tools as they would be now, for the next epoch."""
        ...

    async def draft_preamble(self, window: LaneWindow, upcoming: Upcoming, control: Control) -> Preamble:
        """Return the event preamble of the next request: what changed since this epoch last sent it."""
        ...

    def resume(self, lane: Lane) -> None:
        """Learn what the epoch of the lane has sent already."""


class LimitsSource(Protocol):
    """Knows the limits of a session with what the state of the run binds."""

    def in_force(self, lane_state: LaneState) -> LimitsInForce:
        """Return the limits of the next request."""
        ...

    def record(self, lane_state: LaneState) -> None:
        """Record the limits of the next request, if others were recorded last."""


@dataclass
class LaneState:
    """One lane with everything that its turns need: its window, what is known of its next request, the history of its
    cache, and what a turn shares with the session."""

    window: LaneWindow
    spending: Spending
    control: Control
    clock: Clock
    settings: Settings
    prompt: PromptAssembler
    limits: LimitsSource | None = None
    """None: what `spending` keeps to."""
    before_summary: Callable[[LaneState], Awaitable[None]] | None = None
    """Done before a summary is asked for: facts are extracted, where that is switched on."""
    upcoming: Upcoming = field(default_factory=Upcoming)
    cache: CacheHistory = field(default_factory=CacheHistory)
    """Earlier requests, as far as a cache may hold them."""
    step: int = 0
    """Number of the lane's newest request."""
    partial_reply: str = ""
    """Answer to the lane's newest request, as far as it came; without the marks that the window has."""
    work: WorkLog = field(default_factory=lambda: WorkLog(find_tool))
    """Record of commands and turns, as far as the lane's log was read."""

    @property
    def lane(self) -> Lane:
        return self.window.lane

    @property
    def model(self) -> Model:
        """The model that the window is sized for."""
        return self.window.model

    def begin_epoch(
        self,
        head: Sequence[WindowItem],
        cause: str,
        planned: EpochDraft,
        drops: Sequence[Drop] = (),
        notes: Notes | None = None,
    ) -> None:
        """Begin an epoch of the lane as `LaneWindow.begin_epoch`, and report what it leaves out."""
        every = (*planned.drops, *drops)
        self.window.begin_epoch(head, cause, planned, every, notes)
        self.upcoming.draft = None
        self.emit_drops(every)

    def emit(self, event: Event) -> None:
        """Hand an event to the front end."""
        self.control.emit(event)

    def emit_drops(self, drops: Iterable[Drop]) -> None:
        """Tell of what was left out, without its texts."""
        for drop in drops:
            self.control.emit_drop(drop)


def newest_words(lane: Lane) -> str:
    """Return what the person said last in a lane, "" before they said anything."""
    return next((item.message.content for item in reversed(lane.items) if is_request((item,))), "")
