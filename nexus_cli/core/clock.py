"""Time, as a value that tests can replace."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the local time with its zone."""


def local_now() -> datetime:
    """Return the current local time, with its zone."""
    return datetime.now().astimezone()


def format_utc(moment: datetime) -> str:
    """Return `moment` as ISO 8601 in UTC with milliseconds, the form of every time in the ledger and in JSON."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_local_time(moment: datetime) -> str:
    """Return `moment` as the model and the person read it: `2026-01-13 14:30 (local)`."""
    return f"{moment:%Y-%m-%d %H:%M} (local)"
