"""`edit_file`: exact replacements in one file, all or none, through `tools/exact_edit.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nexus_cli.core.decode import DecodedText
from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import EditPreview, ToolContext
from nexus_cli.tools.atomic_write import locked_folder
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.edit_preview import check_before, describe_edit, name_changed_lines, preview_change, unified_diff
from nexus_cli.tools.editor_texts import (
    CONFLICTING_CHANGES,
    STALE,
    WrittenFile,
    read_for_edit,
    write_noted,
    write_shown_file,
)
from nexus_cli.tools.exact_edit import BOM, EditedText, ExactEdit, apply_edits
from nexus_cli.tools.files import (
    FileContent,
    ToolError,
    decided_path,
    decode_file,
    describe_problem,
    encode_text,
    project_relative,
    sha256_hex,
)


@dataclass(frozen=True, slots=True)
class EditFileArguments:
    """The arguments of `edit_file`."""

    path: str
    edits: tuple[ExactEdit, ...]


async def run(arguments: EditFileArguments, context: ToolContext) -> ToolResult:
    """Return the numbers of the changed lines, or an error (and no change) if an edit does not apply."""
    path, edits = arguments.path, arguments.edits
    try:
        return await write_noted(path, context, lambda target, stop: _edit(target, edits, context, stop))
    except (OSError, ToolError) as error:
        return _error(path, error, context)


async def check(arguments: EditFileArguments, context: ToolContext) -> ToolResult | None:
    """Return the error of edits that do not apply, None if they do."""
    try:
        target = decided_path(arguments.path, context)
        await run_in_thread(lambda stop: _change(target, arguments.edits, context, stop))
    except (OSError, ToolError) as error:
        return _error(arguments.path, error, context)
    return None


def preview(arguments: EditFileArguments, context: ToolContext) -> EditPreview:
    """Return the edits as a unified diff; "" if they do not apply."""

    def change_decoded(before: DecodedText | None) -> str:
        if before is None:
            raise ToolError("there is no such file")
        return _apply(before, arguments.edits, StopFlag()).text

    return preview_change(arguments.path, context, change_decoded)


def _apply(before: DecodedText, edits: Sequence[ExactEdit], stop: StopFlag) -> EditedText:
    """Return the text after the edits; raise `ToolError` if they do not apply. A byte order mark that they add at the
    beginning of a file that has one is that mark."""
    if not edits:
        raise ToolError("`edits` is empty")
    after = apply_edits(before.text, edits, stop)
    if before.bom and not before.text.startswith(BOM):
        after = replace(after, text=after.text.removeprefix(BOM))
    if after.text == before.text:
        raise ToolError("the edits together change nothing")
    return after


def _edit(target: Path, edits: Sequence[ExactEdit], context: ToolContext, stop: StopFlag) -> WrittenFile:
    name = project_relative(target, context.project)
    with locked_folder(target.parent, stop):
        content, text, after = _change(target, edits, context, stop)
        check_before(context, content.digest)
        data = encode_text(text, after.text)
        write_shown_file(target, data, stop, context.services, expected=content.digest)
    diff = unified_diff(text.text, after.text, name)
    notes = f"[{'; '.join(after.notes)}]\n" if after.notes else ""
    message, edit = notes + name_changed_lines(text.text, after.text), describe_edit(target, text.text, after.text)
    result = ToolResult(message, changed=(name,), diff=diff, edits=(edit,))
    return WrittenFile(content.digest, sha256_hex(data), result)


def _change(
    target: Path, edits: Sequence[ExactEdit], context: ToolContext, stop: StopFlag
) -> tuple[FileContent, DecodedText, EditedText]:
    """Return the file's content, its text, and the text after the edits; raise `ToolError` if they do not apply.

    In a file that changed since it was read an edit applies if the text that it quotes is still there.
    """
    content, is_stale = read_for_edit(target, context)
    text = decode_file(content.data)
    if text is None:
        raise ToolError("is binary")
    if not is_stale:
        return content, text, _apply(text, edits, stop)
    try:
        after = _apply(text, edits, stop)
    except ToolError as error:
        raise ToolError(f"{STALE}\n{error}") from error  # with the nearest lines, which may be all that it needs
    return content, text, replace(after, notes=(*after.notes, CONFLICTING_CHANGES))


def _error(path: str, error: OSError | ToolError, context: ToolContext) -> ToolResult:
    return ToolResult(error=f"{describe_problem(path, error, context)}\nNothing was changed.")
