"""What the model says in the tests of this room."""

from __future__ import annotations

from typing import Any

SHOP = 'PRICE = {"tea": 4}\n\n\ndef total(names):\n    return sum(PRICE[name] for name in names)\n'


def tool_call(name: str, **arguments: Any) -> dict[str, Any]:
    """A call of a step that may have several."""
    return {"name": name, "arguments": arguments}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A step with one call."""
    return {"calls": [tool_call(name, **arguments)]}


def numbered(count: int) -> str:
    """So many paragraphs `row 0000`."""
    return "\n\n".join(f"row {number:04d}" for number in range(count)) + "\n"


def rows_of(lines: list[str]) -> list[str]:
    """The numbered rows among `lines`, as they stand there."""
    return [line.strip() for line in lines if line.strip().startswith("row ")]
