"""When plans are due: cron against an oracle that looks at every minute, clocks that are set, bad input."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nexus_cli.core.duration import parse_duration
from nexus_cli.core.errors import NexusError
from nexus_cli.core.local_time import local_zone
from nexus_cli.runs.plan_times import MAX_COUNTED, CronTimes, first_time

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "America/Havana",
    "Asia/Kathmandu",
)
CHANGES = (
    "2026-03-29",
    "2026-10-25",
    "2026-03-08",
    "2026-11-01",
    "2026-04-05",
    "2026-10-04",
    "2026-04-24",
    "2026-10-30",
    "2026-07-01",
)
"""Days on which clocks are set in one of the zones, and one on which none is."""


def at(text: str, zone: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def utc(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()


def values(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        begin, _, end = span.partition("-") if span != "*" else (str(low), "", str(high))
        last = int(end) if end else high if step else int(begin)
        found |= set(range(int(begin), last + 1, int(step or 1)))
    return found


def oracle(cron: str, zone: str, first: float, last: float) -> list[float]:
    """Look at every minute: what matches counts, and where no clock shows it the next minute that one does."""
    minute, hour, day, month, weekday = cron.split()
    days, months, weekdays = values(day, 1, 31), values(month, 1, 12), {n % 7 for n in values(weekday, 0, 7)}
    hours, minutes, info = values(hour, 0, 23), values(minute, 0, 59), ZoneInfo(zone)

    def fits(local: datetime) -> bool:
        if local.hour not in hours or local.minute not in minutes:
            return False
        dom, dow = local.day in days, (local.weekday() + 1) % 7 in weekdays
        by_day = dom and dow if day.startswith("*") or weekday.startswith("*") else dom or dow
        return by_day and local.month in months

    seen: dict[datetime, float] = {}
    found = set[float]()
    shown = datetime.fromtimestamp(first - 3 * 86400, info).replace(tzinfo=None, second=0) - timedelta(minutes=1)
    for moment in range(int(first - 3 * 86400) // 60 * 60, int(last) + 1, 60):
        local = datetime.fromtimestamp(moment, info).replace(tzinfo=None)
        if hour == "*":
            if fits(local):
                found.add(float(moment))
        else:
            while shown < local:  # one minute further, or over those that no clock shows
                shown += timedelta(minutes=1)
                if fits(shown) and shown not in seen:
                    seen[shown] = float(moment)
                    found.add(float(moment))
    return sorted(one for one in found if first <= one <= last)


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> str:
    number = st.integers(low, high)
    kind = draw(st.integers(0, 4))
    if kind < 2:
        return "*"
    if kind == 2:
        return f"*/{draw(st.integers(1, max(2, high // 2)))}"
    if kind == 3:
        begin, end = sorted((draw(number), draw(number)))
        return f"{begin}-{end}"
    return ",".join(map(str, sorted(draw(st.sets(number, min_size=1, max_size=3)))))


crons = st.tuples(fields(0, 59), fields(0, 23), fields(1, 28), fields(1, 12), fields(0, 6)).map(" ".join)


@pytest.mark.matrix
@settings(max_examples=25, deadline=None)
@given(crons, st.sampled_from(ZONES), st.sampled_from(CHANGES), st.integers(0, 2 * 1440))
@example("30 2 * * *", "Europe/Berlin", "2026-03-29", 0)
@example("*/20 2 * * *", "America/New_York", "2026-11-01", 0)
@example("0,30 0 * * *", "Africa/Cairo", "2026-04-24", 0)
@example("*/15 * * * *", "Australia/Lord_Howe", "2026-10-04", 0)
@example("* */1 * * *", "America/New_York", "2026-03-08", 0)
def test_times_and_their_number_are_those_of_an_oracle_that_looks_at_every_minute(
    cron: str, zone: str, day: str, minutes: int
) -> None:
    times = CronTimes.of(cron, zone)
    first = at(day, zone) - 86400 + minutes * 60.0
    last = first + 3 * 86400
    wanted = oracle(cron, zone, first, last)
    found, now = [], first - 1
    while wanted and (one := times.next_after(now)) is not None and one <= last:
        found.append(one)
        now = one
        if len(found) >= 15:
            break
    assert found == wanted[:15]
    counted = min(len(wanted), MAX_COUNTED + 1)
    assert times.count(first, last) == (counted, wanted[-1] if wanted else first)


@pytest.mark.parametrize(
    ("cron", "zone", "before", "wanted"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["2026-03-29T01:00:00+00:00", "2026-03-30T00:30:00+00:00"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["2026-10-25T00:30:00+00:00", "2026-10-26T01:30:00+00:00"]),
        (
            "30 2 * * *",
            "America/New_York",
            "2026-03-07T12:00",
            ["2026-03-08T07:00:00+00:00", "2026-03-09T06:30:00+00:00"],
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "2026-10-31T12:00",
            ["2026-11-01T05:30:00+00:00", "2026-11-02T06:30:00+00:00"],
        ),
        ("0 * * * *", "Europe/Berlin", "2026-10-25T01:59", ["2026-10-25T00:00:00+00:00", "2026-10-25T01:00:00+00:00"]),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00", ["2028-02-29T00:00:00+00:00", "2032-02-29T00:00:00+00:00"]),
    ],
)
def test_a_time_that_does_not_exist_is_the_next_moment_and_one_that_comes_twice_comes_once(
    cron: str, zone: str, before: str, wanted: list[str]
) -> None:
    times, now, found = CronTimes.of(cron, zone), at(before, zone), []
    for _ in wanted:
        now = times.next_after(now) or 0.0
        found.append(utc(now))
    assert found == wanted


def test_a_single_time_is_read_as_cron_reads_one() -> None:
    now = at("2026-03-28T12:00", "Europe/Berlin")
    for text, zone, wanted in (
        ("2026-03-29T02:30", "Europe/Berlin", "2026-03-29T01:00:00+00:00"),
        ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25T00:30:00+00:00"),
        ("2026-10-25T02:30+01:00", "Europe/Berlin", "2026-10-25T01:30:00+00:00"),
        ("12:30", "Europe/Berlin", "2026-03-28T11:30:00+00:00"),
        ("11:30", "Europe/Berlin", "2026-03-29T09:30:00+00:00"),
        ("02:30", "Europe/Berlin", "2026-03-29T01:00:00+00:00"),
        ("9:05", "America/New_York", "2026-03-28T13:05:00+00:00"),
        ("9am", "Europe/Berlin", "2026-03-29T07:00:00+00:00"),
        ("1:30 PM", "Europe/Berlin", "2026-03-28T12:30:00+00:00"),
        ("12am", "Europe/Berlin", "2026-03-28T23:00:00+00:00"),
        ("12pm", "America/New_York", "2026-03-28T16:00:00+00:00"),
        ("today 18:30", "Europe/Berlin", "2026-03-28T17:30:00+00:00"),
        ("Tomorrow 13:00", "Europe/Berlin", "2026-03-29T11:00:00+00:00"),
        ("tomorrow at 9am", "Europe/Berlin", "2026-03-29T07:00:00+00:00"),
    ):
        assert utc(first_time(now, at=text, zone=zone).next_at) == wanted, text
    assert first_time(now, within="1d 2h").next_at == now + 93600
    for name, fields in (("@hourly", "0 * * * *"), ("@Daily", "0 0 * * *"), ("@weekly", "0 0 * * 0")):
        assert first_time(now, cron=name, zone="UTC") == first_time(now, cron=fields, zone="UTC")


@pytest.mark.parametrize(
    "given",
    [
        {"cron": "0 0 31 2 *"},
        {"cron": "0 0 30 2 *"},
        {"cron": "* * * * * *"},
        {"cron": "* * * *"},
        {"cron": "60 * * * *"},
        {"cron": "@reboot"},
        {"cron": "a b c d e"},
        {"cron": "*/0 * * * *"},
        {"cron": "5-1 * * * *"},
        {"cron": f"{'9' * 5000} * * * *"},
        {"cron": "² * * * *"},
        {"cron": "\0 * * * *"},
        {"cron": "* * * * 1L2"},
        {"cron": "0 9 * * *", "zone": "Mars/Olympus"},
        {"within": "2 hours", "zone": "Mars/Olympus"},
        {"cron": "0 9 * * *", "zone": "../../etc/passwd"},
        {"cron": "0 9 * * *", "zone": "/etc/passwd"},
        {"cron": "0 9 * * *", "zone": "a\0b"},
        {"cron": "0 9 * * *", "zone": "Europe"},
        {"cron": "0 9 * * *", "zone": "x" * 5000},
        {"at": "2027-02-30"},
        {"at": "25:00"},
        {"at": "9:5:1"},
        {"at": "tomorrow"},
        {"at": "tomorrow 25:00"},
        {"at": "yesterday 9am"},
        {"at": "0am"},
        {"at": "13pm"},
        {"at": "9"},
        {"at": "9 o'clock"},
        {"at": "9999-12-31"},
        {"at": "1970-01-01"},
        {"at": "2026-01-01"},
        {"at": "2999-01-01"},
        {"at": "::"},
        {"at": "0001-01-01T00:00+14:00"},
        {"within": "0m"},
        {"within": "5"},
        {"within": "5 years"},
        {"within": "-1h"},
        {"within": "9999999 weeks"},
        {"within": "1h foo"},
        {"within": "1d 2"},
        {"within": "hours"},
        {"within": "1e3 h"},
        {},
        {"at": "18:00", "within": "2h"},
    ],
)
def test_what_is_no_time_is_one_line(given: dict[str, str]) -> None:
    with pytest.raises(NexusError) as refused:
        first_time(at("2026-11-21T12:00", "UTC"), **given)
    assert refused.value.kind == "usage" and refused.value.exit_status == 2
    assert len(refused.value.line) < 400 and "\n" not in refused.value.line


@pytest.mark.matrix
@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="0123456789*/,-#LW MONFEB", max_size=30), st.sampled_from(("cron", "at", "within", "zone")))
def test_nonsense_is_refused_or_has_a_time(text: str, which: str) -> None:
    now = at("2026-11-21T12:00", "UTC")
    try:
        found = first_time(now, **({"cron": "0 9 * * *"} if which == "zone" else {}), **{which: text})
    except NexusError as error:
        assert error.kind == "usage"
    else:
        assert now < found.next_at < now + 3700 * 86400


def test_many_missed_times_are_counted_to_a_bound_and_few_days_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    listed, times_on = list[date](), CronTimes._times_on

    def count(times: CronTimes, day: date) -> list[float]:
        listed.append(day)
        return times_on(times, day)

    monkeypatch.setattr(CronTimes, "_times_on", count)
    zone, now = "America/New_York", at("2026-11-21T12:00", "America/New_York")
    for cron, since, most in (("0 9 * * *", "1999-07-07T09:00", 1_010), ("*/5 * * * *", "2022-11-21T00:00", 10)):
        listed.clear()
        counted, latest = CronTimes.of(cron, zone).count(at(since, zone), now)
        assert counted == MAX_COUNTED + 1 and 0 < len(listed) < most, "of 10,000 and 1,461 days"
        assert utc(latest)[:10] == "2026-11-21"
    yearly = CronTimes.of("@yearly", zone)
    assert yearly.count(at("1999-01-01T00:00", zone), now) == (28, at("2026-01-01T00:00", zone)), "not of ten years"


def test_the_last_missed_time_counts_on_the_day_behind_a_day_of_23_hours() -> None:
    zone = "Africa/Cairo"
    count, latest = CronTimes.of("5 0 * * *", zone).count(at("2026-04-24T01:00", zone), at("2026-04-25T00:59", zone))
    assert (count, latest) == (2, at("2026-04-25T00:05", zone))


def test_durations_are_read() -> None:
    assert [parse_duration(text) for text in ("90m", "2 hours", "1d 2h", "1 day and 2 hours", "1.5h", "1h,30 min")] == [
        5400,
        7200,
        93600,
        93600,
        5400,
        5400,
    ]


def test_the_zone_of_this_machine_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert local_zone() == "Asia/Tokyo"
    monkeypatch.setenv("TZ", ":/usr/share/zoneinfo/Asia/Tokyo")
    assert local_zone() == "Asia/Tokyo"
    try:
        monkeypatch.setenv("TZ", "CET-1CEST")
        time.tzset()
        with pytest.raises(NexusError, match="its name cannot be determined"):
            local_zone()
        assert first_time(0.0, at="1970-01-02T00:00Z").next_at == 86_400.0
    finally:
        monkeypatch.undo()
        time.tzset()
