"""Python plugins: what is found, what takes effect, and that a broken one is named in one line and left out."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from project_files import write_files

from nexus_cli.commands import discover as discover_commands
from nexus_cli.commands.own_guides import admit_plugins, plugin_commands
from nexus_cli.core.clock import local_now
from nexus_cli.core.errors import NexusError
from nexus_cli.engine.calls.edit_checks import plugin_checks
from nexus_cli.plugins import installed_plugins, python_plugins
from nexus_cli.plugins.python_plugins import PythonPlugin, describe_problems, find_entry_points
from nexus_cli.sections import contributor
from nexus_cli.testing import contract_checks
from nexus_cli.tools.registry import ToolRegistry, discover_tools, plugin_line, plugin_tools, rule_tools

Install = Callable[..., PythonPlugin]
BEGIN = """
from pluggy import HookimplMarker
from nexus_cli.commands.command import Command
from nexus_cli.config.checks import EditCheck
from nexus_cli.sections.contributor import Contributor
from nexus_cli.sections.section import Layer, Phase, Section
from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import Effect, Tool

hookimpl = HookimplMarker("nexus")
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SCHEMA["additionalProperties"] = False

async def run(arguments, context):
    return ToolResult(str(len(arguments["text"].split())))

async def say(context, rest):
    '''Count the words that are typed.'''
    raise RuntimeError("no words")

def read(sources):
    return ["a.txt"]

def render(value, view):
    return (Section("texts", Phase.TASK + 500, tuple(value), Layer.EVENT, 50, source="x"),)

def tool(name, **more):
    return Tool(name, SCHEMA, run, Effect.NONE, "text", description="Count the words of a `text`.", **more)
"""
WHOLE = """
@hookimpl
def nexus_tools():
    return [tool("count_words"), tool("bash"), tool("mcp__x__y"), tool("a b"), 3]

@hookimpl
def nexus_commands():
    other = Command("x", "work", say, aliases=("cost",))
    return [Command("words", "work", say, "TEXT"), Command("quit", "work", say), other]

@hookimpl
def nexus_contributors():
    texts = Contributor("texts", Layer.EVENT, read, render, verbatim=True)
    return [texts, Contributor("clock", Layer.EVENT, read, render)]

@hookimpl
def nexus_checks():
    return [EditCheck("*.txt", "grep TODO {files}"), EditCheck("*.txt", "")]

@hookimpl
def nexus_tool_line(tool, arguments):
    return f"count the words of {arguments['text']}"
"""


def forget() -> None:
    python_plugins.python_plugins.cache_clear()
    python_plugins._admitted.clear()
    contributor.discover.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., PythonPlugin]]:
    """Writes a package with a plugin, and loads it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(source: str, name: str = "words", target: str = "") -> PythonPlugin:
        module = f"nexus_plugin_{name}"
        (tmp_path / f"{module}.py").write_text(BEGIN + source)
        folder = tmp_path / f"{module}-1.0.dist-info"
        write_files(folder, {"entry_points.txt": f"[nexus.plugins]\n{name} = {target or module}\n"})
        sys.modules.pop(module, None)
        forget()
        return next(one for one in python_plugins.python_plugins() if one.entry.name == name)

    forget()
    yield make
    forget()


def test_without_a_plugin_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    monkeypatch.setattr(sys, "path", [one for one in sys.path if "site-packages" in one])
    found = [one for one in find_entry_points() if one.name != "words"]
    assert found == [] and python_plugins.python_plugins() == () and describe_problems() == []
    forget()


def test_what_a_plugin_adds_stands_in_the_registries_and_no_name_of_ours_is_taken(
    install: Install,
) -> None:
    plugin = install(WHOLE)
    admit_plugins()
    assert list(plugin_tools()) == ["count_words"] and rule_tools()["bash"] is discover_tools()["bash"]
    assert [one.glob for one in plugin_checks()] == ["*.txt"]
    found = contributor.discover()
    assert not found["texts"].verbatim, "its text never stands for ours"
    assert found["clock"].render is not found["texts"].render
    commands = plugin_commands({"cost", "quit"})
    assert commands["words"].group == "own" and "(plugin words)" in commands["words"].help
    assert plugin_line("count_words", {"text": "a"}) == "count the words of a" and plugin_line("bash", {}) == ""
    left_out = [line.partition(": ")[2] for line in plugin.problems]
    assert [line.split(" is skipped")[0] for line in left_out] == [
        *["one of its contributors"],
        *["one of its tools"] * 4,
        *["one of its checks"],
        *["one of its commands"] * 2,
    ], plugin.problems
    assert ToolRegistry([*discover_tools().values(), *plugin_tools().values()])


