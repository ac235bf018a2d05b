"""Three ways in which a model works on a task: careful, sloppy, hostile.

A style is a generator: it yields the calls of a step, gets their results, and returns its reply. `Player` plays one to
the scripted server, turn by turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from tasks.attacks import ATTACKS, Attack
from tasks.task import Task

from nexus_cli.core.message import USE_TOOL

Call = tuple[str, Any]
"""A tool's name, and its arguments: an object, or raw text."""
Turn = Generator[Sequence[Call], list[str], str]
Style = Callable[[Task, int, Path], Turn]

KNOWS = ""
"""Name of a call of no tool: the model gives up unless a text stands in its request."""
GIVES_UP = "I do not know that."
OFFER = re.compile(r"Use lines? [\d-]+ as `old`:\n(.*)\nNothing was changed\.", re.DOTALL)
SUMMARY = re.compile(r"replaced by your summary|Sum up the conversation below")
DROP = re.compile(r'recall\("(d\d+)"')
FAILED = re.compile(r"Nothing was changed|there is no tool|arguments|not permitted|read it|was not read|does not occur")


def as_call(step: Mapping[str, Any]) -> Call:
    """Return a step of a task as the call of nexus's own tool."""
    match {key: value for key, value in step.items() if key != "shows"}:
        case {"read": path, **more}:
            return "read_file", {"path": path, **more}
        case {"edit": path, "edits": edits}:
            return "edit_file", {"path": path, "edits": edits}
        case {"edit": path, **more}:
            return "edit_file", {"path": path, "edits": [more]}
        case {"write": path, "text": text}:
            return "write_file", {"path": path, "content": text}
        case {"run": command, **more}:
            return "bash", {"command": command, **more}
        case {"grep": pattern, **more}:
            return "grep", {"pattern": pattern, **more}
        case {"knows": text}:
            return KNOWS, text
        case {"tool": name, **more}:
            return name, more
        case {"describe": name}:
            return USE_TOOL, {"name": name}
        case {"use": name, **more}:
            return USE_TOOL, {"name": name, "arguments": more}
    raise ValueError(f"no step: {step}")


def careful(task: Task, turn: int, folder: Path) -> Turn:
    """Make the calls of the task, one a step."""
    for step in task.turns[turn].steps:
        results = yield [as_call(step)]
        assert "shows" not in step or step["shows"] in results[0], results
    return task.turns[turn].reply


def sloppy(task: Task, turn: int, folder: Path) -> Turn:
    """Make each call wrongly at first, in a way that changes from call to call, and mend it by what the result says."""
    start = crc32(task.name.encode())
    for number, step in enumerate(task.turns[turn].steps, start + turn):
        name, right = as_call(step)
        if name == "edit_file" and len(right["edits"]) == 1:
            yield from _edit_sloppily(right["path"], right["edits"][0], number, folder)
        elif name == "read_file":
            yield [_read_sloppily(right, number, folder)]
            if number % 3 == 0:
                yield [(name, right)]  # again
        elif name == KNOWS:
            yield [(name, right)]
        elif name == "bash" and len(right) == 1:
            yield [_run_sloppily(right["command"], number)]
        elif name == "write_file":
            results = yield [("Write", {"file_path": str(folder / right["path"]), "content": right["content"]})]
            if FAILED.search(results[0]):
                yield [("Read", {"file_path": right["path"]})]
                yield [(name, right)]
        else:
            results = yield [(name, _cut(right)), (name.title(), right)]
            assert len(results) == 2 and FAILED.search(results[0]), results
            yield [(name, right)]
    return task.turns[turn].reply


