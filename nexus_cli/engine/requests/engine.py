"""The state of one lane: its conversation, what waits for its next request, its cache history, what the session shares.

`factory` builds it; `side_conversations` opens side lanes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import ContextManager, Model
from nexus_cli.conversation.compaction.work_record import WorkLog
from nexus_cli.conversation.conversation import Conversation, Notes
from nexus_cli.conversation.epoch_draft import EpochDraft
from nexus_cli.conversation.groups import is_request
from nexus_cli.conversation.request_plan import NextRequest
from nexus_cli.conversation.sent_requests import CacheHistory, EarlierRequests
from nexus_cli.core.budget import left_over
from nexus_cli.core.entry import Drop, Kind, WindowItem
from nexus_cli.core.event import Event, Notice
from nexus_cli.core.request import ModelInfo, Provider
from nexus_cli.engine.requests.control import Control
from nexus_cli.engine.requests.readings import NextEpoch, Preamble, Readings
from nexus_cli.engine.requests.spending import Spending
from nexus_cli.engine.requests.tool_selection import describe_left_out
from nexus_cli.tools.registry import find_tool


class PromptAssembler(Protocol):
    """Assembles the system text and the preambles of a lane."""

    async def draft_epoch(self, context: ContextManager, words: str = "") -> EpochDraft:
        """Return the present system text and tools, for the next epoch. `words` is the first message of a
        session."""

    async def draft_preamble(self, context: ContextManager, notices: list[str]) -> Preamble:
        """Return the preamble of the next request: the `notices` that wait, and the event sections that changed since
        this epoch last sent them."""

    def resume(self, conversation: Conversation) -> None:
        """Load the sections that the lane's epoch has already sent."""


@dataclass
class Engine:
    """The state that the turns of one lane need: its window, what waits for the next request, the cache history, and
    the objects shared with the session."""

    context: ContextManager
    """The conversation, and its model, budget and token estimate."""
    provider: Provider
    spending: Spending
    """What the turn has used of its limits; each turn has a new one."""
    control: Control
    """The connection to the front end."""
    settings: Settings
    """The settings of the session."""
    prompt: PromptAssembler
    before_summary: Callable[[Engine, str, str], Awaitable[None]] | None = None
    """Called before a summary is requested: extracts facts if that is enabled."""
    cache: CacheHistory = field(default_factory=CacheHistory)
    """Earlier requests that may still be cached."""
    check_request: Callable[[ContextManager, NextRequest, bool], None] | None = None
    """Called before room is made for a request, True for the first one of a turn: checks the contract of the turn."""
    load_facts: Callable[[], tuple[ModelInfo, str]] | None = None
    """Returns the facts of a model whose server had not answered when the session was opened, and a notice or ""."""
    step: int = 0
    """Number of the lane's newest request."""
    readings: Readings = field(default_factory=Readings)
    """What waits for the next request."""
    is_narrow: bool = False
    """True if the window had little room left after the last step."""
    partial_reply: str = ""
    """The text received so far for the newest request, without the marks added in the window."""
    response_format: str = ""
    """The schema that the provider holds the answers of the running turn to, see `Request`."""
    work: WorkLog = field(default_factory=lambda: WorkLog(find_tool))
    """Commands and turns found in the lane's log, up to the last entry read."""

    @property
    def conversation(self) -> Conversation:
        return self.context.conversation

    @property
    def model(self) -> Model:
        """The model that the window is sized for."""
        return self.context.model

    # -- the next request --------------------------------------------------------------------------------------

    def window_request(self) -> NextRequest:
        """Return the request of the present window, which a turn would send now."""
        return self.context.project(self._earlier_requests(), told=self.readings.preamble.sections)

    def next_request(self) -> NextRequest:
        """Return the next request: the window, with the texts waiting for the person's next message, under the drafted
        epoch if it begins one."""
        earlier = self._earlier_requests()
        draft, texts = self.next_epoch, self.control.waiting_texts()
        if draft is not None:
            return self.context.project(earlier, epoch=draft.epoch, texts=texts)
        return self.context.project(earlier, told=self.readings.preamble.sections, texts=texts)

    def _earlier_requests(self) -> EarlierRequests:
        return self.cache.earlier_requests(self.model.info, self.conversation.clock())

    @property
    def begins_epoch(self) -> bool:
        """True if the next request begins a new epoch, for another model or effort or a reload."""
        epoch, model = self.conversation.epoch, self.model
        asked = model.info.name, model.effort or epoch.effort
        return bool(self.readings.epoch_cause) or (epoch.model, epoch.effort) != asked

    @property
    def next_epoch(self) -> NextEpoch | None:
        """The epoch that the next request begins; None if it begins none, or one that is not drafted yet."""
        draft = self.readings.drafted
        is_due = draft is not None and draft.epoch.parent == self.conversation.epoch.id and self.begins_epoch
        return draft if is_due else None

    @property
    def begins_undrafted(self) -> bool:
        """True if the next request begins an epoch of which the system text is not read yet."""
        return self.begins_epoch and self.next_epoch is None

    def answer_cap(self) -> int:
        """Return the output cap of the next request in tokens. Raises as `Spending.output_cap` does.

        Before the first report of an epoch, the known error is that of other contents. A tenth more is then reserved
        for the request, as far as the least answer allows.
        """
        request, info = self.window_request(), self.model.info
        expected = request.most
        if request.basis == "estimate":
            expected = max(expected, min(round(request.tokens * 1.1), left_over(info, self.context.least_output)))
        return self.spending.output_cap(info, expected)

    # -- changes -----------------------------------------------------------------------------------------------

    def take_facts(self) -> None:
        """Size the window by what the model's server has stated since the session was opened, if it has by now."""
        if self.load_facts is None:
            return
        info, notice = self.load_facts()
        if info.pending:
            return
        self.load_facts = None
        self.context.size_for(info)
        if notice:
            self.emit(Notice(notice))

    def begin_epoch(
        self,
        head: Sequence[WindowItem],
        cause: str,
        planned: EpochDraft,
        drops: Sequence[Drop] = (),
        notes: Notes | None = None,
    ) -> None:
        """Begin an epoch as `LaneWindow.begin_epoch` does, and report its drops."""
        before, info = self.conversation.epoch.tools, self.context.model.info
        every = (*planned.drops, *drops)
        self.context.begin_epoch(head, cause, planned, every, notes)
        self.readings.drafted = None
        self.emit_drops(every)
        line = describe_left_out(info.window, self.conversation.epoch.tools)
        if line and line != describe_left_out(info.window, before):
            self.emit(Notice(line))

    def tell_model(self, *lines: str) -> None:
        """Send lines to the model with the next request, without the empty ones."""
        self.readings.notices.extend(filter(None, lines))

    def emit(self, event: Event) -> None:
        """Send an event to the front end."""
        self.control.emit(event)

    def emit_drops(self, drops: Iterable[Drop]) -> None:
        """Send drops to the front end, without their texts."""
        for drop in drops:
            self.control.emit_drop(drop)


def newest_words(conversation: Conversation) -> str:
    """Return the last request in the lane's window, "" if there is none: messages of nexus within a turn are none."""
    for item in reversed(conversation.items):
        if is_request((item,)) and not any(
            one.kind is Kind.STEER and one.actor == "nexus" for one in conversation.read(item.entry, item.entry)
        ):
            return item.message.content
    return ""
