"""Fields of a JSON value: conditions such as `action=completed` and `/check_run/head_sha=4b2*`, and templates."""

from __future__ import annotations

import fnmatch
import json
import re
from typing import Any

_FORM = re.compile(r"([^=!]+)(!?)=(.*)", re.DOTALL)
_FIELD = re.compile(r"\{([^{}]*)\}")
_ABSENT = object()


def is_condition(text: str) -> bool:
    """Return True for text of the form `FIELD=VALUE` or `FIELD!=VALUE`."""
    return _FORM.fullmatch(text) is not None


def holds(condition: str, value: Any, event: str = "") -> bool:
    """Return True if a condition holds for `value`; False for text that is no condition.

    FIELD is a JSON pointer or a dotted path; `event` is the kind of event, if the sender names it apart from the value.
    VALUE is one or more patterns with `*`, separated by `|`.
    """
    match = _FORM.fullmatch(condition)
    if match is None:
        return False
    field = match[1].strip()
    text = _field_text(field, value, event)
    patterns = [part.strip().replace("[", "[[]") for part in match[3].split("|")]
    fits = text is not None and any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns)
    return fits != bool(match[2])


def explain_unmet(condition: str, value: Any, event: str) -> str:
    """Return the reason that a condition does not hold for `value`: its field is missing, or has another value."""
    field = condition.partition("=")[0].rstrip("!").strip()
    is_there = _field_text(field, value, event) is not None
    return f"{condition} is not met" if is_there else f"there is no field {field}"


def fill_fields(template: str, value: Any, event: str = "") -> str:
    """Return a template with the text of each `{FIELD}`, or the text of the field that it names without braces; "" if
    one of them does not exist, is empty, or null."""
    template = template if _FIELD.search(template) else f"{{{template}}}"
    texts = {name: _field_text(name.strip(), value, event) for name in _FIELD.findall(template)}
    if any(text in (None, "", "null") for text in texts.values()):
        return ""
    return _FIELD.sub(lambda match: str(texts[match[1]]), template)


def _field_text(path: str, value: Any, event: str) -> str | None:
    """Return the text of a field, as JSON unless it is a string; None if it does not exist."""
    if path == "event" and event:
        return event
    if path.startswith("/"):
        parts = [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]
    else:
        parts = path.split(".")
    for part in parts:
        if isinstance(value, dict):
            value = value.get(part, _ABSENT)
        else:
            is_index = isinstance(value, list) and part.isascii() and part.isdigit() and len(part) < 10
            value = value[int(part)] if is_index and int(part) < len(value) else _ABSENT
    if value is _ABSENT:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
