"""The state of one lane: its window, model, budget and token estimate, and what its next request begins with.

Leaves building it to `factory`, and opening side lanes, with what they share with it, to `lane_forks`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import ContextManager
from nexus_cli.context.sections.collect import EpochDraft
from nexus_cli.context.tokens.content_kinds import WindowContents
from nexus_cli.context.tokens.estimator import TokenEstimator
from nexus_cli.context.window.groups import is_request
from nexus_cli.context.window.lane import Lane, Notes
from nexus_cli.context.work_record import WorkLog
from nexus_cli.core.budget import REQUEST_FLOOR, TokenBudget
from nexus_cli.core.clock import Clock
from nexus_cli.core.entry import Drop, Epoch, WindowItem
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.event import Event, Notice
from nexus_cli.core.request import ModelInfo, Provider
from nexus_cli.core.services import Calibrations
from nexus_cli.core.usage import Usage
from nexus_cli.lane.cache.sent_request import CacheHistory
from nexus_cli.lane.control import Control
from nexus_cli.lane.next_request import LimitsInForce, NextRequest
from nexus_cli.lane.refusal import REFUSED_WINDOW, describe_disbelief, is_believable
from nexus_cli.lane.spending import LEAST_OUTPUT, Spending, left_over
from nexus_cli.provider.model_table import window_command
from nexus_cli.tools.registry import find_tool


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
    """Text that we add to the next request."""

    text: str
    settle: Callable[[], None]
    """To be called when it stands in the window: what is in it is not told again."""


@dataclass(frozen=True, eq=False)
class NextEpoch:
    """The epoch that the next request begins, put together before it is sent, and not recorded."""

    epoch: Epoch
    drops: tuple[Drop, ...] = ()
    """Drops of its system text, without the texts."""
    notices: tuple[str, ...] = ()
    """Lines on contributors that were skipped, and on odd files."""


class PromptAssembler(Protocol):
    """Assembles what we add to the requests of a lane."""

    async def draft_epoch(self, lane_state: LaneState) -> EpochDraft:
        """Return system text and tools as they would be now, for the next epoch."""
        ...

    async def draft_preamble(self, lane_state: LaneState) -> Preamble:
        """Return the event preamble of the next request: what changed since this epoch last sent it."""
        ...

    def resume(self, lane_state: LaneState) -> None:
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
    """One lane with everything that its turns need."""

    context: ContextManager
    lane: Lane = field(init=False)
    """The lane of `context`."""
    model: Model
    budget: TokenBudget
    estimator: TokenEstimator
    spending: Spending
    control: Control
    clock: Clock
    settings: Settings
    prompt: PromptAssembler
    calibrations: Calibrations | None = None
    """Store of what is learned of a model's tokenizer; None: it is forgotten with the lane."""
    limits: LimitsSource | None = None
    """None: what `spending` keeps to."""
    before_summary: Callable[[LaneState], Awaitable[None]] | None = None
    """Done before a summary is asked for: facts are extracted, where that is switched on."""
    step: int = 0
    """Number of the lane's newest request."""
    pending: str = ""
    """Why the next request has to begin a new epoch (`model`, `reload`), or ""."""
    draft: NextEpoch | None = None
    """The epoch that the next request begins, where it begins one and that was looked up."""
    window_request: tuple[tuple[object, ...], NextRequest] | None = None
    """The request that the window makes, with what it was made of; see `next_request.current`."""
    next_request: tuple[tuple[object, ...], NextRequest] | None = None
    """The same with what waits, and under the epoch that is drafted."""
    last_usage: Usage | None = None
    """Usage of the lane's newest answered request."""
    partial_reply: str = ""
    """Answer to the lane's newest request, as far as it came; without the marks that the window has."""
    notices: list[str] = field(default_factory=list)
    """Lines for the model that wait for the next request."""
    cache: CacheHistory = field(default_factory=CacheHistory)
    """Earlier requests, as far as a cache may hold them."""
    refused_window: int = 0
    """The window that a refusal named, while the session goes beyond it; else 0."""
    confirmed: bool = False
    """The window was asked of the provider in this session, and is not doubted any more."""
    event: Sequence[Mapping[str, Any]] = ()
    """The event sections of the next request, until it is sent: the `sections` of `nexus docs json`."""
    facts: Sequence[Mapping[str, Any]] = ()
    """The remembered facts among them: `id`, `slot` and `text` of each."""
    work: WorkLog = field(default_factory=lambda: WorkLog(find_tool))
    """Record of commands and turns, as far as the lane's log was read."""

    def __post_init__(self) -> None:
        self.lane = self.context.lane
        self.estimator.contents = WindowContents(lambda: (self.lane.epoch, self.lane.items))

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
        self.estimator.forget()
        self.emit_drops(every)

    def emit(self, event: Event) -> None:
        """Hand an event to the front end."""
        self.control.emit(event)

    def emit_drops(self, drops: Iterable[Drop]) -> None:
        """Tell of what was left out, without its texts."""
        for drop in drops:
            self.control.emit_drop(drop)

    def learn_from_overflow(self, counted: int, error: ProviderError) -> None:
        """A request of `counted` tokens by our count was refused as too long: learn from the provider's words, and from
        a refusal beyond the window that an earlier one named that this is the window.

        A window is only remembered for every session where the figures can be right; otherwise it is used in this one,
        over processes, and only if that leaves enough to go on with.
        """
        believed = is_believable(error, counted)
        limit = (error.limit or self.refused_window) if believed else 0
        self.estimator.learn_from_overflow(counted, error.counted, limit or None)
        if self.calibrations:
            self.calibrations.calibrate(self.model.info.served_name, self.estimator.calibration)
        if not believed:
            window = self._shrink_if_workable(error.limit or 0)
            self.emit(Notice(describe_disbelief(error, self.model.info.served_name, counted, window)))
        elif limit and limit < self.budget.window:
            self._take_window(limit)

    def _take_window(self, limit: int) -> None:
        """Use the window that a refusal named, and tell of it."""
        listed = self.model.info.window
        self.set_window(limit)
        told = f"{self.model.info.served_name} reports a context window of {limit:,} tokens"
        if self.model.info.window_key:
            self._keep_window(limit)
            line = f"{told}, the settings say {listed:,}: using {limit:,} in this session. Correct the setting"
            self.emit(Notice(f"{line}: {window_command(self.model.info, limit)}"))
        else:
            self.emit(Notice(f"{told}: using that from now on", warning=False))

    def _shrink_if_workable(self, limit: int) -> int:
        """Use the smaller window `limit` if the parts that stand in every request leave the share of its budget that a
        request may take; return it, else 0."""
        if limit >= self.budget.window:
            return 0
        most = self.estimator.countable(TokenBudget.of(limit, self.model.info.max_output).available)
        if sum(self.fixed_parts().values()) > (1 - REQUEST_FLOOR) * most:
            return 0
        self.set_window(limit)
        self._keep_window(limit)
        return limit

    def _keep_window(self, window: int) -> None:
        """Keep a window with the session, until the settings list another one; 0: it is not used any more."""
        info = self.model.info
        value = {"model": info.served_name, "window": window, "listed": info.listed_window or info.window}
        self.lane.timeline.memo(REFUSED_WINDOW, value)

    def set_window(self, window: int) -> None:
        """The provider's window is smaller than we knew."""
        info = self.model.info
        self.confirmed, self.refused_window = bool(self.refused_window), 0
        known = replace(info, window=window, window_refused=True, listed_window=info.listed_window or info.window)
        self.model = replace(self.model, info=known)
        self.budget = TokenBudget.of(window, info.max_output)

    def doubt_window(self) -> bool:
        """Go beyond the window that a refusal named; False where a second one has confirmed it, or this session has
        asked already."""
        info = self.model.info
        if not info.window_refused or not info.listed_window or self.confirmed:
            return False
        self.refused_window, self.confirmed = info.window, True
        self._restore_window()
        line = (
            f"an earlier refusal named a window of {self.refused_window:,} tokens for {info.served_name}, which is too"
        )
        self.emit(Notice(f"{line} small for this request: trying once with {info.listed_window:,}", warning=False))
        return True

    def _restore_window(self) -> None:
        info = self.model.info
        self.model = replace(self.model, info=replace(info, window=info.listed_window, window_refused=False))
        self.budget = TokenBudget.of(info.listed_window, info.max_output)

    def fixed_parts(self) -> dict[str, int]:
        """Return what stands in every request, by the name of its section, in tokens."""
        epoch = self.lane.epoch
        sections = {str(section["id"]): int(section["tokens"]) for section in json.loads(epoch.sections)}
        rest = epoch.system_tokens - sum(sections.values())
        name = "what joins them" if sections else "system text"
        return {**sections, name: rest, "tool schemas": epoch.tools_tokens}

    def learn(self, counted: int, reported: int) -> None:
        """Take over what a provider reported for the newest request; one with images says nothing of our count."""
        images, info = any(item.message.parts for item in self.lane.items), self.model.info
        if info.window_refused and info.window < reported <= info.listed_window:
            self._restore_window()
            self._keep_window(0)
        elif 0 < self.refused_window < reported:
            self.refused_window = 0
            self._keep_window(0)
        if 0 < self.estimator.calibration.window < reported:
            self.estimator.forget_window()
            if self.calibrations:
                self.calibrations.calibrate(self.model.info.served_name, self.estimator.calibration)
        learned = self.estimator.learn(self.lane.cursor, counted, reported, teaches=not images)
        if learned and self.calibrations:
            self.calibrations.calibrate(self.model.info.served_name, learned)


def newest_words(lane: Lane) -> str:
    """Return what the person said last in a lane, "" before they said anything."""
    return next((item.message.content for item in reversed(lane.items) if is_request((item,))), "")
