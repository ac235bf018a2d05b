"""Build the record of the work from the conversation's log and memos: files, commands, goals, todo list. Pure.

`nexus_cli.conversation.compaction.work_record` renders the record; the engine looks at its files on disk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from nexus_cli.conversation.compaction.work_log import CommandRun, WorkLog
from nexus_cli.conversation.compaction.work_record import (
    TODO_LIST,
    FileTrace,
    WorkItem,
    WorkRecord,
    command_items,
    common_folder,
)
from nexus_cli.conversation.conversation import Conversation
from nexus_cli.conversation.read_lines import ReadLines, read_lines
from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import NexusError
from nexus_cli.core.goals import list_goals
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.memo_kinds import COMMAND, COMMAND_DID, DECISION, JOB, LINES_READ, TODO_STATE, UNDONE_FILES, WORK
from nexus_cli.core.running_workers import ENDED, RUNNING, STOPPED
from nexus_cli.core.services import Goal, SeenFile
from nexus_cli.core.todo import MARKS
from nexus_cli.text.untrusted_text import safe_line

_ORDER = {"doing": 0, "open": 1, "done": 2, "dropped": 3}


def make_record(conversation: Conversation, log: WorkLog) -> WorkRecord:
    """Build the record from the ledger, without reading files."""
    files = _traces(conversation)
    folder = common_folder(files)
    items = [file.item(folder, file.how) for file in files]
    answers = [memo for memo in conversation.memos(DECISION) if memo.value.get("answer")]
    approved = {memo.value["id"] for memo in answers if memo.value["answer"] in ("yes", "session", "always")}
    items += [*_further_files(conversation), *command_items(_last_runs(conversation, log), approved)]
    items += [*_declined_items(answers), *_reply_items(log), *_undo_items(conversation)]
    newest = sorted(items, key=lambda item: (-item.entry, -item.at[1], item.text))
    goals = [*_goal_lines(list_goals(conversation)), *_todo_lines(conversation)]
    return WorkRecord(goals, newest, safe_line(folder), files)


def _last_runs(conversation: Conversation, log: WorkLog) -> Collection[CommandRun]:
    """Return the last run of each command by the model, the person or a worker."""
    runs = {("", run.command): run for run in log.commands.values()}
    command_runs = [CommandRun(**memo.value, entry=memo.entry, by_person=True) for memo in conversation.memos(COMMAND)]
    command_runs += [
        CommandRun(**memo.value["command"], entry=memo.entry, worker=memo.value["by"], after=place)
        for place, memo in enumerate(conversation.memos(WORK), 1)
        if memo.value.get("command")
    ]
    for run in command_runs:
        key = (run.worker, run.command)
        if key not in runs or (runs[key].entry, runs[key].after) <= (run.entry, run.after):
            runs[key] = run
    jobs = {memo.value["id"]: memo.value for memo in conversation.memos(JOB)}
    return [run if run.worker else _add_job_result(run, jobs.get(run.job)) for run in runs.values()]


def _add_job_result(run: CommandRun, job: JsonObject | None) -> CommandRun:
    """Add the end of the job as which a command was started: `job` is its newest memo. One that may run has no end."""
    if job is None or (job["state"] == RUNNING and not job.get("told")):
        return run
    if job["state"] == ENDED:
        return replace(run, status=job["status"])
    return replace(run, error=STOPPED if job["state"] == STOPPED else "ended with the session")


def _declined_items(answers: Iterable[Memo]) -> Iterator[WorkItem]:
    """Yield an item for each call that the person declined the last time, with the reason."""
    last = {(memo.value["tool"], memo.value["subject"]): memo for memo in answers}
    for (tool, subject), memo in last.items():
        if memo.value["answer"] == "no":
            by = "a client" if memo.value.get("by") == "client" else "the person"
            reason_text = f": {safe_line(reason)}" if (reason := str(memo.value.get("said", ""))) else ""
            yield WorkItem(memo.entry, f"- {safe_line(subject or tool)} -> declined by {by}{reason_text}", "answer")


def _reply_items(log: WorkLog) -> Iterator[WorkItem]:
    """Yield an item for each question of the model that the person answered, with the last reply."""
    last = {question: (entry, reply) for entry, question, reply in log.replies}
    for question, (entry, reply) in last.items():
        yield WorkItem(entry, f"- asked: {safe_line(question)} -> the person replied: {safe_line(reply)}", "answer")


def _undo_items(conversation: Conversation) -> Iterator[WorkItem]:
    """Yield an item for each undo and redo of file changes, as the model was told of it."""
    for place, memo in enumerate(conversation.memos(UNDONE_FILES), 1):
        yield WorkItem(memo.entry, f"- {safe_line(str(memo.value['told']))}", "answer", at=(memo.entry, place))


def _traces(conversation: Conversation) -> list[FileTrace]:
    """Collect the files used by file tools, commands and workers, the last used first."""
    seen_files = {file.path: file for file in _read_seen_files(conversation)}
    by_path = {
        path: FileTrace(path, file.how, file.digest, file.entry, (file.entry, 0)) for path, file in seen_files.items()
    }
    for place, memo in enumerate(conversation.memos(WORK), 1):
        by, worktree = str(memo.value.get("by", "")), str(memo.value.get("worktree", ""))
        for path in memo.value.get("files", ()):
            earlier, file = by_path.get(path), seen_files.get(path)
            at = (memo.entry, place)
            used = max(memo.entry, earlier.used if earlier else 0)
            if not by:  # by a file tool
                digest = file.digest if file else ""
                file_trace = replace(earlier, digest=digest, used=used, at=at) if earlier else None
                by_path[path] = file_trace or FileTrace(path, "changed", digest, used, at)
                continue
            name = f"{path.rpartition(f'/{worktree}/')[2]} in worktree {worktree}" if worktree else ""
            words = _describe_changer(by)
            how = earlier.how if earlier else ""
            how = how if words in how else f"{how}, {words}" if how else words
            digest = file.digest if file and file.entry > memo.entry else ""  # valid only if a file tool used it since
            by_path[path] = FileTrace(path, how, digest, used, at, name)
    parts = read_lines(conversation.memos(LINES_READ))
    traces = [_add_unknown_lines(trace, parts.get(trace.path, ReadLines((), 0))) for trace in by_path.values()]
    return sorted(traces, key=lambda trace: (-trace.used, trace.path))


def _add_unknown_lines(trace: FileTrace, lines: ReadLines) -> FileTrace:
    """Add to the trace of a file that the session did not create the lines that were read and those that edits changed.
    Those that a command or a worker changed are unknown."""
    read = f"read {lines.describe()}".rstrip()
    if trace.how == "read":
        return replace(trace, how=read)
    if trace.how == "changed" and lines.changed:
        return replace(trace, how=f"{read}; changed {lines.describe_changes()}")
    return trace


def _describe_changer(by: str) -> str:
    """Describe the author of a change. A change during a command may have another author, such as the person."""
    return "changed while a command ran" if by == COMMAND_DID else f"changed by {by}"


def _further_files(conversation: Conversation) -> list[WorkItem]:
    """Return an item with the number of unnamed files for each call that changed too many to name."""
    memos = [(place, memo) for place, memo in enumerate(conversation.memos(WORK), 1) if memo.value.get("more")]
    return [
        WorkItem(memo.entry, f"- {value['more']:,} more files ({_describe_changer(value['by'])})", at=(memo.entry, at))
        for at, memo in memos
        if (value := memo.value)
    ]


def _read_seen_files(conversation: Conversation) -> Sequence[SeenFile]:
    """Return the files listed in the ledger; none on an error, which must not prevent a summary."""
    try:
        return conversation.log.seen_files()
    except NexusError:
        return ()


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
    items = sorted(conversation.newest_memo(TODO_STATE).get("items", ()), key=lambda item: _ORDER[item["state"]])
    lines = [f"- [{MARKS[item['state']]}] {safe_line(item['text'])}" for item in items]
    return [TODO_LIST, *lines] if lines else []
