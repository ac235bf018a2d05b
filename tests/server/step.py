"""One scripted answer of the model: what it says, calls, reports and how it breaks.

Owns the shape of a step in a script file. Which step answers a request is `server.script`, the bytes that it becomes
are `server.forms`, and what a fault does to them is `server.faults`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from server.fault import Fault
from server.framing import FRAMINGS
from server.tokens import Tokens

IDS = ("given", "missing", "empty", "same", "echoed")
INDEXES = ("given", "missing", "zero")
FINISHES = ("stop", "tool_calls", "length", "content_filter")


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of a step."""

    name: str
    arguments: str = "{}"
    """The argument text as it goes out: anything at all, also no JSON."""
    id: str = ""
    """"" lets the server number it."""

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Call:
        """A call from a script; `arguments` is an object or the raw text. `ValueError` on an unknown key."""
        known(cls, value)
        raw = value.get("arguments", {})
        text = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, separators=(",", ":"))
        return cls(value["name"], text, value.get("id", ""))

    @property
    def value(self) -> Any:
        """The arguments parsed, or their raw text where they do not parse: for forms that carry values."""
        try:
            return json.loads(self.arguments) if self.arguments else {}
        except ValueError:
            return self.arguments


@dataclass(frozen=True, slots=True)
class Step:
    """One answer. Every field can stand in a script file."""

    text: str = ""
    repeat: int = 1
    """The text goes out so many times over, made as it is sent: 50 MB need no 50 MB here."""
    numbered: bool = False
    """Adds the request's number to the text, so that answers differ."""
    thinking: str = ""
    signature: str = ""
    """Signature of the thinking (Anthropic) or of the first call (Gemini)."""
    calls: tuple[Call, ...] = ()
    finish: str = ""
    """One of `FINISHES`, or a provider's own word; "" goes by the calls."""
    usage: Mapping[str, int] | None = None
    """Replaces counted numbers: `input output cache_read cache_write reasoning`."""
    report: bool = True
    """False: the provider reports no usage."""
    chunk: int = 16
    """Characters in one delta of text or thinking; 0 sends it whole."""
    fragment: int = 24
    """Characters in one delta of arguments; 0 sends a call whole, in one delta with its name."""
    interleave: bool = False
    """Fragments of several calls take turns."""
    ids: str = "given"
    """One of `IDS`: `same` gives all calls one id, `echoed` repeats each id in every fragment."""
    indexes: str = "given"
    """One of `INDEXES`, for Chat Completions."""
    delay: float = 0.0
    """Seconds before the status line."""
    pace: float = 0.0
    """Seconds before each delta."""
    write: int | str = 0
    """Bytes in one write and HTTP chunk; 0: one event; `utf8`: every character of several bytes is split."""
    framing: str = "chunked"
    """How the body ends: one of `server.framing.FRAMINGS`."""
    fault: Fault | None = None

    @classmethod
    def of(cls, value: Step | Mapping[str, Any] | str) -> Step:
        """A step from a script; a bare string is its text. `ValueError` on an unknown key or word."""
        if isinstance(value, Step):
            return value
        if isinstance(value, str):
            return cls(text=value)
        known(cls, value)
        made = dict(value)
        made["calls"] = tuple(call if isinstance(call, Call) else Call.of(call) for call in value.get("calls", ()))
        made["fault"] = None if value.get("fault") is None else Fault.of(value["fault"])
        return cls(**made)

    def __post_init__(self) -> None:
        for name, allowed in (("ids", IDS), ("indexes", INDEXES), ("framing", tuple(FRAMINGS))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"step: {name} is one of {', '.join(allowed)}, not {getattr(self, name)!r}")
        Tokens().with_changes(self.usage)
        if self.write != "utf8" and not isinstance(self.write, int):
            raise ValueError(f"step: write is a number of bytes or 'utf8', not {self.write!r}")

    @property
    def reason(self) -> str:
        """Why it ends, in the words of `FINISHES` or a provider's own."""
        return self.finish or ("tool_calls" if self.calls else "stop")

    def ids_of_calls(self, number: int) -> list[str | None]:
        """The id of each call in the answer to request `number`; None where it is left out."""
        given = [call.id or f"call_{number}_{place}" for place, call in enumerate(self.calls)]
        if self.ids == "missing":
            return [None] * len(given)
        if self.ids == "empty":
            return [""] * len(given)
        return [given[0]] * len(given) if self.ids == "same" else list(given)

    def fragments(self) -> Iterator[tuple[int, str]]:
        """The pieces of all arguments as (place of the call, piece), in the order in which they go out."""
        cut = [list(pieces(call.arguments, self.fragment)) for call in self.calls]
        if not self.interleave:
            yield from ((place, piece) for place, parts in enumerate(cut) for piece in parts)
            return
        for turn in range(max(map(len, cut), default=0)):
            yield from ((place, parts[turn]) for place, parts in enumerate(cut) if turn < len(parts))


def known(cls: type[Any], value: Mapping[str, Any]) -> None:
    """`ValueError` naming the first key of `value` that is no field of the dataclass `cls`."""
    names = [field.name for field in fields(cls)]
    for key in value:
        if key not in names:
            raise ValueError(f"{cls.__name__.lower()}: no key {key!r}; there are {', '.join(names)}")


def pieces(text: str, size: int, repeat: int = 1) -> Iterator[str]:
    """`text`, `repeat` times over, in pieces of `size` characters (0: whole); never holds more than needed."""
    total = len(text) * repeat
    if not total:
        return
    if size <= 0 or size >= total:
        yield text * repeat
        return
    unit = text * (size // len(text) + 2) if repeat > 1 else text
    for start in range(0, total, size):
        begin = start % len(text)
        yield unit[begin : begin + min(size, total - start)]
