"""Recognises "the request does not fit the window" in the words of each provider, and reads the two numbers.

Owns the wordings. Leaves every other failure to `failures`. The numbers let the session learn how far its own count is
from the provider's; where a message has none they are None.
"""

from __future__ import annotations

import re

N = r"([\d,]{2,})"
WORDINGS = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|maximum prompt length|maximum model length|"
    r"prompt is too long|input is too long|input length exceeds|too large for model with|exceeds? the context window|"
    r"exceed context limit|input token count.{0,40}exceeds|exceeds the available context|exceeded max context length|"
    r"input tokens exceed|context the overflows|context length of only|"
    r"reduce the length of the (messages|prompt|input)|request_too_large|larger than the (model's )?context",
    re.IGNORECASE,
)
LIMITS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"maximum context length (?:is|of) {N}",
        rf"maximum prompt length is {N}",
        rf"maximum model length of {N}",
        rf"tokens > {N} maximum",
        rf"exceed context limit: [\d,]+ \+ [\d,]+ > {N}",
        rf"too large for model with {N}",
        rf"maximum number of tokens allowed \(?{N}",
        rf"configured limit of {N}",
        rf"available context size \({N}",
        rf"context length of only {N}",
        rf'"n_ctx": ?{N}',
    )
]
COUNTS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\({N} (?:in the messages|of text input)",
        rf"messages resulted in {N}",
        rf"prompt is too long: {N} tokens",
        rf"exceed context limit: {N} \+",
        rf"prompt contains {N} tokens",
        rf"input token count \(?{N}",
        rf"request contains {N} tokens",
        rf"your request has {N} input tokens",
        rf"request \({N} tokens\) exceeds",
        rf"prompt \(length {N}\)",
        rf"keep the first {N} tokens",
        rf'"n_prompt_tokens": ?{N}',
        rf"you requested (?:about )?{N} tokens",
    )
]


def is_overflow(text: str) -> bool:
    """True when `text` says that the request is larger than the model's window."""
    return WORDINGS.search(text) is not None


def _first(patterns: list[re.Pattern[str]], text: str) -> int | None:
    found = next((m for p in patterns if (m := p.search(text))), None)
    return int(found.group(1).replace(",", "")) if found else None


def overflow_numbers(text: str) -> tuple[int | None, int | None]:
    """The window and the tokens of the request that `text` names, each None when it does not."""
    return _first(LIMITS, text), _first(COUNTS, text)
