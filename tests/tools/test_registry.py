"""Every tool of the registry keeps the contract of `nexus_cli.core.tool`; the registry itself is deterministic."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.core.errors import UsageError
from nexus_cli.core.memory import MemorySlot
from nexus_cli.core.message import ToolCall, ToolResult
from nexus_cli.core.services import PlanRequest, Recall, SeenFileStore, Workers, WorkerTask
from nexus_cli.core.tool import EditPreview, Effect, Tool, ToolContext, describe_subject
from nexus_cli.testing import check_tool, example_arguments
from nexus_cli.tools.builtin import __path__ as folders
from nexus_cli.tools.registry import ToolRegistry, discover_tools
from nexus_cli.tools.schema import check_arguments

TOOLS = list(discover_tools().values())
each = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)

PAGE = {"first", "total"}
"""Figures of a result that say which part of a whole it is; they need no noun."""


def _context(folder: Path) -> ToolContext:
    return ToolContext(folder, folder, 8000, "c1", print)


def test_a_list_that_is_the_subject_of_a_call_is_shown_as_words() -> None:
    reads = replace(discover_tools()["read_file"], subject="paths")
    assert describe_subject(reads, ToolCall("c1", "read_file", {"paths": ["a.py", "b.py"]})) == "a.py, b.py"


def test_a_folder_is_the_registry() -> None:
    modules = {path.stem for folder in folders for path in Path(folder).glob("*.py")} - {"__init__"}
    assert {tool.name for tool in TOOLS} == modules


@pytest.mark.parametrize("name", ["edit_file", "write_file"])
async def test_a_module_that_an_upgrade_took_away_is_the_error_of_a_call_and_never_of_its_question(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, f"nexus_cli.tools.builtin.{name}", None)
    tool = discover_tools()[name]
    assert tool.preview is not None and tool.preview(example_arguments(tool), _context(tmp_path)) == EditPreview()

    with pytest.raises(ImportError):  # `dispatch` makes it a tool result
        await tool.run(example_arguments(tool), _context(tmp_path))


@pytest.mark.matrix
def test_a_definition_is_read_without_the_module_that_runs_it() -> None:
    program = (
        "import sys; from nexus_cli.tools.registry import ToolRegistry;"
        "from nexus_cli.core.services import SeenFileStore;"
        "ToolRegistry(services={SeenFileStore: 1}).get_definitions();"
        "print([name for name in sys.modules if name.startswith('nexus_cli.tools.builtin.')])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "change"), [("edit_file", {"edits": [{"old": "x", "new": "y"}]}), ("write_file", {"content": "y"})]
)
def test_a_preview_shows_what_an_edit_would_change(name: str, change: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    preview = discover_tools()[name].preview
    assert preview and "+y" in preview({"path": "a", **change}, _context(tmp_path)).diff


@each
def test_a_tool_keeps_the_contract(tool: Tool) -> None:
    check_tool(tool)


def test_definitions_omit_keywords_that_dispatch_checks() -> None:
    registry = ToolRegistry(services={SeenFileStore: 1})
    sent = {one["function"]["name"]: one["function"]["parameters"] for one in registry.get_definitions()}
    assert "additionalProperties" not in json.dumps(sent) and "minimum" not in json.dumps(sent)
    assert list(sent["read_file"]["properties"]) == ["path", "offset", "limit", "more"]
    tool = discover_tools()["read_file"]
    assert check_arguments({"path": "a", "offset": 0, "lines": 2}, tool.parameters)[1]


def test_rare_arguments_are_accepted_without_being_sent() -> None:
    registry = ToolRegistry(services={Workers: 1})
    sent = {one["function"]["name"]: one["function"]["parameters"] for one in registry.get_definitions()}
    limits = sent["agent"]["properties"]["limits"]["properties"]
    assert list(limits) == ["max_steps", "max_cost", "allow"] and "sent" not in json.dumps(sent)
    rare = {"task": "x", "model": "m", "limits": {"timeout": 3.5, "tools": ["bash"]}}
    assert not check_arguments(rare, discover_tools()["agent"].parameters)[1]
    assert check_arguments(rare | {"limits": {"timeout": "soon"}}, discover_tools()["agent"].parameters)[1]


@each
def test_a_tool_has_paths_exactly_if_it_reads_or_edits_or_is_refused(tool: Tool) -> None:
    if tool.effect in (Effect.READ, Effect.EDIT):
        with pytest.raises(ValueError, match="`paths` names no argument"):
            replace(tool, paths=())
    elif tool.subject:
        with pytest.raises(ValueError, match="`paths` names arguments"):
            replace(tool, paths=(tool.subject,))
    with pytest.raises(ValueError, match="not among its arguments"):
        replace(tool, paths=("no such argument",))


def test_one_tool_stands_for_all_that_read_and_one_for_all_that_run_commands() -> None:
    governing = [tool for tool in TOOLS if tool.governs]
    assert len([tool for tool in governing if tool.reads_content]) == 1
    assert len([tool for tool in governing if tool.runs_commands]) == 1
    assert all(tool.effect in (Effect.EDIT, Effect.RUN) or tool.reads_content for tool in governing)


def _source(tool: Tool) -> str:
    return Path(next(iter(folders)), f"{tool.name}.py").read_text(encoding="utf-8")


@each
def test_a_tool_that_finds_files_leaves_out_what_is_refused(tool: Tool) -> None:
    assert not tool.finds_files or ".is_refused(" in _source(tool)


@pytest.mark.matrix
@each
def test_every_figure_of_a_result_has_a_noun_in_the_definition(tool: Tool) -> None:
    """Those that its module writes as `counts = {...}`."""
    found = set()
    for node in ast.walk(ast.parse(_source(tool))):
        match node:
            case ast.keyword("counts", ast.Dict(keys)) | ast.Assign([ast.Name("counts")], ast.Dict(keys)):
                found |= {key.value for key in keys if isinstance(key, ast.Constant)}
    assert found <= {*tool.counts, *PAGE}, f"`counts` of {tool.name}.json gives each noun its singular"


async def _run(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    return await tool.run(arguments, context)


@each
def test_a_failure_is_a_result_and_not_an_exception(tool: Tool, tmp_path: Path) -> None:
    class Nobody:
        def digest(self, path: str) -> None: ...
        def note(self, path: str, digest: str, how: str) -> None: ...
        def original(self, drop_id: str) -> None: ...
        def forget(self, fact_id: str) -> None: ...
        def merge(self, fact_ids: list[str], text: str) -> None:
            raise UsageError("no fact", "nothing of this id is remembered here")

        def remember(self, slot: MemorySlot, text: str, quote: str) -> None:
            raise UsageError("no fact", "it cannot be kept")

        def search(self, text: str, slots: object, limit: int) -> None:
            raise UsageError("memory", "it cannot be read")

        def read_skill(self, name: str, file: str = "") -> str:
            raise UsageError(f"no skill {name}", "no skill has this name")

        def now(self) -> float:
            return 0.0

        def refusal(self) -> str:
            return "nobody waits here"

        def contents(self) -> dict[str, Any]:
            return {"sections": []}

        async def describe(self, name: str) -> ToolResult:
            return ToolResult(error=f"no tool {name}")

        async def section(self, name: str, form: str) -> None: ...
        async def start(self, call_id: str, task: WorkerTask, stopped: object) -> ToolResult:
            return ToolResult(error=f"no worker for {task.task}")

        async def manage(self, action: str, agent: str, text: str, path: str = "") -> ToolResult:
            return ToolResult(error=f"no worker {agent}")

        def change(self, call_id: str, request: PlanRequest) -> ToolResult:
            return ToolResult(error=f"no plan {request.id}")

        def add_goal(self, text: str, priority: int, long_term: bool) -> ToolResult:
            return ToolResult(error=f"no goal {text}")

        def send(self, call: str, text: str, space: str, *, wait: bool) -> ToolResult:
            return ToolResult(error=f"no space {space}")

        def reply(self, call: str, message: str, text: str) -> ToolResult:
            return ToolResult(error=f"no message {message}")

        def enter(self, space: str) -> ToolResult:
            return ToolResult(error=f"no space {space}")

        def read(self, space: str, before: str, limit: int) -> ToolResult:
            return ToolResult(error=f"no space {space}")

    if not tool.parameters["properties"]:
        return  # nothing can be wrong with what says nothing
    gone = tmp_path / "gone"
    services: dict[type, Any] = dict.fromkeys(tool.needs, Nobody())
    hostile = ["\0", "", "x" * 5000, "../" * 50 + "etc/shadow/x", "/dev/zero", "/proc/self/mem", "(", "~nobody-here/x"]
    for text in hostile:
        if not text and "required" not in tool.parameters:
            continue  # nothing named is no failure where nothing has to be
        kept = {k for k, one in tool.parameters["properties"].items() if one["type"] != "string" or "enum" in one}
        arguments = {k: v if k in {*kept, "command"} else text for k, v in example_arguments(tool).items()}
        context = ToolContext(gone, gone, 1000, "c", lambda _: None, services)
        result = asyncio.run(_run(tool, arguments, context))
        assert isinstance(result, ToolResult)
        assert not result.changed and (result.error or not (tool.paths or tool.needs))


def test_a_tool_with_an_unmet_need_is_absent() -> None:
    assert set(ToolRegistry().names()) == {tool.name for tool in TOOLS if not tool.needs}
    assert "recall" in ToolRegistry(services={Recall: object()}).names()
    assert ToolRegistry().get("recall") is None


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="bash"):
        ToolRegistry([discover_tools()["bash"], discover_tools()["bash"]])


@pytest.mark.matrix
def test_definitions_are_the_same_bytes_in_every_process_and_order() -> None:
    services: dict[type, Any] = {Recall: object(), SeenFileStore: object()}
    here = json.dumps(ToolRegistry(reversed(TOOLS), services).get_definitions())
    program = (
        "import json; from nexus_cli.tools.registry import ToolRegistry;"
        "from nexus_cli.core.services import Recall, SeenFileStore;"
        "print(json.dumps(ToolRegistry(services={Recall: 1, SeenFileStore: 1}).get_definitions()))"
    )
    for seed in "01":
        env = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True)
        assert done.stdout.strip() == here
    names = [d["function"]["name"] for d in json.loads(here)]
    assert names == sorted(names)


def test_definitions_are_fresh_copies() -> None:
    registry = ToolRegistry(TOOLS, {Recall: object(), SeenFileStore: object()})
    registry.get_definitions()[0]["function"]["parameters"].clear()
    assert registry.get_definitions()[0]["function"]["parameters"]["properties"]


def test_all_definitions_together_stay_small() -> None:
    definitions = ToolRegistry(TOOLS, {Recall: object(), SeenFileStore: object()}).get_definitions()
    compact = json.dumps(definitions, separators=(",", ":"))
    # 4.3 letters per token by o200k; the token count itself is in tools/README.md.
    assert len(compact) < 1050 * 4, "shorten descriptions in nexus_cli/tools/builtin/*.json"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Bash", "bash"),
        ("readFile", "read_file"),
        ("read", "read_file"),
        ("edit_fil", "edit_file"),
        ("grepp", "grep"),
        ("zzz", None),
        ("", None),
    ],
)
def test_a_misspelt_name_leads_to_the_nearest(name: str, meant: str | None) -> None:
    assert ToolRegistry(TOOLS, {Recall: object(), SeenFileStore: object()}).nearest(name) == meant
