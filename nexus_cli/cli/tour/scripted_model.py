"""A model that plays a script: the replies of one scene in order, without a network."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from itertools import takewhile

from nexus_cli.conversation.tokens.counter import brief_count
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.request import CallDelta, Delta, FinishDelta, Request, TextDelta, UsageDelta
from nexus_cli.core.usage import Usage

MODEL = "scripted"
"""The name of the model."""

Script = JsonObject
"""`defaults/tour/scenes.toml`, or a table in it."""


class ScriptedModel:
    """A provider that plays one scene after the other."""

    def __init__(self, summary: str, *, pace: float = 0.0) -> None:
        """Initialize; `summary` is the reply wherever a summary is wanted, `pace` the seconds between two words."""
        self.summary = summary
        self._pace = pace
        self._scene: Script = {}
        self._played = 0
        self.has_stopped = False
        """True once a result was another one than the script expects."""
        self._sent: list[str] = []
        """The parts of the newest request: what the cache of a provider would hold."""

    def begin(self, scene: Script) -> None:
        """Play `scene` from its first reply."""
        self._scene, self._played = scene, 0

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield the deltas of one reply: its text by words, its calls, its usage."""
        reply = self._next_reply(request.messages[-1])
        calls = reply.get("calls", {})
        for word in re.findall(r"\s*\S+\s*", reply.get("text", "")):
            yield TextDelta(word)
            await asyncio.sleep(self._pace)
        for index, (name, arguments) in enumerate(calls.items()):
            yield CallDelta(index, f"call_{index}", name, json.dumps(arguments))
        yield UsageDelta(self._measure(request, reply))
        yield FinishDelta("tool_calls" if calls else "stop")

    def _next_reply(self, newest: JsonObject) -> Script:
        content = str(newest["content"])
        if newest["role"] == "user" and self._scene["words"] not in content:
            return {"text": self.summary}
        reply: Script = self._scene["replies"][self._played]
        self._played += 1
        if reply.get("after", "") in content:
            return reply
        self.has_stopped = True
        return {"text": self._scene["otherwise"]}

    def _measure(self, request: Request, reply: Script) -> Usage:
        """Return the tokens of a request and its reply; what begins as the request before it counts as cached."""
        encoded_parts = [json.dumps(part) for part in (request.tools, *request.messages)]
        common_pairs = takewhile(lambda pair: pair[0] == pair[1], zip(encoded_parts, self._sent, strict=False))
        cached = sum(brief_count(part) for part, _ in common_pairs)
        self._sent = encoded_parts
        return Usage(sum(map(brief_count, encoded_parts)), brief_count(json.dumps(reply)), cached)
