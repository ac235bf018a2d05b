"""Load the tools and their definitions. `engine/calls/dispatch` runs them.

A built-in tool is a definition, `builtin/NAME.json`, and the module beside it, which is imported at the first call,
because most runs call few tools.
"""

from __future__ import annotations

import difflib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nexus_cli.core import memory, services
from nexus_cli.core.elide import one_line
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.message import ToolCall
from nexus_cli.core.tool import SUBJECT, EditPreview, Effect, Reads, Tool, ToolContext, describe_subject
from nexus_cli.plugins.python_plugins import admit_objects, python_plugins
from nexus_cli.tools import builtin
from nexus_cli.tools.schema import describe_tool, field_kinds, make_arguments, sent_schema

if TYPE_CHECKING:
    from nexus_cli.tools.foreign_calls import ForeignCalls

_NAME = re.compile(r"(?!mcp__)[A-Za-z][A-Za-z0-9_-]{0,63}")
MAX_FOUND = 30
"""Most tools of a search."""
_WORD = re.compile(r"[a-z0-9]+")


def discover_tools() -> dict[str, Tool]:
    """Return the built-in tools by name, sorted, without importing their modules."""
    return dict(_tools_in(tuple(builtin.__path__)))


def plugin_tools() -> dict[str, Tool]:
    """Return the tools of Python plugins by name; none has the name of one of ours."""
    admitted = admit_objects("tools", _is_valid, lambda tool: (tool.name,), {**discover_tools(), **_foreign_tools()})
    return {name: tool for name, (tool, _) in admitted.items()}


def _is_valid(tool: Any) -> bool:
    is_named = isinstance(tool, Tool) and _NAME.fullmatch(tool.name) and not tool.server
    return bool(is_named) and all(inspect.iscoroutinefunction(run) for run in (tool.run, tool.check) if run)


def plugin_line(name: str, arguments: JsonObject) -> str:
    """Return the line on the screen that a plugin has for a call of a tool that is not built in, else ""."""
    plugins = [python_plugin for python_plugin in python_plugins() if python_plugin.has("nexus_tool_line")]
    if not plugins or name in discover_tools() or find_foreign_tool(name):
        return ""
    for plugin in plugins:
        line = plugin.call("nexus_tool_line", tool=name, arguments=arguments)
        if plugin.manager is None:  # it has failed just now, which is said once
            return one_line(f"{name} [{plugin.problems[-1]}]")
        if isinstance(line, str) and line.strip():
            return one_line(line)[:400]
    return ""


def rule_tools() -> dict[str, Tool]:
    """Return the tools that a rule may name: the built-in ones, those of plugins, and those that models of other
    programs call."""
    return {**plugin_tools(), **discover_tools(), **_foreign_tools()}


def find_tool(name: str) -> Tool | None:
    """Return the tool with this exact name, built in or of a plugin, or None; also one that is not offered."""
    ours = _tools_in(tuple(builtin.__path__)).get(name) or find_foreign_tool(name)
    return ours or plugin_tools().get(name)


def find_foreign_tool(name: str) -> Tool | None:
    """Return the tool with this exact name that models of other programs call, and that is not offered, or None."""
    return _foreign_tools().get(name)


def _foreign_tools() -> Mapping[str, Tool]:
    return _tools_in((str(Path(__file__).with_name("foreign")),), f"{__package__}.foreign")


def describe_past_subject(call: ToolCall, most: int = SUBJECT) -> str:
    """Return the main argument of a call as `describe_subject` does; if its tool no longer exists, its first text
    argument."""
    tool = find_tool(call.name)
    texts = (text for text in call.arguments.values() if isinstance(text, str))
    return describe_subject(tool, call if tool else replace(call, raw=next(texts, call.raw)), most)


@cache
def past_tools() -> ToolRegistry:
    """Return the built-in tools for the calls of the past, whatever a session offers."""
    return ToolRegistry(replace(tool, needs=()) for tool in discover_tools().values())


def is_shown_to_person(name: str) -> bool:
    """Return True if the result of a built-in tool is one line for the person (`Tool.tells`)."""
    tool = find_tool(name)
    return tool is not None and tool.tells


@lru_cache(4)
def _tools_in(folders: tuple[str, ...], package: str = builtin.__name__) -> Mapping[str, Tool]:
    paths = (path for folder in folders for path in Path(folder).glob("*.json") if path.name != "names.json")
    return {path.stem: _read_definition(path, package) for path in sorted(paths, key=lambda path: path.stem)}


