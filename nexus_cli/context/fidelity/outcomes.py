"""Commands and how they ended: from tool results, and from what a sentence says; and how a tool says that it failed.

What a person pasted out of a terminal is read in `terminal`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nexus_cli.context.fidelity import changes
from nexus_cli.core.message import ToolCall

SHELLS = frozenset({"bash", "shell", "sh", "run", "run_command", "execute", "execute_command", "exec", "terminal"})
COMMAND_ARGUMENTS = ("command", "cmd", "script")
READERS = frozenset({"read_file", "grep", "glob", "recall", "context", "search_memory", "view", "read", "search",
"list"})
"""Tools whose results are other people's text: an error in it happened elsewhere."""

EXIT = re.compile(r"\bexit(?:ed)?(?: with)?(?: status| code)?[ :=]{1,2}(?P<status>-?\d{1,3})\b", re.IGNORECASE)
_TAIL = 300
"""Characters at the end of a result in which its exit status stands."""
TOOL_ERRORS = re.compile(
    r"unknown tool\b|there is no tool\b|bad arguments\b|arguments are no JSON\b|\w{1,60} failed: |refused\b|denied\b|"
    r"not run: |interrupted while it ran|outcome unknown|the command could not be started|"
    r"the working folder\b.{0,300}\bis gone|not allowed\b|the person (?:said no|refused)",
    re.IGNORECASE,
)
"""How the result of a call that could not run begins."""


_FAILED = re.compile(
    r"(?:error|failed|failure|cannot|can't|could not|couldn't|unable to|no such|not found|no match|(?:file|path|"
    r"directory) (?:not found|does not exist|doesn't exist)|permission denied|access denied|e[a-z]{4,8}: |"
    r"invalid)\b[^.]{0,40}[ :]",
    re.IGNORECASE,
)
"""How the one line begins with which a tool that is no shell says so in other words."""
_REFUSES = re.compile(
    r"\b(?:errors?|fail(?:ed|ure|s)?|cannot|can't|could not|couldn't|unable|no such|not found|no match(?:es)?|invalid|"
    r"denied|refused|does not (?:exist|occur|match)|doesn't (?:exist|occur|match)|did not match|didn't match|"
    r"not unique|multiple (?:matches|occurrences)|(?:occurs|appears|matches|found) \d+ times|"
    r"nothing (?:was )?(?:changed|replaced|written)|no changes?|0 (?:replacements|occurrences|edits)|not allowed|"
    r"not permitted|outside|already exists|is a directory|unchanged)\b",
    re.IGNORECASE,
)
"""What the first line says with which a tool that edits tells that it did not."""
_DID = re.compile(
    r"\W{0,3}(?:(?:successfully|the|file|ok[:,]?|done[.:,]?|has been|"
    r"[^\s:]{0,100}[/.][^\s:]{1,100}:?) ){0,5}(?:created|wrote|written|replaced|changed|edited|updated|deleted|removed|"
    r"saved|modified|overwr\w+|applied|patched|renamed|moved|inserted|appended|@@|[1-9]\d* (?:edits?|replacements?|"
    r"occurrences?|changes?|lines?|hunks?|bytes))\b",
    re.IGNORECASE,
)
"""How it begins where it did."""
_DONE = re.compile(
    r"(?:ok|done|created|wrote|written|replaced|changed|edited|updated|deleted|removed|saved|modified|overwr\w+|"
    r"applied|\d+ (?:edits?|replacements?|occurrences?|changes?|lines?|hunks?|bytes))\b",
    re.IGNORECASE,
)
"""What follows the path where all went well."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command, and its exit status where it is known."""

    command: str
    exit: int | None


def command_of(call: ToolCall) -> str:
    """The command line of a call of a shell; "" for other tools."""
    if call.name not in SHELLS:
        return ""
    return next((value for name in COMMAND_ARGUMENTS if isinstance(value := call.arguments.get(name), str)), "")


def exit_of(content: str) -> int | None:
    """The exit status that the end of a result tells, or None."""
    told = list(EXIT.finditer(content[-_TAIL:]))
    return int(told[-1]["status"]) if told else None


def tool_error(call: ToolCall, content: str) -> str:
    """The line with which a tool says that it could not do its work; "" where it could."""
    first, _, rest = content.partition("\n")
    if len(first) > 1000 or not first:
        return ""
    subject = next((v for k in ("path", "file_path", "pattern") if isinstance(v := call.arguments.get(k), str)), "")
    named = subject and first.startswith(f"{subject}: ") and (not rest.strip() or rest.startswith(
        "Nothing was changed") or len(rest) < 500)
    if named and _DONE.match(first, len(subject) + 2):
        return ""
    if named or TOOL_ERRORS.match(first):
        return first
    if changes.usual(call.name) and _REFUSES.search(first) and not _DID.match(first):
        return first
    return first if not command_of(call) and not rest.strip() and _FAILED.match(first) else ""


_RAN = re.compile(r"\b(?:ran|run|running|executed|typed|called|calling) `(?P<command>[^`\n]{2,200})`", re.IGNORECASE)


def told(sentence: str) -> Iterator[Ran]:
    """The commands that a sentence says were run, where it tells their status."""
    status = EXIT.search(sentence)
    if status:
        for hit in _RAN.finditer(sentence):
            yield Ran(hit["command"], int(status["status"]))
