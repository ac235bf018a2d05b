"""`insert_lines`: text behind a line of a file, by number, as an exact edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from nexus_cli.core.decode import DecodedText
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import SeenFileStore
from nexus_cli.core.tool import EditPreview, ToolContext
from nexus_cli.tools.atomic_write import locked_folder
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.edit_preview import check_before, describe_edit, name_changed_lines, preview_change, unified_diff
from nexus_cli.tools.editor_texts import read_for_edit, write_shown_file
from nexus_cli.tools.files import (
    ToolError,
    decided_path,
    decode_file,
    describe_problem,
    encode_text,
    keep_line_ends,
    near_line_end,
    project_relative,
    sha256_hex,
    split_lines,
)


@dataclass(frozen=True, slots=True)
class InsertLinesArguments:
    """The arguments of `insert_lines`."""

    path: str
    line: Annotated[int, {"minimum": 0}]
    text: str


async def run(arguments: InsertLinesArguments, context: ToolContext) -> ToolResult:
    """Return the inserted lines with their numbers, or an error (and no change)."""
    seen = context.service(SeenFileStore)
    try:
        target = decided_path(arguments.path, context)

        def work(stop: StopFlag) -> tuple[str, bytes, str, str]:
            with locked_folder(target.parent, stop):
                content = read_for_edit(target, context)
                if seen.digest(str(target)) is None:
                    raise ToolError("inserting by line number needs a file that was read: read it first")
                before = decode_file(content.data)
                if before is None:
                    raise ToolError("is binary")
                check_before(context, content.digest)
                after = _insert(before.text, arguments)
                data = encode_text(before, after)
                write_shown_file(target, data, stop, context.services, expected=content.digest)
                return content.digest, data, before.text, after

        def note(done: tuple[str, bytes, str, str]) -> None:
            seen.note(str(target), sha256_hex(done[1]), "changed")
            context.replaced(target, done[0], sha256_hex(done[1]))

        _, _, before, after = await run_in_thread(work, note)
    except (OSError, ToolError) as problem:
        return ToolResult(error=f"{describe_problem(arguments.path, problem, context)}\nNothing was changed.")
    name = project_relative(target, context.project)
    shown, diff = name_changed_lines(before, after), unified_diff(before, after, name)
    return ToolResult(shown, changed=(name,), diff=diff, edits=(describe_edit(target, before, after),))


async def check(arguments: InsertLinesArguments, context: ToolContext) -> ToolResult | None:
    """Return the error of a line that does not exist, None if it does."""
    edit_preview = preview(arguments, context)
    return None if edit_preview.diff else ToolResult(error=f"{arguments.path}: no text can be inserted there")


def preview(arguments: InsertLinesArguments, context: ToolContext) -> EditPreview:
    """Return the insertion as a unified diff; "" if it is not possible."""

    def change(before: DecodedText | None) -> str:
        if before is None:
            raise ToolError("there is no such file")
        return _insert(before.text, arguments)

    return preview_change(arguments.path, context, change)


def _insert(text: str, arguments: InsertLinesArguments) -> str:
    lines = split_lines(text)
    if arguments.line > len(lines):
        raise ToolError(f"the file ends at line {len(lines)}; no text can be inserted after line {arguments.line}")
    at = sum(len(body) + len(end) for body, end in lines[: arguments.line])
    end = near_line_end(text, at, at)
    added = keep_line_ends("", arguments.text.removesuffix("\n") + "\n", end)
    begun = at and not text[:at].endswith(("\n", "\r"))
    return text[:at] + (end + added.removesuffix(end) if begun else added) + text[at:]
