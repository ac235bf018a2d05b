"""A scripted model: the same answers at the same place of a conversation, without network and chance.

The script is data. Nothing is remembered between steps: the place is read from the conversation, so that another
process continues it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
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
"""The name under which it is asked."""
SUMMARY_HEAD = "[CONTEXT SUMMARY"
HEADINGS = "Goal: as it was asked for below.\nCommands: with how they ended."
_TOKEN = re.compile(r"[A-Za-z]{1,9}|\d{1,3}| (?=\d)|[^\sA-Za-z0-9]{1,3}\n*| {2,}|\n+")
_OVERHEAD = 4
"""Tokens that a message takes besides its texts."""
_FRAGMENT = 12
"""Characters of a call's arguments in one delta."""
_ROOM = re.compile(r"at most (\d+) tokens")
_STATUS = re.compile(r"\[[^\[\]]*exit status \d+[^\[\]]*\]")
_FAILED = re.compile(r"^FAIL: .*$", re.MULTILINE)

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """One reply, and where in a conversation it belongs."""

    text: str = ""
    """The answer; `$name` is replaced by a group of `asked`, `results` or `seen`. So in the arguments of `calls`."""
    calls: tuple[Mapping[str, Any], ...] = ()
    """`name` and `arguments` of each call."""
    asked: str = ""
    """A pattern that is found in the newest words of the person."""
    after: str = ""
    """Names of the calls whose results came last, with blanks between; "" when the person's words came last."""
    results: str = ""
    """A pattern that is found in those results."""
    done: str = ""
    """A tool that was called since the person's newest words."""
    seen: str = ""
    """A pattern that is found in the conversation, the system text aside."""
    summary: bool = False
    """The reply is a summary of the conversation, in place of `text`."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of a conversation that steps are matched against."""

    words: str
    after: str
    results: str
    done: tuple[str, ...]
    seen: str

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Moment:
        """Return the end of `messages`, Chat Completions message objects."""
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
    """Return the steps of a script: the tables `[[step]]` of a TOML file, with the fields of `Step`."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["step"]
    return tuple(ScriptStep(**{**table, "calls": tuple(table.get("calls", ()))}) for table in tables)


def count_tokens(text: str) -> int:
    """Count tokens as this model does: short words, groups of digits, signs, indents, line ends."""
    return sum(1 for _ in _TOKEN.finditer(text))


def _size(message: Message) -> int:
    functions = [call["function"] for call in message.get("tool_calls", ())]
    called = sum(
        count_tokens(function["name"]) + count_tokens(function["arguments"]) + _OVERHEAD for function in functions
    )
    return count_tokens(_text(message)) + called + _OVERHEAD


class ScriptedProvider:
    """A provider that answers from a script. The first step that fits is played; without one the request fails."""

    model = MODEL

    def __init__(self, steps: Sequence[ScriptStep], *, pace: float = 0.0, memory: Path | None = None) -> None:
        """`pace` is seconds between two words. `memory` keeps hashes of sent prefixes: a prompt cache that processes
        share through a file."""
        self._steps = steps
        self._pace = pace
        self._memory = memory
        self._sent: set[str] = set()

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield the deltas of one reply: its text in words, its calls in fragments, what it used."""
        text, calls = self._reply(request)
        used = self._used(request, text + "".join(arguments for _, arguments in calls))
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
            found = _match_step(step, moment)
            if found is None:
                continue
            if step.summary:
                return f"{HEADINGS}\n{summarize(request.messages[:-1], _room(moment.words))}", []
            calls = [
                (call["name"], canonical(_fill_template(call["arguments"], found)).decode()) for call in step.calls
            ]
            return _fill_template(step.text, found), calls
        where = f"after {moment.after}" if moment.after else f"to {moment.words.splitlines()[-1][:60]!r}"
        why = f"the script has no answer {where}"
        raise ProviderError("provider", why, "What came back was not foreseen", what="the scripted model stopped")

    def _used(self, request: Request, said: str) -> Usage:
        """Return the usage of a request, and how much of it began as an earlier one to the same model did."""
        tools = canonical(list(request.tools))
        lines = [(tools, count_tokens(tools.decode())), *((canonical(one), _size(one)) for one in request.messages)]
        known = self._known()
        prefix, new, cached, total = hashlib.sha256(request.model.encode() + b"\n"), [], 0, 0
        for line, tokens in lines:
            prefix.update(line + b"\n")
            total += tokens
            if prefix.hexdigest() in known:
                cached = total
            else:
                new.append(prefix.hexdigest())
        self._remember(new)
        return Usage(total, count_tokens(said), cached)

    def _known(self) -> set[str]:
        if self._memory is not None and self._memory.exists():
            self._sent.update(self._memory.read_text(encoding="ascii").split())
        return self._sent

    def _remember(self, prefixes: Sequence[str]) -> None:
        self._sent.update(prefixes)
        if self._memory is not None:
            with self._memory.open("a", encoding="ascii") as file:
                file.write("".join(f"{prefix}\n" for prefix in prefixes))


def _match_step(step: ScriptStep, moment: Moment) -> dict[str, str] | None:
    """Return the groups that the patterns of `step` match, or None where it does not fit."""
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


def _fill_template(value: Any, groups: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return Template(value).safe_substitute(groups)
    if isinstance(value, Mapping):
        return {key: _fill_template(item, groups) for key, item in value.items()}
    return [_fill_template(item, groups) for item in value] if isinstance(value, list) else value


def _text(message: Message) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content)


def _room(instruction: str) -> int:
    named = _ROOM.search(instruction)
    return int(named[1]) if named else 400


def summarize(messages: Sequence[Message], room: int) -> str:
    """Return a summary of `messages` in at most `room` tokens: what was asked, run, changed, left out and answered.

    Every line of it is taken from the conversation; the older ones of a kind go first where there is no room.
    """
    asked: list[str] = []
    facts: list[str] = []
    said: list[str] = []
    results = {one["tool_call_id"]: _text(one) for one in messages if one["role"] == "tool"}
    for one in messages:
        text = _text(one)
        if text.startswith(SUMMARY_HEAD):
            facts.append(text.rpartition("\n---\n")[2].strip())
        elif one["role"] == "user":
            asked.append(f'- asked: "{_last_line(text)}"')
        elif one["role"] == "assistant":
            said += [f"- answered: {_last_line(text)}"] if text.strip() and not one.get("tool_calls") else []
            facts += [_describe_call(call, results.get(call["id"], "")) for call in one.get("tool_calls", ())]
    order = dict.fromkeys([*asked, *facts, *said])
    kept: list[str] = []
    for line in (*reversed(asked), *reversed(said), *reversed(facts)):
        more = [one for one in order if one == line or one in kept]
        if count_tokens("\n".join(more)) <= room:
            kept = more
    return "\n".join(kept) or "Nothing was said yet."


def _last_line(text: str) -> str:
    """Return the last line; additions to the person's words and the way to an answer precede it."""
    return text.strip().rpartition("\n")[2].strip()


def _describe_call(call: Message, result: str) -> str:
    """Return one call and its outcome on one line; for a failed test its name."""
    function = call["function"]
    arguments = json.loads(function["arguments"])
    subject = " ".join(str(value) for value in arguments.values() if isinstance(value, str))
    status = _STATUS.search(result)
    failed = _FAILED.search(result)
    ended = " ".join(one[0] for one in (failed, status) if one) or f"{len(result):,} characters"
    return f"- {function['name']} {subject[:60]} -> {ended}"
