"""JSON as every reader takes it."""

from __future__ import annotations

import json
from typing import Any


def json_text(value: Any, *, escaped: bool, indent: int | None = None, dense: bool = False) -> str:
    """`value` as JSON (RFC 8259), `escaped` to ASCII or not; a number that JSON does not have (infinity, not a number)
    is null. `dense` leaves out the spaces."""
    separators = (",", ":") if dense else None
    try:
        return json.dumps(value, ensure_ascii=escaped, indent=indent, separators=separators, allow_nan=False)
    except ValueError:
        known = json.loads(json.dumps(value), parse_constant=lambda name: None)
        return json.dumps(known, ensure_ascii=escaped, indent=indent, separators=separators, allow_nan=False)
