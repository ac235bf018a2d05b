"""Bytes of files by their SHA-256, in private files below `data/undo/objects`, and hard links to large files.

Every process of the person adds to the same store. An object is written beside its place and renamed.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO

from nexus_cli.config.paths import private_dir
from nexus_cli.core.real_files import NEW, READ, open_regular
from nexus_cli.tree.file_state import HARD_LINK, SHA256

_PIECE = 1 << 20
SAMPLED = 5_000_000
"""Bytes of a hard-linked file above which pieces of it are compared. Smaller ones are linked only by the thousand."""
_CONTENT = re.compile(r"(sha256:[0-9a-f]{64}|link:[0-9a-z-]{1,200})")


class ByteStore:
    """The byte store below the data folder `data`. Nothing is written before the first `put`."""

    def __init__(self, data: Path) -> None:
        self.objects = data / "undo" / "objects"
        self.written = 0
        """Bytes that this process has added."""
        self._made_folders: set[Path] = set()

    def put(self, source: bytes | IO[bytes], *, synced: bool = True, most: int | None = None) -> str:
        """Keep the bytes of `source` (a file: from its position on) and return their content, `sha256:HEX`.

        With `synced` they are on the disk on return. Raises `OSError`; `ValueError` if there are more than `most`
        bytes.
        """
        if not isinstance(source, bytes) and most is not None and most <= _PIECE:
            source = source.read(most + 1)
            if len(source) > most:
                raise ValueError("the file has grown")
        if isinstance(source, bytes) and (kept_content := self._renew(source)):
            return kept_content
        self._make(self.objects)
        draft = self.objects / f".new-{os.urandom(8).hex()}"
        try:
            with open(os.open(draft, NEW, 0o600), "wb") as file:
                digest = _copy(source, file, most)
                self.written += file.tell()
                file.flush()
                if synced:
                    os.fsync(file.fileno())
            content = f"{SHA256}{digest}"
            place = self._find_object(content)
            self._make(place.parent)
            os.replace(draft, place)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        return content

    def _renew(self, data: bytes) -> str:
        """Return the content of an object of these bytes, "" if there is none; no other process trims it from now on,
        as if it was new."""
        content = f"{SHA256}{hashlib.sha256(data).hexdigest()}"
        with suppress(OSError):
            place = self._find_object(content)
            if place.stat().st_size == len(data):
                os.utime(place)
                return content
        return ""

    def link(self, folder: int, name: str, status: os.stat_result) -> str:
        """Keep a regular file by a hard link and return its content, `link:NAME`. Raises `OSError`.

        `folder` is a descriptor, `status` the status of the file there: it is part of the content, by which `open` sees
        that the file was written in place since.
        """
        with open_regular(folder, name) as file:
            content = link_content(file, status)
        place = self._find_object(content)
        self._make(place.parent)
        try:
            os.link(name, place, src_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            pass
        if not _is_same(place, content):
            raise FileNotFoundError(name)
        return content

    def open(self, content: str) -> IO[bytes]:
        """Open kept bytes (not `git:OID`); raise `OSError` if they are not there or not as they were kept."""
        if not _CONTENT.fullmatch(content):
            raise FileNotFoundError(content)
        place = self._find_object(content)
        if content.startswith(HARD_LINK) and not _is_same(place, content):
            raise FileNotFoundError("the copy was changed after it was made")
        file: IO[bytes] = os.fdopen(os.open(place, READ), "rb")
        if content.startswith(SHA256):
            is_intact = hash_file(file) == content
        else:
            sample = content.split("-")[4:]
            is_intact = not sample or sample == [_hash_sample(file, os.fstat(file.fileno()).st_size)]
        if not is_intact:
            file.close()
            raise FileNotFoundError("the copy is damaged, or was changed after it was made")
        file.seek(0)
        return file

    def holds(self, content: str) -> bool:
        """Return True if the bytes can be opened, without reading them."""
        if not _CONTENT.fullmatch(content):
            return False
        place = self._find_object(content)
        return _is_same(place, content) if content.startswith(HARD_LINK) else place.exists()

    def _make(self, folder: Path) -> None:
        """Make a folder of the store, unless it was found before and still is there."""
        if folder not in self._made_folders or not os.path.isdir(folder):
            private_dir(folder)
            self._made_folders.add(folder)

    def _find_object(self, content: str) -> Path:
        name = content.partition(":")[2]
        return self.objects / (name[:2] if content.startswith(SHA256) else "links") / name


def hash_file(file: IO[bytes]) -> str:
    """Return the content, `sha256:HEX`, of the bytes of an open file. Raises `OSError`."""
    return f"{SHA256}{_copy(file, None, None)}"


def link_content(file: IO[bytes], status: os.stat_result) -> str:
    """Return the content of an open file that is kept by a hard link. Raises `OSError`.

    Device, inode, size, time, and for a file above `SAMPLED` bytes a digest of pieces of it: size and time can be as
    before although it was written in place.
    """
    sample = f"-{_hash_sample(file, status.st_size)}" if status.st_size > SAMPLED else ""
    return f"{HARD_LINK}{status.st_dev:x}-{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}{sample}"


def _hash_sample(file: IO[bytes], size: int) -> str:
    """Return a digest of pieces from all over a file: of a megabyte, as there may be a thousand such files."""
    digest, count = hashlib.sha256(), 16
    for number in range(count):
        digest.update(os.pread(file.fileno(), 1 << 16, (size - (1 << 16)) * number // (count - 1)))
    return digest.hexdigest()[:32]


def list_objects(data: Path) -> dict[str, tuple[Path, os.stat_result]]:
    """Return the content, file and status of each object in the store."""
    objects = {}
    with suppress(OSError):
        for folder in (data / "undo" / "objects").iterdir():
            kind = HARD_LINK if folder.name == "links" else SHA256
            with suppress(OSError):
                for place in folder.iterdir():
                    objects[f"{kind}{place.name}"] = (place, place.stat(follow_symlinks=False))
    return objects


def used_bytes(objects: Iterable[os.stat_result]) -> int:
    """Return the bytes that objects take; hard links to files that still exist take none."""
    return sum(status.st_size for status in objects if status.st_nlink == 1)


def _copy(source: bytes | IO[bytes], file: IO[bytes] | None, most: int | None) -> str:
    """Write `source` to `file`, if there is one, and return the SHA-256 of its bytes."""
    digest, remaining = hashlib.sha256(), most
    pieces = (source,) if isinstance(source, bytes) else iter(lambda: source.read(_PIECE), b"")
    for piece in pieces:
        if remaining is not None and (remaining := remaining - len(piece)) < 0:
            raise ValueError("the file has grown")
        digest.update(piece)
        if file is not None:
            file.write(piece)
    return digest.hexdigest()


def _is_same(place: Path, content: str) -> bool:
    """Return True if the linked file still has the size and change time that its name says."""
    try:
        status = os.lstat(place)
    except OSError:
        return False
    stated = content.split("-")[2:4]
    return stat.S_ISREG(status.st_mode) and stated == [f"{status.st_size:x}", f"{status.st_mtime_ns:x}"]
