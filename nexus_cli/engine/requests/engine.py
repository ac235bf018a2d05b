"""The engine of a conversation: what its turns need beside the window, and the one place that begins its epochs.

`factory` builds it. A side conversation shares its history (`fork`) or is empty (`separate`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from nexus_cli.config.settings import Settings
from nexus_cli.context.manager import ContextManager
from nexus_cli.conversation.compaction.work_log import WorkLog
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.request_plan import RequestPlan
from nexus_cli.conversation.rewrite import Rewrite
from nexus_cli.conversation.sent_requests import SentRequests
from nexus_cli.conversation.tokens.estimate import Anchor
from nexus_cli.core.attachment import Trigger
from nexus_cli.core.budget import remaining_output
from nexus_cli.core.elide import RECALL, describe_discarded
from nexus_cli.core.entry import SWITCH, Drop, Entry, Epoch, Kind, Note
from nexus_cli.core.event import SteeringMessage
from nexus_cli.core.json_value import to_json_value
from nexus_cli.core.memo_kinds import (
    ATTACHMENTS,
    CLIPPED_MESSAGE,
    PASTED_RANGES,
    REWRITE,
    SHOWN_TEXT,
    SOURCE,
)
from nexus_cli.core.message import Message, Role
from nexus_cli.core.request import Model, Provider
from nexus_cli.core.rewrite_cost import RewritePrice, price_rewrite
from nexus_cli.core.shared_types import TakeText
from nexus_cli.core.shielded_work import run_shielded
from nexus_cli.engine.requests.backoff import Backoff
from nexus_cli.engine.requests.control import Control
from nexus_cli.engine.requests.notices import Notices
from nexus_cli.engine.requests.readings import Preamble, Readings
from nexus_cli.engine.requests.spending import Spending
from nexus_cli.engine.requests.tool_selection import describe_left_out
from nexus_cli.engine.requests.user_input import clip_message, find_all
from nexus_cli.provider.available_models import resolve_alias
from nexus_cli.provider.model_info import load_model_info
from nexus_cli.provider.wire_rules import rules_for
from nexus_cli.tools.registry import find_tool

if TYPE_CHECKING:
    from nexus_cli.conversation.compaction.compactor import Compactor
    from nexus_cli.core.context_contract import ContextContract
    from nexus_cli.ledger import LaneLog


class PromptAssembler:
    """Assembles the system text and the preambles of a conversation; this one has no sections: the system text stays as
    it is, and preambles are notices alone."""

    inherited: Epoch | None = None
    """An epoch of the parent session, whose system text and tools are reused: the provider has them in its cache."""

    async def draft_epoch(self, context: ContextManager, words: str = "") -> Rewrite:
        """Return a rewrite that has the header of the next epoch, with the present system text and tools, and the new
        drops of that text. `words` is the first message of a session."""
        return Rewrite(context.conversation.epoch)

    async def draft_preamble(self, context: ContextManager, notices: list[str]) -> Preamble:
        """Return the preamble of the next request: the `notices` that wait, and the event sections that changed since
        this epoch last sent them."""
        return Preamble("\n".join(notices), notices.clear)

    def drafting(self, notify: TakeText, conversation: Conversation) -> PromptAssembler:
        """Return an assembler for drafts, which keeps the state of this one and records in `conversation`. `notify`
        receives its lines for the person."""
        return self

    def resume(self, conversation: Conversation) -> None:
        """Load the sections that the conversation's epoch has already sent."""


