"""The record of a session's work: files, commands and goals, from calls and their results (law 6).

Nothing is taken from prose or depends on a summarizer. `nexus_cli.conversation.compaction.work_sources` collects the
items, `fit_record` chooses those that fit below a summary.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nexus_cli.conversation.compaction.own_words import missing_line
from nexus_cli.conversation.compaction.work_log import CommandRun
from nexus_cli.core.elide import Count, one_line, plural
from nexus_cli.core.entry import Cause, Drop
from nexus_cli.text.untrusted_text import SAFE_LINE, neutralize, safe_line

RECORD = "Record of the work, from calls and results; it wins over the summary, and a later record over an earlier one:"
LISTED = "Files and commands, oldest first, each where it last changed or ran"
COMPLETE = "This session's own calls read or edited no other file, and ran no other command."
TODO_LIST = "Todo list (tool `todo`), open items first:"
LONGEST_MISSING = missing_line(9999, "older item", "d9999", True)
"""The longest possible line for items without room."""
HEAD = 60
"""Characters of a long path's beginning; the rest is its end."""
COMMAND_HEAD, COMMAND_TAIL = 120, 60
"""Characters of a long command's beginning and end."""
_ESCAPED, _POSING = '\\"', "[("
"""Characters with a short escape in JSON, and those with which our own forms begin."""


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One file or command of the record."""

    entry: int
    """The message of its last use: newer items get room first."""
    text: str
    kind: Literal["file", "command", "answer"] = "file"
    """What it names: a file, a command that ran, or what the person declined, replied or took back."""
    failing: bool = False
    path: str = ""
    """Path of a file."""
    at: tuple[int, int] = (0, 0)
    """The message after which it last changed or ran, and its order among others after the same message; (0, 0):
    `entry`."""


def command_items(commands: Iterable[CommandRun], approved: Container[str] = ()) -> list[WorkItem]:
    """Return the items of these commands, with unique names; `approved` are the calls that the person was asked about
    and allowed."""
    names, items = Counter[str](), list[WorkItem]()
    for run in commands:
        name = _command_name(run)
        names[name] += 1
        if names[name] > 1:
            name += f" #{names[name]}"
        by = "; approved by the person" if run.call in approved else ""
        text = f"- {name} -> {describe_end(run)}{by}"
        items.append(WorkItem(run.entry, text, "command", run.is_failing, at=(run.entry, run.after)))
    return items


def _command_name(run: CommandRun) -> str:
    """Return the command on one line; a long one by its ends and the message with its result."""
    name = neutralize(one_line(run.command))
    if len(name) > SAFE_LINE:
        name = f"{name[:COMMAND_HEAD]}...{name[-COMMAND_TAIL:]} (message {run.entry})"
    by = "the person" if run.by_person else run.worker
    return f"{name} (run by {by})" if by else name


def describe_end(run: CommandRun) -> str:
    """Describe a command's result: status, those of its pipe, the line that names a failure, its last lines."""
    ended = run.describe_end("no exit status")
    lines = [line for line in run.output if line != run.error]
    quoted = " / ".join(f'"{safe_line(line)}"' for line in lines)
    return f"{ended}; output ends {quoted}" if quoted else ended


@dataclass(frozen=True, slots=True)
class FileTrace:
    """The known history of one file."""

    path: str
    how: str
    """Description of its use, such as `read` or `changed`."""
    digest: str
    """SHA-256 (hex) of the content at the last use by a file tool; "" if unknown or changed otherwise since."""
    used: int
    """Entry of the last use."""
    at: tuple[int, int]
    """See `WorkItem.at`."""
    name: str = ""
    """Display name of a file in a worker's worktree; "" for other files."""

    def item(self, folder: str, state: str) -> WorkItem:
        """Return the item of the file, with its name relative to `folder` and its `state`."""
        name = self.name or (os.path.relpath(self.path, folder) if folder else self.path)
        return WorkItem(self.used, f"- {safe_path(name)} ({state})", path=self.path, at=self.at)

    def describe(self, data: bytes) -> str:
        """Return the state of the file with this content on disk."""
        changed = bool(self.digest) and hashlib.sha256(data).hexdigest() != self.digest
        return f"{self.how}, changed on disk since" if changed else self.how


