"""What the tests of the context manager share: a counter of letters, hostile acts, and the laws of a built list."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from nexus_cli.context import ContextConfig, ContextManager
from nexus_cli.conversation.tokens.counter import OVERHEAD_PER_MESSAGE
from nexus_cli.core import Message, Role, ToolCall, ToolResult
from nexus_cli.core.json_value import compact

MARK = "tokens left out"


class Letters:
    """One token for each character: every arithmetic is exact."""

    def count(self, text: str) -> int:
        return len(text)

    def count_messages(self, messages: list[Message]) -> int:
        return sum(
            OVERHEAD_PER_MESSAGE
            + len(m.content)
            + len(m.tool_call_id or "")
            + sum(len(c.id) + len(c.name) + len(compact(c.arguments)) for c in m.tool_calls)
            for m in messages
        )


@dataclass(frozen=True)
class Act:
    """One thing done to a manager."""

    name: str
    value: Any = None
    ids: tuple[str, ...] = ()


WORDS = st.text("ab \n", max_size=40)
IDS = st.sampled_from(["c1", "c2", "c3"])
HOSTILE = st.one_of(
    st.builds(Act, st.just("user"), WORDS),
    st.builds(Act, st.just("assistant"), WORDS),
    st.builds(Act, st.just("calls"), WORDS, st.lists(IDS, min_size=1, max_size=3).map(tuple)),
    st.builds(Act, st.just("result"), WORDS, st.tuples(IDS)),
    st.builds(Act, st.just("result"), WORDS, st.tuples(IDS)),
    st.builds(Act, st.just("big"), st.integers(100, 3000)),
    st.builds(Act, st.just("big_result"), st.integers(100, 3000), st.tuples(IDS)),
    st.builds(Act, st.just("build")),
    st.builds(Act, st.just("window"), st.integers(400, 2000)),
    st.builds(Act, st.just("system"), st.integers(0, 150)),
    st.builds(Act, st.just("compact"), st.integers(0, 4)),
    st.builds(Act, st.just("clear")),
)
"""Anything that a caller may do, in any order: orphans, second results, calls that stay open, ids used again."""


def manager(budget: int = 1000, strategy: str = "oldest_first", **named: Any) -> ContextManager:
    """A bare manager with exactly `budget` letters for a request."""
    config = ContextConfig(max_tokens=budget, reserve_tokens=0, truncation_strategy=strategy)
    return ContextManager(config, token_counter=named.pop("token_counter", Letters()), **named)


def act(context: ContextManager, what: Act) -> None:
    """Do it."""
    match what.name:
        case "user":
            context.add_user_message(what.value)
        case "assistant":
            context.add_assistant_message(what.value)
        case "calls":
            context.add_assistant_message(what.value, [ToolCall(i, "look", {"at": what.value}) for i in what.ids])
        case "result":
            context.add_tool_result(what.ids[0], "look", ToolResult(what.value))
        case "big":
            context.add_user_message("u" * what.value)
        case "big_result":
            context.add_tool_result(what.ids[0], "look", ToolResult("r" * what.value))
        case "build":
            context.build_messages()
        case "window":
            context.config.max_tokens = what.value
        case "system":
            context.set_system_prompt("s" * what.value)
        case "compact":
            kept = context.messages[-what.value :] if what.value else []
            with suppress(ValueError):  # larger, and over the budget
                context.apply_compaction(Message(Role.USER, "[CONTEXT SUMMARY] so far"), kept)
        case "clear":
            context.clear_messages()


def without_system(built: Sequence[Message]) -> list[Message]:
    """A built list without its system message."""
    return list(built[1:] if built and built[0].role is Role.SYSTEM else built)


def assert_pairs(messages: Sequence[Message]) -> None:
    """Law 3: each call exactly one result, in call order, right after its message; no result without its call."""
    position = 0
    while position < len(messages):
        message = messages[position]
        assert message.role is not Role.TOOL, f"a result without its call at {position}: {message}"
        wanted = [call.id for call in message.tool_calls]
        results = messages[position + 1 : position + 1 + len(wanted)]
        assert [m.tool_call_id for m in results] == wanted
        assert all(m.role is Role.TOOL for m in results)
        position += 1 + len(wanted)


def tokens(context: ContextManager, built: Sequence[Message]) -> int:
    """What a request takes, counted from outside."""
    return context.counter.count_messages(list(built)) + context.get_token_usage()["tools"]


def texts(messages: Sequence[Message]) -> list[str]:
    """Their contents."""
    return [message.content for message in messages]
