"""What hooks get about a call: no content of a file that the call was not allowed to read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nexus_cli.config.foreign_items import HOOKS
from nexus_cli.config.hook_tables import HookTable
from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import Effect, Tool, ToolContext
from nexus_cli.hooks.hook_input import HookedCall
from nexus_cli.hooks.hook_list import Hook
from nexus_cli.tools.registry import discover_tools

SECRET = "sekrit-key"


async def answer(arguments: object, context: ToolContext) -> ToolResult:
    return ToolResult("answer")


def response_of(call: HookedCall, source: str) -> str:
    (fields,) = call.fields("PostToolUse", Hook(HookTable("PostToolUse", "cat"), source))
    return json.dumps(fields["tool_response"])


@pytest.mark.parametrize("source", HOOKS)
def test_an_argument_that_names_a_file_lets_no_hook_read_it(tmp_path: Path, source: str) -> None:
    (tmp_path / "id_rsa").write_text(SECRET)
    schema = {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": []}
    tool = Tool("mcp__notes__open", schema, answer, Effect.RUN, "file_path")
    call = HookedCall("1", tool, {"file_path": str(tmp_path / "id_rsa")}, {}, ToolResult("answer"))
    told = response_of(call, source)
    assert SECRET not in told and "answer" in told


@pytest.mark.parametrize("source", HOOKS)
def test_lines_that_nexus_adds_to_the_output_of_a_command_reach_no_hook(source: str) -> None:
    notes = "[sandbox: no network]\n[nexus: in the sandbox: only its own processes are visible]\n[exit status 0]"
    done = ToolResult(f"printed\n{notes}", status=0)
    call = HookedCall("1", discover_tools()["bash"], {"command": "ps"}, {}, done)
    told = response_of(call, source)
    assert "printed" in told and "sandbox" not in told and "exit status" not in told


def test_a_hook_gets_the_file_that_a_call_read(tmp_path: Path) -> None:
    path = Path(tmp_path.resolve()) / "a.txt"
    path.write_text("content")
    tool = discover_tools()["read_file"]
    call = HookedCall("1", tool, {"path": "a.txt"}, {"a.txt": path}, ToolResult("content", file=str(path)))
    assert '"content": "content"' in response_of(call, HOOKS[0])
