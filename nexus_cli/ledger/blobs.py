"""Text by its content: stored once per SHA-256, compressed where that is smaller, checked whenever it is read."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from nexus_cli.core.errors import NexusError
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.wire import canonical
from nexus_cli.ledger.database import Database

_PLAIN, _ZLIB = 0, 1
_BIG = 1 << 20
"""From here on compression goes for speed."""


def put(db: Database, data: bytes) -> int:
    """Store `data` once and return its blob id; inside a transaction."""
    digest = sha256(data).digest()
    found = db.one("SELECT id FROM blobs WHERE hash = ?", digest)
    if found:
        return int(found[0])
    packed = zlib.compress(data, 1 if len(data) > _BIG else 6)
    codec, stored = (_ZLIB, packed) if len(packed) < len(data) else (_PLAIN, data)
    return db.run("INSERT INTO blobs (hash, codec, data) VALUES (?, ?, ?)", digest, codec, stored)


def put_text(db: Database, text: str) -> int:
    """Store `text` and return its blob id."""
    return put(db, replace_surrogates(text).encode())


def put_json(db: Database, value: Any) -> int:
    """Store `value` as one canonical JSON line, keys in their order, and return its blob id."""
    return put(db, canonical(value))


def unpack(digest: bytes | None, codec: int | None, stored: bytes | None) -> bytes:
    """Return the data behind the columns `hash, codec, data`; `NexusError("ledger", ...)` if it is damaged."""
    if digest is None or stored is None:
        raise _damage_error("it is missing")
    try:
        data = zlib.decompress(stored) if codec == _ZLIB else stored
    except zlib.error as error:
        raise _damage_error("it cannot be unpacked") from error
    if sha256(data).digest() != digest:
        raise _damage_error("it does not match its hash")
    return data


def get(db: Database, blob: int) -> bytes:
    """Return the data of a blob; `NexusError("ledger", ...)` if it is damaged or missing."""
    return unpack(*(db.one("SELECT hash, codec, data FROM blobs WHERE id = ?", blob) or (None, None, None)))


def get_text(db: Database, blob: int) -> str:
    """Return the text of a blob."""
    return get(db, blob).decode()


def get_json(db: Database, blob: int) -> Any:
    """Return the JSON value of a blob."""
    return json.loads(get(db, blob))


@contextmanager
def damage_at(what: str) -> Iterator[None]:
    """Prefix the error of a damaged text with `what`, inside the `with` block."""
    try:
        yield
    except NexusError as error:
        raise NexusError(error.kind, f"{what}: {error.what}", error.why, error.hint) from error


def _damage_error(why: str) -> NexusError:
    hint = "The ledger file was changed or the disk is failing: restore it from a backup, or start a new session"
    return NexusError("ledger", "a text in the ledger is damaged", why, hint)
