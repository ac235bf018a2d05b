"""Hide the password in the URL of a database."""

from __future__ import annotations

import os
import re
from hashlib import sha256
from urllib.parse import parse_qsl, unquote

_ADDRESS = re.compile(r"(postgres(?:ql)?://)(?:([^\s:@/?\"']*)(?::[^\s\"']*)?@)?([^\s?\"']*)(?:\?[^\s\"']*)?")
_NO_PORT = re.compile(r":(?!\d+(?:[/,]|$))[^/,]*")
"""Text in place of a port, which may be a password."""
_LEAST = 4
"""Least characters of a part of a password that is replaced in other text."""

_NAMED = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "user": "PGUSER",
    "service": "PGSERVICE",
    "options": "PGOPTIONS",
}
"""The options that tell databases and roles apart, each with the variable that libpq reads if it is missing."""


def hash_address(url: str) -> str:
    """Return a hash of the database and the role that a URL means in this environment; the password is left out."""
    place, _, options = url.partition("://")[2].partition("?")
    place, _, dbname = place.partition("/")
    role, _, hosts = place.rpartition("@")
    pairs = [part.rpartition(":") if re.search(r":\d*$", part) else (part, "", "") for part in hosts.split(",")]
    named = {"user": role.partition(":")[0], "dbname": dbname}
    named |= {"host": ",".join(pair[0] for pair in pairs), "port": ",".join(pair[2] for pair in pairs).strip(",")}
    given = {name: unquote(value) for name, value in named.items()} | dict(parse_qsl(options))
    parts = {name: given.get(name) or os.environ.get(variable, "") for name, variable in _NAMED.items()}
    parts["port"] = parts["port"] or "5432"
    parts["user"] = parts["user"] or f"uid {os.geteuid()}"
    return sha256(repr(sorted(parts.items())).encode()).hexdigest()[:32]


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
    named = [value for name, _, value in (option.partition("=") for option in options.split("&")) if "password" in name]
    return {
        part for secret in (password, *named) for part in (secret, *re.split(r"[/@:]", secret)) if len(part) >= _LEAST
    }


def _shown_address(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2] + '@' if match[2] else ''}{_NO_PORT.sub('', match[3])}"
