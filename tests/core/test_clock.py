"""Times of the ledger as a person reads them: in their zone, or as an age."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest

from nexus_cli.core.clock import format_age, format_local_minute, format_utc

NOW = datetime(2026, 3, 29, 12, 0, tzinfo=timezone(timedelta(hours=2)))


@pytest.fixture
def kolkata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A zone whose minutes differ from those of UTC."""
    monkeypatch.setenv("TZ", "IST-5:30")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("kolkata")
def test_a_time_is_shown_in_the_zone_of_the_person() -> None:
    assert format_local_minute("2026-01-02T20:04:05.678Z") == "2026-01-03 01:34"
    assert format_local_minute("2026-01-02T20:04:05Z", "%Y-%m-%d %H:%M %z") == "2026-01-03 01:34 +0530"
    assert [format_local_minute(odd) for odd in ("", "no time")] == ["", "no time"]


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (timedelta(seconds=-90), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(seconds=60), "1 minute ago"),
        (timedelta(minutes=12, seconds=40), "12 minutes ago"),
        (timedelta(minutes=60), "1 hour ago"),
        (timedelta(hours=13), "13 hours ago"),
        (timedelta(hours=25), "yesterday"),
        (timedelta(hours=37), "2 days ago"),
        (timedelta(days=6), "6 days ago"),
        (timedelta(days=7), "2026-03-22"),
    ],
)
def test_an_age_is_said_as_people_say_it(before: timedelta, said: str) -> None:
    assert format_age(format_utc(NOW - before), NOW) == said
