"""The parts that one turn runs on, made by the wiring; no behaviour of its own beyond counting."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from nexus_cli.config.settings import CompactSettings
from nexus_cli.context.contents import Contents
from nexus_cli.context.manager import ContextManager
from nexus_cli.context.meter import Meter
from nexus_cli.context.sections.epoch_draft import EpochDraft
from nexus_cli.context.window.groups import is_request
from nexus_cli.context.window.lane import Lane, Notes
from nexus_cli.context.work_record import WorkLog
from nexus_cli.core.budget import TokenBudget, Used
from nexus_cli.core.clock import Clock
from nexus_cli.core.entry import Drop, Epoch, Slot
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.event import Dropped, Event, Notice
from nexus_cli.core.limits import Limits
from nexus_cli.core.request import ModelInfo, Provider
from nexus_cli.core.services import Calibrations, Log, SeenFile
from nexus_cli.core.usage import Usage
from nexus_cli.provider.model_table import window_command
from nexus_cli.session.control import Control
from nexus_cli.session.sent import Sent
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


@dataclass
class Engine:
    """One lane with everything that its turns need."""

    context: ContextManager
    model: Model
    budget: TokenBudget
    meter: Meter
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
    ahead: tuple[Meter, int] | None = None
    """Where the next request begins a new epoch and somebody has looked: the meter for that, and our count of its
    system text and schemas."""
    along: Callable[[], Sequence[str]] = tuple
    """Texts that wait to be sent with the person's next message."""
    last_usage: Usage | None = None
    """What the lane's newest answered request used."""
    said: str = ""
    """What the lane's newest request was answered with, as far as it came; without the marks that the window has."""
    notices: list[str] = field(default_factory=list)
    """Lines for the model that wait for the next request."""
    sent: Sent | None = None
    """The lane's newest request that reached the provider; a fork begins with that of its parent."""
    cold: int = 0
    """Tokens that the lane's requests sent without finding them in a cache; where it was resumed, about as many."""
    earlier: dict[int, Sent] = field(default_factory=dict)
    """The newest requests under the epochs that were used last, by epoch, those of forks among them."""
    least: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By what requests begin with, the smallest one: tokens as reported and by our count."""
    uses: dict[int, datetime] = field(default_factory=dict)
    """When each epoch was used last, by this lane or by a fork."""
    doubted: int = 0
    """The window that a refusal in an earlier session named, while this one goes beyond it; else 0."""
    confirmed: bool = False
    """The window was asked of the provider in this session, and is not doubted any more."""
    files: Callable[[], Sequence[SeenFile]] = tuple
    """The files that the session read or changed, as the ledger has them."""
    before_summary: Callable[[], Awaitable[None]] = _at_once
    """What is done before a summary is asked for (facts are taken out, where that is switched on)."""
    limits: Callable[[], Limits] | None = None
    """What is in force by now, with what the state of the run binds; None: what `spending` keeps to."""
    event: Sequence[Mapping[str, Any]] = ()
    """The event sections of the next request: the `sections` of interface.md section 8."""

    work: WorkLog = field(default_factory=WorkLog)
    """What the log of the lane says of commands and turns, as far as it was read."""

    def __post_init__(self) -> None:
        self.meter.contents = Contents(lambda: (self.lane.epoch, self.lane.slots))

    @property
    def lane(self) -> Lane:
        """The lane of the turn."""
        return self.context.lane

    @property
    def asked(self) -> str:
        """What the person said last in this lane, "" before they said anything."""
        slots = reversed(self.lane.slots)
        return next((s.message.content for s in slots if is_request((s,))), "")

    def expected(self) -> int:
        """Tokens that the next request is expected to take, at most."""
        return self.meter.upper(self.lane.counted)

    def expected_beside_answer(self) -> int:
        """Return the tokens that the cap of the next answer leaves to its request.

        In an epoch of which nothing was reported yet the known error is that of other contents: a tenth more is left,
        as far as the least answer allows.
        """
        expected, info = self.expected(), self.model.info
        if self.meter.anchor is not None:
            return expected
        careful = round(self.meter.estimate(self.lane.counted) * 1.1)
        return max(expected, min(careful, left_over(info, self.least_output)))

    @property
    def least_output(self) -> int:
        """A request that leaves less for its answer is not sent: `LEAST_OUTPUT`, or all that is ever kept for one."""
        return min(LEAST_OUTPUT, self.budget.reserve_reply)

    @property
    def room(self) -> int:
        """Tokens that a request may take: the budget, and in very large windows what the least answer leaves."""
        return min(self.budget.available, left_over(self.model.info, self.least_output))

    def fits(self) -> bool:
        """Whether the next request fits by count and known error (law 2)."""
        return self.expected() <= self.room

    def coming(self) -> int:
        """Tokens that the next request takes, as far as it is known what that begins with, and with what waits for it:
        the one figure of status line, result and reports."""
        epoch = self.lane.epoch
        meter, fixed = self.ahead or (self.meter, epoch.system_tokens + epoch.tools_tokens)
        return meter.estimate(fixed + self.lane.messages_tokens + self.waiting())

    @property
    def basis(self) -> str:
        """What `coming` is made from: `estimate` or `reported+estimate`."""
        return (self.ahead[0] if self.ahead else self.meter).basis

    def waiting(self) -> int:
        """Our count of what waits to be sent with the person's next message."""
        return sum(map(self.context.counter.count, self.along()))

    def used(self) -> Used:
        """What the window holds now, by layer, scaled to the estimate."""
        lane = self.lane
        event = sum(slot.tokens for slot in lane.tail if slot.entry > lane.cursor)
        history = lane.messages_tokens - event
        return self.meter.layers(Used(lane.epoch.system_tokens, lane.epoch.tools_tokens, history, event))

    def planned(self) -> TokenBudget:
        """The budget with what the window holds now."""
        return replace(self.budget, used=self.used())

    def begin(
        self,
        head: Sequence[Slot],
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
        self.ahead = None
        self.meter.forget()
        self.told(every)

    def told(self, drops: Iterable[Drop]) -> None:
        """Tell of what was left out, without its texts."""
        for drop in drops:
            self.emit(Dropped(replace(drop, text=None)))

    def overflowed(self, counted: int, error: ProviderError) -> None:
        """A request of `counted` tokens by our count was refused as too long: learn from the provider's words, and from
        a refusal beyond the window that an earlier one named that this is the window."""
        limit = error.limit or self.doubted
        self.meter.overflowed(counted, error.counted, limit or None)
        if self.calibrations:
            self.calibrations.calibrate(self.model.info.served_name, self.meter.calibration)
        if limit and limit < self.budget.window:
            listed = self.model.info.window
            self.narrow(limit)
            told = f"{self.model.info.served_name} reports a context window of {limit:,} tokens"
            if self.model.info.window_key:
                line = f"{told}, the settings say {listed:,}: using {limit:,} in this session. Correct the setting"
                self.emit(Notice(f"{line}: {window_command(self.model.info, limit)}"))
            else:
                self.emit(Notice(f"{told}: using that from now on"))

    def narrow(self, window: int) -> None:
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
        """What stands in every request, by the name of its section, in tokens."""
        epoch = self.lane.epoch
        sections = {str(section["id"]): int(section["tokens"]) for section in json.loads(epoch.sections)}
        rest = epoch.system_tokens - sum(sections.values())
        name = "what joins them" if sections else "system text"
        return {**sections, name: rest, "tool schemas": epoch.tools_tokens}

    def learn(self, counted: int, reported: int) -> None:
        """Take over what a provider reported for the newest request; one with images says nothing of our count."""
        images = any(slot.message.parts for slot in self.lane.slots)
        if 0 < self.meter.calibration.window < reported:
            self.meter.outgrown()
            if self.calibrations:
                self.calibrations.calibrate(self.model.info.served_name, self.meter.calibration)
        learned = self.meter.report(self.lane.cursor, counted, reported, teaches=not images)
        if learned and self.calibrations:
            self.calibrations.calibrate(self.model.info.served_name, learned)
