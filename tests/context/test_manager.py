"""`ContextManager` alone, as seed A and the interface describe it."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from context.conversation import Letters, manager, texts, tokens, without_system

import nexus_cli.context
import nexus_cli.core
import nexus_cli.session
from nexus_cli.context import ContextConfig, ContextManager, SimpleTokenCounter, TiktokenCounter, get_token_counter
from nexus_cli.core import Message, Role, ToolCall, ToolResult
from nexus_cli.core.request import Delta, FinishDelta, Request, TextDelta
from nexus_cli.session import LogConfig, Session, SessionLogger

MOMENT = datetime(2026, 1, 13, 14, 30)
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


class Ticking:
    """A clock that goes on a minute at each look."""

    def __init__(self) -> None:
        self.now = MOMENT

    def __call__(self) -> datetime:
        self.now += timedelta(minutes=1)
        return self.now


# -- what is exported ----------------------------------------------------------------------------------------------


def test_the_context_exports_what_the_seed_lists() -> None:
    assert set(nexus_cli.context.__all__) == {
        "CompactionResult",
        "build_summarize_prompt",
        "create_summary_message",
        "select_messages_for_compaction",
        "LoadedPrompt",
        "PromptLoader",
        "TokenCounter",
        "SimpleTokenCounter",
        "TiktokenCounter",
        "get_token_counter",
        "ContextManager",
        "ContextConfig",
    }
    assert all(hasattr(nexus_cli.context, name) for name in nexus_cli.context.__all__)


def test_core_and_session_export_the_names_of_the_interface() -> None:
    assert {"Message", "Role", "ToolCall", "ToolResult"} <= set(nexus_cli.core.__all__)
    assert {"SessionLogger", "LogConfig", "Session"} <= set(nexus_cli.session.__all__) <= set(dir(nexus_cli.session))
    assert list(inspect.signature(Session).parameters)[:4] == ["provider", "context", "logger", "registry"]
    with pytest.raises(AttributeError):
        nexus_cli.session.no_such_name  # noqa: B018


def test_importing_the_logger_does_not_load_the_engine() -> None:
    code = "import sys, nexus_cli.session.logger; print([m for m in sys.modules if m.endswith(('.turn', '.dispatch'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_constructor_has_the_seeds_names_and_defaults() -> None:
    parameters = inspect.signature(ContextManager).parameters
    assert list(parameters)[:4] == ["config", "logger", "token_counter", "clock"]
    assert parameters["token_counter"].kind is parameters["clock"].kind is inspect.Parameter.KEYWORD_ONLY
    assert ContextConfig() == ContextConfig(max_tokens=8000, reserve_tokens=2000, truncation_strategy="oldest_first")
    usage = ContextManager().get_token_usage()
    assert usage == {"system": 0, "tools": 0, "messages": 0, "total": 0, "budget": 8000, "available": 6000}


@pytest.mark.parametrize("name", ["", "newest_first", "OLDEST_FIRST", "oldest_first ", None, [], {}])
def test_an_unknown_strategy_is_refused_at_construction(name: Any) -> None:
    with pytest.raises(ValueError, match=r"oldest_first"):
        ContextManager(ContextConfig(truncation_strategy=name))


# -- messages ------------------------------------------------------------------------------------------------------


def test_nothing_said_builds_nothing_and_a_system_prompt_stands_alone() -> None:
    context = manager()
    assert context.build_messages() == context.messages == context.history == []
    context.set_system_prompt("be brief")
    assert context.build_messages() == [Message(Role.SYSTEM, "be brief")]
    assert context.messages == []
    assert context.system_prompt == "be brief"


def test_messages_are_built_in_the_order_in_which_they_were_said() -> None:
    context = manager()
    context.set_system_prompt("S")
    context.add_user_message("one")
    context.add_assistant_message("two", [ToolCall("c1", "look", {"at": 1})])
    context.add_tool_result("c1", "look", ToolResult("three"))
    context.add_assistant_message("four")
    built = context.build_messages()
    assert [m.role for m in built] == [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    assert built[1:] == context.messages == context.history
    assert built[3].tool_call_id == "c1"


@pytest.mark.parametrize("calls", [None, [], ()])
def test_a_reply_with_neither_text_nor_calls_is_not_added(calls: Any) -> None:
    context = manager()
    context.add_user_message("hello")
    context.add_assistant_message("", calls)
    assert texts(context.history) == texts(context.build_messages()) == ["hello"]


def test_an_empty_user_message_is_kept() -> None:
    context = manager()
    context.add_user_message("")
    assert context.build_messages() == [Message(Role.USER, "")]


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (ToolResult("out"), "out"),
        (ToolResult(error="no such file"), "no such file"),
        (ToolResult("out", "exit status 1"), "out\nexit status 1"),
        ("plain", "plain"),
        (ToolResult(), ""),
    ],
)
def test_a_result_shows_its_output_and_its_error(result: ToolResult | str, shown: str) -> None:
    context = manager()
    context.add_user_message("look")
    context.add_assistant_message("", [ToolCall("c1", "look")])
    context.add_tool_result("c1", "look", result)
    assert context.build_messages()[-1] == Message(Role.TOOL, shown, tool_call_id="c1")


def test_a_reply_before_any_user_message_is_left_out_of_what_is_built() -> None:
    context = manager()
    context.add_assistant_message("welcome")
    assert texts(context.build_messages()) == ["welcome"]
    context.add_user_message("hello")
    assert texts(context.build_messages()) == texts(context.messages) == ["hello"]
    assert texts(context.history) == ["welcome", "hello"]


def test_lone_surrogates_become_storable_text() -> None:
    context = manager()
    context.set_system_prompt("s\ud800")
    context.set_tool_definitions([{"name": "t\ud800"}])
    context.add_user_message("u\udfff")
    assert texts(context.build_messages()) == ["s\ufffd", "u\ufffd"]
    assert context.system_prompt == "s\ufffd"
    assert context.get_token_usage()["tools"] > 0


def test_clearing_keeps_prompt_and_tools_and_the_history() -> None:
    context = manager()
    context.set_system_prompt("S")
    context.set_tool_definitions([LOOK])
    context.add_user_message("one")
    context.add_assistant_message("", [ToolCall("c1", "look")])
    context.build_messages()
    context.clear_messages()
    assert context.messages == []
    assert context.build_messages() == [Message(Role.SYSTEM, "S")]
    assert context.get_tool_definitions() == [LOOK]
    assert context.get_token_usage()["messages"] == 0
    context.add_tool_result("c1", "look", "late, and its call is gone")
    context.add_user_message("two")
    assert texts(context.build_messages()) == ["S", "two"]
    assert len(context.history) == 4


# -- copies --------------------------------------------------------------------------------------------------------


def test_what_is_handed_out_can_be_changed_without_effect() -> None:
    context = manager()
    context.set_tool_definitions([LOOK])
    context.add_user_message("one")
    context.add_assistant_message("", [ToolCall("c1", "look", {"deep": {"list": [1]}})])
    before = context.build_messages()
    for mine in (context.messages, context.history, context.build_messages()):
        arguments: Any = mine[1].tool_calls[0].arguments
        arguments["deep"]["list"].append(2)
        mine.clear()
    context.get_tool_definitions()[0]["function"]["parameters"]["properties"]["x"] = {}
    context.get_tool_definitions().clear()
    context.get_token_usage()["total"] = -1
    assert context.build_messages() == before == context.messages == context.history[:2] + before[2:]
    assert before[1].tool_calls[0].arguments == {"deep": {"list": [1]}}
    assert context.get_tool_definitions() == [LOOK]
    assert context.get_token_usage()["total"] > 0


def test_what_was_handed_in_can_be_changed_without_effect() -> None:
    context = manager()
    tool: dict[str, Any] = {"function": {"name": "look", "parameters": {}}}
    call = ToolCall("c1", "look", {"a": [1]})
    calls = [call]
    context.set_tool_definitions([tool])
    context.add_user_message("one")
    context.add_assistant_message("", calls)
    tool["function"]["parameters"]["x"] = "grown"
    arguments: Any = call.arguments
    arguments["a"].append(2)
    calls.clear()
    assert context.get_tool_definitions() == [{"function": {"name": "look", "parameters": {}}}]
    assert context.build_messages()[1].tool_calls == (ToolCall("c1", "look", {"a": [1]}),)


# -- counting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counter", [Letters(), SimpleTokenCounter(), TiktokenCounter()])
def test_usage_adds_up_and_describes_the_window(counter: Any) -> None:
    context = manager(5000, token_counter=counter)
    context.set_system_prompt("You are helpful.")
    context.set_tool_definitions([LOOK])
    context.add_user_message("hello there")
    context.add_assistant_message("", [ToolCall("c1", "look", {"at": "x"})])
    context.add_tool_result("c1", "look", "a result")
    usage = context.get_token_usage()
    assert set(usage) == {"system", "tools", "messages", "total", "budget", "available"}
    assert usage["messages"] == counter.count_messages(without_system(context.build_messages()))
    assert usage["total"] == usage["system"] + usage["tools"] + usage["messages"]
    assert usage["system"] > 0 < usage["tools"]
    assert context.get_token_usage() == usage


def test_budget_and_available_are_constant_and_over_budget_means_total_above_available() -> None:
    context = ContextManager(ContextConfig(max_tokens=300, reserve_tokens=100), token_counter=Letters())
    context.add_user_message("x" * 196)
    assert context.get_token_usage()["total"] == 200
    assert not context.is_over_budget()
    context.add_assistant_message("y")
    assert context.is_over_budget()
    assert (context.get_token_usage()["budget"], context.get_token_usage()["available"]) == (300, 200)
    context.build_messages()
    assert not context.is_over_budget()
    assert (context.get_token_usage()["budget"], context.get_token_usage()["available"]) == (300, 200)


def test_an_orphan_result_costs_nothing_and_an_open_call_costs_its_placeholder() -> None:
    context = manager()
    context.add_user_message("u")
    before = context.get_token_usage()["messages"]
    context.add_tool_result("nobody", "look", "x" * 5000)
    assert context.get_token_usage()["messages"] == before
    assert not context.is_over_budget()
    context.add_assistant_message("", [ToolCall("c1", "look")])
    built = context.build_messages()
    assert context.get_token_usage()["messages"] == tokens(context, built)


def test_the_counters_count_as_the_interface_says() -> None:
    simple = SimpleTokenCounter()
    assert [simple.count("x" * n) for n in (0, 1, 3, 4, 7, 8, 4000)] == [0, 1, 1, 1, 1, 2, 1000]
    assert simple.OVERHEAD_PER_MESSAGE == TiktokenCounter().OVERHEAD_PER_MESSAGE == 4
    assert simple.count_messages([Message(Role.USER, "x" * 40), Message(Role.USER, "")]) == 4 + 10 + 4
    exact = TiktokenCounter()
    assert exact.count("") == 0
    assert exact.count("Hello, world!") == 4
    assert exact.count("<|endoftext|>") > 1
    assert exact.count_messages([Message(Role.USER, "Hello, world!")]) == 8
    assert isinstance(get_token_counter(), TiktokenCounter)
    assert isinstance(get_token_counter(use_tiktoken=False), SimpleTokenCounter)


# -- time ----------------------------------------------------------------------------------------------------------


def test_without_a_clock_there_is_no_date_anywhere() -> None:
    context = manager()
    context.set_system_prompt("S")
    context.add_user_message("hello")
    assert texts(context.build_messages()) == ["S", "hello"]


def test_the_clock_stands_before_the_newest_user_message_and_is_fixed_when_first_built() -> None:
    context = manager(clock=Ticking())
    context.set_system_prompt("S")
    context.add_user_message("first")
    context.add_user_message("second")
    built = context.build_messages()
    assert built[0] == Message(Role.SYSTEM, "S")
    assert built[1].content == "first"
    stamped = built[2].content
    assert stamped.endswith("second")
    assert "2026-01-13" in stamped
    assert "14:3" in stamped
    context.add_assistant_message("reply")
    assert context.build_messages()[:3] == built
    context.add_user_message("third")
    again = context.build_messages()
    assert again[:3] == built
    assert again[-1].content.endswith("third")
    assert again[-1].content[:-5] != stamped[:-6], "a later message has a later time"
    assert texts(context.messages) == ["first", "second", "reply", "third"], "messages are without preambles"
    assert context.build_messages() == again


def test_the_preamble_is_counted_like_the_text_that_is_built() -> None:
    for counter in (Letters(), SimpleTokenCounter(), TiktokenCounter()):
        context = manager(clock=Ticking(), token_counter=counter)
        context.add_user_message("abc")
        built = context.build_messages()
        assert context.get_token_usage()["messages"] == counter.count_messages(built)


def test_the_preamble_survives_truncation_restoring_and_compaction() -> None:
    context = manager(400, clock=Ticking())
    context.add_user_message("old")
    stamped = context.build_messages()[0]
    context.add_assistant_message("x" * 500)
    context.add_user_message("now")
    assert len(context.build_messages()) == 1
    context.config.max_tokens = 2000
    built = context.build_messages()
    assert built[0] == stamped
    context.apply_compaction(Message(Role.USER, "summary"), built[2:])
    assert context.build_messages() == [Message(Role.USER, "summary"), *built[2:]]


def test_a_preserved_message_that_was_never_built_gets_its_time_when_it_is() -> None:
    context = manager(clock=lambda: MOMENT)
    context.add_user_message("one")
    context.apply_compaction(Message(Role.USER, "summary"), context.messages)
    built = context.build_messages()
    assert built[0].content == "summary"
    assert built[1].content.startswith("Current date: 2026-01-13, Current time: 14:30")
    assert context.build_messages() == built


def test_the_session_start_is_a_user_message_when_it_is_asked_for() -> None:
    context = manager(clock=lambda: MOMENT)
    assert context.messages == []
    context.add_session_start_message()
    assert context.messages == [Message(Role.USER, "[Session started: 2026-01-13 14:30 (local)]")]


# -- the log -------------------------------------------------------------------------------------------------------


def test_with_a_logger_every_message_and_the_prompt_are_in_the_ledger(tmp_path: Path) -> None:
    config = LogConfig(path=tmp_path / "ledger.db", folder=tmp_path)
    logger = SessionLogger(config)
    context = ContextManager(ContextConfig(200, 0), logger, token_counter=Letters())
    context.set_system_prompt("You are helpful.")
    context.add_user_message("Hello!")
    context.add_assistant_message("", [ToolCall("c1", "look", {"at": "here"})])
    context.add_tool_result("c1", "look", ToolResult("seen"))
    context.set_system_prompt("You are brief.")
    context.add_user_message("x" * 150)
    context.build_messages()
    context.clear_messages()
    told = context.history
    session = logger.session.id
    logger.close()
    again = SessionLogger(config, session=session)
    assert [entry.message for entry in again.read(1, again.last_id())] == told
    assert len(told) == 4
    epoch = again.current_epoch()
    assert epoch is not None
    assert (epoch.system, epoch.cause) == ("You are brief.", "clear")
    assert again.epoch(0).system == "You are helpful."
    again.close()


def test_a_manager_over_a_log_that_has_entries_begins_with_an_empty_window(tmp_path: Path) -> None:
    logger = SessionLogger(LogConfig(path=tmp_path / "ledger.db", folder=tmp_path))
    ContextManager(logger=logger, token_counter=Letters()).add_user_message("before")
    context = ContextManager(ContextConfig(100, 0), logger, token_counter=Letters())
    assert context.messages == []
    context.add_user_message("x" * 200)
    context.build_messages()
    context.config.max_tokens = 1000
    assert texts(context.build_messages()) == ["x" * 200]
    assert len(context.history) == 2
    logger.close()


def test_a_session_over_a_bare_manager_records_every_request_under_its_epoch(tmp_path: Path) -> None:
    class Parrot:
        async def stream(self, request: Request) -> AsyncIterator[Delta]:
            yield TextDelta(f"heard {request.messages[-1]['content']} under {request.messages[0]['content']}")
            yield FinishDelta("stop")

    logger = SessionLogger(LogConfig(path=tmp_path / "ledger.db", folder=tmp_path))
    context = ContextManager(logger=logger, token_counter=Letters())
    context.set_system_prompt("S")
    session = Session(Parrot(), context=context, logger=logger)

    async def run(text: str) -> None:
        async for _ in session.run(text):
            pass

    asyncio.run(run("one"))
    context.set_system_prompt("T")
    asyncio.run(run("two"))
    assert texts(context.messages) == ["one", "heard one under S", "two", "heard two under T"]
    assert [(row.manifest.step, row.manifest.epoch) for row in logger.requests()] == [(1, 0), (2, 1)]
    assert [logger.epoch(number).system for number in (0, 1)] == ["S", "T"]
    logger.close()
