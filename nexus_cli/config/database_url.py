"""The address of a ledger on a server, as a person may see it: its password is never shown."""

from __future__ import annotations

import re

LEDGER_URL = "ledger.url"
"""The setting. Kept out of `Settings`, which are shown and logged: it may hold a password."""
_ADDRESS = re.compile(r"(postgres(?:ql)?://)(?:([^\s:@/?\"']*)(?::[^\s\"']*)?@)?([^\s?\"']*)(?:\?[^\s\"']*)?")
_NO_PORT = re.compile(r":(?!\d+(?:[/,]|$))[^/,]*")
"""In the place of a port, what may be a password."""
_PASSWORDS = re.compile(r"(?<=:)[^/][^@/?&]{3,}(?=@)|(?<=password=)[^&]{4,}")
"""Passwords in an address."""


def hide_password(text: str, url: str = "") -> str:
    """Return `text` with every address of a database in it cut to `postgresql://user@host/db`; the passwords in `url`
    are gone wherever they are."""
    for secret in _PASSWORDS.findall(url):
        text = text.replace(secret, "[redacted]")
    return _ADDRESS.sub(_shown_address, text)


def _shown_address(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2] + '@' if match[2] else ''}{_NO_PORT.sub('', match[3])}"
