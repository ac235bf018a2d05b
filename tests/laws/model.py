"""A scripted model that behaves at random: it answers, calls tools, breaks off, refuses, sums up badly.

Deterministic for its seed and the requests it gets. Reads a request only through `server.blocks`, so it plays every
wire form.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any

from server.blocks import content

FORK = "about to be replaced by your summary"
TRANSCRIPT = "Sum up the conversation below"
MARKER = re.compile(r'recall\(\\?"(d\d+)\\?"')
ODD: list[dict[str, Any]] = [
    {"name": "no_such_tool", "arguments": {"x": 1}},
    {"name": "read_file", "arguments": "[1]"},
    {"name": "read_file", "arguments": '{"path": "a'},
    {"name": "bash", "arguments": {}},
    {"name": "recall", "arguments": {"id": "d999"}},
]
SAME = {"name": "glob", "arguments": {"pattern": "*.txt"}}


@dataclass
class Habits:
    """How often it does what, from 0 to 1."""

    calls: float = 0.6
    retry: float = 0.06
    broken: float = 0.05
    odd: float = 0.08
    repeat: float = 0.04
    bad_summary: float = 0.4
    lines: int = 700
    """Most lines of one output."""


@dataclass
class Model:
    """Answers requests of one form."""

    seed: int
    form: str = "chat"
    habits: Habits = field(default_factory=Habits)
    words: int = 0
    """How many answers it gave."""

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    def __call__(self, body: Any) -> dict[str, Any]:
        """The step that answers this request."""
        rng, habits = self._rng, self.habits
        said = content(body, self.form)
        last = said[-1].text if said else ""
        if rng.random() < habits.retry:
            return {"fault": {"status": rng.choice([429, 503, 500]), "message": "try again"}}
        if FORK in last or TRANSCRIPT in last:
            return self._summary()
        if rng.random() < habits.broken:
            return rng.choice(
                [
                    {"text": "partial words of an answer " * 3, "fault": {"kind": "reset", "after": 2}},
                    {"text": "cut off", "finish": "length"},
                    {"text": "without a reason", "fault": {"kind": "no_finish"}},
                    {"fault": {"kind": "empty"}},
                    {"text": "stopped", "finish": "content_filter"},
                ]
            )
        self.words += 1
        text = f"answer {self.words} of {self.seed} " + "and so on " * rng.randint(0, 12)
        if rng.random() < habits.calls:
            count = rng.choice([1, 1, 2, 3, 4])
            known = MARKER.findall("\n".join(block.text for block in said))
            calls = [self._call(known) for _ in range(count)]
            if self.form == "gemini":
                # litellm leaves out a call that is equal to another one of its message, but not its result.
                calls = [call for place, call in enumerate(calls) if call not in calls[:place]]
            return {"text": text if rng.random() < 0.5 else "", "calls": calls, "interleave": rng.random() < 0.3}
        return {"text": text}

    def _call(self, known: list[str]) -> dict[str, Any]:
        rng = self._rng
        if rng.random() < self.habits.odd:
            return rng.choice(ODD)
        if rng.random() < self.habits.repeat:
            return SAME
        if known and rng.random() < 0.4:
            start = rng.randint(0, 3000)
            return {"name": "recall", "arguments": {"id": rng.choice(known), "range": f"{start}:{start + 2000}"}}
        kind = rng.choice(["seq", "seq", "read", "glob", "grep"])
        if kind == "seq":
            first = rng.randint(1, 99)
            last = first + rng.randint(1, self.habits.lines)
            return {"name": "bash", "arguments": {"command": f"seq {first} {last}"}}
        if kind == "read":
            return {"name": "read_file", "arguments": {"path": f"{rng.choice('abc')}.txt"}}
        if kind == "glob":
            return {"name": "glob", "arguments": {"pattern": rng.choice(["*", "*.txt", "**/*.md"])}}
        return {"name": "grep", "arguments": {"pattern": f"line {rng.randint(1, 60)}"}}

    def _summary(self) -> dict[str, Any]:
        rng = self._rng
        if rng.random() >= self.habits.bad_summary:
            details = "a detail that matters " * rng.randint(3, 20)
            return {"text": f"Goal: as said. Next: go on. SUMMARY {rng.randint(0, 999)}: the goal is x. {details}"}
        return rng.choice(
            [
                {"text": ""},
                {"text": "far too long " * 4000, "chunk": 4096},
                {"text": "", "calls": [{"name": "glob", "arguments": {"pattern": "*"}}]},
                {"fault": {"status": 400, "message": "no"}},
                {"text": "half a summary " * 5, "fault": {"kind": "reset", "after": 2}},
            ]
        )
