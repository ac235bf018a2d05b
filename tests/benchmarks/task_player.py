"""A scripted model that must see what it uses, and the account of its requests as a provider with a cache keeps it.

A script is a generator: it yields the calls of a step, is sent their results, and returns its reply. What it needs and
the window no longer shows it reads again, and that is counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nexus_cli.core.price import request_cost
from nexus_cli.core.request import CallDelta, Delta, FinishDelta, ModelInfo, Request, TextDelta, UsageDelta
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import canonical

Call = tuple[str, Mapping[str, Any]]
Script = Generator[Sequence[Call], list[str], str]
SUMMARY = re.compile(r"about to be replaced by your summary|Sum up the conversation below")
SUMMARY_WORDS = 900
NUMBERED = re.compile(r"^(?:(?:[\w./-]+:)?\d+ ?[-+: ]|[-+])")
"""What stands before a line in a diff or in the matches of a search, with or without their path."""
SHORTEST = 4
"""Characters of a line that tells something."""


@dataclass
class Account:
    """What was sent and received, in tokens."""

    requests: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0
    rereads: int = 0
    """Calls for what had been shown before and was out of sight."""

    def add(self, other: Account) -> None:
        """Add that of another task."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def dollars(self, info: ModelInfo) -> float:
        """Return the price, all that is not cached being written to the cache; raises `ValueError` if unknown."""
        info = replace(info, tiers=())  # no request is that long
        cost = request_cost(info, cached=self.cached, fresh=self.input - self.cached, output=self.output)
        if cost is None:
            raise ValueError(f"no price for {info.name}")
        return cost


@dataclass
class PrefixCache:
    """A provider's cache that never expires: whole messages count as cached as far as an earlier request had them.

    Requests are compared by their canonical lines: tools, system text, messages.
    """

    count: Callable[[str], int]
    _sent: list[list[bytes]] = field(default_factory=list)
    _sizes: dict[bytes, int] = field(default_factory=dict)

    def send(self, request: Request) -> tuple[int, int]:
        """Return the tokens of a request, and those of them that are cached."""
        lines = [canonical(list(request.tools)), *map(canonical, request.messages)]
        shared = max((_common(lines, before) for before in self._sent), default=0)
        others = [before for before in self._sent if before != lines[: len(before)]]
        self._sent = [*others[-3:], lines]
        sizes = [self._size(line) for line in lines]
        return sum(sizes), sum(sizes[:shared])

    def _size(self, line: bytes) -> int:
        if line not in self._sizes:
            self._sizes[line] = self.count(line.decode())
        return self._sizes[line]


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """Count the lines with which both begin; the system text alone is not looked up without the tools before it."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class Sight:
    """The lines that a window shows: in results, and in what the model itself wrote."""

    def __init__(self) -> None:
        self._lines: dict[bytes, frozenset[str]] = {}
        self._now: list[frozenset[str]] = []
        self.ever: set[str] = set()
        """Lines that were shown at any time."""

    def look(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Take in the messages of a request."""
        self._now = []
        for message in messages:
            key = canonical(message)
            if key not in self._lines:
                self._lines[key] = frozenset(_lines_of(message))
                self.ever |= self._lines[key]
            self._now.append(self._lines[key])

    def shows(self, text: str) -> bool:
        """Return True if every line of `text` that tells something is in sight."""
        return all(any(line in shown for shown in self._now) for line in _telling(text))

    def showed(self, text: str) -> bool:
        """Return True if every such line was in sight at some time."""
        return self.ever.issuperset(_telling(text))


def _telling(text: str) -> list[str]:
    return [line for line in map(str.strip, text.splitlines()) if len(line) >= SHORTEST]


def _lines_of(message: Mapping[str, Any]) -> set[str]:
    texts = [message["content"]] if isinstance(message.get("content"), str) else []
    for call in message.get("tool_calls") or ():
        texts += _strings(json.loads(call["function"]["arguments"]))
    found = {line.strip() for text in texts for line in text.splitlines()}
    return found | {NUMBERED.sub("", line).strip() for line in found}


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inside for text in _strings(one)]


def failed(result: str) -> bool:
    """Return True if an edit's result says that it failed; a file that it shows may have the words too."""
    return result.rstrip().endswith("Nothing was changed.")


class Player:
    """The provider of a session: plays one script a turn, and keeps the account."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self.account = Account()
        self.sight = Sight()
        self.offered: Collection[str] = ()
        """Names of the tools of the newest request."""
        self.workers: Mapping[str, Callable[[], Script]] = {}
        """Makes the scripts of workers, by what they are told."""
        self._count, self._cache = count, PrefixCache(count)
        self._scripts: list[Script] = []
        """That of the turn, and those of the workers for which it waits."""

    def play(self, script: Script) -> None:
        """Answer the requests of the next turn by this script."""
        self._scripts = [script]
        self._is_new = True

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Reply to one request."""
        text, calls = self._reply(request)
        made = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in calls]
        total, cached = self._cache.send(request)
        output = self._count(text) + sum(self._count(canonical(call).decode()) for call in made)
        self.account.add(Account(1, total, cached, output))
        if text:
            yield TextDelta(text)
        for place, call in enumerate(made):
            yield CallDelta(place, f"call_{self.account.requests}_{place}", call["name"], call["arguments"])
        yield UsageDelta(Usage(total, output, cached, total - cached))
        yield FinishDelta("tool_calls" if calls else "stop")

    def _reply(self, request: Request) -> tuple[str, Sequence[Call]]:
        news: list[Mapping[str, Any]] = []
        for message in reversed(request.messages):
            if message["role"] == "assistant":
                break
            news.insert(0, message)
        if SUMMARY.search("\n".join(str(one.get("content")) for one in news if one["role"] == "user")):
            words = f"## Goal\nThe work goes on.\n## Files\n{'A file was read and changed as asked. ' * 9}\n"
            return words * (SUMMARY_WORDS // 90), ()
        self.sight.look(request.messages)
        self.offered = [str(one["function"]["name"]) for one in request.tools]
        results = [str(one["content"]) for one in news if one["role"] == "tool"]
        said = "" if results else str(news[-1]["content"])
        if begun := [make for prompt, make in self.workers.items() if prompt in said]:
            self._scripts.append(begun[0]())
            self._is_new = True
        try:
            calls = next(self._scripts[-1]) if self._is_new else self._scripts[-1].send(results)
            self._is_new = False
        except StopIteration as end:
            self._scripts.pop()
            return end.value, ()
        return "", calls

    async def aclose(self) -> None:
        """Nothing to release."""
