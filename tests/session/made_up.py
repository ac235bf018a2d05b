"""Tools that no room knows, one for each effect: they exist in a folder of the test, and are found as built-in ones."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nexus_cli.tools import builtin

READING = """
from dataclasses import dataclass

from nexus_cli.core.message import ToolResult
from nexus_cli.tools.files import decided_path

@dataclass
class Arguments:
    file: str
    language: str = ""

async def run(arguments: Arguments, context):
    text = decided_path(arguments.file, context).read_text()
    count = len(text.split())
    return ToolResult(f"{text}\\n{count} words", counts={"words": count})
"""
SEARCHING = """
from dataclasses import dataclass

from nexus_cli.core.message import ToolResult
from nexus_cli.tools.files import decided_path

@dataclass
class Arguments:
    text: str
    folder: str = "."

async def run(arguments: Arguments, context):
    folder = decided_path(arguments.folder, context)
    found = [one for one in sorted(folder.rglob("*")) if one.is_file() and not context.is_refused(one)]
    held = [one.name for one in found if arguments.text in one.read_text()]
    return ToolResult("\\n".join(held), counts={"places": len(held)})
"""
EDITING = """
from dataclasses import dataclass

from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import EditPreview
from nexus_cli.tools.files import decided_path

@dataclass
class Arguments:
    target: str

async def run(arguments: Arguments, context):
    target = decided_path(arguments.target, context)
    target.write_text("stamped")
    return ToolResult("done", changed=(arguments.target,))

def preview(arguments, context):
    return EditPreview("+stamped")

async def check(arguments, context):
    return None
"""
RUNNING = """
import subprocess
from dataclasses import dataclass

from nexus_cli.core.message import ToolResult

@dataclass
class Arguments:
    command: str

async def run(arguments: Arguments, context):
    confined = "inside" if context.sandbox else "outside"
    done = subprocess.run(arguments.command, shell=True, cwd=context.cwd, capture_output=True, text=True)
    text = f"{done.stdout}{confined}\\n[exit status {done.returncode}]"
    return ToolResult(text, status=done.returncode)
"""
SAYING = """
from dataclasses import dataclass

from nexus_cli.core.message import ToolResult

@dataclass
class Arguments:
    name: str = ""
    address: str = ""
    long: bool = False

async def run(arguments: Arguments, context):
    return ToolResult("x" * 100_000 if arguments.long else "hello")
"""


def _text(*names: str) -> dict[str, Any]:
    return {name: {"type": "string"} for name in names}


def _schema(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


DEFINITIONS: dict[str, tuple[dict[str, Any], str]] = {
    "word_tally": (
        {
            "effect": "read",
            "subject": "file",
            "paths": ["file"],
            "verb": "tally",
            "counts": {"words": "word"},
            "parameters": _schema(["file"], **_text("file", "language")),
        },
        READING,
    ),
    "pry_through": (
        {
            "effect": "read",
            "reads": "search",
            "subject": "text",
            "paths": ["folder"],
            "counts": {"places": "place"},
            "counted_as": ["prying", "pryings"],
            "parameters": _schema(["text"], **_text("text", "folder")),
        },
        SEARCHING,
    ),
    "stamp_upon": (
        {
            "effect": "edit",
            "subject": "target",
            "paths": ["target"],
            "parameters": _schema(["target"], **_text("target")),
        },
        EDITING,
    ),
    "run_yonder": (
        {"effect": "run", "subject": "command", "parameters": _schema(["command"], **_text("command"))},
        RUNNING,
    ),
    "dial_up": (
        {
            "effect": "none",
            "subject": "address",
            "reaches": "address",
            "parameters": _schema(["address"], **_text("address")),
        },
        SAYING,
    ),
    "greet_all": (
        {
            "effect": "none",
            "subject": "name",
            "tells": True,
            "parameters": _schema(["name"], **_text("name"), long={"type": "boolean"}),
        },
        SAYING,
    ),
}
"""By name: the definition, and the module beside it."""


@contextmanager
def made_up_tools(folder: Path) -> Iterator[None]:
    """Put the tools into `folder`, and let them be found until the end."""
    folder.mkdir()
    for name, (definition, module) in DEFINITIONS.items():
        described = {"description": f"A tool that is made up: {name}.", **definition}
        (folder / f"{name}.json").write_text(json.dumps(described))
        (folder / f"{name}.py").write_text(module)
    before = list(builtin.__path__)
    builtin.__path__ = [*before, str(folder)]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        builtin.__path__ = before
        for name in DEFINITIONS:
            sys.modules.pop(f"{builtin.__name__}.{name}", None)
