"""`grep`: find lines by regular expression. `tools/listing.py` finds the files, `tools/grep_worker.py` searches them.

`rg`, if installed, only rules out files without a match: the result is the same without it (`tools/BEHAVIOUR.md`).
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nexus_cli.config.programs import find_program
from nexus_cli.core import decode
from nexus_cli.core.elide import plural
from nexus_cli.core.json_value import JsonDict
from nexus_cli.core.message import ToolResult
from nexus_cli.core.real_files import open_folder, stat_real
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools import grep_worker
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.editor_texts import find_unsaved
from nexus_cli.tools.files import ToolError, check_regular, decided_path, describe_problem
from nexus_cli.tools.listing import check_folder, is_regular_file, list_files
from nexus_cli.tools.own_worker import find_library, run_walled, run_worker
from nexus_cli.tools.patterns import PathPattern

SECONDS = 60.0
LIMIT = 100
MAX_ASKED = 20
"""Most files with a match for whose text the person's editor is asked."""
_BATCH = 60_000
_WORKER, _DECODER = (Path(str(module.__file__)).read_text(encoding="utf-8") for module in (grep_worker, decode))
"""Read once: if nexus is installed in the project, a command may change the files."""
_DIALECT_SYNTAX = re.compile(r"\\[^wWdDsSbB.+*?()\[\]{}|^$/\\-]|\(\?(?!:)|\[[^]]*(?:\[|&&|--|~~)|\n")
_AMBIGUOUS_BYTES = r"(?-u:[\x1c-\x1f\r\x80-\xff])"
"""Bytes that dialects or encodings may treat differently: `rg` must not rule out a file with one of them."""


@dataclass(frozen=True, slots=True)
class GrepArguments:
    """The arguments of `grep`."""

    pattern: str
    path: str = "."
    glob: str | None = None
    ignore_case: bool = False
    context: Annotated[int, {"minimum": 0}] = 0
    limit: Annotated[int, {"minimum": 1}] = LIMIT


async def run(arguments: GrepArguments, context: ToolContext) -> ToolResult:
    """Return matches under the path of their file, files sorted by path, or `no matches`."""
    if not arguments.pattern:
        return ToolResult(error="`pattern` must not be empty: every line would match", ran=False)
    try:
        target = decided_path(arguments.path, context)
        return await run_in_thread(lambda stop: _search(target, arguments, context, stop))
    except (OSError, ToolError) as error:
        return ToolResult(error=describe_problem(arguments.path, error, context))


