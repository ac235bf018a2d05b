"""`read_file`: read files, parts of them, or list a folder. Dispatch caps the result.

Text has no line numbers: an edit can quote exactly what was read, and it costs fewer tokens. `offset` and `limit` count
the pages of a PDF and the cells of a notebook; `limit` 0 gives an outline.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from nexus_cli.core.attachment import IMAGE_NAMES, image_type
from nexus_cli.core.elide import plural
from nexus_cli.core.message import FilePart, ToolResult
from nexus_cli.core.real_files import open_folder, scan_folder, stat_real
from nexus_cli.core.services import SeenFileStore
from nexus_cli.core.tool import ToolContext, split_ranges
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.documents import has_too_many_values, read_notebook, read_pdf
from nexus_cli.tools.editor_texts import read_shown_file
from nexus_cli.tools.files import (
    HARD_LIMIT,
    FileContent,
    ToolError,
    count_lines,
    decided_path,
    decode_file,
    describe_problem,
)
from nexus_cli.tools.outline import outline_text

MAX_PARTS = 50
_RANGE = {"first", "total"}
"""Figures of a range, which parts do not add up to."""


@dataclass(frozen=True, slots=True)
class ReadFileArguments:
    """The arguments of `read_file`, or one part of a call: `limit` None for all that follows, 0 for an outline."""

    path: str
    offset: Annotated[int | None, {"minimum": 1}] = None
    limit: Annotated[int | None, {"minimum": 0}] = None
    more: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return self.offset is None and self.limit is None


async def run(arguments: ReadFileArguments, context: ToolContext) -> ToolResult:
    """Return the text, after a line in brackets about range, line ends and encoding if they are special.

    With `more` each part has such a line, with its path; a part that cannot be read has its error instead.
    """
    parts = [arguments]
    for typed in arguments.more:
        path, ranges = split_ranges(typed)
        parts += [ReadFileArguments(path, max(1, first), count) for first, count in ranges] or [ReadFileArguments(path)]
    if len(parts) > MAX_PARTS:
        return ToolResult(error=f"{len(parts)} parts in one call; at most {MAX_PARTS}", ran=False)
    results = list[ToolResult]()
    last: dict[Path, FileContent | list[str]] = {}
    for part in parts:
        part_context = replace(
            context, pictures=max(0, context.pictures - sum(len(result.images) for result in results))
        )
        results.append(
            await _read_part(part, part_context, last, sum(len(result.text) for result in results), len(parts) > 1)
        )
    if len(results) == 1:
        return results[0]
    return await asyncio.to_thread(_join_parts, [part.path for part in parts], results)


def _join_parts(paths: Sequence[str], results: Sequence[ToolResult]) -> ToolResult:
    text, file_parts, counts = "", list[FilePart](), dict[str, int]()
    for path, result in zip(paths, results, strict=True):
        start, lines = text.count("\n"), result.counts.get("lines", 0)
        if result.file and lines:
            first, total = result.counts.get("first", 1), result.counts.get("total", lines)
            file_parts.append(FilePart(result.file, first, lines, total, (result.first_line or 0) - start, path))
        text += result.text.removesuffix("\n") + "\n\n"
        for noun in result.counts.keys() - _RANGE:
            counts[noun] = counts.get(noun, 0) + result.counts[noun]
    text = text.removesuffix("\n")
    if not any(result.success for result in results):
        return ToolResult(error=text)
    uncounted = sum(tool_result.uncounted for tool_result in results)
    has_more = any(tool_result.more for tool_result in results)
    images = tuple(image for tool_result in results for image in tool_result.images)
    return ToolResult(text, uncounted=uncounted, counts=counts, more=has_more, parts=tuple(file_parts), images=images)


async def _read_part(
    part: ReadFileArguments,
    context: ToolContext,
    last: dict[Path, FileContent | list[str]],
    read_length: int,
    is_named: bool,
) -> ToolResult:
    """Read one part; `last` has the file read before, `read_length` is the length of the parts read so far."""
    name = f"{part.path}; " if is_named else ""
    try:
        if part.limit is not None and part.limit < 0:
            raise ToolError("the last line of a range is before its first")
        target = decided_path(part.path, context)
        if target not in last:
            last.clear()
            last[target] = await asyncio.to_thread(_read, target, context.services)
        content = last[target]
        if isinstance(content, list):
            listed = "\n".join(content) or "[empty folder]"
            return ToolResult(f"[{part.path}]\n{listed}" if is_named else listed, counts={"entries": len(content)})
        document = await run_in_thread(lambda stop: _format_document(content, target, part, name, stop, context))
        result = document
        if result is None:
            result = await asyncio.to_thread(_format_content, content, target, part, name, context.output_cap)
        if read_length and read_length + len(result.text) > HARD_LIMIT:
            raise ToolError(f"not read: one call reads at most {HARD_LIMIT >> 20} MiB")
    except (OSError, ToolError) as error:
        return ToolResult(error=describe_problem(part.path, error, context))
    if result.success and not content.beyond and (part.limit != 0 or result.images):
        context.service(SeenFileStore).note(str(target), content.digest, "read")
        return result if document or result.images else replace(result, file=str(target))
    return result


def _read(target: Path, services: Mapping[type, Any]) -> FileContent | list[str]:
    """Return the content of a file, or the names in a folder, following no link that was put there meanwhile."""
    with open_folder(target.parent) as parent:
        if not stat.S_ISDIR(stat_real(parent, target.name).st_mode):
            return read_shown_file(target, services)
        with open_folder(target.name, inside=parent) as handle, scan_folder(handle) as entries:
            return sorted(entry.name + ("/" if _is_folder(entry) else "") for entry in entries)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_notebook(target: Path) -> bool:
    return target.suffix.lower() == ".ipynb"


def _format_document(
    content: FileContent, target: Path, part: ReadFileArguments, name: str, stop: StopFlag, context: ToolContext
) -> ToolResult | None:
    """Return the pages of a PDF or the cells of a notebook, None for another file."""
    is_notebook = _is_notebook(target) and not content.beyond
    is_pdf = content.data.startswith(b"%PDF-") or (target.suffix.lower() == ".pdf" and b"%PDF-" in content.data[:1024])
    if not is_notebook and not is_pdf:
        return None
    if content.beyond:
        raise ToolError(f"is a PDF over {HARD_LIMIT >> 20} MiB")
    if is_notebook:
        text = decode_file(content.data)
        document_part = read_notebook(text.model_text, part.offset or 1, part.limit, context.pictures) if text else None
        kind = "notebook; edits apply to its JSON"
    else:
        first, limit = part.offset or 1, part.limit
        document_part, kind = read_pdf(content.data, first, limit, stop, context.project, context.pictures), "PDF"
    if document_part is None:
        return None
    page_range = (
        ""
        if document_part.first == 1 and document_part.last == document_part.total
        else f"{document_part.first}-{document_part.last} of "
    )
    head = f"[{name}{kind}; {document_part.unit} {page_range}{document_part.total}]\n"
    counts = {document_part.unit: max(0, document_part.last - document_part.first + 1)}
    return ToolResult(head + document_part.text, counts=counts, images=document_part.images)


def _format_content(content: FileContent, target: Path, part: ReadFileArguments, name: str, cap: int) -> ToolResult:
    data = content.data
    kind = image_type(data)
    text = None if kind else decode_file(data)
    if kind and not content.beyond:
        return ToolResult(f"[{name.removesuffix('; ')}]" if name else "", images=((kind, data),))
    if text is None:
        if kind:
            raise ToolError(f"is a {IMAGE_NAMES[kind]} image over {HARD_LIMIT >> 20} MiB")
        raise ToolError(f"cannot be read as text ({len(data) + content.beyond:,} bytes)")
    if _is_notebook(target) and has_too_many_values(data):
        name += "the JSON of a notebook that is too large to show its cells; "
    body = text.model_text
    notes = []
    counts = {"lines": count_lines(body)}
    first, outline = 1, ""
    if part.limit == 0:
        head = f"{name}outline of {plural(counts['lines'], 'line')}"
        return ToolResult(_outline(part.path, body, head) or f"[{head}: no definitions or headings are recognized]")
    if part.is_whole and len(body) > cap:  # a token has at least one character
        outline = _outline(part.path, body, "outline, then the text; `limit` 0 returns only the outline")
    if not part.is_whole:
        total, first = counts["lines"], part.offset or 1
        body, last = _lines(body, first, part.limit, bool(content.beyond))
        notes.append(f"lines {first}-{last} of {'at least ' if content.beyond else ''}{total}")
        counts = {"lines": max(0, last - first + 1), "first": first, "total": total}
    if text.encoding != "utf-8" or text.errors != "strict":
        notes.append(text.encoding if text.errors == "strict" else "some bytes are not UTF-8")
    if "\r\n" in text.text:
        notes.append("CRLF line endings" if text.is_crlf else "mixed line endings")
    if content.beyond:
        notes.append(f"only the first {HARD_LIMIT >> 20} MiB; bytes that were not read: {content.beyond}")
    if not data:
        notes.append("empty file")
    joined = (name + "; ".join(notes)).removesuffix("; ")
    head = f"[{joined}]\n" if joined else ""
    return ToolResult(
        head + body,
        uncounted=content.beyond,
        counts=counts,
        more=bool(content.beyond),
        first_line=first - bool(head),
        outline=outline,
    )


def _outline(path: str, text: str, head: str) -> str:
    """Return the outline below a line with `head`, "" if nothing is recognized."""
    rows = outline_text(path, text)
    return f"[{head}]\n{rows}" if rows else ""


def _lines(text: str, offset: int, limit: int | None, has_more: bool) -> tuple[str, int]:
    """Return at most `limit` lines from `offset` on, and the number of the last; raise `ToolError` beyond the end."""
    lines = text.split("\n")
    total = len(lines) - (lines[-1] == "")
    if offset > max(1, total):
        length = plural(total, "line")
        raise ToolError(f"is longer than the {length} that nexus reads" if has_more else f"has only {length}")
    last = total if limit is None else min(total, offset + limit - 1)
    part = "\n".join(lines[offset - 1 : last])
    ended = last < len(lines)
    return part + ("\n" if ended and part else ""), last
