"""The parts that one turn runs on, made by the factory; no behaviour of its own beyond counting."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nexus_cli.config.settings import CompactSettings
from nexus_cli.context.manager import ContextManager
from nexus_cli.context.sections.epoch_draft import EpochDraft
from nexus_cli.context.tokens.estimator import TokenEstimator, WindowContents
from nexus_cli.context.window.groups import is_request
from nexus_cli.context.window.lane import Lane, Notes
from nexus_cli.context.work_record import WorkLog
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import Clock
from nexus_cli.core.entry import Drop, Epoch, WindowItem
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.event import Dropped, Event, Notice
from nexus_cli.core.request import ModelInfo, Provider
from nexus_cli.core.services import Calibrations, Log, SeenFile
from nexus_cli.core.usage import Usage
from nexus_cli.provider.model_table import window_command
from nexus_cli.session.cache.last_request import CacheHistory
from nexus_cli.session.control import Control
from nexus_cli.session.next_request.request import LimitsInForce, NextRequest
from nexus_cli.session.spending import LEAST_OUTPUT, Spending, left_over

Emit = Callable[[Event], None]


async def _at_once() -> None:
    """Nobody shows anything."""


@dataclass
class Model:
    """A model that can be asked."""

    info: ModelInfo
    provider: Provider
    effort: str = ""
    cache_key: str = ""
    stall_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Preamble:
    """What we add to the next request."""

    text: str
    settle: Callable[[], None]
    """To be called when it stands in the window: what is in it is not told again."""


@dataclass(frozen=True, eq=False)
class NextEpoch:
    """The epoch that the next request begins, put together before it is sent, and not recorded."""

    epoch: Epoch
    drops: tuple[Drop, ...] = ()
    """What its system text leaves out, without the texts."""
    notices: tuple[str, ...] = ()
    """Which contributor was skipped, and what is odd about a file that was read."""


@dataclass
class LaneState:
    """One lane with everything that its turns need."""

    context: ContextManager
    model: Model
    budget: TokenBudget
    meter: TokenEstimator
    compact: CompactSettings
    clock: Clock
    emit: Emit
    spending: Spending
    control: Control
    side_log: Callable[[str, int | None], Log]
    """`(agent, parent entry or None) -> log` of a side lane: a fork at that entry, or a lane of its own."""
    gather: Callable[[], Awaitable[Preamble]]
    """The event preamble of the next request: what changed since this epoch last sent it."""
    frame: Callable[[], Awaitable[EpochDraft]]
    """System text and tools as they would be now, for the next epoch."""
    summarizer: Callable[[], Model]
    """Who sums up when not the session's own model."""
    calibrations: Calibrations | None = None
    shown: Callable[[], Awaitable[None]] = _at_once
    """Waits until the front end has shown every event so far."""
    step: int = 0
    """Number of the lane's newest request."""
    pending: str = ""
    """Why the next request has to begin a new epoch (`model`, `reload`), or ""."""
    draft: NextEpoch | None = None
    """The epoch that the next request begins, where it begins one and that was looked up."""
    made: tuple[tuple[object, ...], NextRequest] | None = None
    """The request that the window makes, with what it was made of; see `next_request.current`."""
    foreseen: tuple[tuple[object, ...], NextRequest] | None = None
    """The same with what waits, and under the epoch that is drafted."""
    along: Callable[[], Sequence[str]] = tuple
    """Texts that wait to be sent with the person's next message."""
    last_usage: Usage | None = None
    """What the lane's newest answered request used."""
    said: str = ""
    """What the lane's newest request was answered with, as far as it came; without the marks that the window has."""
    notices: list[str] = field(default_factory=list)
    """Lines for the model that wait for the next request."""
    cache: CacheHistory = field(default_factory=CacheHistory)
    """What was sent before, as far as a cache may hold it."""
    doubted: int = 0
    """The window that a refusal in an earlier session named, while this one goes beyond it; else 0."""
    confirmed: bool = False
    """The window was asked of the provider in this session, and is not doubted any more."""
    files: Callable[[], Sequence[SeenFile]] = tuple
    """The files that the session read or changed, as the ledger has them."""
    before_summary: Callable[[], Awaitable[None]] = _at_once
    """What is done before a summary is asked for (facts are taken out, where that is switched on)."""
    in_force: Callable[[], LimitsInForce] | None = None
    """The limits by now, with what the state of the run binds; None: what `spending` keeps to."""
    event: Sequence[Mapping[str, Any]] = ()
    """The event sections of the next request, until it is sent: the `sections` of interface.md section 8."""
    facts: Sequence[Mapping[str, Any]] = ()
    """The remembered facts among them: `id`, `slot` and `text` of each."""

    work: WorkLog = field(default_factory=WorkLog)
    """What the log of the lane says of commands and turns, as far as it was read."""

    def __post_init__(self) -> None:
        self.meter.contents = WindowContents(lambda: (self.lane.epoch, self.lane.items))

    @property
    def lane(self) -> Lane:
        """The lane of the turn."""
        return self.context.lane

    @property
    def asked(self) -> str:
        """Return what the person said last in this lane, "" before they said anything."""
        items = reversed(self.lane.items)
        return next((s.message.content for s in items if is_request((s,))), "")

    @property
    def least_output(self) -> int:
        """A request that leaves less for its answer is not sent: `LEAST_OUTPUT`, or all that is ever kept for one."""
        return min(LEAST_OUTPUT, self.budget.reserve_reply)

    @property
    def room(self) -> int:
        """Tokens that a request may take: the budget, and in very large windows what the least answer leaves."""
        return min(self.budget.available, left_over(self.model.info, self.least_output))

    def begin_epoch(
        self,
        head: Sequence[WindowItem],
        cause: str,
        planned: EpochDraft,
        drops: Sequence[Drop] = (),
        notes: Notes | None = None,
    ) -> None:
        """Begin an epoch of the lane with what was `planned` for it, recorded together with what that and the head
        leave out, and tell of it; nothing of it has been reported yet."""
        every = (*planned.drops, *drops)

        def noted(epoch: Epoch) -> Iterator[tuple[str, Mapping[str, Any]]]:
            yield from (one.note for one in planned.left)
            yield from notes(epoch) if notes else ()

        self.lane.rewrite(head, cause, every, planned.frame, noted)
        self.draft = None
        self.meter.forget()
        self.emit_drops(every)

    def emit_drops(self, drops: Iterable[Drop]) -> None:
        """Tell of what was left out, without its texts."""
        for drop in drops:
            self.emit(Dropped(replace(drop, text=None)))

    def learn_from_overflow(self, counted: int, error: ProviderError) -> None:
        """A request of `counted` tokens by our count was refused as too long: learn from the provider's words, and from
        a refusal beyond the window that an earlier one named that this is the window."""
        limit = error.limit or self.doubted
        self.meter.learn_from_overflow(counted, error.counted, limit or None)
        if self.calibrations:
            self.calibrations.calibrate(self.model.info.served_name, self.meter.calibration)
        if limit and limit < self.budget.window:
            listed = self.model.info.window
            self.set_window(limit)
            told = f"{self.model.info.served_name} reports a context window of {limit:,} tokens"
            if self.model.info.window_key:
                line = f"{told}, the settings say {listed:,}: using {limit:,} in this session. Correct the setting"
                self.emit(Notice(f"{line}: {window_command(self.model.info, limit)}"))
            else:
                self.emit(Notice(f"{told}: using that from now on"))

    def set_window(self, window: int) -> None:
        """The provider's window is smaller than we knew."""
        info = self.model.info
        self.doubted, self.confirmed = 0, True
        known = replace(info, window=window, window_refused=True, listed_window=info.listed_window or info.window)
        self.model = replace(self.model, info=known)
        self.budget = TokenBudget.of(window, info.max_output)

    def doubt_window(self) -> bool:
        """Go beyond the window that a refusal named in an earlier session; False where this session has no reason to
        doubt it, or has asked already."""
        info = self.model.info
        if not info.window_refused or not info.listed_window or self.confirmed:
            return False
        self.doubted, self.confirmed = info.window, True
        self.model = replace(self.model, info=replace(info, window=info.listed_window, window_refused=False))
        self.budget = TokenBudget.of(info.listed_window, info.max_output)
        line = f"an earlier refusal named a window of {self.doubted:,} tokens for {info.served_name}, which is too"
        self.emit(Notice(f"{line} small for this request: trying once with {info.listed_window:,}"))
        return True

    def fixed_parts(self) -> dict[str, int]:
        """Return what stands in every request, by the name of its section, in tokens."""
        epoch = self.lane.epoch
        sections = {str(section["id"]): int(section["tokens"]) for section in json.loads(epoch.sections)}
        rest = epoch.system_tokens - sum(sections.values())
        name = "what joins them" if sections else "system text"
        return {**sections, name: rest, "tool schemas": epoch.tools_tokens}

    def learn(self, counted: int, reported: int) -> None:
        """Take over what a provider reported for the newest request; one with images says nothing of our count."""
        images = any(item.message.parts for item in self.lane.items)
        if 0 < self.meter.calibration.window < reported:
            self.meter.forget_window()
            if self.calibrations:
                self.calibrations.calibrate(self.model.info.served_name, self.meter.calibration)
        learned = self.meter.learn(self.lane.cursor, counted, reported, teaches=not images)
        if learned and self.calibrations:
            self.calibrations.calibrate(self.model.info.served_name, learned)
