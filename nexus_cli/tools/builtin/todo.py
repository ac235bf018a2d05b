"""`todo`: replace the list of steps of the session, stored with the result as a memo `todo`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from nexus_cli.core.memo_kinds import TODO_STATE
from nexus_cli.core.message import ToolResult
from nexus_cli.core.todo import LONGEST_TEXT, MAX_ITEMS, count_items
from nexus_cli.core.tool import ToolContext


@dataclass(frozen=True, slots=True)
class TodoItem:
    """One step."""

    text: str = ""
    state: Literal["open", "doing", "done", "dropped"] = "open"


@dataclass(frozen=True, slots=True)
class TodoArguments:
    """The arguments of `todo`."""

    items: tuple[TodoItem, ...]


async def run(arguments: TodoArguments, context: ToolContext) -> ToolResult:
    """Return the figures of the new list; an empty one removes it."""
    items = [asdict(item) for item in arguments.items]
    if len(items) > MAX_ITEMS:
        return ToolResult(error=f"{len(items)} items are too many: at most {MAX_ITEMS}", ran=False)
    long = next((number for number, item in enumerate(items, 1) if len(item["text"]) > LONGEST_TEXT), None)
    if long is not None:
        return ToolResult(error=f"item {long} is too long: at most {LONGEST_TEXT} characters", ran=False)
    if any(not item["text"].strip() for item in items):
        return ToolResult(error="an item must have text", ran=False)
    return ToolResult(count_items(items) if items else "The list is empty.", memos={TODO_STATE: {"items": items}})