def _search(target: Path, arguments: GrepArguments, context: ToolContext, stop: StopFlag) -> ToolResult:
    project, path = context.project, arguments.path
    with open_folder(target.parent) as parent:
        status = stat_real(parent, target.name)
    is_folder = stat.S_ISDIR(status.st_mode)
    if is_folder:
        check_folder(target)
        root, prefix = target, "" if path in (".", "./", "") else path.rstrip("/") + "/"
        path_pattern = PathPattern(arguments.glob) if arguments.glob is not None else None
        listed = [name for name in list_files(root, project, stop) if is_regular_file(root, name)]
        names = listed if path_pattern is None else path_pattern.select(listed, stop.raise_if_pressed)
        if not names:
            why = f"none of {plural(len(listed), 'file')} matches `glob`" if listed else "there are no files to search"
            return ToolResult(f"no matches: {why}", counts={"matches": 0})
    else:
        check_regular(status.st_mode)
        if status.st_size > grep_worker.HARD_LIMIT:
            raise ToolError(f"is over {grep_worker.HARD_LIMIT >> 20} MiB: it is not searched")
        root, names = target.parent, [target.name]
        prefix = path[: -len(target.name)] if path.endswith(target.name) else ""
        if arguments.glob is not None and not PathPattern(arguments.glob).select([target.name, path]):
            return ToolResult(f"no matches: {path} does not match `glob`", counts={"matches": 0})
    names = [name for name in names if not context.is_refused(root / name)]
    if not names:
        return ToolResult("no matches: a deny rule hides these files", counts={"matches": 0})
    paths = _narrow_by_rg(find_program("rg", project), root, names, arguments, stop)
    libraries = _libraries(project)
    job = {
        "pattern": arguments.pattern,
        "ignore_case": arguments.ignore_case,
        "context": arguments.context,
        "limit": arguments.limit,
        "prefix": prefix,
        "alone": not is_folder,
        "root": str(root),
        "libraries": libraries,
        "decoder": _DECODER,
    }
    stdin = json.dumps(job).encode() + b"\n" + b"\0".join(os.fsencode(name) for name in paths)
    reads = [str(root if is_folder else target)]
    outcome = run_worker(_WORKER, stdin, project=project, stop=stop, seconds=SECONDS, reads=reads, libraries=libraries)
    answer, _, figures = (outcome.output, b"", b"") if outcome.uncounted else outcome.output.rpartition(b"\0")
    text = (answer or figures).decode("utf-8", "replace")
    if outcome.timed_out:
        return ToolResult(error=f"stopped after {SECONDS:.0f} s: simplify the pattern or narrow `path`")
    if outcome.status == 0:
        counts: JsonDict = json.loads(figures) if figures else {}
        has_more = bool(counts.pop("more", False))
        result = ToolResult(text, uncounted=outcome.uncounted, counts=counts, more=has_more)
        output_lines = set(text.splitlines())
        folders = [root / name for name in names if not is_folder or prefix + name in output_lines]
        unsaved = find_unsaved(root, folders[:MAX_ASKED], context.services)
        line = f"[searched as saved; the editor has unsaved changes in: {', '.join(prefix + name for name in unsaved)}]"
        return result.with_line(line) if unsaved else result
    explained = outcome.status in (grep_worker.BAD_PATTERN, grep_worker.NO_FOLDER)
    return ToolResult(error=text if explained else f"the search failed (status {outcome.status})")


def _libraries(project: Path) -> list[str]:
    """Return the folder with charset-normalizer; none if that is in the project: encodings are then not guessed."""
    try:
        return find_library("charset_normalizer", project)
    except ToolError:
        return []


def _narrow_by_rg(
    rg: str | None, root: Path, names: Sequence[str], arguments: GrepArguments, stop: StopFlag
) -> Sequence[str]:
    """Return the files that `rg` cannot rule out; all files without `rg`, or if it may read the pattern differently."""
    pattern = arguments.pattern
    if rg is None or len(names) < 2 or not pattern or "\0" in pattern or _DIALECT_SYNTAX.search(pattern):
        return names
    case = ["-i"] if arguments.ignore_case else []
    fixed = [
        rg,
        "--no-config",
        "--no-messages",
        "--color=never",
        "-l",
        "-0",
        "-a",
        *case,
        "-e",
        pattern,
        "-e",
        _AMBIGUOUS_BYTES,
    ]
    paths = {name for name in names if _too_large(root / name)}  # `rg` would read all of them
    for batch in _batches([name for name in names if name not in paths]):
        argv = [*fixed, "--", *(f"./{name}" for name in batch)]
        try:
            outcome = run_walled(argv, stop=stop, seconds=SECONDS, reads=[str(root)], cwd=root)
        except OSError:
            return names
        # Status 2: rg rejects the pattern, or could not read a file.
        if outcome.status not in (0, 1) or outcome.timed_out or outcome.uncounted:
            return names
        paths.update(os.fsdecode(part).removeprefix("./") for part in outcome.output.split(b"\0") if part)
    return [name for name in names if name in paths]


def _too_large(path: Path) -> bool:
    """Return True if `grep_worker` would report the file as unreadable."""
    try:
        return os.lstat(path).st_size > grep_worker.HARD_LIMIT
    except OSError:
        return True


def _batches(names: Sequence[str]) -> list[list[str]]:
    batches: list[list[str]] = []
    size = _BATCH
    for name in names:
        size += len(os.fsencode(name)) + 3
        if size > _BATCH:
            batches.append([])
            size = 0
        batches[-1].append(name)
    return batches
