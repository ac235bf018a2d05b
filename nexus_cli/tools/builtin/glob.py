"""`glob`: list paths by pattern, in order of path. `tools/listing.py` finds the files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nexus_cli.core.file_names import find_spelling
from nexus_cli.core.message import ToolResult, replace_surrogates
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.files import ToolError, describe_problem, resolve_path
from nexus_cli.tools.listing import list_files
from nexus_cli.tools.patterns import PathPattern

LIMIT = 500


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Return one path per line as seen from the working folder; or `no files`."""
    path = arguments.get("path", ".")
    try:
        target = resolve_path(path, context.cwd)
        wanted = PathPattern(arguments["pattern"])
        found = await run_in_thread(lambda stop: _list(target, arguments["pattern"], wanted, context.project, stop))
    except (OSError, ToolError) as error:
        return ToolResult(error=describe_problem(path, error, context.cwd))
    prefix = "" if path in (".", "./", "") else path.rstrip("/") + "/"
    lines = [replace_surrogates(prefix + name) for name in found[:LIMIT]]
    if len(found) > LIMIT:
        lines.append(f"[{len(found) - LIMIT} more: narrow the pattern or `path`]")
    shown = min(len(found), LIMIT)
    return ToolResult("\n".join(lines) or "no files", counts={"files": shown}, more=len(found) > LIMIT)


def _list(target: Path, pattern: str, wanted: PathPattern, project: Path, stop: StopFlag) -> list[str]:
    os.stat(target)
    if not target.is_dir():
        raise ToolError("is no folder")
    with os.scandir(target):  # a folder that cannot be read has not "no files"
        return wanted.select(list_files(target, project, stop)) or _find_exact(target, pattern)


def _find_exact(target: Path, pattern: str) -> list[str]:
    """Return the file whose path is `pattern`, even if it is ignored; raise `ToolError` if that is a folder."""
    place = os.path.normpath(find_spelling(os.path.join(target, pattern)))
    if not os.path.lexists(place) or os.path.realpath(os.path.dirname(place)) != os.path.dirname(place):
        return []
    if os.path.isdir(place):
        raise ToolError(f"{pattern} is a folder: `{pattern.rstrip('/')}/**` lists the files in it")
    return [os.path.relpath(place, target)]
