"""The address of a ledger on a server, as a person may see it: its password is never shown."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"(postgres(?:ql)?://)(?:([^\s:@/?\"']*)(?::[^\s\"']*)?@)?([^\s?\"']*)(?:\?[^\s\"']*)?")
_NO_PORT = re.compile(r":(?!\d+(?:[/,]|$))[^/,]*")
"""In the place of a port, what may be a password."""
_LEAST = 4
"""Characters of a part of a password that is looked for in other text."""


def hide_password(text: str, url: str = "") -> str:
    """Return `text` with every address of a database in it cut to `postgresql://user@host/db`; the passwords in `url`
    are gone wherever they are."""
    for secret in sorted(_passwords(url), key=len, reverse=True):
        text = text.replace(secret, "[redacted]")
    return _ADDRESS.sub(_shown_address, text)


def _passwords(url: str) -> set[str]:
    """Return what may be a password in `url`, also where it is malformed, and the parts of it."""
    place, _, options = url.partition("://")[2].partition("?")
    before, at, after = place.rpartition("@")
    _, _, password = (before if at else after).partition(":")
    password = "" if not at and re.match(r"\d+(?:[/,]|$)", password) else password
    named = [value for name, _, value in (one.partition("=") for one in options.split("&")) if "password" in name]
    return {part for one in (password, *named) for part in (one, *re.split(r"[/@:]", one)) if len(part) >= _LEAST}


def _shown_address(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2] + '@' if match[2] else ''}{_NO_PORT.sub('', match[3])}"
