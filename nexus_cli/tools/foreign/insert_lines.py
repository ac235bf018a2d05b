"""`insert_lines`: text behind a line of a file, by number, as an exact edit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import SeenFileStore
from nexus_cli.core.tool import EditPreview, ToolContext
from nexus_cli.tools.builtin.edit_file import check_edit, edit_text, preview_edit
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.exact_edit import EditedText
from nexus_cli.tools.files import ToolError, decided_path, keep_line_ends, near_line_end, split_lines


@dataclass(frozen=True, slots=True)
class InsertLinesArguments:
    """The arguments of `insert_lines`."""

    path: str
    line: Annotated[int, {"minimum": 0}]
    text: str


async def run(arguments: InsertLinesArguments, context: ToolContext) -> ToolResult:
    """Return the inserted lines with their numbers, or an error (and no change)."""

    def insert(text: str, stop: StopFlag) -> EditedText:
        if context.service(SeenFileStore).digest(str(decided_path(arguments.path, context))) is None:
            raise ToolError("inserting by line number needs a file that was read: read it first")
        return _insert(arguments, text, stop)

    return await edit_text(arguments.path, context, insert)


async def check(arguments: InsertLinesArguments, context: ToolContext) -> ToolResult | None:
    """Return the error of a line that does not exist, None if it does."""
    return await check_edit(arguments.path, context, partial(_insert, arguments))


def preview(arguments: InsertLinesArguments, context: ToolContext) -> EditPreview:
    """Return the insertion as a unified diff; "" if it is not possible."""
    return preview_edit(arguments.path, context, partial(_insert, arguments))


def _insert(arguments: InsertLinesArguments, text: str, _stop: StopFlag) -> EditedText:
    lines = split_lines(text)
    if arguments.line > len(lines):
        raise ToolError(f"the file ends at line {len(lines)}; no text can be inserted after line {arguments.line}")
    position = sum(len(body) + len(end) for body, end in lines[: arguments.line])
    end = near_line_end(text, position, position)
    added = keep_line_ends("", arguments.text.removesuffix("\n") + "\n", end)
    begun = position and not text[:position].endswith(("\n", "\r"))
    after = text[:position] + (end + added.removesuffix(end) if begun else added) + text[position:]
    return EditedText(after, (), is_quoted=False)
