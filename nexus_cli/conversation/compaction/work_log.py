"""Follow the commands, words and answers of a conversation in its log. Pure.

Nothing is taken from prose: `WorkLog` folds the entries, `CommandRun.read` reads the outcome of a command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nexus_cli.conversation.conversation import Conversation
from nexus_cli.core.entry import Entry, Kind, is_person
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.message import Role, ToolCall
from nexus_cli.core.tool import COMMAND, SIGPIPE, FindTool
from nexus_cli.core.typed_text import split_attachments
from nexus_cli.text.untrusted_text import SAFE_LINE, safe_line

READ_AT_ONCE = 500
"""Entries per read of the log."""
OUTPUT_LINES, OUTPUT_LINE = 2, 100
"""Most lines at the end of an output, and characters of each."""
TAIL = 20_000
"""Characters at the end of an output that are searched for an error line, and for its exit status."""
_STATUS = re.compile(
    r"\[(?:([^\[\]\n]*)[;,] )?exit status (-?\d+)(?:; pipe: ([\d ]+))?(?:; [^\[\]\n]*)?\](?=\s*(?:\n\s*\[[\s\S]*)?\Z)"
)
"""The line below a command's output; a time limit comes before the status, a pipe's statuses after it. Lines for the
model may follow, such as those of hooks."""
_NOTE = re.compile(r"^\[sandbox: ")
"""A line of ours at the end of an output."""
_UNENDED = re.compile(
    r"^\[?(interrupted while it ran|outcome unknown|stopped by the person)\b[^\n]*\s*\Z", re.MULTILINE
)
"""The last line of the result of a command that was started and whose outcome is unknown."""
_STARTED = re.compile(r"^\[job (j\d+) runs in the background\b[^\n]*\]\s*\Z", re.MULTILINE)
"""The last line of the result of a command that runs on as a job."""
_ERROR_LINE = re.compile(r"\w*(?:Error|Exception)\b|\b(?:error|fatal|panic(?:ked)?)\b.*:|^(?:FAILED|FAIL|ERROR)\b|^E  ")
_PATH_HINT = re.compile(
    r"error|fail|fatal|cannot|can't|could not|denied|not found|no such|unable|invalid|refused|missing", re.IGNORECASE
)

MAX_FILES = 50
"""Most files of one call that a memo names; others, as after a `git checkout`, are only counted."""


@dataclass(frozen=True, slots=True)
class CommandRun:
    """The last run of one command."""

    command: str
    status: int | None
    """None if it did not end by itself, or was started as a job whose exit status is not known."""
    error: str
    """The last line of its output that names a failure, or its last line; "" with status 0. Or the reason that it did
    not end by itself."""
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
    call: str = ""
    """The id of the model's call."""

    @classmethod
    def read(cls, command: str, result: str, entry: int = 0) -> CommandRun | None:
        """Return the result of a command from its tool result; None if it did not run."""
        if started := _STARTED.search(result):
            return cls(command, None, "", entry, job=started[1])
        if unended := _UNENDED.search(result):
            return cls(command, None, unended[1], entry)
        *_, ended = (None, *_STATUS.finditer(result, max(0, len(result) - TAIL)))
        if ended is None:
            return None
        status, output = int(ended[2]), result[: ended.start()]
        error = (ended[1] or find_error_line(output)) if status else ""
        pipe = tuple(map(int, (ended[3] or "").split()))
        return cls(command, status, error, entry, pipe=pipe, output=last_lines(output))

    def describe_end(self, endless: str) -> str:
        """Describe its status, those of its pipe, and the line that names a failure; `endless` stands for no status."""
        ended = endless if self.status is None else f"exit {self.status}"
        if self.job:
            ended = f"started as job {self.job}" + ("" if self.status is None else f", {ended}")
        ended += f" (pipe: {' '.join(map(str, self.pipe))})" if self.pipe else ""
        return ended + (f": {safe_line(self.error)}" if self.error else "")

    @property
    def noted(self) -> JsonObject:
        """The fields that its memo stores; the others follow from the memo's place."""
        return {name: getattr(self, name) for name in ("command", "status", "error", "pipe", "output", "job")}

    @property
    def is_failing(self) -> bool:
        """True if it, or a part of its pipe, exited with a status other than 0."""
        is_open = self.job and self.status is None
        return (not is_open and self.status != 0) or any(status not in (0, SIGPIPE) for status in self.pipe[:-1])


