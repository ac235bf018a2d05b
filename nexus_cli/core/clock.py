"""Get and format times. `Clock` is a value that tests can replace."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the local time with its zone."""
BACKWARDS = -60.0
"""Seconds that a clock may be set back before its times count as unknown."""
YEAR = 366 * 86400.0
"""Seconds beyond which a difference is taken for a clock jump."""


def local_now() -> datetime:
    return datetime.now().astimezone()


def format_utc(moment: datetime) -> str:
    """Format `moment` as ISO 8601 in UTC with milliseconds, as in the ledger and in JSON."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_now() -> str:
    """Return the current time as the ledger and JSON have it."""
    return format_utc(local_now())


def format_moment(seconds: float | None) -> str | None:
    """Format seconds since the epoch as the ledger does; None for none, and where no calendar has the time."""
    try:
        return None if seconds is None else format_utc(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return None


def format_local_minute(at: str, pattern: str = "%Y-%m-%d %H:%M") -> str:
    """Format a time of the ledger as local time with `pattern`; return other text unchanged."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime(pattern)
    except (ValueError, OverflowError):
        return at


def format_age(at: str, now: datetime) -> str:
    """Format the age of a time of the ledger (`12 minutes ago`), after a week its date; keep other text."""
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


def format_stamp(at: str) -> str:
    """Format a time of the ledger for a timeline: `[2026-02-18T15:06:55Z]`."""
    return f"[{at[:19]}Z]" if len(at) > 19 and at.endswith("Z") else f"[{at}]"


def format_local_time(moment: datetime) -> str:
    """Format `moment` for the model and the person: `2026-01-13 14:30 (local)`."""
    return f"{moment:%Y-%m-%d %H:%M} (local)"


def seconds_between(then: datetime | None, now: datetime) -> float | None:
    """Return the seconds from `then` to `now`; None if `then` is None or the clock has jumped."""
    if then is None:
        return None
    seconds = (now - then).total_seconds()
    return None if seconds < BACKWARDS or seconds > YEAR else max(0.0, seconds)


def recorded_seconds(first: str, then: str) -> float | None:
    """Return the seconds between two times of the ledger; None if one is missing or they are in reverse order."""
    try:
        seconds = (datetime.fromisoformat(then) - datetime.fromisoformat(first)).total_seconds()
    except ValueError:
        return None
    return round(seconds, 1) if seconds >= 0 else None
