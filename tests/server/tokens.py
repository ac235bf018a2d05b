"""What a request is said to have used. The counting itself is `server.meter`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens in our words; each form spells them in its own."""

    input: int = 0
    """All of the prompt, with what was read from and written to the cache."""
    output: int = 0
    """All of the answer, with its thinking."""
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    def with_changes(self, changes: Mapping[str, int] | None) -> Tokens:
        """These tokens with the numbers of a script in place. `ValueError` on an unknown name."""
        names = [field.name for field in fields(self)]
        for name in changes or ():
            if name not in names:
                raise ValueError(f"usage: no key {name!r}; there are {', '.join(names)}")
        return replace(self, **changes) if changes else self
