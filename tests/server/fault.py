"""The ways in which a scripted answer breaks, as data. What each does to the bytes is `server.faults`.

"reset"   "429"   429   {"status": 429, "retry_after": 2}   {"kind": "stall", "seconds": 3, "after": 0}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

KINDS = {
    "status": "an error status with the provider's own body",
    "quota": "429 in the words of a used-up quota",
    "overflow": "400 in the words of a window that is too small",
    "close_before_head": "the connection ends without one byte",
    "reset": "TCP reset after `after` deltas",
    "cut": "the connection ends after `after` deltas, without the end of the body",
    "no_done": "all but the last mark (`[DONE]`, `message_stop`)",
    "done_only": "nothing but the last mark",
    "empty": "200 and an empty body",
    "no_finish": "no finish reason",
    "error_first": "an error event as the first thing in a 200",
    "error_later": "an error event after `after` deltas; nothing follows it",
    "stall": "no byte for `seconds` after `after` deltas, then it goes on",
    "stall_before_head": "no byte for `seconds`, then all of it",
    "bad_json": "after `after` deltas one event that is no JSON, then it goes on",
    "bad_utf8": "after `after` deltas one with a byte that is no UTF-8, then it goes on",
    "damage": "the bytes of the body are changed at random places, drawn from `seed`: flipped, lost, doubled, put in",
}
"""Kind to what it does."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to break."""

    kind: str
    after: int = 1
    """Deltas (of text, thinking or arguments) that still get through; -1: not even the first event does."""
    status: int = 0
    """Of the answer, or in the error event; 0 is 500."""
    message: str = ""
    """Instead of the provider's own words."""
    code: str = ""
    """Instead of the provider's own code or type of this status."""
    retry_after: str = ""
    """Value of the Retry-After header: seconds or a date."""
    seconds: float = 0.0
    seed: int = 0
    """Of the damage."""

    @classmethod
    def of(cls, value: Fault | Mapping[str, Any] | str | int) -> Fault:
        """A fault from a script. `ValueError` on an unknown kind or key."""
        if isinstance(value, Fault):
            return value
        if isinstance(value, str | int):
            word = str(value)
            return cls("status", status=int(word)) if word.isdigit() else cls(word)
        made = {"kind": "status"} | dict(value)
        names = [field.name for field in fields(cls)]
        for key in made:
            if key not in names:
                raise ValueError(f"fault: no key {key!r}; there are {', '.join(names)}")
        made["retry_after"] = str(made.get("retry_after", ""))
        return cls(**made)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"fault: no kind {self.kind!r}; there are {', '.join(KINDS)}")
