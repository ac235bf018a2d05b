"""Remember the signed deliveries of a service, in a private file beside its token: they outlive the server.

A signature covers the body alone. Whoever has seen a delivery can send its body again with another id, or as another
event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256

from nexus_cli.config.file_lock import FileLock
from nexus_cli.config.paths import places
from nexus_cli.config.private_file import replace_private_file, write_error

MOST_SEEN = 10_000
"""Most signatures of a service that are remembered."""
LOCK_SECONDS = 5.0


def is_replayed(service: str, signature: str, headers: tuple[str, str], known: Callable[[], Mapping[str, str]]) -> bool:
    """Return True if a signature has come before with another id or event, else remember it with these `headers`.

    `known` returns what is remembered elsewhere, by signature the digest (`digest_headers`), for a service without a
    file. Blocks; raises `NexusError` if the file cannot be read or written.
    """
    path = places().data / "serve" / "services" / f"{service}.deliveries"
    try:
        with FileLock.wait_for(path.with_name(f"{path.name}.lock"), LOCK_SECONDS):
            try:
                lines = path.read_text(encoding="ascii", errors="replace").splitlines()
                seen = dict(pair for line in lines if len(pair := line.split(" ")) == 2)
            except FileNotFoundError:
                seen = dict(known())
            digest = digest_headers(*headers)
            if signature in seen:
                return seen[signature] != digest
            kept = [*seen.items(), (signature, digest)][-MOST_SEEN:]
            replace_private_file(path, "".join(f"{one} {other}\n" for one, other in kept).encode())
    except OSError as error:
        raise write_error(path, error) from error
    return False


def digest_headers(key: str, event: str) -> str:
    """Return a digest of the id and the event of a delivery."""
    return sha256(f"{key}\n{event}".encode("utf-8", "surrogatepass")).hexdigest()
