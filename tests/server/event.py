"""What an answer is made of before it is bytes, and what a connection is told to do.

A form (`server.forms`) yields `Event`s, `server.faults` breaks them, `server.delivery` writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from server.step import Step
from server.tokens import Tokens

Part = Literal["start", "frame", "delta", "finish", "usage", "end"]


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream."""

    part: Part
    data: Any
    """A JSON value, or bytes that go out as they are in its place."""
    name: str = ""
    """Event name, where the form has one."""
    text: str = ""
    """What a delta carries of the answer."""


@dataclass(frozen=True, slots=True)
class Wait:
    """No byte for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hang:
    """The connection ends here."""

    reset: bool
    """By a TCP reset; else by closing it."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes that go out as they are, without a frame."""

    data: bytes


Order = Event | Raw | Wait | Hang


@dataclass(frozen=True, slots=True)
class Reply:
    """What a form must know besides the step."""

    number: int
    """Of the request, from 1."""
    model: str
    tokens: Tokens
    include_usage: bool = True
    """Chat Completions report usage in a stream only when asked."""
    dialect: str = ""
    """A variety of Chat Completions: see `server.forms.overflow`."""


class Form(Protocol):
    """One provider's wire form."""

    name: str
    content_type: str
    """Of a stream."""

    def events(self, step: Step, reply: Reply) -> Iterator[Event]:
        """The stream that `step` becomes, without its fault."""
        ...

    def frame(self, event: Event) -> bytes:
        """The bytes of one event."""
        ...

    def whole(self, step: Step, reply: Reply) -> Any:
        """The JSON answer to a request that wants no stream."""
        ...

    def error(self, status: int, message: str, code: str) -> Any:
        """The JSON body of an error; "" for `message` and `code` means the provider's own."""
        ...

    def error_event(self, status: int, message: str, code: str) -> Event:
        """An error inside a stream."""
        ...

    def overflow(self, tokens: int, limit: int, reply: Reply) -> Any:
        """The JSON body of the 400 that refuses `tokens` above `limit`."""
        ...