def common_folder(files: Iterable[FileTrace]) -> str:
    """Return the common parent folder of the files, "" if there is none. Ignores files with a display name."""
    folders = [os.path.dirname(file.path) for file in files if not file.name]
    try:
        return os.path.commonpath(folders) if folders else ""
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class WorkRecord:
    """Items from which the record is rendered."""

    goals: Sequence[str] = ()
    """Lines of the open goals and their steps; then `TODO_LIST` and the items of the todo list, if there is one."""
    items: Sequence[WorkItem] = ()
    """Newest first."""
    folder: str = ""
    """The folder that the files' names are relative to."""
    files: Sequence[FileTrace] = ()
    """The files that the items name, the last used first."""

    def with_states(self, states: Mapping[str, str]) -> WorkRecord:
        """Return the record with the state of files on disk, by path."""
        folder = common_folder(self.files)
        updated = {file.path: file.item(folder, states[file.path]) for file in self.files if file.path in states}
        return replace(self, items=[updated.get(item.path, item) for item in self.items])


@dataclass(frozen=True, slots=True)
class FittedRecord(WorkRecord):
    """The part of a record that fits."""

    left: Sequence[str] = ()
    """The lines left out."""

    @property
    def left_text(self) -> str:
        """The text of the left-out items, for their drop."""
        return "\n".join([*([f"(Files are below {self.folder}.)"] if self.folder else []), *self.left])

    def missing(self, drop_id: str, recalls: bool) -> str:
        """Return the line that names the drop of the left-out items."""
        return missing_line(len(self.left), "older item", drop_id, recalls)

    def text(self, missing: str = LONGEST_MISSING) -> str:
        """Return the text of the record; `missing` is the line for left-out items."""
        if not (self.goals or self.items or self.left):
            return ""
        return _layout(self.goals, self.items, self.folder, missing if self.left else "")

    def drop(self, drop_id: str, cause: Cause, at: str, count: Count) -> Drop:
        """Return the drop of the left-out items."""
        what, text = f"{plural(len(self.left), 'older item')} of the work record", self.left_text
        return Drop(drop_id, what, count(text), cause, at, text=text)


def fit_record(record: WorkRecord, room: int, count: Count, missing: str = LONGEST_MISSING) -> FittedRecord:
    """Return the items that fit `room` tokens beside a line of `missing`: goals, then files and commands, newest
    first."""
    total = len(record.goals) + len(record.items)
    kinds = {item.kind == "file": item for item in record.items}
    frame = count(_layout(record.goals[:1], list(kinds.values()), record.folder, missing))
    costs = [count(line) + 1 for line in (*record.goals, *(item.text for item in record.items))]
    fitting, free = 0, room - frame
    if sum(costs) <= room and (full_size := count(_layout(record.goals, record.items, record.folder, ""))) <= room:
        fitting, free = total, room - full_size
    while fitting < total - 1 and costs[fitting] <= free:  # without the last one: all of them take one line more
        free -= costs[fitting]
        fitting += 1
    goals, items = record.goals[:fitting], record.items[: max(0, fitting - len(record.goals))]
    omitted = (*record.goals[len(goals) :], *(item.text for item in record.items[len(items) :]))
    return FittedRecord(goals, tuple(items), record.folder, left=omitted)


def _layout(goals: Sequence[str], items: Sequence[WorkItem], folder: str, missing: str) -> str:
    below = f"; files are below {folder}" if folder and any(item.kind == "file" for item in items) else ""
    sorted_items = sorted(items, key=lambda item: item.at if item.at[0] else (item.entry, 0))
    lines = [RECORD]
    place = goals.index(TODO_LIST) if TODO_LIST in goals else len(goals)
    lines += ["Goals:", *goals[:place]] if place else []
    lines += goals[place:]
    lines += [f"{LISTED}{below}:"] if items else []
    lines += [missing] if missing else []
    lines += [item.text for item in sorted_items]
    return "\n".join([*lines, COMPLETE] if items and not missing else lines)


def safe_path(path: str) -> str:
    """Return a path on one bounded line, as a JSON string if anything in it needs an escape, so that it is unique."""
    if path.isprintable() and path == safe_line(path) and not path.startswith('"'):
        return path
    escaped = "".join(char if char.isprintable() and char not in _ESCAPED else json.dumps(char)[1:-1] for char in path)
    for sign in _POSING:
        escaped = escaped.replace(sign, f"\\u{ord(sign):04x}")
    return f'"{escaped}"' if len(escaped) < SAFE_LINE else f'"{escaped[:HEAD]}...{escaped[HEAD + 5 - SAFE_LINE :]}"'
