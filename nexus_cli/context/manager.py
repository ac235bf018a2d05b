"""`ContextManager`: seed A's coordinator of system prompt, history, token budget and truncation.

Alone it keeps its history in memory and builds message lists. A session passes it a log, a low-water mark and markers,
and drives its `conversation`. It prints nothing and asks no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.memory_log import MemoryLog
from nexus_cli.conversation.request_plan import RequestPlan, project
from nexus_cli.conversation.strategies import find_strategy
from nexus_cli.conversation.tokens.counter import TokenCounter, get_token_counter
from nexus_cli.conversation.tokens.estimate import Anchor, Estimate
from nexus_cli.core.budget import MIN_OUTPUT, REQUEST_FLOOR, TokenBudget, remaining_output
from nexus_cli.core.clock import Clock, format_local_time, local_now
from nexus_cli.core.entry import PLACEHOLDER, Epoch, ItemForm, Kind, WindowItem, is_placeholder, sum_tokens
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.event import Notice
from nexus_cli.core.json_value import JsonDict, JsonObject, compact
from nexus_cli.core.memo_kinds import REFUSED_WINDOW
from nexus_cli.core.message import Message, Role, ToolCall, ToolResult, replace_surrogates
from nexus_cli.core.request import Model, ModelInfo
from nexus_cli.core.section_rows import SectionRows
from nexus_cli.core.services import Calibrations, Log
from nexus_cli.provider.model_table import window_command

if TYPE_CHECKING:
    from nexus_cli.conversation.compaction.compactor import Compactor
    from nexus_cli.conversation.compaction.work_log import WorkLog
    from nexus_cli.conversation.rewrite import Rewrite
    from nexus_cli.conversation.window_truncation import WindowTruncator


MIN_REPORTED_WINDOW = 512
"""Least window in tokens that a provider's error is believed to name: no model has a smaller one."""


@dataclass(slots=True)
class SharedEstimate:
    """The newest estimate of a conversation and its forks, which learn from the reports of each other."""

    newest: Estimate
    """Its anchor is not for all: each conversation has its own."""


@dataclass
class ContextConfig:
    """Token limits and truncation strategy (seed A)."""

    max_tokens: int = 8000
    """Tokens of the whole window."""
    reserve_tokens: int = 2000
    """Tokens reserved for the reply."""
    truncation_strategy: str = "oldest_first"
    """`oldest_first` or `middle_out`."""


