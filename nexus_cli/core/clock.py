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


def format_local_minute(at: str, pattern: str = "%Y-%m-%d %H:%M") -> str:
    """Return a time of the ledger as local time, to the minute unless `pattern` says otherwise; other text as it is."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime(pattern)
    except (ValueError, OverflowError):
        return at


def format_age(at: str, now: datetime) -> str:
    """Return how long ago a time of the ledger was: `12 minutes ago`; from a week on its date."""
    try:
        moment = datetime.fromisoformat(at).astimezone(now.tzinfo)
    except (ValueError, OverflowError):
        return at
    seconds = (now - moment).total_seconds()
    days = (now.date() - moment.date()).days
    for unit, size, most in (("minute", 60, 60), ("hour", 3600, 24 if days < 2 else 0)):
        count = int(seconds // size)
        if 1 <= count < most:
            return f"{count} {unit}{'s' * (count > 1)} ago"
    if seconds < 60:  # also after the clock was set back
        return "just now"
    return f"{moment:%Y-%m-%d}" if days >= 7 else f"{days} days ago" if days > 1 else "yesterday"


def format_local_time(moment: datetime) -> str:
    """Return `moment` as the model and the person read it: `2026-01-13 14:30 (local)`."""
    return f"{moment:%Y-%m-%d %H:%M} (local)"
