"""Know which files of a repository's copy share their inode with the project, and which of them were written in place.

The names of git's objects and the last bytes of its packs are digests of their content: they tell a file that was
written from one of which git only renewed the time.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nexus_cli.core.real_files import READ
from nexus_cli.core.wire import as_table

_RECORD = "nexus-linked"
_PIECE = 1 << 20
_SECONDS = 3.0
"""Time limit of finding out what was written."""
_SUMMED = (".pack", ".idx", ".rev", ".midx", ".graph", ".bitmap", ".mtimes", "multi-pack-index", "commit-graph")
"""Ends of the names of git's files that end in a digest of what is before it."""
Stamps = dict[str, list[int]]
"""Size, mtime (ns), ctime (ns) and mode of each linked file, by its path in the copy."""


def read_record(place: Path) -> dict[str, Any]:
    """Return the object in a file of JSON, {} if there is none."""
    with suppress(OSError, ValueError):
        return as_table(json.loads(place.read_text()))
    return {}


def read_linked(copy: Path) -> Stamps:
    """Return the linked files of a copy as they were when they were last known to be whole."""
    return read_record(copy / _RECORD)


def write_linked(copy: Path, stamps: Mapping[str, list[int]]) -> None:
    """Record the linked files of a copy. Raises `OSError`."""
    draft = copy / f"{_RECORD}.{os.urandom(8).hex()}"
    draft.write_text(json.dumps(stamps), "ascii")
    os.replace(draft, copy / _RECORD)


def stamp_of(status: os.stat_result) -> list[int]:
    """Return size, times and mode of a file: a write changes one of them."""
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode]


def drop_written(copy: Path) -> list[str]:
    """Remove and return the linked files of a copy that were written in place, or may have been. Blocks."""
    before, end = read_linked(copy), time.monotonic() + _SECONDS
    now, written, top = dict(before), [], os.fspath(copy)
    for path, old in before.items():
        try:
            new = stamp_of(status := os.lstat(f"{top}/{path}"))
        except FileNotFoundError:
            del now[path]
            continue
        if new == old:
            continue
        place = copy / path
        is_whole = new[0] == old[0] and stat.S_ISREG(status.st_mode) and is_intact(place, end)
        if is_whole:
            now[path] = new
        else:
            del now[path]
            place.unlink(missing_ok=True)
            written.append(path)
    if now != before:
        write_linked(copy, now)
    return written


def is_intact(place: Path, end: float = float("inf"), *, folder: int | None = None) -> bool:
    """Return True if a file has the content that its name or its last bytes tell; False if nothing tells it, or it
    cannot be read before `end`, of `time.monotonic`. With the descriptor `folder` the file of that name in there."""
    try:
        with open(os.open(place if folder is None else place.name, READ, dir_fd=folder), "rb") as file:
            size, name = os.fstat(file.fileno()).st_size, place.name
            is_loose = len(place.parent.name) == 2 and len(name) in (38, 62)
            is_summed = name.endswith(_SUMMED)
            expected = f"{place.parent.name}{name}" if is_loose else name
            digests = [hashlib.sha1(usedforsecurity=False), hashlib.sha256()]
            inflate, remaining = zlib.decompressobj(), size - 32 if is_summed else size
            while remaining > 0 and (piece := file.read(min(_PIECE, remaining))):
                remaining -= len(piece)
                while piece:  # a small object may be one of terabytes
                    data = inflate.decompress(piece, _PIECE) if is_loose else piece
                    for digest in digests:
                        digest.update(data)
                    piece = inflate.unconsumed_tail
                    if time.monotonic() > end:
                        return False
            if not is_summed:
                return expected in (candidate.hexdigest() for candidate in digests) and (not is_loose or inflate.eof)
            tail = file.read(32)
            digests[0].update(tail[:12])
            return tail[12:] == digests[0].digest() or tail == digests[1].digest()
    except (OSError, ValueError, zlib.error):
        return False
