"""`ContextManager`: seed A's coordinator of system prompt, history, token budget and truncation.

Alone it keeps its history in memory and builds message lists. In a session it is handed a log, a low-water mark and
markers, and the session drives its `lane`. It prints nothing and asks no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from nexus_cli.context.groups import arrange, flatten
from nexus_cli.context.lane import Frame, Lane, frame_of, slot_of
from nexus_cli.context.rewrite import Rewriter
from nexus_cli.context.strategies import strategies
from nexus_cli.context.timeline import MemoryLog, Timeline
from nexus_cli.context.tokens import TokenCounter, get_token_counter
from nexus_cli.core.clock import Clock, local_now, spoken
from nexus_cli.core.entry import Form, Kind, Slot
from nexus_cli.core.message import Message, Role, ToolCall, ToolResult
from nexus_cli.core.services import Log
from nexus_cli.core.wire import canonical


@dataclass
class ContextConfig:
    """Token limits and truncation strategy (seed A)."""

    max_tokens: int = 8000
    """Tokens of the whole window."""
    reserve_tokens: int = 2000
    """Tokens kept free for the reply."""
    truncation_strategy: str = "oldest_first"
    """`oldest_first` or `middle_out`."""


class ContextManager:
    """Holds one conversation and builds what a model is sent."""

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
        """`ValueError` for an unknown truncation strategy.

        `low_water` is the share of the budget to which a truncation goes down (None: fill it), `markers` puts a line
        where groups were removed and records drops.
        """
        self.config = config or ContextConfig()
        known = strategies()
        if self.config.truncation_strategy not in known:
            raise ValueError(
                f"unknown truncation_strategy {self.config.truncation_strategy!r}: use {' or '.join(sorted(known))}"
            )
        self.counter = token_counter or get_token_counter()
        self._clock = clock
        self.lane = Lane(Timeline(logger or MemoryLog(), clock or local_now), self.measure)
        strategy = known[self.config.truncation_strategy]
        self.rewriter = Rewriter(self.counter.count, strategy, low_water, markers, measure=self.measure)
        self._origin = self.lane.epoch
        self._hidden = False
        self._preambles: dict[int, str] = {}

    # -- what is said ------------------------------------------------------------------------------------------

    def set_system_prompt(self, prompt: str) -> None:
        """Set the system prompt; in a session it takes effect with the next epoch."""
        self.reframe(replace(self.frame(), system=prompt, system_tokens=self.system_cost(prompt)))

    def set_tool_definitions(self, definitions: Sequence[Mapping[str, Any]]) -> None:
        """Set the tool schemas, in Chat Completions form."""
        tools = tuple(definitions)
        self.reframe(replace(self.frame(), tools=tools, tools_tokens=self.tools_cost(tools)))

    def add_user_message(self, content: str) -> None:
        """Add what the person said."""
        self.lane.append(Kind.USER, Message(Role.USER, content), "person")

    def add_assistant_message(self, content: str, tool_calls: Sequence[ToolCall] | None = None) -> None:
        """Add the model's reply; one with neither text nor calls is not added."""
        if content or tool_calls:
            self.lane.append(Kind.ASSISTANT, Message(Role.ASSISTANT, content, tuple(tool_calls or ())), "agent")

    def add_tool_result(self, tool_call_id: str, name: str, result: ToolResult | str) -> None:
        """Add the result of a call."""
        text = result if isinstance(result, str) else result.text
        self.lane.append(Kind.TOOL, Message(Role.TOOL, text, tool_call_id=tool_call_id), f"tool:{name}")

    def add_session_start_message(self) -> None:
        """Add seed A's `[Session started: ...]` as a user message."""
        self.add_user_message(f"[Session started: {spoken((self._clock or local_now)())}]")

    def clear_messages(self) -> None:
        """Begin anew with nothing visible; system prompt and tools stay, the history keeps everything."""
        self._start_over((), "clear")

    # -- what is read ------------------------------------------------------------------------------------------

    @property
    def system_prompt(self) -> str:
        """The system prompt in force."""
        return self.lane.epoch.system

    @property
    def messages(self) -> list[Message]:
        """What the model sees, without the system message; a copy."""
        return [slot.message for slot in self.lane.slots]

    @property
    def history(self) -> list[Message]:
        """All there ever was; a copy."""
        return [entry.message for entry in self.lane.timeline.read(1, self.lane.timeline.last)]

    def get_tool_definitions(self) -> list[dict[str, Any]]:
        """The tool schemas; a copy."""
        return [dict(tool) for tool in self.lane.epoch.tools]

    def build_messages(self) -> list[Message]:
        """The message list of the next request: system message, then the window, truncated if it does not fit."""
        self._dress()
        self._restore()
        if self.lane.counted > self.available:
            self._truncate()
        system = [Message(Role.SYSTEM, self.system_prompt)] if self.system_prompt else []
        return system + [_with_preamble(slot) for slot in flatten(self.lane.groups())]

    def get_token_usage(self) -> dict[str, int]:
        """Tokens of `system`, `tools`, `messages` and their `total`; `budget` and `available` are constant."""
        epoch = self.lane.epoch
        return {
            "system": epoch.system_tokens,
            "tools": epoch.tools_tokens,
            "messages": self.lane.messages_tokens,
            "total": self.lane.counted,
            "budget": self.config.max_tokens,
            "available": self.available,
        }

    def is_over_budget(self) -> bool:
        """Whether the next build has to truncate."""
        return self.lane.counted > self.available

    @property
    def available(self) -> int:
        """Tokens that a request may take."""
        return self.config.max_tokens - self.config.reserve_tokens

    # -- compaction --------------------------------------------------------------------------------------------

    def apply_compaction(
        self,
        summary_message: Message,
        preserved_messages: Sequence[Message],
        new_system_prompt: str | None = None,
    ) -> None:
        """Replace the window by the summary and the preserved messages.

        Preserved messages are matched to the end of the window; what does not match is appended as new.
        """
        if new_system_prompt is not None:
            self.set_system_prompt(new_system_prompt)
        window = self.lane.slots
        preserved = list(preserved_messages)
        matched = next(
            (
                size
                for size in range(min(len(window), len(preserved)), 0, -1)
                if [slot.message for slot in window[-size:]] == preserved[:size]
            ),
            0,
        )
        tokens = self.measure(summary_message, "")
        summary = Slot(self.lane.timeline.last, Form.SUMMARY, summary_message, tokens=tokens)
        self._start_over((summary, *window[len(window) - matched :]), "compaction")
        for message in preserved[matched:]:
            kind = {Role.ASSISTANT: Kind.ASSISTANT, Role.TOOL: Kind.TOOL}.get(message.role, Kind.USER)
            self.lane.append(kind, message, "nexus")

    # -- counting ----------------------------------------------------------------------------------------------

    def measure(self, message: Message, preamble: str) -> int:
        """Tokens of a message with overhead and preamble."""
        return self.counter.count_messages([message]) + (self.counter.count(preamble) if preamble else 0)

    def system_cost(self, prompt: str) -> int:
        """Tokens of a system prompt with overhead."""
        return self.counter.count_messages([Message(Role.SYSTEM, prompt)]) if prompt else 0

    def tools_cost(self, tools: Sequence[Mapping[str, Any]]) -> int:
        """Tokens of tool schemas as compact JSON."""
        return self.counter.count(canonical(list(tools)).decode()) if tools else 0

    # -- inside ------------------------------------------------------------------------------------------------

    def reframe(self, frame: Frame) -> None:
        """Change the frame of an epoch that was not recorded or sent yet."""
        self.lane.reframe(frame)

    def frame(self) -> Frame:
        """System prompt and tools in force."""
        return frame_of(self.lane.epoch)

    def fork(self, lane: Lane) -> ContextManager:
        """A manager like this one over another lane."""
        other = copy(self)
        other.lane = lane
        return other

    def _dress(self) -> None:
        """The date and time, fixed on the newest user message when it is first built."""
        if self._clock is None or not self.lane.tail:
            return
        newest = next((slot for slot in reversed(self.lane.tail) if slot.message.role is Role.USER), None)
        if newest is not None and not newest.preamble:
            moment = self._clock()
            preamble = f"Current date: {moment:%Y-%m-%d}, Current time: {moment:%H:%M} (local)"
            self.lane.dress(preamble)
            self._preambles[newest.entry] = preamble

    def _truncate(self) -> None:
        self._hidden = True
        self.rewriter.truncate(self.lane, self.available)

    def _restore(self) -> None:
        """Show the whole history since the last compaction or clearing again, where it fits."""
        if not self._hidden:
            return
        since = [
            self._dressed(slot_of(entry))
            for entry in self.lane.timeline.read(self._origin.base + 1, self.lane.timeline.last)
        ]
        whole = flatten(arrange([*self._origin.head, *since]))
        fixed = self.lane.epoch.system_tokens + self.lane.epoch.tools_tokens
        if fixed + sum(slot.tokens for slot in whole) <= self.available:
            self.lane.rewrite([*self._origin.head, *since], "restore", ())
            self._hidden = False

    def _dressed(self, slot: Slot) -> Slot:
        preamble = self._preambles.get(slot.entry, "")
        return replace(slot, preamble=preamble, tokens=self.measure(slot.message, preamble)) if preamble else slot

    def _start_over(self, head: Sequence[Slot], cause: str) -> None:
        self._origin = self.lane.rewrite(head, cause, ())
        self._hidden = False


def _with_preamble(slot: Slot) -> Message:
    if not slot.preamble:
        return slot.message
    parts = (slot.preamble, slot.message.content)
    return replace(slot.message, content="\n\n".join(parts if slot.message.role is Role.USER else reversed(parts)))
