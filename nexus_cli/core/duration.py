"""Durations as people write them: `2 hours`, `90m`, `1d 2h`."""

from __future__ import annotations

import re

from nexus_cli.core.errors import NexusError

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_UNITS = {
    "sec": "s", "secs": "s", "second": "s", "seconds": "s", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
    "hr": "h", "hrs": "h", "hour": "h", "hours": "h", "day": "d", "days": "d", "week": "w", "weeks": "w",
}  # fmt: skip
_PART = re.compile(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*([a-z]+)\s*(?:,|and\b)?", re.ASCII)


def parse_duration(text: str, what: str = "the duration") -> float:
    """Return the seconds of a duration above 0; `NexusError("usage", ...)` that names it as `what` if it is none."""
    seconds, end, folded = 0.0, 0, text.strip().lower()
    while (found := _PART.match(folded, end)) and (unit := _UNITS.get(found[2], found[2])) in _SECONDS:
        seconds += float(found[1]) * _SECONDS[unit]
        end = found.end()
    if not seconds or end != len(folded):
        raise NexusError("usage", f"{what} {text[:80]!r}", "it is no duration", "Such as '2 hours', 90m or '1d 2h'")
    return seconds


def format_duration(seconds: float) -> str:
    """Return a duration in its two largest units: `17h 53m`, `2d 4h`, `40s`."""
    left, parts = max(0, round(seconds)), list[str]()
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, _SECONDS[unit])
        if count or parts or unit == "s":
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if parts == [part] or not part.startswith("0"))
