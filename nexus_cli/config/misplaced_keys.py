"""Recognize an API key in place of a model's name, an alias or a variable, and explain where keys belong.

Such a key is never shown, stored or sent. Stricter than `redact_secrets`: names of models have a known form, so that a
long random word is not one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from nexus_cli.core.errors import REDACTED, NexusError
from nexus_cli.core.redact_secrets import NAMED_SECRET, SHORTEST, redact

_SHORT = re.compile(r"(?:^|/)(?:sk|pk|rk)-[\w-]{3,}")
_OPAQUE = re.compile(
    r"[^/:]*(?<![A-Za-z0-9])(?=[a-zA-Z]{0,60}\d)(?=\d{0,60}[a-zA-Z])[A-Za-z0-9]{20,}(?![A-Za-z0-9])[^/:]*"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)
"""A long word of letters and digits, or a UUID, without a provider before it."""
_SESSION = re.compile(r"01[0-9A-HJKMNP-TV-Z]{24}")
"""The id of a session that was begun before 2039."""
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


def looks_like_key(text: str, environ: Mapping[str, str] | None = None) -> bool:
    """Return True if `text` has the form of a key, or is the value of a key variable in `environ` (default: ours)."""
    text = text.strip()
    if len(text) < SHORTEST or text == REDACTED:
        return False
    variables = (os.environ if environ is None else environ).items()
    if any(value.strip() == text and NAMED_SECRET.search(name.upper()) for name, value in variables):
        return True
    if _SESSION.fullmatch(text):
        return False
    return bool(_SHORT.search(text) or _OPAQUE.fullmatch(text)) or redact(text, environ={}) != text


def hide_key(text: str) -> str:
    """Return `text`, or `[redacted]` in its place if it looks like a key."""
    return REDACTED if looks_like_key(text) else text


def misplaced_notice(key: str, origin: str) -> str:
    """Return the notice about a setting `key` that already holds an API key."""
    unset = f"nexus config set --unset {key}" if REDACTED not in key else "nexus config edit"
    return f"{key} in {origin} looks like a key and is not used: {unset} removes it, `nexus login PROVIDER` stores it"


def misplaced_key_error(what: str, where: str = "") -> NexusError:
    """Return the error for a key given as `what` (a setting or an option); `where` is appended to the hint."""
    variable = what.rpartition(".")[2]
    variable = variable if _VARIABLE.fullmatch(variable) and not looks_like_key(variable) else "OPENAI_API_KEY"
    why = "the value looks like a key"
    hint = f"`nexus login PROVIDER` stores it, or it goes into the environment (export {variable}=...); here belongs a "
    hint += "model's name such as openai/gpt-5.6"
    hint = f"{hint}; {where}" if where else hint
    return NexusError("config", what, why, hint)