def _cut(arguments: Mapping[str, Any]) -> str:
    """Return arguments as they arrive if the reply ends in the middle."""
    whole = json.dumps(arguments)
    return whole[: len(whole) * 2 // 3]


def _read_sloppily(right: Mapping[str, Any], number: int, folder: Path) -> Call:
    path = right["path"]
    whole = dict(right) == {"path": path}
    if number % 4 == 0:
        return "Read", {**{key: value for key, value in right.items() if key != "path"}, "file_path": path}
    if number % 4 == 1:
        return "read_file", {**right, "path": str(folder / path)}
    if number % 4 == 2 and whole:
        return "str_replace_editor", {"command": "view", "path": f"./{path}"}
    return "read_file", {**right, "path": f"./{path}"}


def _run_sloppily(command: str, number: int) -> Call:
    if number % 3 == 0:
        return "Bash", {"command": command, "description": "Do the next thing"}
    if number % 3 == 1:
        return "shell", {"command": ["bash", "-lc", command]}
    return "run_shell_command", {"command": command}


def _edit_sloppily(path: str, edit: Mapping[str, Any], number: int, folder: Path) -> Turn:
    old, new = edit["old"], edit["new"]
    every = {"replace_all": True} if edit.get("all") else {}
    absolute = str(folder / path)
    first: Call
    match number % 6:
        case 0:
            first = "edit_file", _cut({"path": path, "edits": [edit]})
        case 1:
            first = "edit_file", {"path": path, "edits": [{**edit, "old": _respace(old)}]}
        case 2:
            numbered = "\n".join(f"{at:>6}\t{line}" for at, line in enumerate(old.split("\n"), 7))
            first = "Edit", {"file_path": absolute, "old_string": numbered, "new_string": new, **every}
        case 3:
            first = "Edit", {"file_path": path, "old_string": old, "new_string": new, **every}
        case 4:
            first = "str_replace_editor", {"command": "str_replace", "path": absolute, "old_str": old, "new_str": new}
        case _:
            first = "edit_file", json.dumps({"path": absolute, "edits": json.dumps([edit])})
    (result,) = yield [first]
    for _ in range(3):
        if not FAILED.search(result):
            break
        if "read it again" in result:
            yield [("read_file", {"path": path})]
        offered = OFFER.search(result)
        mended = {**edit, "old": offered[1]} if offered and offered[1].split() == old.split() else edit
        (result,) = yield [("edit_file", {"path": path, "edits": [mended]})]
    if old and old not in new and number % 2:
        yield [("edit_file", {"path": path, "edits": [edit]})]  # again: must not find its text
    return ""


def _respace(text: str) -> str:
    """Return text with other indents and with blanks at the ends of its lines."""
    return "\n".join("  " + line.replace("    ", "\t") + " " for line in text.split("\n"))


def hostile(task: Task, turn: int, folder: Path) -> Turn:
    """Do the work, and harm between the steps: four attacks a turn, others in every task."""
    chosen = choose_attacks(task, turn)
    middle = len(chosen) // 2
    for attack in chosen[:middle]:
        attack.judge((yield attack.calls(folder)))
    yield from careful(task, turn, folder)
    for attack in chosen[middle:]:
        attack.judge((yield attack.calls(folder)))
    return task.turns[turn].reply


def choose_attacks(task: Task, turn: int, count: int = 4) -> list[Attack]:
    """Return the attacks of a turn, those that destroy the project last."""
    start = crc32(f"{task.name} {turn}".encode())
    chosen = {(start + step * 7) % len(ATTACKS) for step in range(count)}
    return sorted((ATTACKS[at] for at in sorted(chosen)), key=lambda one: one.destroys)


STYLES: dict[str, Style] = {"careful": careful, "sloppy": sloppy, "hostile": hostile}


class Player:
    """Answers requests as a model of one style that is given one task after the other.

    `{drop}` in its calls is the drop that was named last. What it is told while it waits for a call is the
    task of a worker, which it plays until that is done.
    """

    def __init__(self, tasks: Sequence[Task], style: Style, folder: Path | None) -> None:
        self.turns = {turn.prompt: (task, at) for task in tasks for at, turn in enumerate(task.turns)}
        self.style = style
        self.folder = folder
        self.playing: list[Turn] = []
        self.drop = "d1"
        self.results: list[str] = []
        """Those of all calls, in order."""

    def __call__(self, body: Any) -> dict[str, Any]:
        news: list[Any] = []
        for message in reversed(body["messages"]):
            if message["role"] == "assistant":
                break
            news.insert(0, message)
        told = [str(one["content"]) for one in news if one["role"] == "tool"]
        self.results += told
        said = "\n".join(str(one["content"]) for one in news)
        if SUMMARY.search(said):
            return {"text": "The work goes on."}
        self.drop = (DROP.findall(said) or [self.drop])[-1]
        whole = "\n".join(str(one.get("content")) for one in body["messages"])
        try:
            if told and self.playing:
                step = self.playing[-1].send(told)
            else:
                (found,) = (about for prompt, about in self.turns.items() if prompt in said)
                self.playing.append(self.style(*found, self.folder or Path()))
                step = next(self.playing[-1])
            while step[0][0] == KNOWS:
                if step[0][1] not in whole:
                    self.playing.pop()
                    return {"text": GIVES_UP}
                step = self.playing[-1].send([])
        except StopIteration as end:
            self.playing.pop()
            return {"text": end.value}
        return {"calls": [{"name": name, "arguments": self._name_drop(arguments)} for name, arguments in step]}

    def _name_drop(self, arguments: Any) -> Any:
        return json.loads(json.dumps(arguments).replace("{drop}", self.drop))
