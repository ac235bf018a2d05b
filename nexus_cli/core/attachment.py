"""What comes with a message beside its words, and words that can be stored: apart from messages, since a command that
sends none needs no more than this."""

from __future__ import annotations

from dataclasses import dataclass


def replace_surrogates(text: str) -> str:
    """`text` with every lone surrogate replaced by U+FFFD, so that it can be stored and sent as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


@dataclass(frozen=True, slots=True)
class Part:
    """An attached image."""

    media_type: str
    data: bytes
    name: str = ""