@dataclass
class WorkLog:
    """Commands, words and answers of a conversation, folded from its entries, each read once and in order."""

    find_tool: FindTool
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
    _called: dict[str, ToolCall] = field(default_factory=dict)
    """The calls without a result, by id."""
    _answer: int = 0

    @staticmethod
    def note(
        project: Path, changed: Sequence[str], by: str, run: CommandRun | None = None, worktree: str = ""
    ) -> JsonDict:
        """Make the memo `work` of one call, which survives a killed process, a deleted worker session and compactions;
        `changed` are paths relative to `project`, or absolute."""
        note: JsonDict = {"by": by, "files": [str(project / name) for name in changed[:MAX_FILES]]}
        note |= {"more": len(changed) - MAX_FILES} if len(changed) > MAX_FILES else {}
        note |= {"worktree": worktree} if worktree else {}
        return note | ({"command": run.noted} if run is not None else {})

    def read(self, conversation: Conversation) -> Iterator[None]:
        """Add the conversation's new entries; yields after every `READ_AT_ONCE` entries."""
        while self.last < conversation.last:
            last = min(conversation.last, self.last + READ_AT_ONCE)
            for entry in conversation.read(self.last + 1, last):
                self.add(entry)
            self.last = last  # a damaged ledger has lost entries
            yield

    def add(self, entry: Entry) -> None:
        self.last, message = entry.id, entry.message
        if message.role is Role.TOOL:
            if call := self._called.pop(message.tool_call_id or "", None):
                self._end_command(entry.id, call, message.content)
                self.replies += [(entry.id, *reply) for reply in read_replies(call, message.content, self.find_tool)]
        elif message.role is Role.ASSISTANT:
            if message.content.strip():
                self._answer = entry.id
            self._called |= {call.id: call for call in message.tool_calls}
        elif is_person(entry.actor):
            if entry.kind is Kind.USER and self._answer:
                self.answers.append(self._answer)
                self._answer = 0
            if split_attachments(message.content)[0]:
                self.words.append(entry.id)

    def read_answers(self, conversation: Conversation) -> Iterator[tuple[int, str]]:
        """Yield entry and text of the assistant's last text of each ended turn, newest first."""
        for number in reversed(self.answers):
            yield from ((number, entry.message.content.strip()) for entry in conversation.read(number, number))

    def _end_command(self, entry: int, call: ToolCall, result: str) -> None:
        command = find_command(call, self.find_tool)
        run = CommandRun.read(command, result, entry) if command else None
        if run is not None:  # otherwise the earlier result stays
            self.commands.pop(command, None)
            self.commands[command] = replace(run, call=call.id)


def read_replies(call: ToolCall, result: str, find_tool: FindTool) -> list[tuple[str, str]]:
    """Return the questions of a call that the person has answered, with the answers, from its `result`."""
    tool = find_tool(call.name)
    question_rows = call.arguments.get(tool.asks) if tool and tool.asks else None
    rows = question_rows if isinstance(question_rows, list) else []
    questions = [str(row.get("question", "")).strip() for row in rows if isinstance(row, dict)]
    replies, remaining = [], result
    for place, question in enumerate(questions):
        _, mark, after = remaining.partition(f"{question}\n> ")
        if not mark:
            continue
        ends = [f"\n{next_question}\n> " for next_question in questions[place + 1 :]]
        end = min((position for ending in ends if (position := after.find(ending)) >= 0), default=len(after))
        replies.append((question, after[:end]))
        remaining = after[end:]
    return replies


def find_command(call: ToolCall, find_tool: FindTool) -> str:
    """Return the command line that a call runs; "" if it runs none."""
    tool, command = find_tool(call.name), call.arguments.get(COMMAND)
    return command.strip() if tool and tool.runs_commands and isinstance(command, str) else ""


def find_error_line(output: str) -> str:
    """Return the last line of `output` that names a failure, else the last that hints at one, else the last."""
    lines = [line.strip() for line in output[-TAIL:].splitlines()]
    for form in (_ERROR_LINE, _PATH_HINT, re.compile(r"\S")):
        error_line = next((line for line in reversed(lines) if form.search(line[:1000])), "")
        if error_line:
            return error_line[:SAFE_LINE]
    return ""


def last_lines(output: str) -> tuple[str, ...]:
    """Return the last non-blank lines of `output`, each cut to a length."""
    lines = [line for line in output[-TAIL:].splitlines() if line.strip() and not _NOTE.match(line)]
    return tuple(safe_line(line.strip()[:OUTPUT_LINE]) for line in lines[-OUTPUT_LINES:])
