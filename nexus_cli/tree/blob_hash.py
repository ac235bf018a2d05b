"""Compute the ids of git's blobs."""

from __future__ import annotations

import hashlib
import io
from typing import IO

HASHES = {40: "sha1", 64: "sha256"}
"""Hash of a repository's objects, by the length of its ids."""


def blob_hash(size: int, oid_length: int) -> hashlib._Hash:
    """Return the hash of a blob of `size` bytes that has read its header."""
    return hashlib.new(HASHES[oid_length], b"blob %d\0" % size, usedforsecurity=False)


def blob_id(data: bytes, oid_length: int) -> str:
    """Return the id of a blob in a repository whose ids have `oid_length` digits, "" if none has such."""
    return hash_blob(io.BytesIO(data), len(data), oid_length)


def hash_blob(file: IO[bytes], size: int, oid_length: int) -> str:
    """Return the id that the next `size` bytes of a file have as a blob, "" if no repository has ids of that length."""
    if oid_length not in HASHES:
        return ""
    digest = blob_hash(size, oid_length)
    while size > 0 and (piece := file.read(min(size, 1 << 20))):
        size -= len(piece)
        digest.update(piece)
    return digest.hexdigest()
