"""Remember the signed deliveries of a service, in a private file beside its token: they outlive the server.

A signature covers the body alone. Anyone who has seen a delivery can send its body again with another id, or as another
event.
"""

from __future__ import annotations

from hashlib import sha256

from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.paths import places
from nexus_cli.config.private_file import append_lines, named_write_errors, replace_private_file

MAX_SEEN = 10_000
"""Least signatures of a service that are remembered, and half of the most."""
LOCK_SECONDS = 5.0


def is_replayed(service: str, signature: str, headers: tuple[str, str]) -> bool:
    """Return True if a signature has come before with another id or event, else remember it with these `headers`.

    Blocks; raises `NexusError` if the file cannot be read or written.
    """
    path = places().data / "serve" / "services" / f"{service}.deliveries"
    digest = sha256("\n".join(headers).encode("utf-8", "surrogatepass")).hexdigest().encode()
    with named_write_errors(path), FileLock.wait_for(path.with_name(f"{path.name}.lock"), LOCK_SECONDS):
        try:
            recorded = path.read_bytes()
        except FileNotFoundError:
            recorded = b""
        head = f"{signature} ".encode()
        if (position := recorded.find(head)) >= 0:
            return not recorded.startswith(digest, position + len(head))
        line = head + digest + b"\n"
        if recorded.count(b"\n") < 2 * MAX_SEEN:
            append_lines(path, line)
        else:
            replace_private_file(path, b"".join([*recorded.splitlines(keepends=True), line][-MAX_SEEN:]))
    return False
