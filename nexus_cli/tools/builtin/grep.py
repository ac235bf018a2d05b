"""`grep`: find lines by regular expression. `tools/listing.py` finds the files, `tools/grep_worker.py` searches them.

`rg`, if installed, only rules out files without a match: the result is the same without it (`tools/BEHAVIOUR.md`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nexus_cli.config.paths import PACKAGE
from nexus_cli.config.programs import find_program, program_environment
from nexus_cli.core.elide import plural
from nexus_cli.core.message import ToolResult
from nexus_cli.core.real_files import open_folder, status_at
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools import grep_worker
from nexus_cli.tools.cancellable_thread import StopFlag, run_in_thread
from nexus_cli.tools.files import ToolError, decided_path, describe_problem
from nexus_cli.tools.listing import check_folder, is_regular_file, list_files
from nexus_cli.tools.patterns import PathPattern
from nexus_cli.tools.process import run_process as run_process

SECONDS = 60.0
LIMIT = 100
_BATCH = 60_000
_OTHER_DIALECT = re.compile(r"\\[^wWdDsSbB.+*?()\[\]{}|^$/\\-]|\(\?(?!:)|\[[^]]*(?:\[|&&|--|~~)|\n")
_UNSURE = r"(?-u:[\x1c-\x1f\r\x80-\xff])"
"""Bytes that dialects or encodings may treat differently: `rg` must not rule out a file with one of them."""


async def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Return matches under the path of their file, files sorted by path, or `no matches`."""
    path = arguments.get("path", ".")
    if not arguments["pattern"]:
        return ToolResult(error="`pattern` must not be empty: every line would match", ran=False)
    try:
        target = decided_path(path, context)
        return await run_in_thread(lambda stop: _search(target, path, arguments, context, stop))
    except (OSError, ToolError) as error:
        return ToolResult(error=describe_problem(path, error, context))


def _search(target: Path, path: str, arguments: Mapping[str, Any], context: ToolContext, stop: StopFlag) -> ToolResult:
    project = context.project
    with open_folder(target.parent) as parent:
        is_folder = stat.S_ISDIR(status_at(parent, target.name).st_mode)
    if is_folder:
        check_folder(target)
        root, prefix = target, "" if path in (".", "./", "") else path.rstrip("/") + "/"
        wanted = PathPattern(arguments["glob"]) if "glob" in arguments else None
        listed = [name for name in list_files(root, project, stop) if is_regular_file(root, name)]
        names = listed if wanted is None else wanted.select(listed, stop.raise_if_pressed)
        if not names:
            why = f"none of {plural(len(listed), 'file')} fits `glob`" if listed else "there are no files to search"
            return ToolResult(f"no matches: {why}", counts={"matches": 0})
    else:
        root, names = target.parent, [target.name]
        prefix = path[: -len(target.name)] if path.endswith(target.name) else ""
        if "glob" in arguments and not PathPattern(arguments["glob"]).select([target.name, path]):
            return ToolResult(f"no matches: {path} does not fit `glob`", counts={"matches": 0})
    names = [name for name in names if not context.is_refused(root / name)]
    if not names:
        return ToolResult("no matches: a deny rule keeps these files from you", counts={"matches": 0})
    paths = _narrow_by_rg(find_program("rg", project), root, names, arguments, stop)
    job = {
        "pattern": arguments["pattern"],
        "ignore_case": arguments.get("ignore_case", False),
        "context": arguments.get("context", 0),
        "limit": arguments.get("limit", LIMIT),
        "prefix": prefix,
        "alone": not is_folder,
        "root": str(root),
        "libraries": _libraries(),
    }
    stdin = json.dumps(job).encode() + b"\n" + b"\0".join(os.fsencode(name) for name in paths)
    # -I and -S: import nothing from the working folder or installed packages.
    argv = [sys.executable, "-I", "-S", grep_worker.__file__]
    done = run_process(argv, cwd=Path(os.sep), env=os.environ, stop=stop, seconds=SECONDS, stdin=stdin, merge=False)
    answer, _, figures = (done.output, b"", b"") if done.uncounted else done.output.rpartition(b"\0")
    text = (answer or figures).decode("utf-8", "replace")
    if done.timed_out:
        return ToolResult(error=f"stopped after {SECONDS:.0f} s: simplify the pattern or narrow `path`")
    if done.status == 0:
        counts: dict[str, Any] = json.loads(figures) if figures else {}
        more = bool(counts.pop("more", False))
        return ToolResult(text, uncounted=done.uncounted, counts=counts, more=more)
    explained = done.status in (grep_worker.BAD_PATTERN, grep_worker.NO_FOLDER)
    return ToolResult(error=text if explained else f"the search failed (status {done.status})")


def _libraries() -> list[str]:
    """Return the folders with this package and with charset-normalizer."""
    found = importlib.util.find_spec("charset_normalizer")
    places = [PACKAGE, *([Path(found.origin).parent] if found and found.origin else [])]
    return [str(place.parent) for place in places]


def _narrow_by_rg(
    rg: str | None, root: Path, names: Sequence[str], arguments: Mapping[str, Any], stop: StopFlag
) -> Sequence[str]:
    """Return the files that `rg` cannot rule out; all files without `rg`, or if it may read the pattern differently."""
    pattern = arguments["pattern"]
    if rg is None or len(names) < 2 or not pattern or "\0" in pattern or _OTHER_DIALECT.search(pattern):
        return names
    case = ["-i"] if arguments.get("ignore_case", False) else []
    fixed = [rg, "--no-config", "--no-messages", "--color=never", "-l", "-0", "-a", *case, "-e", pattern, "-e", _UNSURE]
    env, found = program_environment(os.environ, root), set[str]()
    for batch in _batches(names):
        argv = [*fixed, "--", *(f"./{name}" for name in batch)]
        try:
            done = run_process(argv, cwd=root, env=env, stop=stop, seconds=SECONDS, merge=False)
        except OSError:
            return names
        # Status 2: rg rejects the pattern, or could not read a file.
        if done.status not in (0, 1) or done.timed_out or done.uncounted:
            return names
        found.update(os.fsdecode(part).removeprefix("./") for part in done.output.split(b"\0") if part)
    return [name for name in names if name in found or _too_large(root / name)]


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
