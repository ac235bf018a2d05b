"""Write what a hook gets on stdin, byte for byte as Claude Code does: many hooks read it with grep and sed.

Hooks that were written for Claude or codex get a call as these programs know it: the name and arguments of their tool,
and its response. A hook of one's own settings gets ours.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nexus_cli.core.elide import cut_at_word, one_line
from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.message import ToolResult
from nexus_cli.core.real_files import read_real
from nexus_cli.core.tool import COMMAND, Effect, Tool
from nexus_cli.hooks.hook_list import Hook
from nexus_cli.tools.foreign_calls import foreign_arguments, foreign_names

MAX_RESPONSE = 100_000
"""Most characters of a call's result, and of a file, that hooks get."""
FAILED_EVENT = "PostToolUseFailure"
MEANINGS: Mapping[str, str] = {
    "grep": "No matches found",
    "rg": "No matches found",
    "diff": "Files differ",
    "test": "Condition is false",
    "[": "Condition is false",
    "find": "Some directories were inaccessible",
}
"""What status 1 of a program says, which is no failure."""
CLAUDE_KEYS = (
    *("session_id", "transcript_path", "cwd", "prompt_id", "permission_mode", "agent_id", "agent_type"),
    "hook_event_name",
)
CODEX_KEYS = ("session_id", "turn_id", "transcript_path", "cwd", "hook_event_name", "model", "permission_mode")
WITHOUT_MODE = ("SessionStart", "SessionEnd", "PreCompact", "SubagentStart", "Notification")
"""The events whose input has no `permission_mode` in Claude."""
NOT_OF_CODEX = ("duration_ms", "background_tasks", "session_crons")
"""Keys of Claude's input that codex has not."""
_LAST = re.compile(r"(?:^|[|;&\n])\s*([\w\[]+)[^|;&\n]*$")
"""The program of the last command of a line."""
_NOTES = re.compile(r"(?:^\[(?:nexus|sandbox): [^\n]*\n)*^\[(?:[^\n]*; )?exit status -?\d[^\n]*\]\n?\Z", re.MULTILINE)
"""What the tool adds to the output of a command."""


def encode_input(value: JsonObject, end: str = "\n") -> bytes:
    """Return the input as one line of compact UTF-8; half of a surrogate pair is escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"{text}{end}".encode("utf-8", "backslashreplace")


def encode_event(common: JsonObject, own_fields: JsonObject, *, is_codex: bool) -> bytes:
    """Return the input of a hook as Claude Code 2.1.332 has it, or codex 0.171: those of the keys in `common` that are
    not None in the order of the program, then the event's `own_fields`."""
    left_out = NOT_OF_CODEX if is_codex else ("permission_mode",) * (common["hook_event_name"] in WITHOUT_MODE)
    keys = CODEX_KEYS if is_codex else CLAUDE_KEYS
    fields = {**{key: common[key] for key in keys if common.get(key) is not None}, **own_fields}
    included = {key: value for key, value in fields.items() if key not in left_out}
    return encode_input(included, "" if is_codex else "\n")


