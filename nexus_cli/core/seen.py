"""A file that a session saw: how, when, and what has become of it since."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SeenFile:
    """One file that a session read or changed, by the most that it did with it."""

    path: str
    """Absolute, as the ledger has it."""
    how: str
    """`read`, `changed` or `created`: a file that the session created stays so whatever is done with it later."""
    digest: str
    """SHA-256 (hex) of what it held then."""
    at: str
    """When that was: ISO 8601, UTC."""
    entry: int
    """The newest entry of the main lane then: the message with the call."""
    disk: str = "same"
    """What the file is now against then: `same`, `changed`, or `gone`."""
    moment: str = ""
    """When it was changed on disk, local time; "" unless `disk` is `changed`."""
    hidden: bool = False
    """The message with the call is not in the window any more."""
