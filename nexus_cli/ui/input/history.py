"""Keep the prompt history across sessions in one file of JSON lines; each project sees only its own entries.

Owns the file: reading its end, atomic appending beside other processes, limiting its size. A failure is reported once
and otherwise ignored. `box` decides which part of a message is kept.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncGenerator, Iterator
from itertools import groupby, islice
from pathlib import Path

from prompt_toolkit.history import History

from nexus_cli.config.private_file import append_lines, replace_private_file
from nexus_cli.core.clock import utc_now
from nexus_cli.core.errors import reason_of
from nexus_cli.core.message import replace_surrogates
from nexus_cli.core.real_files import real_path
from nexus_cli.core.shared_types import TakeText

TAIL = 2 * 1024 * 1024
"""Bytes that are read at the end of the file."""
LARGEST = 10 * 1024 * 1024
"""Size above which the file is cut to its newest half."""
ENTRIES = 1000
"""Most entries that can be recalled."""
LONGEST = 256 * 1024
"""Most characters of an entry that is written; longer ones are kept only while the process lives."""


class ProjectHistory(History):
    """The history of one project for a prompt-toolkit buffer; newest first when loaded."""

    def __init__(
        self,
        path: Path,
        project: Path,
        *,
        save: bool,
        notice: TakeText,
    ) -> None:
        """`notice` gets at most one line about the file, in the loop's thread. Without `save`, write nothing."""
        super().__init__()
        self._path = path
        self._project = str(project)
        self._save = save
        self._notice = notice
        self._has_warned = False
        # Lines written from now on are not read; this process knows its own.
        self._end = _size(path)

    async def load(self) -> AsyncGenerator[str, None]:
        """Yield entries, newest first; the file is read once, in a thread."""
        if not self._loaded:
            self._loaded = True
            try:
                self._loaded_strings += await asyncio.get_running_loop().run_in_executor(
                    None, self.load_history_strings
                )
            except OSError as error:
                self._report_failure("cannot be read", error)
        async for text in super().load():
            yield text

    def load_history_strings(self) -> list[str]:
        """Return this project's entries from before the start, newest first; raise `OSError` if they are unreadable."""
        texts = reversed(list(_texts(_tail(self._path, self._end, TAIL), self._project)))
        return [text for text, _ in islice(groupby(texts), ENTRIES)]

    def append_string(self, string: str) -> None:
        """Add an entry and write it; a repeated one counts once."""
        text = replace_surrogates(string)
        if text.strip() and [text] != self._loaded_strings[:1]:
            super().append_string(text)

    def store_string(self, string: str) -> None:
        """Append one line to the file."""
        if not self._save or len(string) > LONGEST:
            return
        record = {"at": utc_now(), "project": replace_surrogates(self._project), "text": string}
        try:
            append(self._path, json.dumps(record, ensure_ascii=False).encode() + b"\n")
        except OSError as error:
            self._save = False
            self._report_failure("cannot be written", error)

    def _report_failure(self, failure: str, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            self._notice(f"the history {failure}: {self._path}: {reason_of(error)}. Continuing without it")


def append(path: Path, line: bytes) -> None:
    """Append a line, which ends in a newline. A file above `LARGEST` is replaced by its newest half, without what
    another process appends at that moment. Raises `OSError`."""
    real = real_path(path)
    if os.path.lexists(real) and not real.is_file():
        raise OSError(22, "not a regular file")
    size = append_lines(real, line, synced=False)
    if size > LARGEST:
        replace_private_file(real, _tail(real, size, LARGEST // 2))


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0


def _tail(path: Path, end: int, most: int) -> bytes:
    """Return the last complete lines of the first `end` bytes, at most `most`; empty if the file does not exist."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    try:
        kind = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(kind):
            raise OSError(21, "is a folder" if stat.S_ISDIR(kind) else "not a regular file")
        start = max(0, end - most)
        data = os.pread(descriptor, end - start, start)
        return data.partition(b"\n")[2] if start else data  # without an incomplete first line
    finally:
        os.close(descriptor)


def _texts(data: bytes, project: str) -> Iterator[str]:
    for line in data.split(b"\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and record.get("project") == project:
            text = record.get("text")
            if isinstance(text, str) and text.strip():
                yield replace_surrogates(text)
