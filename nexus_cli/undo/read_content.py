"""Read the earlier bytes of files: from the byte store, and blobs from the project's repository by one run of git."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Self

from nexus_cli.config.programs import find_program
from nexus_cli.sandbox.own_git import GitError, find_git, merge_texts
from nexus_cli.tree.blob_hash import HASHES, blob_id
from nexus_cli.tree.byte_store import ByteStore
from nexus_cli.tree.file_state import GIT
from nexus_cli.undo.repository_copy import find_copy
from nexus_cli.worktrees.snapshot_store import BlobReader


class ContentReader:
    """Opens the bytes of a `FileState.content`. `close` ends the runs of git."""

    def __init__(self, data: Path) -> None:
        """`data` is the data folder with the bytes that are kept."""
        self._data, self._store, self._stack = data, ByteStore(data), ExitStack()
        self._readers: dict[Path, BlobReader] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def open(self, root: str, content: str) -> IO[bytes]:
        """Open the bytes of `content`, blobs from the repository of `root`; raise `OSError` unless they are as kept."""
        if not content.startswith(GIT):
            return self._store.open(content)
        oid = content.removeprefix(GIT)
        with suppress(OSError):
            if blob_id(data := self._read_blob(root, oid), len(oid)) == oid:
                return io.BytesIO(data)
        copy = find_copy(self._data, root)
        if copy is None or blob_id(data := self._read_blob(root, oid, copy), len(oid)) != oid:
            raise FileNotFoundError("the copy of the earlier content is damaged or missing")
        return io.BytesIO(data)

    def _read_blob(self, root: str, oid: str, copy: Path | None = None) -> bytes:
        """Return a blob of the repository of `root`, or of the `copy` of that. Raises `OSError`."""
        if len(oid) not in HASHES or not set(oid) <= set("0123456789abcdef"):
            raise FileNotFoundError(oid)
        folder = copy or Path(root)
        if folder not in self._readers:
            git = find_git(folder, copy)
            if git is None:
                raise FileNotFoundError("git was not found")
            variables = {"GIT_DIR": str(copy), "GIT_WORK_TREE": str(copy)} if copy else {}
            self._readers[folder] = self._stack.enter_context(BlobReader(replace(git, variables=variables)))
        try:
            return self._readers[folder].read(oid)
        except GitError as error:
            raise FileNotFoundError(str(error)) from error


def read_all(reader: ContentReader, root: str, content: str, most: int) -> bytes | None:
    """Return the bytes of `content`; None if they are not kept, or more than `most`."""
    try:
        with reader.open(root, content) as file:
            data = file.read(most + 1)
    except OSError:
        return None
    return data if len(data) <= most else None


def merge_without_conflict(texts: Sequence[bytes]) -> bytes | None:
    """Return the three-way merge of three texts (one side, their base, the other side); None on a conflict, for
    binary files, and without git."""
    if git := find_program("git"):
        with suppress(GitError):
            status, merged = merge_texts(git, texts)
            return None if status else merged
    return None