class ContextManager:
    """One conversation, and the messages of its next request."""

    def __init__(
        self,
        config: ContextConfig | None = None,
        logger: Log | None = None,
        *,
        token_counter: TokenCounter | None = None,
        clock: Clock | None = None,
        low_water: float | None = None,
        markers: bool = False,
    ) -> None:
        """Initialize; raise `ValueError` for an unknown truncation strategy.

        `low_water` is the share of the budget to which a truncation goes down (None: fill it), `markers` puts a line
        where groups were removed and records drops.
        """
        self.config = config or ContextConfig()
        find_strategy(self.config.truncation_strategy)
        self.counter = token_counter or get_token_counter()
        self.count = self.counter.count
        """Returns the tokens of a text by our count."""
        self._clock = clock
        self._logged = logger is not None
        self.conversation = Conversation(logger or MemoryLog(), clock or local_now, self.measure)
        self._low_water, self._markers = low_water, markers
        self._origin = self.conversation.epoch
        window, reply = self.config.max_tokens, self.config.reserve_tokens
        self.cut_run = -1
        """The run in which the person was last told that the server cut a request."""
        self.use_model(Model(ModelInfo("model", "", window, reply)), TokenBudget(window, reply, 0))
        self._hidden = False
        self._preambles: dict[int, str] = {}
        self._built: tuple[int, int, tuple[WindowItem, ...]] = (self._origin.id, 0, ())

    # -- writing -------------------------------------------------------------------------------------------------

    def set_system_prompt(self, prompt: str) -> None:
        """Set the system prompt; in a session it takes effect with the next epoch."""
        self.set_header(self._header_with(prompt))

    def set_tool_definitions(self, definitions: Sequence[JsonObject]) -> None:
        """Set the tool schemas, in Chat Completions form."""
        tools = tuple(deepcopy(dict(definition)) for definition in definitions)
        self.set_header(replace(self.conversation.epoch, tools=tools, tools_tokens=self.tools_cost(tools)))

    def add_user_message(self, content: str) -> None:
        """Add a message of the person."""
        self._add(Kind.USER, Message(Role.USER, content), "person")

    def add_assistant_message(self, content: str, tool_calls: Sequence[ToolCall] | None = None) -> None:
        """Add the model's reply; one with neither text nor calls is not added."""
        message = Message(Role.ASSISTANT, content, tool_calls or ())  # type: ignore[arg-type]
        if message.content or message.tool_calls:
            self._add(Kind.ASSISTANT, _copy_message(message), "agent")

    def add_tool_result(self, tool_call_id: str, name: str, result: ToolResult | str) -> None:
        """Add the result of a call."""
        if not isinstance(result, str | ToolResult):
            raise TypeError(f"a tool result must be a ToolResult or text, not {type(result).__name__}")
        text = result if isinstance(result, str) else result.text
        self._add(Kind.TOOL, Message(Role.TOOL, text, tool_call_id=tool_call_id), f"tool:{name}")

    def add_session_start_message(self) -> None:
        """Add seed A's `[Session started: ...]` as a user message."""
        text = f"[Session started: {format_local_time((self._clock or local_now)())}]"
        self._add(Kind.USER, Message(Role.USER, text), "nexus")

    def clear_messages(self) -> None:
        """Clear the window; system prompt and tools stay, the history keeps everything."""
        self._start_over((), "clear")

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def system_prompt(self) -> str:
        """The current system prompt."""
        return self.conversation.epoch.system

    @property
    def messages(self) -> list[Message]:
        """Return a copy of the messages that the model sees, without the system message: the last built list, and
        additions since."""
        return [_copy_message(item.message) for item in self._visible_items()]

    @property
    def history(self) -> list[Message]:
        """Return a copy of all messages ever added."""
        return [_copy_message(entry.message) for entry in self.conversation.read(1, self.conversation.last)]

    def get_tool_definitions(self) -> list[JsonDict]:
        """Return a copy of the tool schemas."""
        return [deepcopy(dict(tool)) for tool in self.conversation.epoch.tools]

    def build_messages(self) -> list[Message]:
        """Return the message list of the next request: system message, then the window, truncated if it does not fit
        (with markers it stays: a session makes room by its own estimate).

        Orphan and repeated tool results and messages before the first user message are left out; missing results are
        filled in.
        """
        self._stamp_time()
        self._restore()
        if not self._markers and self.is_over_budget():
            self._truncate()
        visible = tuple(self._window())
        self._built = (self.conversation.epoch.id, self.conversation.last, visible)
        system = [Message(Role.SYSTEM, self.system_prompt)] if self.system_prompt else []
        return system + [_copy_message(_join_preamble(item.message, item.preamble)) for item in visible]

    def get_token_usage(self) -> dict[str, int]:
        """Return tokens of `system`, `tools`, `messages` and their `total`; `budget` and `available` are constant."""
        epoch = self.conversation.epoch
        messages = sum_tokens(self._window())
        return {
            "system": epoch.system_tokens,
            "tools": epoch.tools_tokens,
            "messages": messages,
            "total": epoch.header_tokens + messages,
            "budget": self.config.max_tokens,
            "available": self.available,
        }

    def is_over_budget(self) -> bool:
        """True if the next build has to truncate."""
        return self.get_token_usage()["total"] > self.available

    @property
    def available(self) -> int:
        """Tokens that a request may take."""
        return self.config.max_tokens - self.config.reserve_tokens

    # -- rewrites of the window: compaction, truncation, and the others ---------------------------------------------

    def compactor(self, work: WorkLog, *, recalls: bool) -> Compactor:
        """Return the compactor, which plans compactions and truncations of the conversation, with the `work` in its
        log. Unless the model `recalls` drops, none is named to it."""
        from nexus_cli.conversation.compaction.compactor import Compactor  # noqa: PLC0415  (the window is too full)

        budget, window = self.countable(self.budget.available), self.budget.window
        return Compactor(self.conversation, work, self.count, self.truncator, budget, window, recalls)

    def begin_epoch(self, rewrite: Rewrite) -> None:
        """Replace the window by that of a rewrite, recorded together with its drops and notes. Of the provider's
        reports, only the anchor of the rewrite applies to the new window."""
        self.conversation.begin_epoch(rewrite.epoch, rewrite.drops, rewrite.notes)
        self.estimate = self.estimate.anchored(rewrite.anchor, self.conversation.counts())

    def apply_compaction(
        self,
        summary_message: Message,
        preserved_messages: Sequence[Message],
        new_system_prompt: str | None = None,
    ) -> None:
        """Replace the window by the summary and the preserved messages.

        Preserved messages are matched to the end of the window; others are appended as new. The newest user message is
        kept between the summary and them if they do not contain it. Raises `ValueError`, without any change, for a
        summary that is blank, or that makes the window larger and over the budget.
        """
        from nexus_cli.core.summary_message import is_blank_summary  # noqa: PLC0415  (a compaction)

        if summary_message.role is not Role.USER or is_blank_summary(summary_message):
            raise ValueError("the summary must be a user message with text")
        visible, preserved = self._visible_items(), [m for m in preserved_messages if m.role is not Role.SYSTEM]
        matched = next(
            (
                size
                for size in range(min(len(visible), len(preserved)), 0, -1)
                if _are_messages_of(visible[-size:], preserved[:size])
            ),
            0,
        )
        added = [m for m in preserved[matched:] if m.role is not Role.TOOL or m.content != PLACEHOLDER]
        request = next((item for item in reversed(visible) if item.is_request), None)
        has_request = request is None or any(_are_messages_of([request], [message]) for message in preserved)
        summary = WindowItem(
            self.conversation.last,
            ItemForm.SUMMARY,
            _copy_message(summary_message),
            tokens=self.measure(summary_message, ""),
        )
        head = [summary, *([] if has_request or request is None else [request]), *visible[len(visible) - matched :]]
        header = self.conversation.epoch if new_system_prompt is None else self._header_with(new_system_prompt)
        self._refuse_if_larger(head, added, header)
        self._start_over(head, "compaction", header)
        for message in added:
            kind = {Role.ASSISTANT: Kind.ASSISTANT, Role.TOOL: Kind.TOOL}.get(message.role, Kind.USER)
            self._add(kind, _copy_message(message), "nexus")

    def _refuse_if_larger(self, head: Sequence[WindowItem], added: Sequence[Message], header: Epoch) -> None:
        """Raise `ValueError` if a window with this head and its additions would be larger and over the budget."""
        new = [
            WindowItem(self.conversation.last, ItemForm.FULL, message, "", self.measure(message, ""))
            for message in added
        ]
        items = self._window([*head, *new])
        before, after = self.get_token_usage()["messages"], sum_tokens(items)
        total = header.header_tokens + after
        if after > before and total > self.available:
            raise ValueError(
                f"the summary is longer than the messages it replaces: {after} tokens instead of {before}; "
                f"with system prompt and tools {total} of {self.available}"
            )

    # -- counting ----------------------------------------------------------------------------------------------

    def measure(self, message: Message, preamble: str) -> int:
        """Return the tokens of a message with overhead and preamble.

        With its own clock the manager counts both as one text; in a session each is counted once and cached.
        """
        if preamble and self._clock:
            return self.counter.count_messages([_join_preamble(message, preamble)])
        return self.counter.count_messages([message]) + (self.counter.count(preamble) if preamble else 0)

    def system_cost(self, prompt: str) -> int:
        """Return the tokens of a system prompt with overhead."""
        return self.counter.count_messages([Message(Role.SYSTEM, prompt)]) if prompt else 0

    def tools_cost(self, tools: Sequence[JsonObject]) -> int:
        """Return the tokens of tool schemas as compact JSON."""
        return self.counter.count(compact(list(tools))) if tools else 0

    # -- the size of a request -----------------------------------------------------------------------------------

    def use_model(
        self,
        model: Model,
        budget: TokenBudget | None = None,
        estimate: Estimate | None = None,
        calibrations: Calibrations | None = None,
    ) -> None:
        """Size the window for `model`: at most `budget` tokens (by default those of the model), as `estimate` has them.
        Without the store `calibrations`, what is learned of the model's tokenizer is lost with the conversation."""
        self.model, self.calibrations = model, calibrations
        self._learned = SharedEstimate(estimate or Estimate.of())
        self.conversation.anchor = None
        self._resize(budget)

    @property
    def estimate(self) -> Estimate:
        """The estimate of the model's token counts, shared with forks, with the last report on this conversation."""
        return replace(self._learned.newest, anchor=self.conversation.anchor)

    @estimate.setter
    def estimate(self, estimate: Estimate) -> None:
        self._learned.newest, self.conversation.anchor = estimate, estimate.anchor

    def project(
        self,
        now: datetime | None = None,
        *,
        epoch: Epoch | None = None,
        items: Sequence[WindowItem] | None = None,
        anchor: Anchor | None = None,
        event_rows: SectionRows = (),
        added: int = 0,
        texts: Sequence[str] = (),
    ) -> RequestPlan:
        """Return the next request, or the first one of an `epoch` that may begin: of `items`, by default those of the
        window; `anchor` is the last report on them. Without `now` no cache hit is expected. `texts` wait for the
        person's next message; the others are as for `request_plan.project`."""
        conversation, estimate = self.conversation, self.estimate
        window, frame = conversation.counts(epoch, items), epoch or conversation.epoch
        if epoch is not None:
            estimate = estimate.unanchored.anchored(anchor, window)
        visible = conversation.items if items is None else items
        return project(
            frame,
            window,
            estimate,
            self.budget,
            room=self.room,
            outlook=conversation.sent.outlook(frame, visible, self.model.info, now) if now else None,
            waiting=sum(map(self.count, texts)),
            event_rows=event_rows,
            added=added,
        )

    def estimate_for(self, model: Model) -> Estimate:
        """Return an estimate for another conversation, by the calibration of its `model`."""
        name = model.info.served_name
        if name == self.model.info.served_name:
            return Estimate.of(self.estimate.calibration)
        return Estimate.of(self.calibrations.calibration(name) if self.calibrations else None)

    def countable(self, tokens: int) -> int:
        """Return the counted tokens that certainly fit into `tokens`, if messages are like those of the window."""
        return self.estimate.countable(tokens, self.conversation.counts())

    @property
    def least_output(self) -> int:
        """Least room for an answer in tokens, without which no request is sent."""
        return min(MIN_OUTPUT, self.budget.reserve_reply)

    @property
    def room(self) -> int:
        """Most tokens of a request: the budget, or less if the least answer needs more room."""
        return min(self.budget.available, remaining_output(self.model.info, self.least_output))

    def learn_from_overflow(self, counted: int, error: ProviderError) -> Notice | None:
        """Learn the window from the error about a request of `counted` tokens (our count), and return a notice, if any.

        A window of at least `MIN_REPORTED_WINDOW` that is smaller than the known one applies to this session, unless it
        is implausible.
        """
        limit, info = error.limit or 0, self.model.info
        self.estimate = self.estimate.after_refusal(counted, error.counted, limit or None, self.conversation.counts())
        self._store_calibration()
        if not MIN_REPORTED_WINDOW <= limit < self.budget.window or self._is_implausible_limit(
            limit, counted, error.counted
        ):
            return None
        listed = info.listed_window or info.window
        self.size_for(replace(info, window=limit, window_refused=True, listed_window=listed))
        self._keep_window(limit)
        report = f"{info.served_name} reports a context window of {limit:,} tokens"
        if info.window_key:
            line = f"{report}, but the settings say {listed:,}: using {limit:,} in this session. Correct the setting"
            return Notice(f"{line}: {window_command(self.model.info, limit)}")
        line = f"{report}; used for this session only. To keep it: {window_command(self.model.info, limit)}"
        return Notice(line, warning=False)

    def _is_implausible_limit(self, limit: int, counted: int, stated: int | None) -> bool:
        """Return True for a window without room for system text and tools, if the error miscounts the request."""
        if not stated or Estimate.is_plausible(stated, counted):
            return False
        room = self.countable(TokenBudget.of(limit, self.model.info.max_output).available)
        return sum(self.fixed_parts().values()) > (1 - REQUEST_FLOOR) * room

    def _keep_window(self, window: int) -> None:
        """Record a window with the session, valid until the listed window or its setting changes; 0 removes it."""
        info = self.model.info
        value = {"model": info.served_name, "window": window, "listed": info.listed_window or info.window}
        self.conversation.memo(REFUSED_WINDOW, {**value, "key": info.window_key})

    def size_for(self, info: ModelInfo) -> None:
        """Use these facts of the model."""
        self.model = replace(self.model, info=info)
        self._resize()

    def fixed_parts(self) -> dict[str, int]:
        """Return the tokens of the parts that every request contains, by section name."""
        epoch = self.conversation.epoch
        sections = {str(section["id"]): int(section["tokens"]) for section in epoch.section_rows}
        uncounted = epoch.system_tokens - sum(sections.values())
        name = "text between sections" if sections else "system text"
        return {**sections, name: uncounted, "tool schemas": epoch.tools_tokens}

    def learn(self, counted: int, reported: int) -> None:
        """Learn from the input tokens reported for the newest request. With images it does not calibrate our count."""
        images, info = any(item.message.parts for item in self.conversation.items), self.model.info
        if info.window_refused and info.window < reported <= info.listed_window:
            self.size_for(replace(info, window=info.listed_window, window_refused=False))
            self._keep_window(0)
        estimate, report = self.estimate, Anchor(self.conversation.cursor, reported, counted)
        self.estimate = estimate.after_report(report, self.conversation.counts(), teaches=not images)
        if self.estimate.calibration is not estimate.calibration:
            self._store_calibration()

    def _store_calibration(self) -> None:
        if self.calibrations:
            self.calibrations.calibrate(self.model.info.served_name, self.estimate.calibration)

    # -- internals -----------------------------------------------------------------------------------------------

    def set_header(self, header: Epoch) -> None:
        """Change the header: of this epoch if nothing of it was recorded or sent yet, else in a new one."""
        if not self.conversation.is_recorded:
            self.conversation.replace_header(header)
        elif header != self.conversation.epoch:
            self.conversation.rewrite(self.conversation.items, "reload", (), header)

    def _resize(self, budget: TokenBudget | None = None) -> None:
        """Take window and reserves of `budget`, by default the model's."""
        info = self.model.info
        self.budget = budget = budget or TokenBudget.of(info.window, info.max_output)
        window, reserves = budget.window, budget.window - budget.available
        if (window, reserves) != (self.config.max_tokens, self.config.reserve_tokens):
            self.config = replace(self.config, max_tokens=window, reserve_tokens=reserves)

    def fork(self, agent: str) -> ContextManager:
        """Return a manager like this one over a fork of its conversation; both learn from the reports of either."""
        forked, parent = copy(self), self.conversation
        forked.conversation = parent.fork(parent.log.open_lane(agent, parent.last))
        forked.cut_run = -1
        return forked

    def _header_with(self, prompt: str) -> Epoch:
        prompt = replace_surrogates(prompt)
        return replace(self.conversation.epoch, system=prompt, system_tokens=self.system_cost(prompt))

    def _add(self, kind: Kind, message: Message, actor: str) -> None:
        if self._logged and not self.conversation.is_recorded:
            self.conversation.begin()
        self.conversation.append(kind, message, actor)

    def _window(self, items: Sequence[WindowItem] | None = None) -> list[WindowItem]:
        """Return the contents of a list built now of `items`, by default those of the window, if nothing were cut."""
        return [item for group in from_first_user_message(self.conversation.groups(items)) for item in group]

    def _visible_items(self) -> list[WindowItem]:
        """Return the last built items of this epoch and additions since; late results replace their placeholders."""
        epoch, last, built = self._built
        if epoch != self.conversation.epoch.id:
            return self.conversation.items
        visible = list(built)
        waiting = {item.message.tool_call_id: index for index, item in enumerate(visible) if is_placeholder(item)}
        for item in self.conversation.items:
            if item.entry > last:
                place = waiting.pop(item.message.tool_call_id, None) if item.message.role is Role.TOOL else None
                if place is None:
                    visible.append(item)
                else:
                    visible[place] = item
        return visible

    def _stamp_time(self) -> None:
        """Stamp the newest user message with date and time when it is first built; return the stamp."""
        newest = next((item for item in reversed(self.conversation.items) if item.is_request), None)
        if self._clock is None or newest is None or newest.preamble:
            return
        moment = self._clock()
        preamble = f"Current date: {moment:%Y-%m-%d}, Current time: {moment:%H:%M} (local)"
        self._preambles[newest.entry] = preamble
        if newest in self.conversation.tail:
            self.conversation.attach_preamble(preamble)
        else:
            head = [self._with_preamble(item) if item is newest else item for item in self.conversation.items]
            self.conversation.rewrite(head, "reload", ())

    @property
    def truncator(self) -> WindowTruncator:
        """The truncator of conversations for the current configuration."""
        from nexus_cli.conversation.window_truncation import WindowTruncator  # noqa: PLC0415  (the window is too full)

        strategy = find_strategy(self.config.truncation_strategy)
        return WindowTruncator(self.counter.count, strategy, self._low_water, self._markers, measure=self.measure)

    def _truncate(self) -> None:
        self._hidden = True
        groups = list(from_first_user_message(self.conversation.groups()))
        request = next((index for index in reversed(range(len(groups))) if groups[index][0].is_request), -1)
        for index in {request, -1} if groups else ():
            groups[index] = tuple(map(self._original, groups[index]))
        head, drops = self.truncator.cut(self.conversation, self.available, groups)
        self.conversation.rewrite(head, "truncation", drops)

    def _original(self, item: WindowItem) -> WindowItem:
        """Return the original of an elided item, so that a second cut starts from it."""
        if item.form is not ItemForm.ELIDED:
            return item
        return self._with_preamble(WindowItem.of(self.conversation.read(item.entry, item.entry)[0]))

    def _restore(self) -> None:
        """Show the whole history since the last compaction or clearing again, if it fits."""
        if not self._hidden:
            return
        read = self.conversation.read(self._origin.base + 1, self.conversation.last)
        items = [*self._origin.head, *(self._with_preamble(WindowItem.of(entry)) for entry in read)]
        full_window = self._window(items)
        if self.conversation.epoch.header_tokens + sum_tokens(full_window) <= self.available:
            self.conversation.rewrite(items, "restore", ())
            self._hidden = False

    def _with_preamble(self, item: WindowItem) -> WindowItem:
        preamble = self._preambles.get(item.entry, "")
        return replace(item, preamble=preamble, tokens=self.measure(item.message, preamble)) if preamble else item

    def _start_over(self, head: Sequence[WindowItem], cause: str, header: Epoch | None = None) -> None:
        self._origin = self.conversation.rewrite(head, cause, (), header)
        self._hidden = False
        self._built = (self._origin.id, self.conversation.last, tuple(head))


def from_first_user_message(groups: Sequence[tuple[WindowItem, ...]]) -> Sequence[tuple[WindowItem, ...]]:
    """Return `groups` from the first user message on; all of them if there is none."""
    first = next((index for index, group in enumerate(groups) if group[0].message.role is Role.USER), 0)
    return groups[first:]


def _join_preamble(message: Message, preamble: str) -> Message:
    """Return `message` with its preamble: before a person's text, after a tool's."""
    if not preamble:
        return message
    parts = (preamble, message.content)
    return replace(message, content="\n\n".join(parts if message.role is Role.USER else reversed(parts)))


def _copy_message(message: Message) -> Message:
    """Return `message` with copied call arguments, so that no caller can change them."""
    return replace(message, tool_calls=deepcopy(message.tool_calls)) if message.tool_calls else message


def _are_messages_of(items: Sequence[WindowItem], messages: Sequence[Message]) -> bool:
    """True if `messages` are those of the items, with or without their preambles."""
    return all(
        message in (item.message, _join_preamble(item.message, item.preamble))
        for item, message in zip(items, messages, strict=True)
    )
