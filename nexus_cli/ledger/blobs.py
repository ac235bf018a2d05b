"""Text by its content: stored once per SHA-256, compressed if that is smaller, checked at every read."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256

from nexus_cli.core.errors import NexusError
from nexus_cli.ledger.database import Database

_PLAIN, _ZLIB = 0, 1
_FAST_COMPRESSION_BYTES = 1 << 20
"""Bytes from which on compression favours speed over size."""
_PUT = "INSERT INTO blobs (hash, codec, data) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_PUT_SHARED = (
    "INSERT INTO blobs (hash, codec, data, project, made_by)"
    " SELECT ?, ?, ?, project, made_by FROM sessions WHERE key = ? ON CONFLICT DO NOTHING"
)

BLOBS_OF: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "entries": ("lane", ("blob",)),
    "memos": ("lane", ("blob",)),
    "requests": ("lane", ("arguments",)),
    "epochs": ("key", ("system", "rules", "sections")),
    "schemas": ("epoch", ("blob",)),
    "slots": ("epoch", ("blob",)),
    "drops": ("session", ("blob",)),
}
"""By table: the column that says whose row it is, and the columns with texts."""


def select_blobs(rows: Mapping[str, str]) -> str:
    """Return the query of the texts that rows refer to; `rows` has a condition for each table of `BLOBS_OF`."""
    return " UNION ALL ".join(
        f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL AND {rows[table]}"
        for table, (_, columns) in BLOBS_OF.items()
        for column in columns
    )


def put(db: Database, session: int, data: bytes) -> tuple[bytes, int]:
    """Store `data` for a session (its key), inside a transaction; return the values of `Database.blob_id`, which names
    its row in a later statement of the transaction.

    A text is stored once; on a server once for all sessions of one project and maker, so that a role learns nothing
    about sessions that it cannot see.
    """
    digest = sha256(data).digest()
    packed = zlib.compress(data, 1 if len(data) > _FAST_COMPRESSION_BYTES else 6)
    codec, stored = (_ZLIB, packed) if len(packed) < len(data) else (_PLAIN, data)
    values = (digest, codec, stored, session) if db.is_shared else (digest, codec, stored)
    db.run(_PUT_SHARED if db.is_shared else _PUT, *values)
    return digest, session


def unpack(digest: bytes | None, codec: int | None, stored: bytes | None) -> bytes:
    """Return the data of the columns `hash, codec, data`; raise `NexusError("ledger", ...)` if it is damaged."""
    if digest is None or stored is None:
        raise _damage_error("the record is missing")
    try:
        data = zlib.decompress(stored) if codec == _ZLIB else stored
    except zlib.error as error:
        raise _damage_error("the record cannot be unpacked") from error
    if sha256(data).digest() != digest:
        raise _damage_error("the content does not match the hash")
    return data


def get(db: Database, blob: int) -> bytes:
    """Return the data of a blob; `NexusError("ledger", ...)` if it is damaged or missing."""
    return unpack(*(db.one("SELECT hash, codec, data FROM blobs WHERE id = ?", blob) or (None, None, None)))


@contextmanager
def damage_at(prefix: str) -> Iterator[None]:
    """Put `prefix` before the error of a damaged text, inside the `with` block."""
    try:
        yield
    except NexusError as error:
        raise NexusError(error.kind, f"{prefix}: {error.what}", error.why, error.hint) from error


def _damage_error(why: str) -> NexusError:
    hint = "Restore the ledger from a backup, or start a new session"
    return NexusError("ledger", "the ledger contains a damaged record", why, hint)
