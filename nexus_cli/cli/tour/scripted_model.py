"""A model that plays a script: the same replies to the same conversation, without a network.

It selects the step that matches the conversation, streams its reply and counts tokens. The replies are data in the
script. The next step depends on the conversation alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import tomllib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from nexus_cli.core.errors import ProviderError
from nexus_cli.core.request import CallDelta, Delta, FinishDelta, Request, TextDelta, UsageDelta
from nexus_cli.core.usage import Usage
from nexus_cli.core.wire import canonical

MODEL = "scripted"
"""The name of the model."""
_TOKEN = re.compile(r"[A-Za-z]{1,9}|\d{1,3}| (?=\d)|[^\sA-Za-z0-9]{1,3}\n*| {2,}|\n+")
_OVERHEAD = 4
"""Tokens of a message in addition to its texts."""
_FRAGMENT = 12
"""Characters of a call's arguments per delta."""

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """One reply, and the conditions under which it is played."""

    text: str = ""
    """Its text. `$name` is replaced by a group of `asked`, `results` or `seen`, also in the arguments of `calls`."""
    calls: tuple[Mapping[str, Any], ...] = ()
    """`name` and `arguments` of each call."""
    asked: str = ""
    """A pattern to find in the person's newest message."""
    after: str = ""
    """Names of the calls whose results came last, separated by spaces; "" if the person's message came last."""
    results: str = ""
    """A pattern to find in those results."""
    done: str = ""
    """A tool that must have been called since the person's newest message."""
    seen: str = ""
    """A pattern to find in the conversation without the system text."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The end of a conversation, as far as steps depend on it."""

    words: str
    after: str
    results: str
    done: tuple[str, ...]
    seen: str

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Moment:
        """Return the end of a conversation of Chat Completions messages."""
        last = max((index for index, one in enumerate(messages) if one["role"] == "user"), default=0)
        since = messages[last + 1 :]
        asking = max((index for index, one in enumerate(since) if one["role"] == "assistant"), default=-1)
        names = [call["function"]["name"] for one in since for call in one.get("tool_calls", ())]
        calls = since[asking].get("tool_calls", ()) if asking >= 0 else ()
        results = "\n".join(_text(one) for one in since[asking + 1 :])
        after = " ".join(call["function"]["name"] for call in calls)
        seen = "\n".join(_text(one) for one in messages if one["role"] != "system")
        return cls(_text(messages[last]), after, results, tuple(names), seen)


def load_script(path: Path) -> tuple[ScriptStep, ...]:
    """Load the steps of a script: the tables `[[step]]` of a TOML file, with the fields of `ScriptStep`."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["step"]
    return tuple(ScriptStep(**{**table, "calls": tuple(table.get("calls", ()))}) for table in tables)


def count_tokens(text: str) -> int:
    """Count tokens by this model's rule: short words, groups of digits, signs, indents, line ends."""
    return sum(1 for _ in _TOKEN.finditer(text))


def _size(message: Message) -> int:
    functions = [call["function"] for call in message.get("tool_calls", ())]
    called = sum(
        count_tokens(function["name"]) + count_tokens(function["arguments"]) + _OVERHEAD for function in functions
    )
    return count_tokens(_text(message)) + called + _OVERHEAD


class ScriptedModel:
    """A provider that answers with the first matching step of a script. Raises `ProviderError` if none matches."""

    model = MODEL

    def __init__(self, steps: Sequence[ScriptStep], *, pace: float = 0.0) -> None:
        """Initialize; `pace` is the seconds between two words."""
        self._steps = steps
        self._pace = pace
        self._sent: set[str] = set()
        """Hashes of sent prefixes: the provider's cache."""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield the deltas of one reply: its text by words, its calls in fragments, its usage."""
        text, calls = self._reply(request)
        used = self._compute_usage(request, text + "".join(arguments for _, arguments in calls))
        for word in re.findall(r"\S+\s*|\s+", text):
            yield TextDelta(word)
            await asyncio.sleep(self._pace)
        for index, (name, arguments) in enumerate(calls):
            yield CallDelta(index, f"call_{index}", name)
            for start in range(0, len(arguments), _FRAGMENT):
                yield CallDelta(index, arguments=arguments[start : start + _FRAGMENT])
        yield UsageDelta(used)
        yield FinishDelta("tool_calls" if calls else "stop")

    def _reply(self, request: Request) -> tuple[str, list[tuple[str, str]]]:
        moment = Moment.of(request.messages)
        for step in self._steps:
            found = _match_patterns(step, moment)
            if found is None:
                continue
            calls = [(call["name"], canonical(_fill_groups(call["arguments"], found)).decode()) for call in step.calls]
            return _fill_groups(step.text, found), calls
        where = f"after {moment.after}" if moment.after else f"to {moment.words.splitlines()[-1][:60]!r}"
        why = f"the script has no answer {where}"
        raise ProviderError("provider", why, "The script does not expect this reply", what="the scripted model stopped")

    def _compute_usage(self, request: Request, said: str) -> Usage:
        """Return the tokens of a request and its reply; a prefix already sent to the same model counts as cached."""
        tools = canonical(list(request.tools))
        lines = [(tools, count_tokens(tools.decode())), *((canonical(one), _size(one)) for one in request.messages)]
        prefix, cached, total = hashlib.sha256(request.model.encode() + b"\n"), 0, 0
        for line, tokens in lines:
            prefix.update(line + b"\n")
            total += tokens
            if prefix.hexdigest() in self._sent:
                cached = total
            self._sent.add(prefix.hexdigest())
        return Usage(total, count_tokens(said), cached)


def _match_patterns(step: ScriptStep, moment: Moment) -> dict[str, str] | None:
    """Return the groups that the patterns of `step` matched, None if the step does not match."""
    if step.after != moment.after or (step.done and step.done not in moment.done):
        return None
    groups: dict[str, str] = {}
    looked = ((step.asked, moment.words), (step.results, moment.results), (step.seen, moment.seen))
    for pattern, text in looked:
        match = re.search(pattern, text)
        if match is None:
            return None
        groups.update(match.groupdict(""))
    return groups


def _fill_groups(value: Any, groups: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return Template(value).safe_substitute(groups)
    if isinstance(value, Mapping):
        return {key: _fill_groups(item, groups) for key, item in value.items()}
    return [_fill_groups(item, groups) for item in value] if isinstance(value, list) else value


def _text(message: Message) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content)