def _read_definition(path: Path, package: str) -> Tool:
    """Load a tool from its definition, whose fields are listed in `tools/README.md`."""
    read: JsonObject = json.loads(path.read_text(encoding="utf-8"))
    definition: dict[str, Any] = {
        name: tuple(element) if isinstance(element, list) else element for name, element in read.items()
    }
    module = f"{package}.{path.stem}"

    def bind(function: str, arguments: JsonObject) -> Callable[[ToolContext], Any]:
        loaded = import_module(module)
        kind = field_kinds(loaded.run)["arguments"]
        return partial(getattr(loaded, function), make_arguments(kind, arguments))

    def preview(arguments: JsonObject, context: ToolContext) -> EditPreview:
        try:
            show = bind("preview", arguments)
        except Exception:  # an upgrade may have replaced the module: the call itself reports it
            return EditPreview()
        edit_preview: EditPreview = show(context)
        return edit_preview

    needs = tuple(map(_find_protocol, definition.pop("needs", ())))
    effect = Effect(definition.pop("effect"))
    edits = effect is Effect.EDIT
    return Tool(
        path.stem,
        run=lambda arguments, context: bind("run", arguments)(context),
        effect=effect,
        reads=Reads(definition.pop("reads", Reads.CONTENT)),
        preview=preview if definition.pop("previews", edits) else None,
        check=(lambda arguments, context: bind("check", arguments)(context))
        if definition.pop("checks", edits)
        else None,
        recover=(lambda call, served: served[needs[0]].recover(call)) if definition.pop("recovers", False) else None,
        needs=needs,
        **definition,
    )


def _find_protocol(name: str) -> type:
    protocol: type = getattr(services, name, None) or getattr(memory, name)
    return protocol


class ToolRegistry:
    """The tools of one session whose needs the given services meet, sorted by name."""

    def __init__(self, tools: Iterable[Tool] | None = None, services: Mapping[type, Any] | None = None) -> None:
        """Offer `tools` (default: the built-in ones). Raises `ValueError` if two have the same name."""
        self.services: Mapping[type, Any] = {} if services is None else services
        """Services by protocol, see `ToolContext.services`."""
        offered = list(discover_tools().values() if tools is None else tools)
        self.starting: Sequence[str] = ()
        """The MCP servers whose tools are not known yet."""
        self._tools: dict[str, Tool] = {}
        for tool in sorted(offered, key=lambda tool: tool.name):
            if tool.name in self._tools:
                raise ValueError(f"two tools are called {tool.name!r}")
            if all(need in self.services for need in tool.needs):
                self._tools[tool.name] = tool

    def get(self, name: str) -> Tool | None:
        """Return the tool with this exact name, or None. Unoffered tools edit: they are there if `edit_file` is."""
        return self._tools.get(name) or (find_foreign_tool(name) if "edit_file" in self._tools else None)

    @cached_property
    def foreign(self) -> ForeignCalls:
        """Translates calls under names of other programs; the window and the ledger keep what the model sent."""
        from nexus_cli.tools.foreign_calls import ForeignCalls  # noqa: PLC0415

        return ForeignCalls(self)

    def add(self, tools: Iterable[Tool]) -> None:
        """Take the tools of all servers of a running session in place of earlier ones. One with the name of a tool of
        ours is ignored."""
        ours = {name: tool for name, tool in self._tools.items() if not tool.server}
        self._tools = dict(sorted(({tool.name: tool for tool in tools} | ours).items()))

    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def tools(self) -> list[Tool]:
        return list(self._tools.values())

    def nearest(self, name: str) -> str | None:
        """Return the name most similar to a misspelt one, or None."""
        plain = {_letters(known_name): known_name for known_name in self._tools}
        letters = _letters(name)
        if letters in plain:
            return plain[letters]
        close = difflib.get_close_matches(letters, plain, n=1, cutoff=0.55)
        if close:
            return plain[close[0]]
        inside = [
            known_name for key, known_name in plain.items() if len(letters) > 2 and (letters in key or key in letters)
        ]
        return inside[0] if inside else None

    def describe_unknown(self, name: str) -> str:
        """Return the error of a call to an unknown tool."""
        near = self.foreign.find_nearest(name) or self.nearest(name)
        hint = f" Did you mean {near}?" if near else ""
        available = [tool.name for tool in self._tools.values() if not (tool.server and tool.behind)]
        return f"there is no tool {name!r}.{hint} Available: {', '.join(available) or 'none'}."

    def describe(self, name: str) -> str:
        """Return name, description and arguments of the tool with this exact name, "" if there is none."""
        tool = self.get(name)
        return describe_tool(tool) if tool else ""

    def search(self, words: str) -> str:
        """Return a line for each tool behind `use_tool` or of a server that has one of `words`, those with the most
        first; "" if none has."""
        search_words = set(_WORD.findall(words.lower()))
        scored = [
            (sum((word in tool.name.lower()) * 2 + (word in tool.description.lower()) for word in search_words), tool)
            for tool in self._tools.values()
            if tool.behind or tool.server
        ]
        ranked = sorted((row for row in scored if row[0]), key=lambda pair: -pair[0])
        lines = [f"{tool.name}: {tool.behind or one_line(tool.description)[:160]}" for _, tool in ranked[:MAX_FOUND]]
        if len(ranked) > MAX_FOUND:
            lines.append(f"[{len(ranked) - MAX_FOUND} more: search with other words]")
        return "\n".join(lines)

    def get_definitions(self) -> list[dict[str, Any]]:
        """Return a fresh copy of the definitions for Chat Completions, identical in every process."""
        return [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": sent_schema(tool.parameters),
                },
            }
            for tool in self._tools.values()
        ]


def _letters(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalnum())
