"""The protocol to the provider: one request out, deltas in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from nexus_cli.core.usage import Usage


@dataclass(frozen=True, slots=True)
class Request:
    """One model request, before cache marks. `messages` are Chat Completions message objects, system first."""

    model: str
    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    max_output: int
    """Output cap in tokens, always explicit."""
    effort: str = ""
    """Reasoning effort as the person named it, or "" for the model's own default."""
    tool_choice: str = "auto"
    cache_key: str = ""
    """Stable for a root lane and its forks."""
    previous_end: int = 0
    """The number of `messages` that the previous request of this lane had; 0 for a first one."""
    stall_seconds: float = 120.0
    """Without a byte for so long the stream counts as stalled."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A fragment of a tool call, as the provider cut it."""

    index: int | None
    id: str = ""
    name: str = ""
    arguments: str = ""
    fields: Mapping[str, Any] | None = None
    """Fields to send back with this call (a thought signature)."""


@dataclass(frozen=True, slots=True)
class OpaqueDelta:
    """A piece that the provider wants back: a thinking block or reasoning text."""

    field: Literal["thinking_blocks", "reasoning_content"]
    value: Any


@dataclass(frozen=True, slots=True)
class UsageDelta:
    """The usage that the provider reported."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class FinishDelta:
    """The end of the stream, with the provider's reason: `stop`, `tool_calls`, `length`, `content_filter`."""

    reason: str


@dataclass(frozen=True, slots=True)
class RetryDelta:
    """A failed try, and the wait in seconds before the next one with the same bytes."""

    attempt: int
    wait: float
    why: str


@dataclass(frozen=True, slots=True)
class SentDelta:
    """The body that went over the wire; comes last, if at all."""

    body: str
    """The library with its version, and the SHA-256 of the body that it made: `litellm 1.2.3 0a1b...`."""


Delta = TextDelta | ThinkingDelta | CallDelta | OpaqueDelta | UsageDelta | FinishDelta | RetryDelta | SentDelta


class Provider(Protocol):
    """A source of streamed replies.

    Raises `ProviderError` when the request failed, before or after the first delta. A stream that merely ends early
    ends without a `FinishDelta`. Closing the iterator closes the connection.
    """

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Return the deltas of one reply."""
        ...


@dataclass(frozen=True, slots=True)
class PriceTier:
    """Prices of a whole request whose input is long, in US dollars per million tokens."""

    min_input: int
    """Tokens of input from which on it applies."""
    input_price: float | None
    output_price: float | None
    cache_read_price: float | None = None
    cache_write_price: float | None = None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Data about a model. Prices are US dollars per million tokens; None is unknown, never free."""

    name: str
    provider: str
    window: int
    max_output: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    cache_read_price: float | None = None
    cache_write_price: float | None = None
    known: bool = True
    """False: it is not in the table; where nobody `told` its window that is the default of 128,000, with a notice."""
    images: bool = False
    cache: bool = False
    encoding: str = "o200k_base"
    """The tiktoken table that counts best for it."""
    tiers: tuple[PriceTier, ...] = ()
    """Other prices for long inputs, by rising `least`."""
    address: str = ""
    """Host and port that the environment sends it to; empty: its provider's own."""
    window_refused: bool = False
    """The window is what a refusal named."""
    listed_window: int = 0
    """The window that it has by the table or the settings, where `told`; else 0."""
    window_key: str = ""
    """The setting that names the window, "" where none does."""

    @property
    def served_name(self) -> str:
        """Return the name under which learned values are kept: another server may count and limit in another way."""
        return f"{self.name} at {self.address}" if self.address else self.name

    def with_tier_prices(self, tokens: int) -> ModelInfo:
        """Return the same model with the prices of a request of `tokens` of input, every token of which costs the
        same."""
        tier = next((tier for tier in reversed(self.tiers) if tokens >= tier.min_input), None)
        if tier is None:
            return self
        return replace(
            self,
            input_price=tier.input_price,
            output_price=tier.output_price,
            cache_read_price=tier.cache_read_price,
            cache_write_price=tier.cache_write_price,
        )
