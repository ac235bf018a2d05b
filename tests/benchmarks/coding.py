"""Coding sessions by a seed: what a person says, which files a model reads and edits, and a provider with a cache.

Owns the generator and the provider; what is measured on them is `benchmarks.cache_share`. Steps take 300 to 1,500
tokens, sessions 200 to 2,000 steps; everything goes through the real session, its tools and its ledger.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nexus_cli.core.request import CallDelta, Delta, FinishDelta, Request, TextDelta, UsageDelta
from nexus_cli.core.usage import Usage

WORDS = (
    "parser",
    "window",
    "session",
    "ledger",
    "report",
    "value",
    "entry",
    "index",
    "table",
    "reader",
    "writer",
    "buffer",
    "cursor",
    "schema",
    "column",
    "record",
    "budget",
    "cache",
    "prefix",
    "token",
    "layer",
    "section",
    "recipe",
    "limit",
)
WISHES = (
    "Make {a} faster and keep its tests green.",
    "Don't change the public names of {a}.",
    "No, I meant {b}, not {a}.",
    "The {a} loses its last {b} when the {c} is empty: find out why.",
    "Always run the tests of {a} after you touched {b}.",
    "Write down what {c} does in the docs, in two sentences.",
    "Now move {a} into a module of its own; {b} must not import {c}.",
)
FILES = 48
LONG = 110
"""Lines from which on a file is written anew instead of edited."""
FORK, TRANSCRIPT = "about to be replaced by your summary", "Sum up the conversation below"


def prose(dice: random.Random, tokens: int) -> str:
    """About so many tokens of words."""
    return " ".join(dice.choice(WORDS) for _ in range(max(1, tokens)))


def code(dice: random.Random, lines: int) -> str:
    """So many lines that look like code, about nine tokens each."""
    made = []
    for number in range(lines):
        one, two, three = (dice.choice(WORDS) for _ in range(3))
        made.append(f"    {one}_{number} = {two}.{three}({dice.randrange(1000)})")
    return "\n".join(made) + "\n"


def write_project(folder: Path, seed: int) -> None:
    """Files of 20 to 90 lines."""
    dice = random.Random(f"project {seed}")
    for number in range(FILES):
        path = folder / f"src/part_{number:02}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"MARK = 0\n{code(dice, dice.randint(20, 90))}", encoding="utf-8")


@dataclass
class Sent:
    """One request as the provider saw it, in its tokens."""

    input: int
    read: int
    """Tokens of the beginning that it had been sent before."""
    output: int
    main: bool
    messages: int


@dataclass
class Model:
    """A model that codes: reads, edits, writes and searches, and ends a turn after some steps. Keeps a prefix cache
    that never expires, and counts a token for every four characters of JSON."""

    seed: int
    folder: Path
    sent: list[Sent] = field(default_factory=list)
    left: int = 0
    """Steps of the turn that are still to come."""

    def __post_init__(self) -> None:
        self._dice = random.Random(f"model {self.seed}")
        self._sizes: dict[int, tuple[Mapping[str, Any], int]] = {}
        self._before: list[Mapping[str, Any]] = []
        self._tools: tuple[int, int] = (0, 0)
        self._names: frozenset[str] = frozenset()
        self._edits = 0

    def _size(self, message: Mapping[str, Any]) -> int:
        known = self._sizes.get(id(message))
        if known is None or known[0] is not message:
            known = self._sizes[id(message)] = (message, len(json.dumps(message, ensure_ascii=False)) // 4)
        return known[1]

    def _tools_size(self, request: Request) -> int:
        if self._tools[0] != len(request.tools):
            self._tools = (len(request.tools), len(json.dumps(list(request.tools))) // 4)
            self._names = frozenset(str(tool["function"]["name"]) for tool in request.tools)
        return self._tools[1]

    def account(self, request: Request, output: int) -> Sent:
        """What the provider reports for a request."""
        said = request.messages[-1]
        text = said["content"] if isinstance(said.get("content"), str) else ""
        main = FORK not in text and TRANSCRIPT not in text
        shared = 0
        for one, two in zip(request.messages, self._before, strict=False):
            if one is not two and one != two:
                break
            shared += 1
        sizes = [self._size(message) for message in request.messages]
        tools = self._tools_size(request)
        read = tools + sum(sizes[:shared]) if shared else 0
        if main:
            self._before = list(request.messages)
        made = Sent(tools + sum(sizes), read, output, main, len(sizes))
        self.sent.append(made)
        return made

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """One reply."""
        said = request.messages[-1]
        text = said["content"] if isinstance(said.get("content"), str) else ""
        if FORK in text or TRANSCRIPT in text:
            answer = f"## Goal\n{prose(self._dice, min(6000, request.max_output // 3))}\n## Files\nsrc/part_00.py"
            calls: list[tuple[str, dict[str, Any]]] = []
        elif self.left <= 0:
            answer, calls = prose(self._dice, self._dice.randint(40, 200)), []
        else:
            self.left -= 1
            answer, calls = prose(self._dice, self._dice.randint(5, 60)), self._calls()
        yield TextDelta(answer)
        for place, (name, arguments) in enumerate(calls):
            yield CallDelta(place, f"call_{len(self.sent)}_{place}", name, json.dumps(arguments))
        sent = self.account(request, (len(answer) + len(json.dumps(calls))) // 4)
        yield UsageDelta(Usage(sent.input, sent.output, sent.read, sent.input - sent.read))
        yield FinishDelta("tool_calls" if calls else "stop")

    def _calls(self) -> list[tuple[str, dict[str, Any]]]:
        dice = self._dice
        number = min(int(dice.expovariate(0.08)), FILES - 1)  # some files are looked at much more often than others
        path = f"src/part_{number:02}.py"
        match dice.random():
            case chance if chance < 0.62:
                return [("read_file", {"path": path})]
            case chance if chance < 0.8 and len(lines := self._lines(path)) < LONG:
                self._edits += 1
                new = f"MARK = {self._edits}\n{code(dice, dice.randint(20, 40)).rstrip()}"
                return [("edit_file", {"path": path, "edits": [{"old": lines[0], "new": new}]})]
            case chance if chance < 0.9:
                text = f"MARK = 0\n{code(dice, dice.randint(20, 90))}"
                return [("write_file", {"path": path, "content": text})]
        return [("grep", {"pattern": f"{dice.choice(WORDS)}_1\\d ", "path": "src"})]

    def _lines(self, path: str) -> list[str]:
        return (self.folder / path).read_text(encoding="utf-8").splitlines()

    async def aclose(self) -> None:
        """Nothing to release."""


def wishes(seed: int, steps: int) -> list[tuple[str, int]]:
    """What the person says, turn by turn, and how many steps each turn takes; `steps` in all."""
    dice, found = random.Random(f"person {seed}"), []
    left = steps
    while left > 0:
        size = min(left, dice.randint(4, 40))
        a, b, c = dice.sample(WORDS, 3)
        text = dice.choice(WISHES).format(a=a, b=b, c=c)
        if dice.random() < 0.15:
            text += "\n\n" + prose(dice, dice.randint(100, 800))
        found.append((text, size))
        left -= size
    return found
