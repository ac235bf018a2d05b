"""Hide the password in the URL of a database."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"(postgres(?:ql)?://)(?:([^\s:@/?\"']*)(?::[^\s\"']*)?@)?([^\s?\"']*)(?:\?[^\s\"']*)?")
_NO_PORT = re.compile(r":(?!\d+(?:[/,]|$))[^/,]*")
"""Text in place of a port, which may be a password."""
_MIN = 4
"""Least characters of a part of a password that is replaced in other text."""


def hide_password(text: str, url: str = "") -> str:
    """Cut every database URL in `text` to `postgresql://user@host/db`, and redact the passwords of `url` anywhere."""
    for secret in sorted(_passwords(url), key=len, reverse=True):
        text = text.replace(secret, "[redacted]")
    return _ADDRESS.sub(_shown_address, text)


def _passwords(url: str) -> set[str]:
    """Return all possible passwords in `url`, which may be malformed, and their parts."""
    place, _, options = url.partition("://")[2].partition("?")
    before, at, after = place.rpartition("@")
    _, _, password = (before if at else after).partition(":")
    password = "" if not at and re.match(r"\d+(?:[/,]|$)", password) else password
    secrets = [
        value for name, _, value in (option.partition("=") for option in options.split("&")) if "password" in name
    ]
    return {
        part for secret in (password, *secrets) for part in (secret, *re.split(r"[/@:]", secret)) if len(part) >= _MIN
    }


def _shown_address(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2] + '@' if match[2] else ''}{_NO_PORT.sub('', match[3])}"
