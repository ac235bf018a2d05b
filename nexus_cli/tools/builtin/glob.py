"""`glob`: list paths by pattern, sorted by path. `tools/listing.py` finds the files."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.config.paths import places
from nexus_cli.config.protected_places import SecretPlaces
from nexus_cli.core.file_names import find_spelling
from nexus_cli.core.message import ToolResult, replace_surrogates
from nexus_cli.core.real_files import is_there
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.files import ToolError, decided_path, describe_problem
from nexus_cli.tools.listing import check_folder, list_files
from nexus_cli.tools.patterns import PathPattern

LIMIT = 500


@dataclass(frozen=True, slots=True)
class GlobArguments:
    """The arguments of `glob`."""

    pattern: str
    path: str = "."


async def run(arguments: GlobArguments, context: ToolContext) -> ToolResult:
    """Return one path per line, relative to the working folder, or `no files`."""
    path = arguments.path
    try:
        target = decided_path(path, context)
        paths = await run_in_thread(lambda stop: _list(target, arguments.pattern, context, stop))
    except (OSError, ToolError) as error:
        return ToolResult(error=describe_problem(path, error, context))
    prefix = "" if path in (".", "./", "") else path.rstrip("/") + "/"
    lines = [replace_surrogates(prefix + name) for name in paths[:LIMIT]]
    if len(paths) > LIMIT:
        lines.append(f"[{len(paths) - LIMIT} more: narrow the pattern or `path`]")
    count = min(len(paths), LIMIT)
    return ToolResult("\n".join(lines) or "no files", counts={"files": count}, more=len(paths) > LIMIT)


def _list(target: Path, pattern: str, context: ToolContext, stop: StopFlag) -> list[str]:
    path_pattern = PathPattern(pattern)
    check_folder(target)
    listed = path_pattern.select(list_files(target, context.project, stop), stop.raise_if_pressed)
    paths = listed or _find_exact(target, pattern, context.project)
    return [name for name in paths if not context.is_refused(target / name)]


def _find_exact(target: Path, pattern: str, project: Path) -> list[str]:
    """Return the file whose path is `pattern`, even if it is ignored; raise `ToolError` if that is a folder."""
    place = os.path.normpath(find_spelling(os.path.join(target, pattern)))
    if not is_there(place) or SecretPlaces(places(), project).find(Path(place), target):
        return []
    if stat.S_ISDIR(os.lstat(place).st_mode):
        raise ToolError(f"{pattern} is a folder: `{pattern.rstrip('/')}/**` lists the files in it")
    return [os.path.relpath(place, target)]
