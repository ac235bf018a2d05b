"""Parse and format durations as people write them: `90m`, `2 hours`, `1d 2h`."""

from __future__ import annotations

import re

MAX_SECONDS = 10 * 366 * 86_400.0
"""Ten years; anything longer is taken for a mistake."""
A_DURATION = "a duration above 0 and up to 10 years, such as '2 hours', 90m or '1d 2h'"
"""What `parse_duration` accepts, for an error."""
_UNITS = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "hr": 3600,
    "d": 86_400,
    "day": 86_400,
    "w": 604_800,
    "week": 604_800,
}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([a-z]+)", re.ASCII)
_BETWEEN = re.compile(r"\s*(?:,|and)?\s*")


def parse_duration(text: str) -> float | None:
    """Return a duration in seconds; None for other text, and for durations of 0 or above `MAX_SECONDS`."""
    remaining, total = text.strip().lower(), 0.0
    while part := _PART.match(remaining):
        unit = part[2] if part[2] in _UNITS else part[2].removesuffix("s")
        if unit not in _UNITS:
            return None
        total += float(part[1]) * _UNITS[unit]
        remaining = remaining[part.end() :]
        remaining = (
            remaining[between.end() :]
            if (between := _BETWEEN.match(remaining)) and remaining[between.end() :]
            else remaining
        )
    return total if not remaining and 0 < total <= MAX_SECONDS else None


def format_duration(seconds: float) -> str:
    """Format seconds as `45 s`, `5 min`, `2 h 5 min` or `3 d 4 h`."""
    seconds = max(0, round(seconds))
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60 % 60, seconds // 3600 % 24, seconds // 86_400
    parts = [f"{days} d"] * bool(days) + [f"{hours} h"] * bool(hours) + [f"{minutes} min"] * bool(minutes and not days)
    return " ".join(parts)
