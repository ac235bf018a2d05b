"""`read_file`: read the text of a file, or list a folder. Dispatch caps the result.

Text has no line numbers: an edit can quote exactly what was read, and it costs fewer tokens.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nexus_cli.core.attachment import IMAGE_NAMES, image_type
from nexus_cli.core.elide import plural
from nexus_cli.core.message import ToolResult
from nexus_cli.core.real_files import open_folder, open_listable, status_at
from nexus_cli.core.services import SeenFileStore
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.files import (
    HARD_LIMIT,
    FileContent,
    ToolError,
    count_lines,
    decided_path,
    decode_file,
    describe_problem,
    read_file_at,
)


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Return the text, after a line in brackets about range, line ends and encoding if they are special."""
    path = arguments["path"]
    try:
        target = decided_path(path, context)
        content = await asyncio.to_thread(_read, target)
        if isinstance(content, list):
            return ToolResult("\n".join(content) or "[empty folder]", counts={"entries": len(content)})
        result = await asyncio.to_thread(_format_content, content, arguments)
    except (OSError, ToolError) as error:
        return ToolResult(error=describe_problem(path, error, context))
    if result.success and not content.beyond:
        seen: SeenFileStore = context.services[SeenFileStore]
        seen.note(str(target), content.digest, "read")
        return replace(result, file=str(target))
    return result


def _read(target: Path) -> FileContent | list[str]:
    """Return the content of a file, or the names in a folder, following no link that was put there meanwhile."""
    with open_folder(target.parent) as parent:
        if not stat.S_ISDIR(status_at(parent, target.name).st_mode):
            return read_file_at(parent, target.name)
        with open_folder(target.name, inside=parent) as at, open_listable(at) as listed, os.scandir(listed) as entries:
            return sorted(entry.name + ("/" if entry.is_dir() else "") for entry in entries)


def _format_content(content: FileContent, arguments: Mapping[str, Any]) -> ToolResult:
    data = content.data
    kind = image_type(data)
    text = None if kind else decode_file(data)
    if text is None:
        what = f"a {IMAGE_NAMES[kind]} image" if kind else "binary"
        raise ToolError(f"is {what}, {len(data) + content.beyond} bytes: only text can be read")
    shown = text.model_text
    notes = []
    counts = {"lines": count_lines(shown)}
    first = 1
    if "offset" in arguments or "limit" in arguments:
        total, first = counts["lines"], arguments.get("offset", 1)
        shown, last = _lines(shown, first, arguments.get("limit"), bool(content.beyond))
        notes.append(f"lines {first}-{last} of {'at least ' if content.beyond else ''}{total}")
        counts = {"lines": max(0, last - first + 1), "first": first, "total": total}
    if text.encoding != "utf-8" or text.errors != "strict":
        notes.append(text.encoding if text.errors == "strict" else "some bytes are not UTF-8")
    if "\r\n" in text.text:
        notes.append("CRLF line ends" if text.is_crlf else "mixed line ends")
    if content.beyond:
        notes.append(f"only the first {HARD_LIMIT >> 20} MiB; {content.beyond} bytes follow")
    if not data:
        notes.append("empty file")
    head = f"[{'; '.join(notes)}]\n" if notes else ""
    return ToolResult(
        head + shown, uncounted=content.beyond, counts=counts, more=bool(content.beyond), first_line=first - bool(head)
    )


def _lines(text: str, offset: int, limit: int | None, more: bool) -> tuple[str, int]:
    """Return at most `limit` lines from `offset` on, and the number of the last; raise `ToolError` beyond the end."""
    lines = text.split("\n")
    total = len(lines) - (lines[-1] == "")
    if offset > max(1, total):
        length = plural(total, "line")
        raise ToolError(f"has more than {length}, which cannot be read" if more else f"has only {length}")
    last = total if limit is None else min(total, offset + limit - 1)
    part = "\n".join(lines[offset - 1 : last])
    ended = last < len(lines)
    return part + ("\n" if ended and part else ""), last
