"""Store and read the token of a running server, in a private file named after the server's URL."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from nexus_cli.config.paths import places
from nexus_cli.config.private_file import named_write_errors, replace_private_file
from nexus_cli.core.errors import NexusError, UsageError

UNIX = "unix:"
"""Prefix of the URL of a Unix socket: `unix:/run/user/1000/nexus.sock`."""


def refuse_bad_url(url: str) -> None:
    """Raise `UsageError` if `url` is not a valid server URL."""
    try:
        parts = urlsplit(url)
        is_valid = bool(parts.path) if url.startswith(UNIX) else parts.scheme == "http" and bool(parts.hostname)
        is_valid = is_valid and (parts.port is None or parts.port > 0)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise UsageError(url[:200], "not a server URL", f"Use http://HOST:PORT or {UNIX}PATH")


def token_file(url: str) -> Path:
    """Return the file of the server's token: `HOST-PORT.token`, or `NAME-HASH.token` for `unix:PATH`."""
    if url.startswith(UNIX):
        path = url.removeprefix(UNIX)
        plain = re.sub(r"[^A-Za-z0-9.]+", "-", os.path.basename(path))[:60]
        name = f"{plain}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"
    else:
        parts = urlsplit(url)
        host = "127.0.0.1" if parts.hostname == "localhost" else str(parts.hostname)
        name = f"{host.replace(':', '_')}-{parts.port or 80}"
    return places().data / "serve" / f"{name}.token"


def store_token(url: str, token: str) -> Path:
    """Write the token of the server at `url` for its clients; raise `NexusError` on failure."""
    path = token_file(url)
    with named_write_errors(path):
        replace_private_file(path, f"{token}\n".encode())
    return path


def read_token(url: str, path: Path | None = None) -> str:
    """Read the token for the server at `url` from `path` (default: `token_file`); raise `NexusError("config", ...)`."""
    token_path, path = path, path or token_file(url)
    try:
        token = path.read_text(encoding="ascii").strip()
    except FileNotFoundError as error:
        if token_path is None:
            hint = "Start a server with `nexus serve`, or pass another server's token with --token-file"
            raise NexusError("config", url, "found no token for this server", hint) from error
        raise NexusError(
            "config", f"the token file {path}", "does not exist", "`nexus serve` prints the path of the file"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "contains no token"
        raise NexusError(
            "config", f"the token file {path}", why, "`nexus serve` prints the path of the file"
        ) from error
    if not token.isprintable() or not token:
        raise NexusError(
            "config", f"the token file {path}", "contains no token", "Restart the server, which writes a new token"
        )
    return token
