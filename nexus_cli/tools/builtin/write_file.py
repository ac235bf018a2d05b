"""`write_file`: create a file, or replace a file that this session has read. `edit_file` changes parts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.core.decode import DecodedText
from nexus_cli.core.elide import plural
from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import SeenFileStore
from nexus_cli.core.tool import EditPreview, ToolContext
from nexus_cli.tools.atomic_write import locked_folder
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.edit_preview import check_before, describe_edit, preview_change, unified_diff
from nexus_cli.tools.editor_texts import STALE, WrittenFile, read_shown_file, write_noted, write_shown_file
from nexus_cli.tools.files import (
    FileContent,
    ToolError,
    count_lines,
    decided_path,
    decode_file,
    describe_line_ends,
    describe_problem,
    encode_text,
    keep_line_ends,
    main_line_end,
    project_relative,
    sha256_hex,
    to_lf,
)
from nexus_cli.tools.omission import find_new_omission


@dataclass(frozen=True, slots=True)
class WriteFileArguments:
    """The arguments of `write_file`."""

    path: str
    content: str


async def run(arguments: WriteFileArguments, context: ToolContext) -> ToolResult:
    """Write the file and return one line about it."""
    try:
        if not context.cwd.is_dir():
            raise ToolError("the working folder no longer exists")
        return await write_noted(arguments.path, context, lambda target, stop: _write(target, arguments, context, stop))
    except (OSError, ToolError) as error:
        return ToolResult(error=describe_problem(arguments.path, error, context))


async def check(arguments: WriteFileArguments, context: ToolContext) -> ToolResult | None:
    """Return the error of a write that would be refused, None if it would succeed."""
    try:
        target = decided_path(arguments.path, context)
        await run_in_thread(lambda stop: _change(target, arguments.content, context))
    except (OSError, ToolError) as error:
        return ToolResult(error=describe_problem(arguments.path, error, context))
    return None


def preview(arguments: WriteFileArguments, context: ToolContext) -> EditPreview:
    """Return the write as a unified diff; "" if that is unknown."""
    return preview_change(arguments.path, context, lambda before: _new_text(before, arguments.content))


def _write(target: Path, arguments: WriteFileArguments, context: ToolContext, stop: StopFlag) -> WrittenFile:
    with locked_folder(target.parent, stop, create=True):
        old, before, after = _change(target, arguments.content, context)
        digest = "" if old is None else old.digest
        check_before(context, digest)
        data = encode_text(before, after)
        write_shown_file(target, data, stop, context.services, expected=digest or None)
    undecodable = old is not None and before is None
    name = project_relative(target, context.project)
    diff = "" if undecodable else unified_diff(None if before is None else before.text, after, name)
    text = "" if before is None else before.text
    lines, lines_before = count_lines(after), count_lines(text)
    size = plural(lines, "line") if lines_before in (0, lines) else f"{plural(lines_before, 'line')} -> {lines:,}"
    line = f"{'replaced' if digest else 'created'} {arguments.path}, {size}{_changed_ends(before, after)}"
    counts, edit = {"lines": count_lines(arguments.content)}, describe_edit(target, text, after, is_whole=True)
    result = ToolResult(line, changed=(name,), diff=diff, counts=counts, edits=(edit,))
    return WrittenFile(digest, sha256_hex(data), result)


def _change(target: Path, content: str, context: ToolContext) -> tuple[FileContent | None, DecodedText | None, str]:
    """Return the file's content (None: no file), its text (None: no file, or binary), and the text to write.

    Raises `ToolError` if the file must not be replaced.
    """
    try:
        old = read_shown_file(target, context.services)
    except FileNotFoundError:
        old = None
    if old is not None:
        if old.beyond:
            raise ToolError("is over 64 MiB")
        seen_digest = context.service(SeenFileStore).digest(str(target))
        if old.data and seen_digest is None:
            raise ToolError("exists and was not read yet: read it first, or use edit_file")
        if old.data and seen_digest != old.digest:
            raise ToolError(STALE)
    before = decode_file(old.data) if old is not None else None
    total = count_lines(before.model_text) if before else 0
    if unread := context.unread(target, total):
        raise ToolError(f"{unread:,} of its {plural(total, 'line')} were not read: read them first, or use edit_file")
    return old, before, _new_text(before, content)


def _new_text(before: DecodedText | None, content: str) -> str:
    """Return `content` as it replaces `before` (None: no text).

    A byte order mark is kept, and content with `\\n` alone gets the line ends of the file. Raises `ToolError` if
    `content` has a placeholder for omitted text.
    """
    if before is None or not (before.text or before.bom):
        return content
    omitted = find_new_omission(before.text, content)
    if omitted:
        raise ToolError(f"`content` has a placeholder for omitted text, {omitted[:80]!r}. Write out the whole file")
    if before.bom:
        content = content.lstrip("\ufeff")
    if before.is_crlf:
        content = to_lf(content)
    if "\r" in content or not before.text:
        return content
    return keep_line_ends(before.text, content, main_line_end(before.text))


def _changed_ends(before: DecodedText | None, after: str) -> str:
    """Return a note about changed line ends, "" if they are unchanged."""
    if before is None or not before.text or not after:
        return ""
    old, new = describe_line_ends(before.text), describe_line_ends(after)
    kinds = [set(re.findall("[A-Z]+", kind)) for kind in (old, new)]
    return f"; line endings: {new} (before: {old})" if all(kinds) and kinds[0] != kinds[1] else ""
