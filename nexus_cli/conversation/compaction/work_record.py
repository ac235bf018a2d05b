"""The record of a session's work: files, commands and goals, from calls and their results (law 6).

Nothing is taken from prose or depends on a summarizer. `WorkLog` folds the entries of a conversation, `fit_record`
builds the text below a summary. `nexus_cli.engine.compaction.record_sources` reads files and goals from their stores.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace

from nexus_cli.core.elide import clip_text, one_line
from nexus_cli.core.entry import Cause, Drop, Entry, Kind, is_person
from nexus_cli.core.message import Message, Role, ToolCall
from nexus_cli.core.tool import COMMAND, Tool
from nexus_cli.core.typed_text import split_attachments
from nexus_cli.text.untrusted_text import neutralize

RECORD = "Record of the work, from calls and results; it wins over the summary, and a later record over an earlier one:"
LISTED = "Files and commands, oldest first, each where it last changed or ran"
COMPLETE = "This session's own calls read or edited no other file, and ran no other command."
TODO_LIST = "Todo list (tool `todo`), what is left first:"
LONGEST = 200
"""Most characters of a command, a path or an error line."""
HEAD = 60
"""Characters of a long path's beginning; the rest is its end."""
COMMAND_HEAD, COMMAND_TAIL = 120, 60
"""Characters of a long command's beginning and end."""
OUTPUT_LINES, OUTPUT_LINE = 2, 100
"""Most lines at the end of an output, and characters of each."""
SIGPIPE = 141
"""Exit status of a pipe's part whose reader ended first (`yes | head`): not a failure."""
TAIL = 20_000
"""Characters at the end of an output that are searched for an error line."""
_STATUS = re.compile(r"\[(?:([^\[\]\n]*)[;,] )?exit status (-?\d+)(?:; pipe: ([\d ]+))?(?:; [^\[\]\n]*)?\]\s*\Z")
"""The last line of a command's result; a time limit comes before the status, a pipe's statuses after it."""
_NOTE = re.compile(r"^\[sandbox: ")
"""A line of ours at the end of an output."""
_UNENDED = re.compile(
    r"^\[?(interrupted while it ran|outcome unknown|stopped by the person)\b[^\n]*\s*\Z", re.MULTILINE
)
"""The last line of the result of a command that was started and whose outcome is unknown."""
_STARTED = re.compile(r"^\[job (j\d+) runs in the background\b[^\n]*\]\s*\Z", re.MULTILINE)
"""The last line of the result of a command that runs on as a job."""
_ESCAPED, _POSING = '\\"', "[("
"""Characters with a short escape in JSON, and those with which our own forms begin."""
_NAMED = re.compile(r"\w*(?:Error|Exception)\b|\b(?:error|fatal|panic(?:ked)?)\b.*:|^(?:FAILED|FAIL|ERROR)\b|^E  ")
_HINTED = re.compile(
    r"error|fail|fatal|cannot|can't|could not|denied|not found|no such|unable|invalid|refused|missing", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class CommandRun:
    """The last run of one command."""

    command: str
    status: int | None
    """None if it did not end by itself, or was started as a job."""
    error: str
    """The last line of its output that names a failure, or its last line; "" with status 0. Or the reason that it did
    not end."""
    entry: int
    """The message with the result."""
    by_person: bool = False
    """True if the person ran it and the model was told."""
    pipe: Sequence[int] = ()
    """Exit statuses of the parts of its last pipe, if an earlier part failed."""
    output: Sequence[str] = ()
    """The last lines of its output."""
    worker: str = ""
    """The worker that ran it."""
    job: str = ""
    """The background job as which it was started."""
    after: int = 0
    """Orders runs noted after the same entry."""

    @property
    def is_failing(self) -> bool:
        """True if it, or a part of its pipe, exited with a status other than 0."""
        return (not self.job and self.status != 0) or any(one not in (0, SIGPIPE) for one in self.pipe[:-1])


@dataclass
class WorkLog:
    """Commands, words and answers of a conversation, folded from its entries, each read once and in order."""

    find_tool: Callable[[str], Tool | None]
    """Returns the definition of a tool by its name."""
    last: int = 0
    """The newest entry that was read."""
    commands: dict[str, CommandRun] = field(default_factory=dict)
    """By command, the most recent run last."""
    answers: list[int] = field(default_factory=list)
    """The entries of the assistant's last text of each ended turn."""
    words: list[int] = field(default_factory=list)
    """The entries with messages of the person."""
    replies: list[tuple[int, str, str]] = field(default_factory=list)
    """What the person replied to questions of the model: entry, question, reply."""
    _called: dict[str, str] = field(default_factory=dict)
    _asked: dict[str, list[str]] = field(default_factory=dict)
    """The questions of each call that puts some to the person."""
    _answer: int = 0

    def add(self, entry: Entry) -> None:
        self.last, message = entry.id, entry.message
        if message.role is Role.TOOL:
            self._end_command(entry.id, message)
            questions = self._asked.pop(message.tool_call_id or "", [])
            self.replies += [(entry.id, *reply) for reply in read_replies(questions, message.content)]
        elif message.role is Role.ASSISTANT:
            if message.content.strip():
                self._answer = entry.id
            commands = ((call.id, find_command(call, self.find_tool)) for call in message.tool_calls)
            self._called |= {name: command for name, command in commands if command}
            self._asked |= {call.id: asked for call in message.tool_calls if (asked := self._questions(call))}
        elif is_person(entry.actor):
            if entry.kind is Kind.USER and self._answer:
                self.answers.append(self._answer)
                self._answer = 0
            if split_attachments(message.content)[0]:
                self.words.append(entry.id)

    def _questions(self, call: ToolCall) -> list[str]:
        """Return the questions that a call puts to the person."""
        tool = self.find_tool(call.name)
        asked = call.arguments.get(tool.asks) if tool and tool.asks else None
        rows = asked if isinstance(asked, list) else []
        return [str(row.get("question", "")).strip() for row in rows if isinstance(row, dict)]

    def _end_command(self, entry: int, message: Message) -> None:
        command = self._called.pop(message.tool_call_id or "", "")
        run = read_run(command, message.content, entry) if command else None
        if run is not None:  # otherwise the earlier result stays
            self.commands.pop(command, None)
            self.commands[command] = run


def read_replies(questions: Sequence[str], result: str) -> list[tuple[str, str]]:
    """Return the questions that were answered, with the answers, from the result of `ask_person`."""
    found, rest = [], result
    for place, question in enumerate(questions):
        _, mark, after = rest.partition(f"{question}\n> ")
        if not mark:
            continue
        ends = [f"\n{one}\n> " for one in questions[place + 1 :]]
        end = min((at for one in ends if (at := after.find(one)) >= 0), default=len(after))
        found.append((question, after[:end]))
        rest = after[end:]
    return found


def find_command(call: ToolCall, find_tool: Callable[[str], Tool | None]) -> str:
    """Return the command line that a call runs; "" if it runs none."""
    tool, command = find_tool(call.name), call.arguments.get(COMMAND)
    return command.strip() if tool and tool.runs_commands and isinstance(command, str) else ""


def read_run(command: str, result: str, entry: int) -> CommandRun | None:
    """Return the result of a command from its tool result; None if it did not run."""
    if ended := _STATUS.search(result):
        status = int(ended[2])
        output = result[: ended.start()]
        error = (ended[1] or find_error_line(output)) if status else ""
        pipe = tuple(map(int, (ended[3] or "").split()))
        return CommandRun(command, status, error, entry, pipe=pipe, output=last_lines(output))
    if started := _STARTED.search(result):
        return CommandRun(command, None, "", entry, job=started[1])
    unended = _UNENDED.search(result)
    return CommandRun(command, None, unended[1], entry) if unended else None


def find_error_line(output: str) -> str:
    """Return the last line of `output` that names a failure, else the last that hints at one, else the last."""
    lines = [line.strip() for line in output[-TAIL:].splitlines()]
    for form in (_NAMED, _HINTED, re.compile(r"\S")):
        found = next((line for line in reversed(lines) if form.search(line[:1000])), "")
        if found:
            return found[:LONGEST]
    return ""


def last_lines(output: str) -> tuple[str, ...]:
    """Return the last non-blank lines of `output`, each cut to a length."""
    lines = [line for line in output[-TAIL:].splitlines() if line.strip() and not _NOTE.match(line)]
    return tuple(safe_line(line.strip()[:OUTPUT_LINE]) for line in lines[-OUTPUT_LINES:])


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One file or command of the record."""

    entry: int
    """The message of its last use: newer items get room first."""
    text: str
    command: bool = False
    failing: bool = False
    detail: str = ""
    """Text to add if there is room."""
    path: str = ""
    """Path of a file."""
    at: tuple[int, int] = (0, 0)
    """The message after which it last changed or ran, and its order among others after the same message; (0, 0):
    `entry`."""


def command_items(commands: Iterable[CommandRun], approved: Container[int] = ()) -> list[WorkItem]:
    """Return the items of these commands, with unique names; `approved` are the entries of those that the person was
    asked about and allowed."""
    names, items = Counter[str](), list[WorkItem]()
    for run in commands:
        name = _command_name(run)
        names[name] += 1
        if names[name] > 1:
            name += f" #{names[name]}"
        by = "; approved by the person" if run.entry in approved and not (run.by_person or run.worker) else ""
        text = f"- {name} -> {describe_end(run)}{by}"
        items.append(WorkItem(run.entry, text, True, run.is_failing, at=(run.entry, run.after)))
    return items


def _command_name(run: CommandRun) -> str:
    """Return the command on one line; a long one by its ends and the message with its result."""
    name = neutralize(one_line(run.command))
    if len(name) > LONGEST:
        name = f"{name[:COMMAND_HEAD]}...{name[-COMMAND_TAIL:]} (message {run.entry})"
    by = "the person" if run.by_person else run.worker
    return f"{name} (run by {by})" if by else name


def describe_end(run: CommandRun) -> str:
    """Describe a command's result: status, those of its pipe, the line that names a failure, its last lines."""
    ended = "no exit status" if run.status is None else f"exit {run.status}"
    ended = f"started as job {run.job}" if run.job else ended
    ended += f" (pipe: {' '.join(map(str, run.pipe))})" if run.pipe else ""
    ended += f": {safe_line(run.error)}" if run.error else ""
    lines = [line for line in run.output if line != run.error]
    quoted = " / ".join(f'"{safe_line(line)}"' for line in lines)
    return f"{ended}; output ends {quoted}" if quoted else ended


@dataclass(frozen=True, slots=True)
class WorkRecord:
    """Items from which the record is rendered."""

    goals: Sequence[str] = ()
    """Lines of the open goals and their steps; then `TODO_LIST` and the items of the todo list, if there is one."""
    items: Sequence[WorkItem] = ()
    """Newest first."""
    folder: str = ""
    """The folder that the files' names are relative to."""


@dataclass(frozen=True, slots=True)
class FittedRecord(WorkRecord):
    """The part of a record that fits; its items have their details in the text."""

    left: Sequence[str] = ()
    """The lines left out."""

    @property
    def left_text(self) -> str:
        """The text of the left-out items, for their drop."""
        return "\n".join([*([f"(Files are below {self.folder}.)"] if self.folder else []), *self.left])

    def text(self, missing: str = "") -> str:
        """Return the text of the record; `missing` is the line for left-out items."""
        if not (self.goals or self.items or self.left):
            return ""
        return _layout(self.goals, self.items, self.folder, missing if self.left else "")

    def drop(self, drop_id: str, cause: Cause, at: str, count: Callable[[str], int]) -> Drop:
        """Return the drop of the left-out items."""
        what, text = f"{len(self.left)} older items of the record of the work", self.left_text
        return Drop(drop_id, what, count(text), cause, at, text=text)


def fit_record(record: WorkRecord, room: int, count: Callable[[str], int], missing: str) -> FittedRecord:
    """Return what fits `room` tokens beside a line of `missing`: goals, then files and commands, newest first."""
    total = len(record.goals) + len(record.items)
    kinds = {item.command: item for item in record.items}
    frame = count(_layout(record.goals[:1], list(kinds.values()), record.folder, missing))
    costs = [count(line) + 1 for line in (*record.goals, *(item.text for item in record.items))]
    fitting, free = 0, room - frame
    if sum(costs) <= room and (whole := count(_layout(record.goals, record.items, record.folder, ""))) <= room:
        fitting, free = total, room - whole
    while fitting < total - 1 and costs[fitting] <= free:  # without the last one: all of them take one line more
        free -= costs[fitting]
        fitting += 1
    goals, items = record.goals[:fitting], record.items[: max(0, fitting - len(record.goals))]
    left = (*record.goals[len(goals) :], *(item.text for item in record.items[len(items) :]))
    detailed = []
    for item in items:
        cost = count(item.detail) if item.detail and not left else 0
        detailed.append(replace(item, text=item.text + item.detail) if 0 < cost <= free else item)
        free -= cost if cost <= free else 0
    return FittedRecord(goals, tuple(detailed), record.folder, left)


def _layout(goals: Sequence[str], items: Sequence[WorkItem], folder: str, missing: str) -> str:
    below = f"; files are below {folder}" if folder and any(not item.command for item in items) else ""
    shown = sorted(items, key=lambda item: item.at if item.at[0] else (item.entry, 0))
    lines = [RECORD]
    place = goals.index(TODO_LIST) if TODO_LIST in goals else len(goals)
    lines += ["Goals:", *goals[:place]] if place else []
    lines += goals[place:]
    lines += [f"{LISTED}{below}:"] if items else []
    lines += [missing] if missing else []
    lines += [item.text for item in shown]
    return "\n".join([*lines, COMPLETE] if items and not missing else lines)


def safe_line(text: str) -> str:
    """Return foreign text on one bounded line that cannot pose as ours."""
    return clip_text(neutralize(one_line(text)), LONGEST, "...")


def safe_path(path: str) -> str:
    """Return a path on one bounded line, as a JSON string if anything in it needs an escape, so that it is unique."""
    if path.isprintable() and path == safe_line(path) and not path.startswith('"'):
        return path
    shown = "".join(one if one.isprintable() and one not in _ESCAPED else json.dumps(one)[1:-1] for one in path)
    for one in _POSING:
        shown = shown.replace(one, f"\\u{ord(one):04x}")
    return f'"{shown}"' if len(shown) < LONGEST else f'"{shown[:HEAD]}...{shown[HEAD + 5 - LONGEST :]}"'
