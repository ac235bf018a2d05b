"""The protocol to the provider: one request out, deltas in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol

from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.usage import Usage


@dataclass(slots=True)
class Sending:
    """State of a request before its first delta, set by the transport."""

    is_sent: bool = False
    """True once the newest attempt goes out, until the provider refuses it: it may be charged for."""


@dataclass(frozen=True, slots=True)
class Request:
    """A model request. `messages` are Chat Completions message objects, system first."""

    model: str
    messages: Sequence[JsonObject]
    tools: Sequence[JsonObject]
    max_output: int
    """Output cap in tokens, always explicit."""
    effort: str = ""
    """Reasoning effort, one of `EFFORTS`; "" for the model's default."""
    tool_choice: str = "auto"
    cache_key: str = ""
    """Stable for a conversation and its forks."""
    previous_end: int = 0
    """The number of `messages` in the previous request of this conversation; 0 for the first."""
    stall_seconds: float = 120.0
    """Seconds without a byte after which the stream counts as stalled."""
    response_format: str = ""
    """The schema that the provider holds the answer to, as the JSON of its argument; "" for free text."""
    sending: Sending = field(default_factory=Sending, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the reply's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A fragment of a tool call, as streamed by the provider."""

    index: int | None
    id: str = ""
    name: str = ""
    arguments: str = ""
    fields: JsonObject | None = None
    """Fields to send back with this call (a thought signature)."""


@dataclass(frozen=True, slots=True)
class OpaqueDelta:
    """A piece to send back to the provider: a thinking block or reasoning text."""

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
    """A failed attempt, and the seconds before the next one with the same bytes."""

    attempt: int
    wait: float
    why: str


@dataclass(frozen=True, slots=True)
class SentDelta:
    """The identity of the body that was sent; comes last, if at all."""

    body: str
    """Library, its version, and the SHA-256 of the body: `litellm 1.2.3 0a1b...`."""


Delta = TextDelta | ThinkingDelta | CallDelta | OpaqueDelta | UsageDelta | FinishDelta | RetryDelta | SentDelta


class Provider(Protocol):
    """A source of streamed replies.

    Raises `ProviderError` if the request fails, before or after the first delta. A stream that merely ends early has no
    `FinishDelta`. Closing the iterator closes the connection.
    """

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Send a request and yield the deltas of its reply."""


async def close_if_closable(opened: object) -> None:
    """Close a provider or a stream, if it has `aclose`."""
    close = getattr(opened, "aclose", None)
    if close is not None:
        await close()


@dataclass(frozen=True, slots=True)
class PriceTier:
    """Prices of a request with a long input, in US dollars per million tokens."""

    min_input: int
    """Least input tokens for which the tier applies."""
    input_price: float | None
    output_price: float | None
    cache_read_price: float | None = None
    cache_write_price: float | None = None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Data about a model. Prices are US dollars per million tokens; None means unknown, never free."""

    json_fields: ClassVar = """
        name window max_output input_price output_price cache_read_price cache_write_price cache images tools known
        covered list_price window_told:window_refused
    """
    name: str
    provider: str
    window: int
    max_output: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    cache_read_price: float | None = None
    cache_write_price: float | None = None
    known: bool = True
    """False if the model is not in the table: unless its window is known from elsewhere, nexus assumes 128,000 and
    prints a notice."""
    images: bool = False
    blind: bool = False
    """True if its server, or the person's settings, state that it takes no images."""
    tools: bool = True
    """False if its server reports that the model does not support tools."""
    cache: bool = False
    encoding: str = "o200k_base"
    """The tiktoken encoding that counts best for it."""
    tiers: tuple[PriceTier, ...] = ()
    """Other prices for long inputs, sorted by `min_input`."""
    covered: bool = False
    """True if a subscription pays for the requests: there are no prices."""
    address: str = ""
    """Host and port set in the environment; "" for the provider's own."""
    window_refused: bool = False
    """True if the window is known from a refused request."""
    listed_window: int = 0
    """The window in the table or the settings, if a refused request named another; else 0."""
    window_key: str = ""
    """The setting that sets the window, "" for none."""
    pending: bool = False
    """True while its server has not answered yet what it can do."""
    list_price: bool = False
    """True if the prices are those of the public list, for a server that may charge others."""

    @property
    def served_name(self) -> str:
        """Return the name for learned values: another server may count and limit differently."""
        return f"{self.name} at {self.address}" if self.address else self.name

    def with_tier_prices(self, tokens: int) -> ModelInfo:
        """Return the model with the prices of a request with `tokens` of input, for any tokens that are priced next."""
        if not self.tiers:
            return self
        tier = next((tier for tier in reversed(self.tiers) if tokens >= tier.min_input), None)
        prices = asdict(tier) if tier else {}
        prices.pop("min_input", None)
        return replace(self, tiers=(), **prices)


@dataclass(frozen=True, slots=True)
class Model:
    """A model with its request settings."""

    info: ModelInfo
    effort: str = ""
    cache_key: str = ""
    stall_seconds: float = 120.0
