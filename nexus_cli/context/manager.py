"""`ContextManager`: seed A's coordinator of system prompt, history, token budget and truncation.

Alone it keeps its history in memory and builds message lists. A session passes it a log, a low-water mark and markers,
and drives its `lane`. It prints nothing and asks no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nexus_cli.conversation.conversation import Conversation, EpochHeader, item_of
from nexus_cli.conversation.groups import (
    PLACEHOLDER,
    flatten,
    from_first_user_message,
    group_tool_calls,
    is_placeholder,
    is_request,
)
from nexus_cli.conversation.memory_log import MemoryLog
from nexus_cli.conversation.strategies import STRATEGIES, Strategy
from nexus_cli.conversation.tokens.counter import TokenCounter, compact, get_token_counter
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import Clock, format_local_time, local_now
from nexus_cli.core.entry import ItemForm, Kind, WindowItem
from nexus_cli.core.message import Message, Role, ToolCall, ToolResult, replace_surrogates
from nexus_cli.core.services import Log

if TYPE_CHECKING:
    from nexus_cli.conversation.window_truncation import WindowTruncator


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
        _strategy(self.config.truncation_strategy)
        self.counter = token_counter or get_token_counter()
        self._clock = clock
        self._logged = logger is not None
        self.conversation = Conversation(logger or MemoryLog(), clock or local_now, self.measure)
        self._low_water, self._markers = low_water, markers
        self._origin = self.conversation.epoch
        self._hidden = False
        self._preambles: dict[int, str] = {}
        self._built: tuple[int, int, tuple[WindowItem, ...]] = (self._origin.id, 0, ())

    # -- writing -------------------------------------------------------------------------------------------------

    def set_system_prompt(self, prompt: str) -> None:
        """Set the system prompt; in a session it takes effect with the next epoch."""
        self.reframe(self._frame_with(prompt))

    def set_tool_definitions(self, definitions: Sequence[Mapping[str, Any]]) -> None:
        """Set the tool schemas, in Chat Completions form."""
        tools = tuple(deepcopy(dict(definition)) for definition in definitions)
        self.reframe(replace(self.frame(), tools=tools, tools_tokens=self.tools_cost(tools)))

    def add_user_message(self, content: str) -> None:
        """Add a message of the person."""
        self._add(Kind.USER, Message(Role.USER, content), "person")

    def add_assistant_message(self, content: str, tool_calls: Sequence[ToolCall] | None = None) -> None:
        """Add the model's reply; one with neither text nor calls is not added."""
        message = Message(Role.ASSISTANT, content, tool_calls or ())  # type: ignore[arg-type]
        if message.content or message.tool_calls:
            self._add(Kind.ASSISTANT, _own(message), "agent")

    def add_tool_result(self, tool_call_id: str, name: str, result: ToolResult | str) -> None:
        """Add the result of a call."""
        if not isinstance(result, str | ToolResult):
            raise TypeError(f"a tool result has to be a ToolResult or text, not {type(result).__name__}")
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
        return [_own(item.message) for item in self._visible_items()]

    @property
    def history(self) -> list[Message]:
        """Return a copy of all messages ever added."""
        return [_own(entry.message) for entry in self.conversation.read(1, self.conversation.last)]

    def get_tool_definitions(self) -> list[dict[str, Any]]:
        """Return a copy of the tool schemas."""
        return [deepcopy(dict(tool)) for tool in self.conversation.epoch.tools]

    def build_messages(self) -> list[Message]:
        """Return the message list of the next request: system message, then the window, truncated if it does not fit
        (with markers it stays: a session makes room by its own estimate).

        Orphan and repeated tool results and messages before the first user message are left out; missing results are
        filled in.
        """
        self._dress()
        self._restore()
        if not self._markers and self.is_over_budget():
            self._truncate()
        shown = tuple(self._window())
        self._built = (self.conversation.epoch.id, self.conversation.last, shown)
        system = [Message(Role.SYSTEM, self.system_prompt)] if self.system_prompt else []
        return system + [_own(_join_preamble(item.message, item.preamble)) for item in shown]

    def get_token_usage(self) -> dict[str, int]:
        """Return tokens of `system`, `tools`, `messages` and their `total`; `budget` and `available` are constant."""
        epoch = self.conversation.epoch
        messages = sum(item.tokens for item in self._window())
        return {
            "system": epoch.system_tokens,
            "tools": epoch.tools_tokens,
            "messages": messages,
            "total": epoch.system_tokens + epoch.tools_tokens + messages,
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

    # -- compaction --------------------------------------------------------------------------------------------

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
        from nexus_cli.conversation.compaction.summary_message import is_blank_summary  # noqa: PLC0415  (a compaction)

        if summary_message.role is not Role.USER or is_blank_summary(summary_message):
            raise ValueError("the summary has to be a user message with text")
        seen, preserved = self._visible_items(), [m for m in preserved_messages if m.role is not Role.SYSTEM]
        matched = next(
            (size for size in range(min(len(seen), len(preserved)), 0, -1) if _same(seen[-size:], preserved[:size])),
            0,
        )
        added = [m for m in preserved[matched:] if m.role is not Role.TOOL or m.content != PLACEHOLDER]
        request = next((item for item in reversed(seen) if is_request((item,))), None)
        held = request is None or any(_same([request], [message]) for message in preserved)
        summary = WindowItem(
            self.conversation.last,
            ItemForm.SUMMARY,
            _own(summary_message),
            tokens=self.measure(summary_message, ""),
        )
        head = [summary, *([] if held or request is None else [request]), *seen[len(seen) - matched :]]
        frame = self.frame() if new_system_prompt is None else self._frame_with(new_system_prompt)
        self._refuse_if_larger(head, added, frame)
        self._start_over(head, "compaction", frame)
        for message in added:
            kind = {Role.ASSISTANT: Kind.ASSISTANT, Role.TOOL: Kind.TOOL}.get(message.role, Kind.USER)
            self._add(kind, _own(message), "nexus")

    def _refuse_if_larger(self, head: Sequence[WindowItem], added: Sequence[Message], frame: EpochHeader) -> None:
        """Raise `ValueError` if a window with this head and its additions would be larger and over the budget."""
        new = [
            WindowItem(self.conversation.last, ItemForm.FULL, message, "", self.measure(message, ""))
            for message in added
        ]
        items = flatten(from_first_user_message(group_tool_calls([*head, *new], self.measure)))
        before, after = self.get_token_usage()["messages"], sum(item.tokens for item in items)
        total = frame.system_tokens + frame.tools_tokens + after
        if after > before and total > self.available:
            raise ValueError(
                f"the summary makes the window larger: {after} tokens instead of {before}, and with system prompt and "
                f"tools {total} of {self.available}"
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

    def tools_cost(self, tools: Sequence[Mapping[str, Any]]) -> int:
        """Return the tokens of tool schemas as compact JSON."""
        return self.counter.count(compact(list(tools))) if tools else 0

    # -- internals -----------------------------------------------------------------------------------------------

    def reframe(self, frame: EpochHeader) -> None:
        """Change the frame: of this epoch if nothing of it was recorded or sent yet, else in a new one."""
        if not self.conversation.is_recorded:
            self.conversation.replace_header(frame)
        elif frame != self.frame():
            self.conversation.rewrite(self.conversation.items, "reload", (), frame)

    def frame(self) -> EpochHeader:
        """Return the current system prompt and tools."""
        return EpochHeader.of(self.conversation.epoch)

    def resize(self, budget: TokenBudget) -> None:
        """Take window and reserves of a session's budget."""
        reserves = budget.window - budget.available
        self.config = replace(self.config, max_tokens=budget.window, reserve_tokens=reserves)

    def fork(self, conversation: Conversation) -> ContextManager:
        """Return a manager like this one over another lane."""
        other = copy(self)
        other.conversation = conversation
        return other

    def _frame_with(self, prompt: str) -> EpochHeader:
        prompt = replace_surrogates(prompt)
        return replace(self.frame(), system=prompt, system_tokens=self.system_cost(prompt))

    def _add(self, kind: Kind, message: Message, actor: str) -> None:
        if self._logged and not self.conversation.is_recorded:
            self.conversation.begin()
        self.conversation.append(kind, message, actor)

    def _window(self) -> list[WindowItem]:
        """Return the contents of a list built now, if nothing were cut."""
        return flatten(from_first_user_message(self.conversation.groups()))

    def _visible_items(self) -> list[WindowItem]:
        """Return the last built items of this epoch and additions since; late results replace their placeholders."""
        epoch, last, shown = self._built
        if epoch != self.conversation.epoch.id:
            return self.conversation.items
        seen = list(shown)
        waiting = {item.message.tool_call_id: index for index, item in enumerate(seen) if is_placeholder(item)}
        for item in self.conversation.items:
            if item.entry > last:
                place = waiting.pop(item.message.tool_call_id, None) if item.message.role is Role.TOOL else None
                if place is None:
                    seen.append(item)
                else:
                    seen[place] = item
        return seen

    def _dress(self) -> None:
        """Return the date and time, fixed on the newest user message when it is first built."""
        newest = next((item for item in reversed(self.conversation.items) if is_request((item,))), None)
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
        """The truncator of lanes for the current configuration."""
        from nexus_cli.conversation.window_truncation import WindowTruncator  # noqa: PLC0415  (the window is too full)

        strategy = _strategy(self.config.truncation_strategy)
        return WindowTruncator(self.counter.count, strategy, self._low_water, self._markers, measure=self.measure)

    def _truncate(self) -> None:
        self._hidden = True
        groups = list(from_first_user_message(self.conversation.groups()))
        request = next((index for index in reversed(range(len(groups))) if is_request(groups[index])), -1)
        for index in {request, -1} if groups else ():
            groups[index] = tuple(map(self._whole, groups[index]))
        self.truncator.truncate(self.conversation, self.available, groups=groups)

    def _whole(self, item: WindowItem) -> WindowItem:
        """Return the original of an elided item, so that a second cut starts from it."""
        if item.form is not ItemForm.ELIDED:
            return item
        return self._with_preamble(item_of(self.conversation.read(item.entry, item.entry)[0]))

    def _restore(self) -> None:
        """Show the whole history since the last compaction or clearing again, if it fits."""
        if not self._hidden:
            return
        read = self.conversation.read(self._origin.base + 1, self.conversation.last)
        items = [*self._origin.head, *(self._with_preamble(item_of(entry)) for entry in read)]
        whole = flatten(from_first_user_message(group_tool_calls(items, self.measure)))
        fixed = self.conversation.epoch.system_tokens + self.conversation.epoch.tools_tokens
        if fixed + sum(item.tokens for item in whole) <= self.available:
            self.conversation.rewrite(items, "restore", ())
            self._hidden = False

    def _with_preamble(self, item: WindowItem) -> WindowItem:
        preamble = self._preambles.get(item.entry, "")
        return replace(item, preamble=preamble, tokens=self.measure(item.message, preamble)) if preamble else item

    def _start_over(self, head: Sequence[WindowItem], cause: str, frame: EpochHeader | None = None) -> None:
        self._origin = self.conversation.rewrite(head, cause, (), frame)
        self._hidden = False
        self._built = (self._origin.id, self.conversation.last, tuple(head))


def _strategy(name: str) -> Strategy:
    if not isinstance(name, str) or name not in STRATEGIES:
        raise ValueError(f"unknown truncation_strategy {name!r}: use {' or '.join(sorted(STRATEGIES))}")
    return STRATEGIES[name]


def _join_preamble(message: Message, preamble: str) -> Message:
    """Return `message` with its preamble: before a person's text, after a tool's."""
    if not preamble:
        return message
    parts = (preamble, message.content)
    return replace(message, content="\n\n".join(parts if message.role is Role.USER else reversed(parts)))


def _own(message: Message) -> Message:
    """Return `message` with copied call arguments, so that no caller can change them."""
    return replace(message, tool_calls=deepcopy(message.tool_calls)) if message.tool_calls else message


def _same(items: Sequence[WindowItem], messages: Sequence[Message]) -> bool:
    """True if `messages` are those of the items, with or without their preambles."""
    return all(
        message in (item.message, _join_preamble(item.message, item.preamble))
        for item, message in zip(items, messages, strict=True)
    )
