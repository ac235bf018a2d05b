"""Compute the times of plans: the first one from `--at`, `--in` or `--cron`, the next one, and the number missed.

cronsim parses the cron fields as Debian's cron does; time zones come from `zoneinfo`. Cron names local times. A time
that does not exist, because clocks are set forward, means the next moment that does. A time that comes twice, because
they are set back, means the first. With `*` as the hour, every hour of real time counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from nexus_cli.core.duration import parse_duration
from nexus_cli.core.errors import NexusError

MOST_YEARS = 10
"""Years within which a plan must have a time."""
MOST_DAYS = MOST_YEARS * 366
LONGEST = 200
"""Most characters of a cron expression, a time, or the name of a zone."""
FIELDS = "minute hour day-of-month month day-of-week"
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PlanTime:
    """The first time of a plan, and the rule for the next ones."""

    next_at: float
    """Seconds since the epoch."""
    cron: str = ""
    zone: str = ""


def first_time(now: float, *, at: str = "", within: str = "", cron: str = "", zone: str = "") -> PlanTime:
    """Return the first time of a plan after `now`; raise `NexusError("usage", ...)` if there is none.

    Exactly one of `at` (ISO 8601, or `HH:MM`), `within` (a duration) and `cron` must be given; `zone` applies to times
    without a zone, by default the machine's own.
    """
    given = [name for name, value in (("--at", at), ("--in", within), ("--cron", cron)) if value.strip()]
    if len(given) != 1:
        why = f"{' and '.join(given)} are different times" if given else "it has no time"
        raise NexusError("usage", "the plan", why, "Give one of --at TIME, --in DURATION and --cron EXPR")
    if zone:
        find_zone(zone)  # checked even if a duration does not need it
    if within:
        seconds = parse_duration(within)
        if seconds is None:
            why = f"it is not a duration of up to {MOST_YEARS} years"
            raise NexusError("usage", f"--in {within[:80]!r}", why, "Such as '2 hours', 90m or '1d 2h'")
        return PlanTime(now + seconds)
    if cron:
        name = zone or local_zone()
        schedule = CronTimes.of(cron, name)
        found = schedule.next_after(now)
        if found is None:
            why = f"it has no time within {MOST_YEARS} years"
            raise NexusError("usage", f"--cron {cron!r}", why, f"Fields: {FIELDS}")
        return PlanTime(found, schedule.expression, name)
    return PlanTime(_near(_parse_time(at, zone, now), now, at))


def local_zone() -> str:
    """Return the name of this machine's time zone; raise `NexusError("usage", ...)` if it has none."""
    named = os.environ.get("TZ")
    names = [os.path.realpath("/etc/localtime").partition("zoneinfo/")[2], _read_timezone()]
    if named is not None:  # a name, the path of its file, or a POSIX rule, which is not a name
        names = [named.lstrip(":").rpartition("zoneinfo/")[2]]
    for name in names:
        if name and _load_zone(name):
            return name
    if not (datetime.now().astimezone().utcoffset() or time.daylight):
        return "UTC"
    raise NexusError("usage", "the time zone of this machine", "it has no name", "Give one: --zone Europe/Berlin")


def _read_timezone() -> str:
    try:
        return Path("/etc/timezone").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def find_zone(name: str) -> ZoneInfo:
    """Return the time zone of an IANA name; raise `NexusError("usage", ...)` if it does not exist."""
    found = _load_zone(name)
    if found is None:
        raise NexusError("usage", f"--zone {name[:80]!r}", "there is no such time zone", "Such as Europe/Berlin or UTC")
    return found


def _load_zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if len(name) <= LONGEST else None
    except (ZoneInfoNotFoundError, ValueError, OSError):  # no such file, not a relative path, a folder
        return None


def _parse_time(text: str, zone: str, now: float) -> float:
    """Return the moment of `HH:MM` (today or tomorrow) or an ISO 8601 time."""
    given = find_zone(zone) if zone else None
    words = text.strip()
    try:
        if len(words) <= 5 and ":" in words:
            hour, minute = (int(part) for part in words.split(":") if part.isascii() and part.isdigit())
            name = given or find_zone(local_zone())
            today = datetime.fromtimestamp(now, name).date()
            times = (_moment(datetime(d.year, d.month, d.day, hour, minute), name) for d in (today, today + _DAY))
            return next(one for one in times if one > now)
        moment = datetime.fromisoformat(words[:LONGEST])
        return moment.timestamp() if moment.tzinfo else _moment(moment, given or find_zone(local_zone()))
    except (ValueError, OverflowError):
        why, hint = "it is not a time", "Such as 2027-01-31T09:00, 2027-01-31T09:00+01:00 or 18:30"
        raise NexusError("usage", f"--at {text[:80]!r}", why, hint) from None


