"""Parse the times that people name, in a time zone: ISO 8601, `18:30`, `9am`, `tomorrow 09:00`.

A local time that does not exist, because clocks are set forward, means the next moment that does. A time that comes
twice, because they are set back, means the first.
"""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from nexus_cli.core.errors import UsageError

LONGEST = 200
"""Most characters of a time, or of the name of a zone."""
ZONE_EXAMPLES = "Use a form such as 2027-01-31T09:00, 2027-01-31T09:00+01:00, 18:30, 9am or 'tomorrow 09:00'"
_DAY = timedelta(days=1)
_CLOCK = re.compile(r"(?:(today|tomorrow)\s+(?:at\s+)?)?(\d{1,2})(?::(\d{2}))?\s*(am|pm)?", re.ASCII)


def parse_time(text: str, now: float, zone: str = "") -> float:
    """Return the moment of an ISO 8601 time, or the next one of a time of day, in seconds since the epoch.

    `zone` applies to times without a zone, by default the machine's own. Raises `ValueError` or `OverflowError` for
    other text, and `UsageError` if the zone has no name.
    """
    words = text[:LONGEST].strip().lower()
    clock = _CLOCK.fullmatch(words)
    if clock is None or not (clock[3] or clock[4]):
        moment = datetime.fromisoformat(text.strip()[:LONGEST])
        return moment.timestamp() if moment.tzinfo else to_moment(moment, find_zone(zone or local_zone()))
    hour, minute = int(clock[2]), int(clock[3] or 0)
    if clock[4]:
        if not 1 <= hour <= 12:
            raise ValueError(f"there is no {words}")
        hour = hour % 12 + 12 * (clock[4] == "pm")
    time_zone = find_zone(zone or local_zone())
    today = datetime.fromtimestamp(now, time_zone).date()
    days = {"today": (today,), "tomorrow": (today + _DAY,)}.get(clock[1], (today, today + _DAY))
    times = [to_moment(datetime(day.year, day.month, day.day, hour, minute), time_zone) for day in days]
    return next((clock_time for clock_time in times if clock_time > now), times[-1])


def local_zone() -> str:
    """Return the name of this machine's time zone; raise `UsageError` if it has none."""
    zone = os.environ.get("TZ")
    names = [os.path.realpath("/etc/localtime").partition("zoneinfo/")[2], _read_timezone()]
    if zone is not None:  # a name, the path of its file, or a POSIX rule, which is not a name
        names = [zone.lstrip(":").rpartition("zoneinfo/")[2]]
    for name in names:
        if name and _load_zone(name):
            return name
    if not (datetime.now().astimezone().utcoffset() or time.daylight):
        return "UTC"
    raise UsageError(
        "the time zone of this machine",
        "its name cannot be determined",
        "Add a zone, such as --zone Europe/Berlin",
    )


def _read_timezone() -> str:
    try:
        return Path("/etc/timezone").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def find_zone(name: str) -> ZoneInfo:
    """Return the time zone of an IANA name; raise `UsageError` if it does not exist."""
    zone = _load_zone(name)
    if zone is None:
        raise UsageError(f"--zone {name[:80]!r}", "unknown time zone", "Use a name such as Europe/Berlin or UTC")
    return zone


def _load_zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if len(name) <= LONGEST else None
    except (ZoneInfoNotFoundError, ValueError, OSError):  # no such file, not a relative path, a folder
        return None


def to_moment(local: datetime, zone: ZoneInfo) -> float:
    """Return the moment of a local time: the first of two, or the next existing one if it does not exist."""
    aware = local.replace(tzinfo=zone, fold=0)
    if is_real(aware):
        return aware.timestamp()
    # The two guesses lie on both sides of the change: clocks were set forward between them.
    low, high = aware.replace(fold=1).astimezone(UTC), aware.astimezone(UTC)
    before = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) / 2
        low, high = (middle, high) if middle.astimezone(zone).utcoffset() == before else (low, middle)
    return float(int(high.timestamp()))


def is_real(aware: datetime) -> bool:
    """True if clocks in its zone show this time at some moment."""
    return aware.astimezone(UTC).astimezone(aware.tzinfo).replace(tzinfo=None) == aware.replace(tzinfo=None)