@dataclass
class HookedCall:
    """A call as hooks get it."""

    id: str
    tool: Tool
    checked: JsonObject
    targets: Mapping[str, Path]
    result: ToolResult | None = None
    """None before it ran."""
    _before: str | None = None
    """The text of the file that it edits, as it was."""
    _began: float = 0.0

    async def run(self, work: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Run the call and keep what hooks are told of it."""
        if self._is_edit and self.targets:
            self._before = await asyncio.to_thread(_read_beginning, self._path)
        self._began = time.monotonic()
        self.result = await work()
        return self.result

    def describe(self, most: int) -> str:
        """Return the tool and what the call is about, in at most `most` characters."""
        return cut_at_word(one_line(f"{self.tool.name} {self.checked.get(self.tool.subject, '')}"), most)

    @property
    def has_failed(self) -> bool:
        """True for a call that ran and failed; status 1 of a search or a comparison is an answer."""
        result = self.result
        return result is not None and (bool(result.error) or (bool(result.status) and not self._meaning(result)))

    def fields(self, event: str, hook: Hook) -> list[JsonDict]:
        """Return the part of the input that is about the call, for each run of a hook. One that was written for other
        programs, which know one path a call, runs for each path that an edit names. Blocks."""
        name = self._claude_name if hook.is_foreign else self.tool.name
        arguments = self._claude_arguments() if hook.is_foreign else self.own_arguments()
        real = [str(target) for target in self.targets.values()] if self._is_edit else []
        inputs = (
            [{**arguments, "file_path": path} for path in real] if hook.is_foreign and len(real) > 1 else [arguments]
        )
        end: JsonDict = {} if hook.is_foreign and event == "PermissionRequest" else {"tool_use_id": self.id}
        if self.result is not None:
            if event == FAILED_EVENT:
                end |= {"error": self._describe_failure(self.result), "is_interrupt": False}
            end["duration_ms"] = round((time.monotonic() - self._began) * 1000)
        return [
            {"tool_name": name, "tool_input": tool_input, **self._respond(event, hook, tool_input), **end}
            for tool_input in inputs
        ]

    def describe_result(self) -> str:
        """Return the result of the call as text."""
        result = self.result or ToolResult()
        if self.has_failed:
            return self._describe_failure(result)
        return _output_of(result) or f"({self._claude_name} completed with no output)"

    def own_arguments(self) -> JsonDict:
        """Return the arguments of the call, with those of Claude for a file and an edit beside ours."""
        arguments = dict(self.checked)
        if self.tool.paths and self.targets:
            arguments.setdefault("file_path", self._path)
        return arguments | {name: text for name, text in self._join_edits().items() if name not in arguments}

    @property
    def _is_edit(self) -> bool:
        return self.tool.effect is Effect.EDIT

    @property
    def _path(self) -> str:
        return str(next(iter(self.targets.values()), ""))

    @property
    def _claude_name(self) -> str:
        """Return the name of the tool as Claude has it."""
        names = foreign_names(self.tool.name)
        if self._is_edit:
            return "Write" if "Write" in names else "Edit"
        return next(iter(names), self.tool.name)

    def _claude_arguments(self) -> JsonDict:
        """Return the arguments of the call as Claude gives them, in its order; others of ours follow."""
        arguments = foreign_arguments(self._claude_name, self.tool.name, self.checked)
        if self._is_edit:
            arguments = {"file_path": "", **self._join_edits(), **arguments}
            arguments |= {"replace_all": arguments.pop("replace_all", False)} if "old_string" in arguments else {}
        if "file_path" in arguments and self.targets:
            arguments["file_path"] = self._path
        return arguments

    def _join_edits(self) -> JsonDict:
        edits = self.checked.get("edits")
        if not self._is_edit or not isinstance(edits, list):
            return {}
        pairs = [edit for edit in edits if isinstance(edit, Mapping)]
        return {f"{key}_string": "\n".join(str(pair.get(key, "")) for pair in pairs) for key in ("old", "new")}

    def _respond(self, event: str, hook: Hook, arguments: JsonObject) -> JsonDict:
        if self.result is None or event == FAILED_EVENT:
            return {}
        if hook.is_codex:
            return {"tool_response": _NOTES.sub("", self.result.output)[:MAX_RESPONSE]}
        if hook.is_foreign and COMMAND in self.checked:
            return {"tool_response": self._command_response(self.result)}
        # Only what the call was allowed to touch is read: an argument may name any file.
        if hook.is_foreign and self.targets and (self._is_edit or self._path == self.result.file):
            return {"tool_response": self._file_response(arguments)}
        text = self.result.output[:MAX_RESPONSE]
        return {"tool_response": {"success": True, "output": text, "stdout": text, "exit_code": self.result.status}}

    def _command_response(self, result: ToolResult) -> JsonDict:
        meaning = self._meaning(result)
        return {
            "stdout": _output_of(result),
            "stderr": "",
            "interrupted": False,
            "isImage": False,
            **({"returnCodeInterpretation": meaning} if meaning else {}),
            "noOutputExpected": False,
            **({"backgroundTaskId": result.job} if result.job else {}),
        }

    def _file_response(self, arguments: JsonObject) -> JsonDict:
        path = str(arguments.get("file_path", ""))
        now = _read_beginning(path) or ""
        if not self._is_edit:
            lines, first = now.split("\n"), int(arguments.get("offset", 1))
            part = lines[first - 1 : first - 1 + arguments["limit"]] if "limit" in arguments else lines[first - 1 :]
            file = {"filePath": path, "content": "\n".join(part), "numLines": len(part)}
            return {"type": "text", "file": {**file, "startLine": first, "totalLines": len(lines)}}
        patch = _find_hunks(self._before, now) if self._before is not None else []
        if self._claude_name == "Write":
            kind = "create" if self._before is None else "update"
            response = {"type": kind, "filePath": path, "content": arguments.get("content"), "structuredPatch": patch}
            return {**response, "originalFile": self._before, "userModified": False}
        response = {
            "filePath": path,
            "oldString": arguments.get("old_string"),
            "newString": arguments.get("new_string"),
        }
        end = {"userModified": False, "replaceAll": arguments.get("replace_all", False)}
        return {**response, "originalFile": self._before, "structuredPatch": patch, **end}

    def _describe_failure(self, result: ToolResult) -> str:
        """Return the error of a failed call as Claude words it."""
        if result.error or result.status is None:
            return result.error[:MAX_RESPONSE]
        return "\n".join(filter(None, (f"Exit code {result.status}", _output_of(result))))

    def _meaning(self, result: ToolResult) -> str:
        last = _LAST.search(str(self.checked.get(COMMAND, "")).rstrip()) if result.status == 1 else None
        return MEANINGS.get(last[1], "") if last else ""


def describe_batch(calls: Sequence[HookedCall], hook: Hook) -> list[JsonDict]:
    """Return the part of the input that is about the calls of a step, with their results as the model gets them."""
    described = [
        {key: field[key] for key in ("tool_name", "tool_input", "tool_use_id")}
        | {"tool_response": call.describe_result()}
        for call in calls
        for field in call.fields(FAILED_EVENT, hook)
    ]
    return [{"tool_calls": described}]


def _read_beginning(path: str) -> str | None:
    """Return the text of a file, at most `MAX_RESPONSE` bytes of it; None if there is none."""
    with suppress(OSError, ValueError):
        return read_real(path, MAX_RESPONSE)[0].decode("utf-8", "replace")
    return None


def _output_of(result: ToolResult) -> str:
    return _NOTES.sub("", result.output)[:MAX_RESPONSE].rstrip("\n")


def _find_hunks(old: str, new: str) -> list[JsonDict]:
    """Return the hunks of a change, with three lines around each."""
    before, after = old.splitlines(), new.splitlines()
    hunks = []
    for group in difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(3):
        lines: list[str] = []
        for kind, first, end, start, stop in group:
            if kind == "equal":
                lines += [f" {line}" for line in before[first:end]]
                continue
            lines += [f"-{line}" for line in before[first:end]] + [f"+{line}" for line in after[start:stop]]
        (_, old_first, _, new_first, _), (_, _, old_end, _, new_end) = group[0], group[-1]
        sizes = {"oldStart": old_first + 1, "oldLines": old_end - old_first}
        hunks.append({**sizes, "newStart": new_first + 1, "newLines": new_end - new_first, "lines": lines})
    return hunks