def _near(at: float, now: float, text: str) -> float:
    """Return `moment`; raise `NexusError` if it is past or too far ahead."""
    if at <= now:
        raise NexusError("usage", f"--at {text[:80]!r}", "it is past", "Give a time to come")
    if at > now + MOST_DAYS * 86400:
        why = f"it is more than {MOST_YEARS} years ahead"
        raise NexusError("usage", f"the time {text[:80]!r}", why, "Give an earlier one")
    return at


def _moment(local: datetime, zone: ZoneInfo) -> float:
    """Return the moment of a local time: the first of two, or the next existing one if it does not exist."""
    aware = local.replace(tzinfo=zone, fold=0)
    if _is_real(aware):
        return aware.timestamp()
    # The two guesses lie on both sides of the change: clocks were set forward between them.
    low, high = aware.replace(fold=1).astimezone(UTC), aware.astimezone(UTC)
    before = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) / 2
        low, high = (middle, high) if middle.astimezone(zone).utcoffset() == before else (low, middle)
    return float(int(high.timestamp()))


def _is_real(aware: datetime) -> bool:
    """True if clocks in its zone show this time at some moment."""
    return aware.astimezone(UTC).astimezone(aware.tzinfo).replace(tzinfo=None) == aware.replace(tzinfo=None)


@dataclass(frozen=True)
class CronTimes:
    """The times of a cron expression in a time zone."""

    expression: str
    zone: ZoneInfo

    @classmethod
    def of(cls, expression: str, zone: str) -> CronTimes:
        """Parse five fields; raise `NexusError("usage", ...)` if they are invalid."""
        words = expression[: LONGEST + 1].split()
        times = cls(" ".join(words), find_zone(zone))
        try:
            if len(words) != 5 or len(expression) > LONGEST:
                raise CronSimError(f"it takes five fields: {FIELDS}")
            times.fields  # noqa: B018  (parses them)
        except (CronSimError, ValueError) as error:
            why = str(error).replace("Bad ", "there is no such ")
            raise NexusError("usage", f"--cron {expression[:80]!r}", why, "Such as '0 9 * * MON-FRI'") from None
        return times

    @cached_property
    def fields(self) -> CronSim:
        return CronSim(self.expression, datetime(2000, 1, 1))

    def next_after(self, moment: float) -> float | None:
        """Return the first time after a moment; None if there is none within `MOST_YEARS`."""
        day = datetime.fromtimestamp(moment, self.zone).date() - _DAY  # a skipped time may move to the next day
        for number in range(MOST_DAYS):
            for at in self._times_on(day + number * _DAY):
                if at > moment:
                    return at
        return None

    def count(self, first: float, last: float) -> tuple[int, float]:
        """Count the times from `first` to `last`, both included; return the count and the latest of them.

        Whole days are multiplied, not stepped through.
        """
        begin, end = (datetime.fromtimestamp(at, self.zone).date() for at in (first, last))
        per_day = len(self.fields.hours) * len(self.fields.minutes)
        whole, newest, times = 0, begin, set[float]()
        for number in range((end - begin).days + 2):
            day = begin + (number - 1) * _DAY  # a skipped time may move to the next day
            if begin < day < end - _DAY and self._is_even(day):
                if self._fits(day):
                    whole, newest = whole + 1, day
            else:
                times.update(at for at in self._times_on(day) if first <= at <= last)
        latest = max([first, *times, *(self._times_on(newest) if whole else ())])
        return whole * per_day + len(times), latest

    def _fits(self, day: date) -> bool:
        return day.month in self.fields.months and self.fields.match_day(day)

    def _is_even(self, day: date) -> bool:
        """True if no clock change falls on this day or the days beside it."""
        edges = (datetime(one.year, one.month, one.day, tzinfo=self.zone) for one in (day - _DAY, day, day + 2 * _DAY))
        return len({edge.utcoffset() for edge in edges}) == 1

    def _times_on(self, day: date) -> list[float]:
        """Return the times of a local day in order."""
        if not self._fits(day):
            return []
        clock = [datetime(day.year, day.month, day.day, h, m) for h in self.fields.hours for m in self.fields.minutes]
        if self.expression.split()[1] == "*":
            return sorted(set(self._every_hour(clock)))
        return sorted({_moment(local, self.zone) for local in clock})

    def _every_hour(self, clock: list[datetime]) -> Iterator[float]:
        for local in clock:
            for fold in (0, 1):
                aware = local.replace(tzinfo=self.zone, fold=fold)
                if _is_real(aware):
                    yield aware.timestamp()
