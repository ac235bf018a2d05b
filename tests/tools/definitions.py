"""Write the parameters of each tool's definition, which are those of the dataclass that its `run` takes.

`python tests/tools/definitions.py` writes all of them. The program reads the definitions alone, because it starts
faster without the modules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import EnumType
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from nexus_cli import tools

ROOT = Path(tools.__path__[0])
DEFINITIONS = sorted(path for path in ROOT.glob("*/*.json") if path.name != "names.json")
TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}
WIDTH = 110
"""Most characters of an object that is written on one line."""


def schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a field's type: a dataclass, `tuple[X, ...]`, `Literal[...]`, a `StrEnum`, `X | None`,
    or `Annotated[X, {...}]` with more keywords."""
    inner = get_args(kind)
    if get_origin(kind) is Annotated:
        return {**schema_of(inner[0]), **inner[1]}
    if isinstance(kind, UnionType):
        return schema_of(inner[0])
    if get_origin(kind) is tuple:
        return {"type": "array", "items": schema_of(inner[0])}
    if get_origin(kind) is Literal or isinstance(kind, EnumType):
        return {"type": "string", "enum": [*(inner or kind)]}
    if not is_dataclass(kind):
        return {"type": TYPES[kind]}
    kinds = get_type_hints(kind, include_extras=True)
    properties = {one.name.removesuffix("_"): schema_of(kinds[one.name]) for one in fields(kind)}
    required = [one.name for one in fields(kind) if one.default is MISSING]
    rest = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **rest, "additionalProperties": False}


def update(definition: Path) -> str:
    """Return the text of a definition, with the parameters of its module as the last field."""
    head = re.split(r',\n  "parameters":|\n}\n\Z', definition.read_text(encoding="utf-8"))[0]
    module = import_module(f"{tools.__name__}.{definition.parent.name}.{definition.stem}")
    parameters = schema_of(get_type_hints(module.run)["arguments"])
    return f'{head},\n  "parameters": {lay_out(parameters, "  ")}\n}}\n'


def lay_out(value: Any, indent: str) -> str:
    """Return JSON text with each object on one line, or a field on each if it is too wide."""
    line = json.dumps(value)
    if len(line) <= WIDTH or not isinstance(value, Mapping):
        return line
    rows = [f'{indent}  "{name}": {lay_out(one, indent + "  ")}' for name, one in value.items()]
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"


if __name__ == "__main__":
    for one in DEFINITIONS:
        one.write_text(update(one), encoding="utf-8")
