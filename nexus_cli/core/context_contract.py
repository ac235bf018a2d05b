"""The contract that a person sets for the requests of a turn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ContextContract:
    """The person's requirements on the requests of a turn."""

    full_input: bool
    """The whole prompt, with files and stdin, must be in the request."""
    max_input: int | None
    """Most input tokens of a request, by the figure that `nexus ask --price` shows."""
    max_drop: int | None
    """Most tokens left out of the first request."""
    sections: tuple[str, ...]
    """Ids of sections that the first request must have in full."""
    inputs: tuple[tuple[str, str], ...] = ()
    """Name and text of each input of the person."""
    uncounted: int = 0
    """Bytes of input beyond the hard limit, which were not kept."""

    @property
    def largest_input(self) -> str:
        """The name of the input with the most text."""
        return max(self.inputs, key=lambda pair: len(pair[1]))[0] if self.inputs else "the input"

    def share(self, name: str) -> float:
        """Return the part of the whole input's text that the input `name` has, from 0 to 1."""
        texts = dict(self.inputs)
        return len(texts[name]) / max(1, sum(map(len, texts.values()))) if name in texts else 1.0
