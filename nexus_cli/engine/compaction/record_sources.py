"""Read the sources of a compaction's work record: the conversation's log, the ledger's list of files, the disk, the
goals.

`conversation/compaction/work_record.py` renders the record. Reading files is bounded in time and bytes; only regular
files are read, others are just named.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nexus_cli.conversation.compaction.file_outline import outline
from nexus_cli.conversation.compaction.work_record import (
    TODO_LIST,
    CommandRun,
    WorkItem,
    WorkLog,
    WorkRecord,
    command_items,
    safe_line,
    safe_path,
)
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.goals import list_goals
from nexus_cli.conversation.read_lines import ReadLines, read_lines
from nexus_cli.core.daemon_task import DaemonTask, run_tasks
from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.memo_kinds import COMMAND, DECISION, LINES_READ, TODO_STATE, WORK
from nexus_cli.core.real_files import read_regular
from nexus_cli.core.services import Goal, SeenFile
from nexus_cli.core.todo import MARKS
from nexus_cli.engine.requests.work_notes import describe_changer
from nexus_cli.ledger import LaneLog

SECONDS = 2.0
"""Time limit for checking all files; files not reached keep their state from the ledger."""
MOST_OUTLINED = 12
"""Most files that are searched for names of definitions, newest first."""
MOST_BYTES = 32 << 20
"""Most bytes read from all files together to detect changes, newest files first."""
LARGEST_OUTLINED = 512 * 1024
"""Largest file in bytes that is searched for names."""
WHOLE = ReadLines((), 0)
_ORDER = {"doing": 0, "open": 1, "done": 2, "dropped": 3}
READ_AT_ONCE = 500
"""Entries per read of the log."""


def read_log(conversation: Conversation, log: WorkLog) -> Iterator[None]:
    """Add the conversation's new entries to `log`; yields after every `READ_AT_ONCE` entries."""
    while log.last < conversation.last:
        last = min(conversation.last, log.last + READ_AT_ONCE)
        for entry in conversation.read(log.last + 1, last):
            log.add(entry)
        log.last = last  # a damaged ledger has lost entries
        yield


async def read_log_in_pieces(conversation: Conversation, log: WorkLog) -> None:
    """Do the same without blocking the event loop, so that Ctrl+C works."""
    for _ in read_log(conversation, log):
        await asyncio.sleep(0)


