"""Read the sources of a compaction's record: the log of the lane, the ledger's files, the disk, the goals.

`nexus_cli.context.work_record` renders the record. Reading files is bounded in time and bytes; an unusual file is named
without being read.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from nexus_cli.context.file_outline import outline
from nexus_cli.context.window.lane import Lane
from nexus_cli.context.work_record import (
    CommandRun,
    WorkItem,
    WorkLog,
    WorkRecord,
    command_items,
    safe_line,
    safe_path,
)
from nexus_cli.core.daemon_task import DaemonTask, run_tasks
from nexus_cli.core.errors import NexusError
from nexus_cli.core.services import Goal, SeenFile
from nexus_cli.core.typed_text import split_attachments
from nexus_cli.lane.goals import list_goals
from nexus_cli.lane.read_lines import READ, ReadLines, read_lines
from nexus_cli.lane.user_input import COMMAND
from nexus_cli.lane.work_notes import WORK, describe_changer
from nexus_cli.ledger import LaneLog

SECONDS = 2.0
"""Time limit for looking at all files; for the others the state in the ledger is used."""
MOST_OUTLINED = 12
"""Files, the newest first, that are read for the names in them."""
MOST_BYTES = 32 << 20
"""Bytes of all files together, the newest first, that are read to see if they changed."""
LARGEST_OUTLINED = 512 * 1024
"""Bytes of a file that is searched for names."""
WHOLE = ReadLines((), 0)
READ_AT_ONCE = 500
"""Entries that are read together."""


def read_log(lane: Lane, log: WorkLog) -> Iterator[None]:
    """Bring `log` up to the newest entry of the lane; yields between the pieces of a long history."""
    timeline = lane.timeline
    while log.last < timeline.last:
        for entry in timeline.read(log.last + 1, min(timeline.last, log.last + READ_AT_ONCE)):
            log.add(entry)
        yield


async def read_log_in_pieces(lane: Lane, log: WorkLog) -> None:
    """Do the same, and let the event loop hear a Ctrl+C meanwhile."""
    for _ in read_log(lane, log):
        await asyncio.sleep(0)


def read_texts(lane: Lane, entries: Sequence[int], own: bool) -> Iterator[tuple[int, str]]:
    """Yield entry and text of these messages, newest first; with `own` only what the person said themselves."""
    for number in reversed(entries):
        text = lane.timeline.read(number, number)[0].message.content
        yield number, split_attachments(text)[0] if own else text.strip()


def make_record(lane: Lane, log: WorkLog) -> WorkRecord:
    """Return the record as the ledger has it, without a look at the disk."""
    traces = _traces(lane)
    folder = _common_folder(traces)
    items = [_file_item(trace, folder, trace.how) for trace in traces]
    items += [*_further_files(lane), *command_items(_last_runs(lane, log))]
    newest = sorted(items, key=lambda item: (-item.entry, item.text))
    return WorkRecord(_goal_lines(list_goals(lane.timeline)), newest, safe_line(folder))


def _last_runs(lane: Lane, log: WorkLog) -> Collection[CommandRun]:
    """Return the last run of each command, whoever ran it."""
    runs = {("", run.command): run for run in log.commands.values()}
    made = [CommandRun(**memo.value, entry=memo.entry, by_person=True) for memo in lane.timeline.memos(COMMAND)]
    made += [
        CommandRun(**memo.value["command"], entry=memo.entry, worker=memo.value["by"], after=place)
        for place, memo in enumerate(lane.timeline.memos(WORK), 1)
        if memo.value.get("command")
    ]
    for run in made:
        key = (run.worker, run.command)
        if key not in runs or (runs[key].entry, runs[key].after) <= (run.entry, run.after):
            runs[key] = run
    return runs.values()


@dataclass(frozen=True, slots=True)
class _Trace:
    """What is known of one file."""

    path: str
    how: str
    """What was done with it, in words."""
    digest: str = ""
    """SHA-256 (hex) of what it held when a file tool used it last; "" where none did, or something changed it since."""
    used: int = 0
    """The message in which it was last used."""
    at: tuple[int, int] = (0, 0)
    """See `WorkItem.at`."""
    name: str = ""
    """What it is called where it lies in no folder that this session works in."""
    lines: ReadLines = WHOLE
    """What was read of it."""


def _traces(lane: Lane) -> list[_Trace]:
    """Return what is known of each file, the last used first: by file tools, commands and workers."""
    seen = {file.path: file for file in _seen(lane)}
    found = {path: _Trace(path, file.how, file.digest, file.entry, (file.entry, 0)) for path, file in seen.items()}
    for place, memo in enumerate(lane.timeline.memos(WORK), 1):
        by, worktree = str(memo.value.get("by", "")), str(memo.value.get("worktree", ""))
        for path in memo.value.get("files", ()):
            known, file = found.get(path), seen.get(path)
            at = (memo.entry, place)
            used = max(memo.entry, known.used if known else 0)
            if not by:  # by a file tool
                digest = file.digest if file else ""
                made = replace(known, digest=digest, used=used, at=at) if known else None
                found[path] = made or _Trace(path, "changed", digest, used, at)
                continue
            name = f"{os.path.basename(path)} in worktree {worktree}" if worktree else ""
            words = describe_changer(by)
            how = known.how if known else ""
            how = how if words in how else f"{how}, {words}" if how else words
            digest = file.digest if file and file.entry > memo.entry else ""  # a file tool has used it since
            found[path] = _Trace(path, how, digest, used, at, name)
    parts = read_lines(lane.timeline.memos(READ))
    traces = [_with_lines(trace, parts.get(trace.path, WHOLE)) for trace in found.values()]
    return sorted(traces, key=lambda trace: (-trace.used, trace.path))


def _with_lines(trace: _Trace, lines: ReadLines) -> _Trace:
    """Return the trace of a file that was only read with what was read of it: an edit shifts the lines."""
    if trace.how != "read":
        return trace
    return replace(trace, how=f"read {lines.describe()}".rstrip(), lines=lines)


def _further_files(lane: Lane) -> list[WorkItem]:
    """Return an item for each call that changed more files than are named."""
    memos = [(place, memo) for place, memo in enumerate(lane.timeline.memos(WORK), 1) if memo.value.get("more")]
    return [
        WorkItem(memo.entry, f"- {value['more']:,} more files ({describe_changer(value['by'])})", at=(memo.entry, at))
        for at, memo in memos
        if (value := memo.value)
    ]


async def look_at_files(record: WorkRecord, lane: Lane) -> WorkRecord:
    """Return `record` with what has become of its files: deleted or changed by others since, and the names in them."""
    traces, found = _traces(lane), dict[str, WorkItem]()
    folder = _common_folder(traces)

    def look() -> None:
        left = MOST_BYTES
        for place, trace in enumerate(traces):
            state, names, used = _state_on_disk(trace, left, outlined=place < MOST_OUTLINED)
            left -= used
            detail = f": {', '.join(map(safe_line, names))}" if names else ""
            found[trace.path] = replace(_file_item(trace, folder, state), detail=detail)

    await run_tasks([DaemonTask(look, SECONDS)])
    looked = dict(found)
    return replace(record, items=[looked.get(item.path, item) for item in record.items])


def _seen(lane: Lane) -> Sequence[SeenFile]:
    """Return what the ledger has of files; nothing where it fails: a summary does not hang on it."""
    log = lane.timeline.log
    try:
        return log.seen_files() if isinstance(log, LaneLog) else ()
    except NexusError:
        return ()


def _file_item(trace: _Trace, folder: str, state: str) -> WorkItem:
    name = trace.name or (os.path.relpath(trace.path, folder) if folder else trace.path)
    return WorkItem(trace.used, f"- {safe_path(name)} ({state})", path=trace.path, at=trace.at)


def _state_on_disk(file: _Trace, left: int, *, outlined: bool) -> tuple[str, tuple[str, ...], int]:
    """Return the state of a file with what happened since, the names in it if it is `outlined`, and the bytes read.

    A file of more than `left` bytes is not read.
    """
    try:
        found = os.lstat(file.path)
        data = _read(file.path, left) if found.st_size <= left else None
    except (FileNotFoundError, NotADirectoryError):
        return f"{file.how}, deleted since", (), 0
    except (OSError, ValueError):
        return file.how, (), 0
    if data is None:
        return file.how, (), 0
    changed = bool(file.digest) and hashlib.sha256(data).hexdigest() != file.digest
    legible = outlined and len(data) <= LARGEST_OUTLINED and b"\0" not in data[:8192]
    names = outline(file.path, file.lines.of_text(data.decode("utf-8", "replace"))) if legible else ()
    return f"{file.how}, changed on disk since" if changed else file.how, names, len(data)


def _read(path: str, most: int) -> bytes | None:
    """Return what a regular file that is no link holds; None for others. Raises `OSError`."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        with os.fdopen(os.dup(handle), "rb") as file:
            return file.read(most)
    finally:
        os.close(handle)


def _common_folder(traces: Sequence[_Trace]) -> str:
    """Return the folder that all of them lie in, "" where there is none; those with a name of their own do not
    count."""
    folders = [os.path.dirname(trace.path) for trace in traces if not trace.name]
    try:
        return os.path.commonpath(folders) if folders else ""
    except ValueError:
        return ""


def _goal_lines(goals: Sequence[Goal]) -> list[str]:
    """Return the goals that are not reached, each with its steps below it."""
    lines = []
    for goal in goals:
        if not goal.parent and not goal.done:
            lines.append(f"- {goal.id}: {safe_line(goal.text)}")
            steps = [step for step in goals if step.parent == goal.id]
            lines += [f"  - [{'x' if step.done else ' '}] {step.id}: {safe_line(step.text)}" for step in steps]
    return lines