def test_a_command_that_fails_names_its_plugin(install: Install) -> None:
    install(WHOLE)
    with pytest.raises(NexusError, match=r"/words: plugin words raises RuntimeError: no words"):
        asyncio.run(plugin_commands(discover_commands())["words"].invoke(None, "a"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("raise ValueError('broken' + chr(10) + 'in two lines')", "raises ValueError: broken"),
        ("raise SystemExit(0)", "raises SystemExit"),
        ("import nothing_of_this_name", "raises ModuleNotFoundError"),
        ("x = (", "raises SyntaxError"),
        ("@hookimpl\ndef nexus_tools():\n    raise KeyError(3)", "raises KeyError: 3"),
        ("@hookimpl\ndef nexus_tools():\n    return 3", "raises TypeError"),
        ("@hookimpl\ndef nexus_toolz():\n    return []", "raises PluginValidationError"),
        ("@hookimpl\ndef nexus_tools(unknown):\n    return []", "raises PluginValidationError"),
        ("class Odd(Exception):\n    def __str__(self):\n        raise Odd\nraise Odd", "raises Odd"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named_once_and_left_out(install: Install, source: str, told: str) -> None:
    plugin = install(source)
    (line,) = describe_problems()
    assert line.startswith("plugin words (nexus_plugin_words-1.0) ") and told in line and line.endswith("; skipped")
    assert "\n" not in line and not plugin.objects and not plugin_tools()


def test_a_plugin_that_hangs_is_left_out(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_plugins, "SECONDS", 0.05)
    released = threading.Event()
    monkeypatch.setattr(python_plugins, "released", released, raising=False)
    install("from nexus_cli.plugins import python_plugins\npython_plugins.released.wait()")
    assert "takes longer than 0.05 s; skipped" in describe_problems()[0]
    released.set()


def test_a_hook_that_fails_later_is_off_and_named(install: Install) -> None:
    plugin = install("@hookimpl\ndef nexus_tool_line(tool, arguments):\n    return arguments['no']")
    assert "nexus_tool_line raises KeyError" in plugin_line("count_words", {})
    assert plugin_line("count_words", {}) == "" and len(plugin.problems) == 1


def test_a_memory_becomes_a_section_and_a_broken_one_is_a_failed_section(install: Install, tmp_path: Path) -> None:
    install("@hookimpl\ndef nexus_recall(about):\n    return ['you asked: ' + about, 'b' * 5000]")
    found = contributor.discover()["recall.words"]
    sources = contributor.Sources.of(tmp_path, local_now(), about=lambda: "the shop")
    value = found.read(sources)
    assert value[0] == "you asked: the shop" and len(value[1]) == 500
    (section,) = found.render(value, None)  # type: ignore[arg-type]
    assert section.id == "recall.words" and section.source == "plugin nexus_plugin_words-1.0"
    install("@hookimpl\ndef nexus_recall(about):\n    raise OSError('gone')")
    with pytest.raises(RuntimeError, match="nexus_recall raises OSError: gone; plugin disabled"):
        contributor.discover()["recall.words"].read(sources)


def test_of_two_plugins_with_one_name_the_first_counts(install: Install, tmp_path: Path) -> None:
    other = tmp_path / "zzz-2.0.dist-info"
    write_files(other, {"entry_points.txt": "[nexus.plugins]\nwords = nowhere\n[broken\n"})
    assert install(WHOLE).manager is not None, "an invalid file has no entry points"
    (other / "entry_points.txt").write_text("[console_scripts]\nx = y\n\n[nexus.plugins]\nwords = nowhere [extra]\n")
    plugin = install(WHOLE)
    assert plugin.problems == ["plugin words of zzz-2.0 is skipped: another plugin has this name"]


def test_no_plugins_switches_all_off(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(WHOLE)
    monkeypatch.setattr(installed_plugins, "switched_off", [True])
    monkeypatch.setattr(python_plugins, "switched_off", [True])
    forget()
    assert python_plugins.python_plugins() == () and not plugin_tools() and "texts" not in contributor.discover()


def test_the_contract_tests_find_what_breaks_it(install: Install) -> None:
    install(WHOLE)
    checks = dict(contract_checks("nexus_plugin_words"))
    checks["tool count_words"]()
    with pytest.raises(AssertionError, match="already uses the name bash"):
        checks["tool bash"]()
    checks["command words"]()
    checks["contributor texts"]()
    install(WHOLE + "\ndef read(sources):\n    return (1, 2)\n")
    with pytest.raises(AssertionError, match="JSON"):
        dict(contract_checks("nexus_plugin_words"))["contributor clock"]()
