"""Ids that sort by time: ULID, 48 bits of milliseconds and 80 random bits in Crockford's base 32 (26 characters)."""

from __future__ import annotations

import os
import time
from datetime import datetime

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid(at: str) -> str:
    """A new id for the moment `at` (ISO 8601); the present when `at` is no such time."""
    try:
        milliseconds = int(datetime.fromisoformat(at).timestamp() * 1000)
    except (ValueError, OverflowError):
        milliseconds = time.time_ns() // 1_000_000
    milliseconds = min(max(milliseconds, 0), (1 << 48) - 1)
    number = milliseconds << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))