@dataclass
class Engine:
    """The parts that the turns of one conversation share: its context, what waits for the next request, and the objects
    shared with the session."""

    context: ContextManager
    """The conversation, and its model, budget and token estimate."""
    provider: Provider
    spending: Spending
    """What the turn has used of its limits; each turn has a new one."""
    control: Control
    """The connection to the front end."""
    settings: Settings
    """The settings of the session."""
    prompt: PromptAssembler = field(default_factory=PromptAssembler)
    before_summary: Callable[[Engine, str, str], Awaitable[None]] | None = None
    """Called before a summary is requested: extracts facts if that is enabled."""
    contract: ContextContract | None = None
    """What the person requires of the requests of a turn; checked before room is made for one."""
    saves: bool = False
    """True if what is learned of models is kept for other processes."""
    step: int = 0
    """Number of the conversation's newest request."""
    is_started: bool = False
    """True once this process has begun or resumed the conversation."""
    readings: Readings = field(default_factory=Readings)
    """What waits for the next request."""
    is_narrow: bool = False
    """True if the window had little room left after the last step."""
    partial_reply: str = ""
    """The text received so far for the newest request, without the marks added in the window."""
    response_format: str = ""
    """The schema that the provider holds the answers of the running turn to, see `Request`."""
    work: WorkLog = field(default_factory=lambda: WorkLog(find_tool))
    """Commands and turns found in the conversation's log, up to the last entry read."""

    @cached_property
    def notices(self) -> Notices:
        """The lines for the model that wait for the next request."""
        return Notices(self.conversation)

    @property
    def conversation(self) -> Conversation:
        return self.context.conversation

    @property
    def model(self) -> Model:
        """The model that the window is sized for."""
        return self.context.model

    @property
    def backoff(self) -> Backoff:
        """The compactions of the conversation, which decide when the next one may be paid for."""
        return Backoff(self.conversation.memos, self.step)

    @property
    def compactor(self) -> Compactor:
        """Plans and drafts smaller windows of the conversation."""
        return self.context.compactor(self.work, recalls=self.can_recall)

    @property
    def can_recall(self) -> bool:
        """True if the model has the tool `recall` and the limits allow it. The person can read every drop anyway."""
        allowed = self.spending.limits.tools
        offered = (tool.get("function", {}).get("name") for tool in self.conversation.epoch.tools)
        return RECALL in offered and (allowed is None or RECALL in allowed)

    async def read_work(self) -> None:
        """Add to `work` what the conversation's log has new, in pieces, so that Ctrl+C works."""
        for _ in self.work.read(self.conversation):
            await asyncio.sleep(0)

    # -- the next request --------------------------------------------------------------------------------------

    def begin_step(self) -> None:
        """Begin a step within the limits of the turn, and tell a model with tools if a limit ends it; see
        `Spending.begin_next`."""
        notice = self.spending.begin_next(lambda: self.window_request().tokens, self.model.info)
        if self.conversation.epoch.tools:  # each notice is about further calls
            self.notices.tell(notice)

    def window_request(self, texts: Sequence[str] = ()) -> RequestPlan:
        """Return the request of the present window, which a turn would send now; `texts` wait for the person's next
        message."""
        rows = self.readings.preamble.sections
        return self.context.project(self.conversation.clock(), event_rows=rows, texts=texts)

    def next_request(self) -> RequestPlan:
        """Return the next request: the window, with the texts waiting for the person's next message, under the drafted
        epoch if it begins one."""
        draft, texts = self.next_epoch, self.control.waiting_texts()
        if draft is None:
            return self.window_request(texts)
        return self.context.project(self.conversation.clock(), epoch=draft.epoch, texts=texts)

    @property
    def begins_epoch(self) -> bool:
        """True if the next request begins a new epoch, for another model or effort or a reload."""
        epoch, model = self.conversation.epoch, self.model
        return bool(self.readings.epoch_cause) or (epoch.model, epoch.effort) != (model.info.name, model.effort)

    @property
    def next_epoch(self) -> Rewrite | None:
        """The rewrite that the next request begins with; None if there is none, or it is not drafted yet."""
        draft = self.readings.drafted
        is_due = draft is not None and draft.epoch.parent == self.conversation.epoch.id and self.begins_epoch
        return draft if is_due else None

    @property
    def begins_without_draft(self) -> bool:
        """True if the next request begins an epoch of which the system text is not read yet."""
        return self.begins_epoch and self.next_epoch is None

    def answer_cap(self, request: RequestPlan) -> int:
        """Return the output cap of a request in tokens. Raises as `Spending.output_cap` does.

        Before the first report of an epoch, the known error is that of other contents. A tenth more is then reserved
        for the request, as far as the least answer allows.
        """
        info, expected = self.model.info, request.upper_bound
        if request.basis == "estimate":
            expected = max(
                expected, min(round(request.tokens * 1.1), remaining_output(info, self.context.least_output))
            )
        return self.spending.output_cap(info, expected)

    @property
    def is_warm(self) -> bool:
        """True if the last request may still be cached."""
        return self.conversation.sent.is_warm(self.conversation.epoch.model, self.model.info, self.conversation.clock())

    # -- rewrites of the window --------------------------------------------------------------------------------

    def draft_rewrite(
        self,
        epoch: Epoch,
        planned: Rewrite | None = None,
        drops: Sequence[Drop] = (),
        notes: Sequence[Note] = (),
        *,
        before: int | None = None,
    ) -> Rewrite:
        """Return the rewrite that begins `epoch`, with its price, for a new window without any report. Changes nothing.

        Its drops and notes include those of `planned`, the rewrite that its header is from. `before` is the estimate of
        the present window in tokens, if it is not that of its request.
        """
        price = self.price_epoch(epoch, before, report=self.conversation.anchor)
        if planned is not None:
            drops, notes = (*planned.drops, *drops), (*planned.notes, *notes)
        return Rewrite(epoch, drops, notes, price)

    def draft_replanned(self, planned: Rewrite, cause: str) -> Rewrite:
        """Return the rewrite that sends the present window under the system text and tools of `planned`."""
        epoch = self.conversation.make_epoch(self.conversation.arranged, cause, planned.epoch)
        return self.draft_rewrite(epoch, planned, before=self.context.project(epoch=self.conversation.epoch).tokens)

    def price_epoch(
        self, epoch: Epoch, before: int | None = None, anchor: Anchor | None = None, report: Anchor | None = None
    ) -> RewritePrice:
        """Price the rewrite that begins `epoch` in place of a window of `before` tokens, by default of its request.

        Without it the sent part of that window would be read from the cache; with it only the common prefix is.
        `anchor` is the report that holds for the new window; `report` tells how the provider counts.
        """
        before = self.window_request().tokens if before is None else before
        context, info, now = self.context, self.model.info, self.conversation.clock()
        warm, cold = self.conversation.sent.is_warm("" if epoch.cause == SWITCH else epoch.model, info, now), 0
        after = context.project(epoch=epoch, items=epoch.head, anchor=anchor).tokens
        if warm:
            window = self.conversation.counts(epoch, epoch.head)
            tokens = context.estimate.unanchored.anchored(report, window).scale(window).tokens
            sent_tokens = sum(item.tokens for item in epoch.head if item.entry <= self.conversation.cursor)
            shared = self.conversation.sent.shared_tokens(epoch, info, now)
            cold = round(tokens(epoch.header_tokens + sent_tokens) - tokens(shared))
        info = info.with_tier_prices(after)
        return price_rewrite(info, cold=cold, saved=before - after, steps=self.step, warm=warm)

    # -- side conversations --------------------------------------------------------------------------------------

    def fork(self, agent: str, instruction: str) -> Engine:
        """Fork the conversation and append one instruction.

        Shared with the parent: spending, control, clock, settings, prompt, calibrations, the token estimate but for its
        anchor. Copied: model, budget, anchor, sent requests, event sections. Everything else is new. Of the session's
        limits only those of `spending` apply.
        """
        context = self.context.fork(agent)
        context.conversation.append(Kind.INSTRUCTION, Message(Role.USER, instruction), "nexus")
        return self._make_side_engine(context, Readings(preamble=self.readings.preamble))

    def separate(self, agent: str, model: Model, text: str = "") -> Engine:
        """Open a conversation for `model`, without system text and tools, empty or with a message of this text.

        Shared with this one: spending, control, clock, settings, prompt, cache use times, and calibrations unless
        `model` is the session's own, whose calibration other contents must not change. Everything else is new.
        """
        log = self.conversation.log.open_lane(agent)
        context = ContextManager(logger=log, token_counter=self.context.counter)
        context.conversation = Conversation(log, self.conversation.clock, context.measure)
        context.conversation.sent = SentRequests(uses=self.conversation.sent.uses)
        rules = rules_for(model.info.provider, model.info.name).dumps()
        context.set_header(replace(context.conversation.epoch, model=model.info.name, rules=rules))
        context.conversation.begin()
        if text:
            context.conversation.append(Kind.USER, Message(Role.USER, text), "nexus")
        is_same_model = model.info.served_name == self.model.info.served_name
        calibrations = None if is_same_model else self.context.calibrations
        context.use_model(model, estimate=self.context.estimate_for(model), calibrations=calibrations)
        return self._make_side_engine(context, Readings())

    def drafting(self, notify: TakeText = lambda line: None) -> Engine:
        """Return an engine to draft what this one would do next: it numbers epochs and drops as this one would, and
        records drops in memory. Nothing may be appended to its conversation, or begin in it.

        `notify` receives lines about skipped contributors and unusual files, which it reads anew.
        """
        from nexus_cli.engine.requests.draft_log import DraftLog  # noqa: PLC0415  (few sessions look ahead)

        context = copy(self.context)
        context.conversation = copy(self.conversation)
        context.conversation.log = DraftLog(self.conversation.log)
        engine = replace(self, context=context, prompt=self.prompt.drafting(notify, context.conversation))
        engine.notices = self.notices
        return engine

    def _make_side_engine(self, context: ContextManager, readings: Readings) -> Engine:
        return Engine(
            context, self.provider, self.spending, self.control, self.settings, self.prompt, readings=readings
        )

    def other_model(self, name: str) -> Model:
        """Return the model with this name or alias; the session's own for ""."""
        name = resolve_alias(name, self.settings)
        if not name:
            return self.model
        return replace(self.model, info=load_model_info(name, self.settings), effort="")

    def load_anchor(self, log: LaneLog) -> None:
        """Anchor the token estimate of a conversation from `log` on its newest report, if its model is still the same.
        Raise `NexusError` for a damaged record."""
        context, epoch = self.context, self.conversation.epoch
        if self.conversation.is_recorded and epoch.model == self.model.info.name:
            counts = self.conversation.counts()
            context.estimate = self.backoff.anchor_on_newest(context.estimate, log, epoch, counts)

    def load_cache_history(self, log: LaneLog) -> None:
        """Load what a provider may still have in its cache of the requests in `log`, unless that is known. Blocks."""
        if self.conversation.sent.last is None:
            from nexus_cli.engine.requests.request_history import load_history  # noqa: PLC0415  (a session is resumed)

            self.conversation.sent = load_history(self.context, log, self.settings)

    # -- changes -----------------------------------------------------------------------------------------------

    def take_model_info(self) -> None:
        """Size the window by what the model's server has stated since the session was opened, if anything; tell the
        person if nobody states the window."""
        if not self.model.info.pending:
            return
        name, log, tell = self.model.info.name, self.conversation.log, self.control.emit_notice
        info = load_model_info(name, self.settings, log, saves=self.saves, tell=tell)
        if not info.pending:
            self.context.size_for(info)

    def begin_epoch(self, rewrite: Rewrite) -> None:
        """Begin the epoch of a rewrite, recorded with its price, and report it."""
        before, info, notes = self.conversation.epoch.tools, self.model.info, [*rewrite.notes]
        if rewrite.price is not None:
            value = {"cause": rewrite.epoch.cause, "epoch": rewrite.epoch.id, **to_json_value(rewrite.price)}
            notes.append((REWRITE, value))
        self.context.begin_epoch(replace(rewrite, notes=notes))
        self.readings.drafted = None
        for drop in rewrite.drops:
            self.control.emit_drop(drop)
        line = describe_left_out(info.window, self.conversation.epoch.tools)
        if line and line != describe_left_out(info.window, before):
            self.control.emit_notice(line)
        if rewrite.notice is not None:
            self.control.emit(rewrite.notice)

    async def begin_pending_epoch(self) -> None:
        """Begin the epoch that a model switch or a reload has requested, if one has."""
        if self.readings.epoch_cause:
            planned = await self.prompt.draft_epoch(self.context)
            self.begin_epoch(self.draft_replanned(planned, self.readings.epoch_cause))
            self.readings.epoch_cause = ""

    async def record_user_message(self, kind: Kind, trigger: Trigger) -> Entry:
        """Record a user message; text beyond its cap becomes a drop of cause `input_cap`. The source of what starts a
        turn is recorded by `record_trigger`."""
        conversation, memos, text = self.conversation, self.control.attachment_memos, trigger.text
        content, clipped = await clip_message(self.context, self.control, text, trigger.uncounted)
        if trigger.uncounted:
            content += describe_discarded(trigger.uncounted, "input")
        ranges = [span for pasted_text in trigger.pasted for span in find_all(pasted_text, content)]
        for block in [block for block in memos if block in text]:
            for memo_kind, value in memos.pop(block).items():
                conversation.memo(memo_kind, value, conversation.last + 1)
        if kind is Kind.STEER and trigger.source != "person":  # before its entry, as below
            conversation.memo(SOURCE, {"source": trigger.source}, conversation.last + 1)
        if ranges:  # before its entry: after a kill between the two, pasted text must not pass as typed
            conversation.memo(PASTED_RANGES, {"ranges": ranges}, conversation.last + 1)
        noted = {**trigger.notes, **({SHOWN_TEXT: {"text": trigger.display_text}} if trigger.display_text else {})}
        if clipped:
            noted[CLIPPED_MESSAGE] = {"parts": clipped}
        if trigger.files:
            noted[ATTACHMENTS] = {"files": [file.to_json() for file in trigger.files]}
        return conversation.append(kind, Message(Role.USER, content, parts=trigger.parts), trigger.actor, noted)

    async def deliver_steering(self) -> bool:
        """Record the images of results, then the steering messages that are waiting; False if there were none."""
        control = self.control
        while control.images:
            text, parts = control.images.popleft()
            images = Trigger(text, parts=parts, actor="nexus")
            await run_shielded(self.record_user_message(Kind.STEER, images))
        if not control.steering:
            return False
        while control.steering:
            await run_shielded(self._steer(control.steering.popleft()))
        return True

    async def _steer(self, trigger: Trigger) -> None:
        await self.record_user_message(Kind.STEER, trigger)
        self.control.emit(SteeringMessage(trigger.text))
