"""Which step answers a request: rules, a list in order, a function, or the default.

Rules are looked at first, in their order; then the list goes on by one; when it is used up the default answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.received import Received
from server.step import Step, known

Answer = Step | Mapping[str, Any] | str
Source = Sequence[Answer] | Mapping[str, Any] | Callable[[Any], Answer] | str | Path | None
"""What a script can be made of: steps, the object of a script file, a function of the request body, a file."""

DEFAULT = Step(text="answer", numbered=True)
KEYS = ("steps", "rules", "default")


@dataclass(frozen=True, slots=True)
class When:
    """A condition on a request; all that is given must hold."""

    contains: str = ""
    """Stands in the last message."""
    anywhere: str = ""
    """Stands in any block, tools and system text included."""
    matches: str = ""
    """A regular expression found in the last message."""
    last_role: str = ""
    """`user`, `assistant` or `tool`."""
    offers: str = ""
    """A tool of this name is offered; `-` alone: no tool is."""
    form: str = ""
    model: str = ""
    number: int = 0
    """The request's number."""

    def holds(self, request: Received) -> bool:
        """True when the request is meant."""
        content = request.content
        last = [block for block in content if block.place == content[-1].place] if content else []
        said = "\n".join(block.text for block in last)
        names = request.offered
        return (
            self.contains in said
            and (not self.anywhere or any(self.anywhere in block.text for block in content))
            and (not self.matches or re.search(self.matches, said) is not None)
            and (not self.last_role or (bool(last) and last[-1].role == self.last_role))
            and (not self.offers or (not names if self.offers == "-" else self.offers in names))
            and self.form in ("", request.form)
            and self.model in ("", request.model)
            and self.number in (0, request.number)
        )


class Rule:
    """A condition and the steps that answer it in turn, over and over; with `times` only so often."""

    def __init__(self, when: When, steps: Sequence[Step], times: int | None = None) -> None:
        self.when = when
        self.steps = steps
        self.times = times
        self.used = 0

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Rule:
        """A rule from a script: `when`, `then` (a step or a list of them), `times`. `ValueError` on other keys."""
        for key in value:
            if key not in ("when", "then", "times"):
                raise ValueError(f"rule: no key {key!r}; there are when, then, times")
        known(When, value.get("when", {}))
        then = value["then"]
        steps = [Step.of(item) for item in (then if isinstance(then, list | tuple) else [then])]
        return cls(When(**value.get("when", {})), steps, value.get("times"))

    def take(self, request: Received) -> Step | None:
        """The next step when the rule is meant, else None."""
        if (self.times is not None and self.used >= self.times) or not self.when.holds(request):
            return None
        self.used += 1
        return self.steps[(self.used - 1) % len(self.steps)]


class Script:
    """Chooses steps, in the order of the requests. Used by one thread."""

    def __init__(
        self,
        steps: Sequence[Answer] = (),
        rules: Sequence[Mapping[str, Any]] = (),
        default: Answer = DEFAULT,
        choose: Callable[[Any], Answer] | None = None,
    ) -> None:
        self.steps = [Step.of(step) for step in steps]
        self.rules = [Rule.of(rule) for rule in rules]
        self.default = Step.of(default)
        self.choose = choose
        self.played = 0
        """How many of `steps` have answered."""

    @classmethod
    def of(cls, source: Source) -> Script:
        """A script from anything that it can be made of. `ValueError` when it is not one."""
        if source is None:
            return cls()
        if callable(source):
            return cls(choose=source)
        if isinstance(source, str | Path):
            return cls.of(json.loads(Path(source).read_text(encoding="utf-8")))
        if isinstance(source, Mapping):
            for key in source:
                if key not in KEYS:
                    raise ValueError(f"script: no key {key!r}; there are {', '.join(KEYS)}")
            return cls(source.get("steps", ()), source.get("rules", ()), source.get("default", DEFAULT))
        return cls(source)

    def take(self, request: Received) -> Step:
        """The step that answers this request."""
        if self.choose is not None:
            return Step.of(self.choose(request.body))
        for rule in self.rules:
            step = rule.take(request)
            if step is not None:
                return step
        if self.played < len(self.steps):
            self.played += 1
            return self.steps[self.played - 1]
        return self.default

    @property
    def left(self) -> int:
        """Steps of the list that have not answered yet."""
        return len(self.steps) - self.played