def read_texts(conversation: Conversation, entries: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Yield entry and text of the messages in `entries`, newest first."""
    for number in reversed(entries):
        yield from ((number, entry.message.content.strip()) for entry in conversation.read(number, number))


def make_record(conversation: Conversation, log: WorkLog) -> WorkRecord:
    """Build the record from the ledger, without reading files."""
    traces = _traces(conversation)
    folder = _common_folder(traces)
    items = [_file_item(trace, folder, trace.how) for trace in traces]
    answers = [memo for memo in conversation.memos(DECISION) if memo.value.get("answer")]
    approved = {memo.entry for memo in answers if memo.value["answer"] in ("yes", "session", "always")}
    items += [*_further_files(conversation), *command_items(_last_runs(conversation, log), approved)]
    items += [*_declined_items(answers), *_reply_items(log)]
    newest = sorted(items, key=lambda item: (-item.entry, item.text))
    goals = [*_goal_lines(list_goals(conversation)), *_todo_lines(conversation)]
    return WorkRecord(goals, newest, safe_line(folder))


def _last_runs(conversation: Conversation, log: WorkLog) -> Collection[CommandRun]:
    """Return the last run of each command by the model, the person or a worker."""
    runs = {("", run.command): run for run in log.commands.values()}
    made = [CommandRun(**memo.value, entry=memo.entry, by_person=True) for memo in conversation.memos(COMMAND)]
    made += [
        CommandRun(**memo.value["command"], entry=memo.entry, worker=memo.value["by"], after=place)
        for place, memo in enumerate(conversation.memos(WORK), 1)
        if memo.value.get("command")
    ]
    for run in made:
        key = (run.worker, run.command)
        if key not in runs or (runs[key].entry, runs[key].after) <= (run.entry, run.after):
            runs[key] = run
    return runs.values()


def _declined_items(answers: Iterable[Memo]) -> Iterator[WorkItem]:
    """Yield an item for each call that the person declined the last time, with the reason."""
    last = {(memo.value["tool"], memo.value["subject"]): memo for memo in answers}
    for (tool, subject), memo in last.items():
        if memo.value["answer"] == "no":
            by = "a client" if memo.value.get("by") == "client" else "the person"
            said = f": {safe_line(reason)}" if (reason := str(memo.value.get("said", ""))) else ""
            yield WorkItem(memo.entry, f"- {safe_line(subject or tool)} -> declined by {by}{said}", True)


def _reply_items(log: WorkLog) -> Iterator[WorkItem]:
    """Yield an item for each question of the model that the person answered, with the last reply."""
    last = {question: (entry, reply) for entry, question, reply in log.replies}
    for question, (entry, reply) in last.items():
        yield WorkItem(entry, f"- asked: {safe_line(question)} -> the person replied: {safe_line(reply)}", True)


@dataclass(frozen=True, slots=True)
class _Trace:
    """The known history of one file."""

    path: str
    how: str
    """Description of its use, such as `read` or `changed`."""
    digest: str = ""
    """SHA-256 (hex) of the content at the last use by a file tool; "" if unknown or changed otherwise since."""
    used: int = 0
    """Entry of the last use."""
    at: tuple[int, int] = (0, 0)
    """See `WorkItem.at`."""
    name: str = ""
    """Display name of a file in a worker's worktree; "" for other files."""
    lines: ReadLines = WHOLE
    """The lines that were read."""


def _traces(conversation: Conversation) -> list[_Trace]:
    """Collect the files used by file tools, commands and workers, the last used first."""
    seen = {file.path: file for file in _seen(conversation)}
    found = {path: _Trace(path, file.how, file.digest, file.entry, (file.entry, 0)) for path, file in seen.items()}
    for place, memo in enumerate(conversation.memos(WORK), 1):
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
            digest = file.digest if file and file.entry > memo.entry else ""  # valid only if a file tool used it since
            found[path] = _Trace(path, how, digest, used, at, name)
    parts = read_lines(conversation.memos(LINES_READ))
    traces = [_with_lines(trace, parts.get(trace.path, WHOLE)) for trace in found.values()]
    return sorted(traces, key=lambda trace: (-trace.used, trace.path))


def _with_lines(trace: _Trace, lines: ReadLines) -> _Trace:
    """Add to the trace of a file that the session did not create the lines that were read and those that edits changed:
    its names are taken from these alone. Those that a command or a worker changed are unknown."""
    if trace.how.startswith("created"):
        return trace
    read = f"read {lines.describe()}".rstrip()
    if trace.how == "read":
        return replace(trace, how=read, lines=lines)
    changed = lines.changed if trace.how == "changed" else ()
    how = f"{read}; changed {lines.describe_changes()}" if changed else trace.how
    return replace(trace, how=how, lines=ReadLines(changed, max(1, lines.total)))


def _further_files(conversation: Conversation) -> list[WorkItem]:
    """Return an item with the number of unnamed files for each call that changed too many to name."""
    memos = [(place, memo) for place, memo in enumerate(conversation.memos(WORK), 1) if memo.value.get("more")]
    return [
        WorkItem(memo.entry, f"- {value['more']:,} more files ({describe_changer(value['by'])})", at=(memo.entry, at))
        for at, memo in memos
        if (value := memo.value)
    ]


async def look_at_files(record: WorkRecord, conversation: Conversation) -> WorkRecord:
    """Check the files on disk: mark deleted and changed ones in the record, and add the names of definitions."""
    traces, found = _traces(conversation), dict[str, WorkItem]()
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


def _seen(conversation: Conversation) -> Sequence[SeenFile]:
    """Return the files listed in the ledger; none on an error, which must not prevent a summary."""
    log = conversation.log
    try:
        return log.seen_files() if isinstance(log, LaneLog) else ()
    except NexusError:
        return ()


def _file_item(trace: _Trace, folder: str, state: str) -> WorkItem:
    name = trace.name or (os.path.relpath(trace.path, folder) if folder else trace.path)
    return WorkItem(trace.used, f"- {safe_path(name)} ({state})", path=trace.path, at=trace.at)


def _state_on_disk(file: _Trace, left: int, *, outlined: bool) -> tuple[str, tuple[str, ...], int]:
    """Return the state of a file on disk, the names in it if `outlined`, and the number of bytes read.

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
    """Read at most `most` bytes of a regular file; None for other types. Raises `OSError`, also for a link in it."""
    try:
        return read_regular(path, most)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise


def _common_folder(traces: Sequence[_Trace]) -> str:
    """Return the common parent folder of the files, "" if there is none. Ignores files with a display name."""
    folders = [os.path.dirname(trace.path) for trace in traces if not trace.name]
    try:
        return os.path.commonpath(folders) if folders else ""
    except ValueError:
        return ""


def _goal_lines(goals: Sequence[Goal]) -> list[str]:
    """Format the open goals, each followed by its steps."""
    lines = []
    for goal in goals:
        if not goal.parent and not goal.done:
            lines.append(f"- {goal.id}: {safe_line(goal.text)}")
            steps = [step for step in goals if step.parent == goal.id]
            lines += [f"  - [{'x' if step.done else ' '}] {step.id}: {safe_line(step.text)}" for step in steps]
    return lines


def _todo_lines(conversation: Conversation) -> list[str]:
    """Format the todo list: what is left, then the rest, because lines without room are left out at the end."""
    memos = conversation.memos(TODO_STATE)
    items = sorted(memos[-1].value["items"], key=lambda one: _ORDER[one["state"]]) if memos else []
    lines = [f"- [{MARKS[one['state']]}] {safe_line(one['text'])}" for one in items]
    return [TODO_LIST, *lines] if lines else []
