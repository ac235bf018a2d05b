"""Messages, calls and results of values that are not quite what they should be: made right, or refused at once."""

from __future__ import annotations

import types
from dataclasses import replace
from typing import Any

import pytest

from nexus_cli.context import ContextConfig, ContextManager
from nexus_cli.core.entry import Cause, Drop, Entry, ItemForm, Kind, WindowItem
from nexus_cli.core.message import Message, Part, Role, ToolCall, ToolResult, from_record, to_record

CHAT = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}


@pytest.mark.parametrize(
    ("arguments", "made"),
    [
        ('{"command": "ls", "n": [1, {"a": null}]}', {"command": "ls", "n": [1, {"a": None}]}),
        (' {"a": "\\ud800"}\n', {"a": "\ufffd"}),
        ("", {}),
        ("  ", {}),
        (None, {}),
        (types.MappingProxyType({"a": (1, 2)}), {"a": [1, 2]}),
        ({"a": [{"b": {1}}], 2: b"x"}, {"a": [{"b": "{1}"}], "2": "b'x'"}),
    ],
)
def test_arguments_become_json_data_that_can_be_stored(arguments: Any, made: dict[str, Any]) -> None:
    call = ToolCall("c1", "bash", arguments)
    assert call.arguments == made
    message = Message(Role.ASSISTANT, "", (call,), parts=(Part("image/png", b"x", "a.png", "result of read_file"),))
    record = to_record(message)
    assert from_record(record) == message
    record["parts"][0].append("of a later version")
    assert from_record(record) == message


def test_a_call_holds_the_text_of_the_arguments_that_it_has() -> None:
    call = ToolCall("c", "bash", {"command": "é", "n": [1, None]})
    assert call.arguments_text == call.sent_arguments == '{"command":"é","n":[1,null]}'
    other = replace(call, arguments={"command": "ls"}, is_wrapped=True)
    assert other.arguments_text == '{"command":"ls"}'
    assert other.sent_arguments == '{"name":"bash","arguments":{"command":"ls"}}'
    assert "arguments_text" not in repr(call) and call == ToolCall("c", "bash", {"command": "é", "n": (1, None)})


@pytest.mark.parametrize("arguments", ["[1]", '"text"', "3", "{", "ls -l", "[" * 100_000])
def test_text_that_is_no_json_object_is_refused_as_arguments(arguments: str) -> None:
    with pytest.raises(ValueError, match="arguments of the tool call 'bash' are not a JSON object"):
        ToolCall("c1", "bash", arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("arguments", [3, ["a"], b"{}", {1, 2}])
def test_arguments_that_are_neither_a_mapping_nor_text_are_refused(arguments: Any) -> None:
    with pytest.raises(TypeError, match="arguments of the tool call 'bash'"):
        ToolCall("c1", "bash", arguments)


@pytest.mark.parametrize(
    "calls", [[CHAT], ({"id": "c1", "name": "bash", "arguments": {"command": "ls"}},), iter([CHAT])]
)
def test_calls_of_a_message_may_be_any_sequence_of_calls_or_mappings(calls: Any) -> None:
    message = Message("assistant", None, calls)  # type: ignore[arg-type]
    assert message == Message(Role.ASSISTANT, "", (ToolCall("c1", "bash", {"command": "ls"}),))
    assert message.role is Role.ASSISTANT and Message(Role.ASSISTANT, "x", None).tool_calls == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        {"content": ["text"]},
        {"content": b"bytes"},
        {"content": 3},
        {"role": "robot"},
        {"role": None},
        {"tool_calls": CHAT},
        {"tool_calls": "c1"},
        {"tool_calls": 1},
        {"tool_calls": [{}]},
        {"tool_calls": ["c1"]},
        {"tool_calls": ToolCall("c1", "bash")},
        {"tool_calls": [{"id": None, "name": "x"}]},
        {"tool_call_id": 4},
        {"tool_calls": [{"id": "c", "function": "bash"}]},
        {"parts": ["x.png"]},
        {"parts": 3},
        {"opaque": {}},
    ],
)
def test_a_message_of_anything_else_is_refused_at_construction(given: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        Message(**{"role": Role.ASSISTANT, **given})


@pytest.mark.parametrize(
    "given", [{"output": 3}, {"error": ["x"]}, {"output": b"x"}, {"changed": "a.py"}, {"changed": [1]}, {"full": 1}]
)
def test_a_result_of_anything_else_is_refused_at_construction(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        ToolResult(**given)
    assert ToolResult(None, None, ["a.py"]) == ToolResult("", "", ("a.py",))  # type: ignore[arg-type]


def test_words_for_kinds_become_kinds() -> None:
    message = Message(Role.USER, "x")
    assert Entry(1, "", "person", "user", message).kind is Kind.USER  # type: ignore[arg-type]
    assert WindowItem(1, "full", message).form is ItemForm.FULL  # type: ignore[arg-type]
    assert Drop("d1", "", 1, "pruned", "").cause is Cause.PRUNED  # type: ignore[arg-type]


@pytest.mark.matrix
def test_a_call_given_as_json_text_is_counted_built_and_truncated_like_one_given_as_a_mapping() -> None:
    built = []
    for arguments in ({"path": "word " * 4000}, '{"path": "' + "word " * 4000 + '"}'):
        context = ContextManager(ContextConfig(3000, 500))
        context.add_user_message("do it")
        context.add_assistant_message(None, [ToolCall("c1", "read_file", arguments)])  # type: ignore[arg-type]
        context.add_tool_result("c1", "read_file", ToolResult("done"))
        built.append((context.build_messages(), context.get_token_usage()))
    assert built[0] == built[1]


@pytest.mark.parametrize("result", [None, 3, {"output": "x"}, b"x"])
def test_a_tool_result_that_is_none_is_refused_and_leaves_the_window_as_it_was(result: Any) -> None:
    context = ContextManager()
    context.add_user_message("do it")
    with pytest.raises(TypeError, match="a tool result must be"):
        context.add_tool_result("c1", "read_file", result)
    assert len(context.history) == 1
