"""Compute the times of plans: the first one from `--at`, `--in` or `--cron`, the next one, and the number missed.

cronsim parses the cron fields as Debian's cron does. Cron names local times (`core/local_time`). With `*` as the hour,
every hour of real time counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from nexus_cli.core.duration import A_DURATION, parse_duration
from nexus_cli.core.errors import UsageError
from nexus_cli.core.local_time import ZONE_EXAMPLES, find_zone, is_real, local_zone, parse_time, to_moment

MAX_YEARS = 10
"""Years within which a plan must have a time."""
MAX_DAYS = MAX_YEARS * 366
MAX_COUNTED = 1_000
"""Most missed times that are counted."""
LONGEST = 200
"""Most characters of a cron expression."""
FIELDS = "minute hour day-of-month month day-of-week"
ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
"""Names of cron expressions."""
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PlanTime:
    """The first time of a plan, and the rule for the next ones."""

    next_at: float
    """Seconds since the epoch."""
    cron: str = ""
    zone: str = ""


def first_time(now: float, *, at: str = "", within: str = "", cron: str = "", zone: str = "") -> PlanTime:
    """Return the first time of a plan after `now`; raise `UsageError` if there is none.

    Exactly one of `at` (see `parse_time`), `within` (a duration) and `cron` must be given; `zone` applies to times
    without a zone, by default the machine's own.
    """
    options = [name for name, value in (("--at", at), ("--in", within), ("--cron", cron)) if value.strip()]
    if len(options) != 1:
        why = f"{' and '.join(options)} cannot be used together" if options else "the time is missing"
        raise UsageError("schedule", why, "Use exactly one of --at TIME, --in DURATION or --cron EXPR")
    if zone:
        find_zone(zone)  # checked even if a duration does not need it
    if within:
        seconds = parse_duration(within)
        if seconds is None:
            raise UsageError(f"--in {within[:80]!r}", f"must be {A_DURATION}")
        return PlanTime(now + seconds)
    if cron:
        name = zone or local_zone()
        schedule = CronTimes.of(cron, name)
        next_time = schedule.next_after(now)
        if next_time is None:
            why = f"no matching time within {MAX_YEARS} years"
            raise UsageError(f"--cron {cron!r}", why, f"Fields: {FIELDS}")
        return PlanTime(next_time, schedule.expression, name)
    try:
        return PlanTime(_near(parse_time(at, now, zone), now, at))
    except (ValueError, OverflowError):
        raise UsageError(f"--at {at[:80]!r}", "not a valid time", ZONE_EXAMPLES) from None


def _near(moment: float, now: float, text: str) -> float:
    """Return `moment`; raise `NexusError` if it is past or too far ahead."""
    if moment <= now:
        raise UsageError(f"--at {text[:80]!r}", "the time is in the past", "Give a future time")
    if moment > now + MAX_DAYS * 86400:
        why = f"more than {MAX_YEARS} years in the future"
        raise UsageError(f"the time {text[:80]!r}", why, "Give an earlier time")
    return moment


@dataclass(frozen=True)
class CronTimes:
    """The times of a cron expression in a time zone."""

    expression: str
    zone: ZoneInfo

    @classmethod
    def of(cls, expression: str, zone: str) -> CronTimes:
        """Parse five fields; raise `UsageError` if they are invalid."""
        words = ALIASES.get(expression.strip().lower(), expression[: LONGEST + 1]).split()
        times = cls(" ".join(words), find_zone(zone))
        try:
            if len(words) != 5 or len(expression) > LONGEST:
                raise CronSimError(f"must have five fields: {FIELDS}")
            times.fields  # noqa: B018  (parses them)
        except (CronSimError, ValueError) as error:
            why = str(error).replace("Bad ", "invalid ")
            raise UsageError(f"--cron {expression[:80]!r}", why, "For example '0 9 * * MON-FRI'") from None
        return times

    @cached_property
    def fields(self) -> CronSim:
        return CronSim(self.expression, datetime(2000, 1, 1))

    def next_after(self, moment: float) -> float | None:
        """Return the first time after a moment; None if there is none within `MAX_YEARS`."""
        return next(self._times_after(moment, MAX_DAYS), None)

    def count(self, first: float, last: float) -> tuple[int, float]:
        """Count the times from `first` to `last`, both included, up to `MAX_COUNTED` + 1; also return the latest."""
        begin, end = (datetime.fromtimestamp(moment, self.zone).date() for moment in (first - 1, last))
        times = takewhile(lambda moment: moment <= last, self._times_after(first - 1, (end - begin).days + 2))
        counted = sum(1 for _ in islice(times, MAX_COUNTED + 1))
        days = (self._times_on(end - number * _DAY) for number in range(MAX_DAYS))
        latest = next((moment for day in days for moment in reversed(day) if moment <= last), first)
        return counted, max(first, latest)

    def _times_after(self, moment: float, most_days: int) -> Iterator[float]:
        """Yield the times after a moment in order, on the day before it and so many days from then on."""
        day = datetime.fromtimestamp(moment, self.zone).date() - _DAY  # a skipped time may move to the next day
        for number in range(most_days):
            for time_on_day in self._times_on(day + number * _DAY):
                if time_on_day > moment:
                    yield time_on_day
                    moment = time_on_day

    def _times_on(self, day: date) -> list[float]:
        """Return the times of a local day in order."""
        if day.month not in self.fields.months or not self.fields.match_day(day):
            return []
        clock = [datetime(day.year, day.month, day.day, h, m) for h in self.fields.hours for m in self.fields.minutes]
        if self.expression.split()[1] == "*":
            return sorted(set(self._every_hour(clock)))
        return sorted({to_moment(local, self.zone) for local in clock})

    def _every_hour(self, clock: list[datetime]) -> Iterator[float]:
        for local in clock:
            for fold in (0, 1):
                aware = local.replace(tzinfo=self.zone, fold=fold)
                if is_real(aware):
                    yield aware.timestamp()
