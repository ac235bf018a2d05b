"""Reduce an error of a provider or a library to one short line without keys.

`core.redact_secrets` knows keys; `failures` interprets the words.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping

from nexus_cli.core.elide import clip_text
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.redact_secrets import redact

LINE = 240
WRAPPING = re.compile(
    r"\s*(?:(?:(?:litellm\.)?\w+(?:Error|Exception)(?::| -)|[A-Z]{4,}(?:_[A-Z]+)* - |Error code: \d{3} - )\s*)+"
)
"""Names of classes, states and statuses, one before the other."""
LONGEST = 100_000
"""Characters of an error that are searched for a body."""
SEARCHED = 4_000
"""Characters of a message that are searched for keys before it is cut to a line."""
TRACE = re.compile(r"\s*Traceback \(most recent call last\):")
PAGE = re.compile(r"<!doctype html|<html\b", re.IGNORECASE)
HEADING = re.compile(r"<(title|h1)\b[^>]*>(.*?)</\1", re.IGNORECASE | re.DOTALL)
TAG = re.compile(r"<[^>]*>")


def strip_wrapping(text: str) -> str:
    """Return `text` without the class names that libraries prepend and without Python's quotes around bytes."""
    wrapping = WRAPPING.match(text)
    text = text[wrapping.end() if wrapping else 0 :].strip()
    if text[:2] in ("b'", 'b"'):
        value = _literal(text)
        text = value.decode(errors="replace") if isinstance(value, bytes) else text
    return text


def _literal(text: str) -> object:
    try:
        value: object = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value


def parse_body(text: str) -> JsonObject:
    """Return the JSON object (or its Python repr) of an error anywhere in `text`, or {}."""
    text = strip_wrapping(text)
    start = text.find("{")
    if start < 0 or len(text) > LONGEST:
        return {}
    try:
        value, _ = json.JSONDecoder().raw_decode(text[start:])
    except (ValueError, RecursionError):
        value = _literal(text[start:].strip())
    return value if isinstance(value, Mapping) else {}


def find_error(body: object) -> JsonObject:
    """Return the first `error` object in a body that has a message, or the innermost; the body itself if there is none,
    a text as its message; {} for anything else."""
    if isinstance(body, list):
        body = body[0] if body else {}
    if isinstance(body, str):
        return {"message": body}
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error")
    if isinstance(inner, Mapping) and inner.get("message"):
        return inner
    return find_error(inner) or body


def _read_page(text: str) -> str:
    """Return the heading of a page that a server or a proxy sent in place of an answer; other texts as they are."""
    if not PAGE.search(text[:SEARCHED]):
        return text
    heading = HEADING.search(text[:SEARCHED])
    reason = " ".join(TAG.sub(" ", heading[2]).split()) if heading else ""
    return f"{reason or 'no reason given'} (the response was a web page)"


def format_error_line(text: str) -> str:
    """Return `text` on one line of at most 240 characters, without class names, JSON, HTML, tracebacks and keys."""
    text = _read_page(TRACE.split(strip_wrapping(text), maxsplit=1)[0])
    message = find_error(parse_body(text)).get("message")
    words = " ".join((message if isinstance(message, str) and message else text).split())
    return clip_text(redact(words[:SEARCHED], opaque=True), LINE)
