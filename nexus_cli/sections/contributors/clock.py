"""The time: the start of the session, the date and the time of day.

The stamp never changes, so that an epoch sends it once, with its first user entry. Date and time are separate sections,
because only changes are sent: a turn on the same day costs only the time, and a turn in the same minute nothing. In a
structured run IDENTITY has the time (`currentTime`), so that only the date with weekday and zone is said.
"""

from __future__ import annotations

from datetime import datetime

from nexus_cli.core.clock import format_local_time
from nexus_cli.sections.contributor import Contributor, Sources, Value, View
from nexus_cli.sections.section import Layer, Phase, Section, Sections

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PRIORITY = 95


def read_session_start(sources: Sources) -> Value:
    """Return the start of the session, ISO 8601 with its zone."""
    return sources.started.isoformat()


def render_session_start(value: Value, view: View) -> Sections:
    """Return `[Session started: 2026-01-13 14:30 (local)]`."""
    text = f"[Session started: {format_local_time(datetime.fromisoformat(value))}]"
    return (Section("session_start", Phase.EVENT, (text,), Layer.EVENT, PRIORITY, sticky=True, source="session"),)


def read_clock(sources: Sources) -> Value:
    """Return the current time to the minute, ISO 8601, with its zone if the clock has one; and `is_run`."""
    return {"at": sources.clock().replace(second=0, microsecond=0).isoformat(), "is_run": sources.is_run}


def render_clock(value: Value, view: View) -> Sections:
    """Return `Date: 2026-01-13 (Tuesday, UTC+01:00)` and, but for a structured run, `Now: 14:30 (local)`."""
    moment = datetime.fromisoformat(value["at"])
    offset = f"{moment:%z}"
    zone = f", UTC{offset[:3]}:{offset[3:5]}" if offset else ""
    texts = {
        "clock.date": f"Date: {moment:%Y-%m-%d} ({DAYS[moment.weekday()]}{zone})",
        "clock.time": f"Now: {moment:%H:%M} (local)",
    }
    return tuple(
        Section(id, Phase.EVENT + 10, (text,), Layer.EVENT, PRIORITY, sticky=True, source="clock")
        for id, text in texts.items()
        if not (value["is_run"] and id == "clock.time")
    )


CONTRIBUTORS = (
    Contributor("session_start", Layer.EVENT, read_session_start, render_session_start),
    Contributor("clock", Layer.EVENT, read_clock, render_clock, parts=("date", "time")),
)
