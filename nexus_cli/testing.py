"""Contract tests for the tools, commands and contributors of a plugin: the same that those of nexus have to pass.

In the tests of a plugin, which need pytest:

    pytest_plugins = ["nexus_cli.testing"]
    NEXUS_PLUGIN = "nexus_words"  # a module, or MODULE:OBJECT as in the entry point

    def test_contract(nexus_contract):
        nexus_contract()
"""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from nexus_cli.commands import discover as discover_commands
from nexus_cli.commands.command import Command
from nexus_cli.conversation.tokens.counter import TiktokenCounter
from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import local_now
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.tool import Effect, Tool
from nexus_cli.plugins.python_plugins import EntryPoint, import_plugin
from nexus_cli.sections.contributor import Contributor, Sources, View
from nexus_cli.sections.section import DROP
from nexus_cli.tools.registry import discover_tools
from nexus_cli.tools.schema import check_arguments

KEYWORDS = {"type", "properties", "required", "items", "enum", "minimum", "maximum", "additionalProperties"}
KEYWORDS |= {"description", "sent"}
"""Keywords of a schema that the check of arguments understands, and two for the model alone."""


def example(schema: JsonObject) -> Any:
    """Return a value that a schema accepts."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema["type"]:
        case "array":
            return [example(schema["items"])]
        case "object":
            return {name: example(schema["properties"][name]) for name in schema.get("required", ())}
        case "string":
            return "a"
        case "boolean":
            return True
    return max(1, schema.get("minimum", 1))


def example_arguments(tool: Tool) -> JsonDict:
    """Return arguments that the tool accepts: the required ones, where there are none the subject."""
    argument_names = tool.parameters.get("required") or ([tool.subject] if tool.subject else [])
    return {name: example(tool.parameters["properties"][name]) for name in argument_names}


def check_tool(tool: Tool) -> None:
    """Raise `AssertionError` if a tool breaks the contract of `nexus_cli.core.tool`."""
    _check_schema(tool)
    assert 20 < len(tool.description) < 400 and "\n" not in tool.description, (
        "the description must be one line of 21 to 399 characters"
    )
    properties = [schema.get("properties", {}) for schema in _schemas(dict(tool.parameters))]
    known_names = {name for fields in properties for name, inner in fields.items() if inner.get("sent", True)}
    quoted = [part for i, part in enumerate(tool.description.split("`")) if i % 2 and part.isidentifier()]
    assert set(quoted) <= known_names, f"the description names unknown arguments: {set(quoted) - known_names}"
    arguments = tool.parameters.get("required", tool.parameters["properties"])
    is_named = tool.subject in arguments or {tool.lists, tool.asks} & {*arguments}
    assert is_named or not (tool.subject or arguments), "`subject`, `lists` or `asks` must name a required argument"
    assert all(isinstance(need, type) for need in tool.needs), "needs must be services"
    assert tool.effect is not Effect.EDIT or (tool.preview and tool.check), (
        "a tool that edits needs a preview and a check"
    )
    sample = example_arguments(tool)
    assert not check_arguments(sample, tool.parameters)[1]
    paths = tool.find_paths(sample)
    assert bool(paths) == (tool.effect in (Effect.READ, Effect.EDIT)), (
        "a call must name paths if it reads or edits, and only then"
    )
    assert all(isinstance(path, str) for path in paths)


def _check_schema(tool: Tool) -> None:
    assert tool.parameters["type"] == "object"
    for schema in _schemas(json.loads(json.dumps(tool.parameters))):
        assert set(schema) <= KEYWORDS, f"unknown keywords: {set(schema) - KEYWORDS}"
        unsent = {name for name, argument in schema.get("properties", {}).items() if not argument.get("sent", True)}
        assert not unsent & set(schema.get("required", ())), "a required argument must be sent to the model"
        assert set(schema.get("required", ())) <= set(schema.get("properties", {}))
        if schema["type"] == "object":
            assert schema["additionalProperties"] is False, "`additionalProperties` must be false"


def _schemas(schema: JsonDict) -> list[JsonDict]:
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return [schema, *(nested for subschema in inner for nested in _schemas(subschema))]


def check_command(command: Command) -> None:
    """Raise `AssertionError` if a slash command does not explain itself."""
    assert inspect.iscoroutinefunction(command.run), "a slash command must be a coroutine function"
    summary = command.summary
    assert summary.endswith(".") and 10 < len(summary) <= 50, (
        f"its summary ({len(summary)} characters: {summary!r}) must be a sentence of 11 to 50 characters"
    )
    assert command.help.startswith(summary)
    assert command.name.replace("-", "_").isidentifier() and command.usage == command.usage.strip()


def check_contributor(contributor: Contributor, sources: Sources, view: View) -> None:
    """Raise `AssertionError` if the sections of a contributor from these sources break the contract: named after it, in
    its layer, with a source, each form smaller than the one before, and the same again from the stored value."""
    value = contributor.read(sources)
    stored = json.loads(json.dumps(value))
    assert stored == value, "the value must be plain JSON data"
    sections = contributor.render(value, view)
    assert contributor.render(stored, view) == contributor.render(value, view) == sections, "rendering must be pure"
    assert stored == value, "rendering must not change the value"
    for section in sections:
        assert contributor.can_have(section.id), section.id
        assert section.layer is contributor.layer, section.id
        assert section.source and 0 < section.priority <= 100 and DROP not in section.full, section.id
        assert all(form.strip() for form in section.forms), section.id
        sizes = section.sizes(view.count)
        assert list(sizes) == sorted(set(sizes), reverse=True), section.id
    assert len({section.id for section in sections}) == len(sections)


def contract_checks(target: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield name and check of each object of the plugin `MODULE` or `MODULE:OBJECT`; import it."""
    _, objects = import_plugin(EntryPoint("plugin", target, ""))
    kinds: list[tuple[str, type, Mapping[str, object], Callable[[Any], None]]] = [
        ("tool", Tool, discover_tools(), check_tool),
        ("command", Command, discover_commands(), check_command),
        ("contributor", Contributor, {}, _check_in_folder),
    ]
    for kind, expected, used_names, check in kinds:
        for candidate in objects[f"{kind}s"]:
            name = str(getattr(candidate, "id" if kind == "contributor" else "name", type(candidate).__name__))
            yield f"{kind} {name}", partial(_check_one, candidate, expected, name, used_names, check)


def _check_one(
    candidate: object, expected: type, name: str, used_names: Mapping[str, object], check: Callable[[Any], None]
) -> None:
    assert isinstance(candidate, expected), f"{candidate!r} is not a {expected.__name__}"
    assert name not in used_names, f"nexus already uses the name {name}"
    check(candidate)


def _check_in_folder(contributor: Contributor) -> None:
    counter = TiktokenCounter("o200k_base")
    view = View.of("openai/m", "chat", TokenBudget.of(200_000), counter.count)
    with tempfile.TemporaryDirectory() as folder:
        check_contributor(contributor, Sources.of(Path(folder), local_now()), view)


def pytest_generate_tests(metafunc: Any) -> None:
    """Give a test with the argument `nexus_contract` a check for each object of its module's `NEXUS_PLUGIN`."""
    if "nexus_contract" in metafunc.fixturenames:
        checks = dict(contract_checks(str(metafunc.module.NEXUS_PLUGIN)))
        metafunc.parametrize("nexus_contract", list(checks.values()), ids=list(checks))
