"""The search of `grep`, as a program: one job on stdin, the answer on stdout.

Imports the standard library only; for files that are not UTF-8 also `nexus_cli.core.decode`, whose source is in the
job, and the library that guesses encodings, from the folders in the job. It is a process because a regular expression
can run forever and its thread could not be stopped.
"""

from __future__ import annotations

import codecs
import importlib
import io
import json
import os
import re
import resource
import signal
import stat
import sys
import types
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

HARD_LIMIT = 64 * 1024 * 1024
LONGEST_LINE = 400
MAX_CONTEXT = 1000
"""Most context lines before a match."""
COUNTING_SECONDS = 0.3
"""Time in which the matches beyond the limit are counted."""
BAD_PATTERN, NO_FOLDER = 3, 4
"""Exit status if the search did not begin; the answer has the reason."""
MAX_MEMORY = 2 << 30
"""Most bytes of address space, where the system can bound it."""
_DECODER = "nexus_cli.core.decode"
_SOURCES: dict[str, str] = {}
"""The source of that module, until it is needed."""
_CHUNK = 32 * 1024
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(frozen=True)
class SearchJob:
    """One search."""

    pattern: str
    ignore_case: bool
    context: int
    limit: int
    prefix: str
    """Prefix of every path in the answer."""
    alone: bool = False
    """True if the path is a file: if it cannot be searched, that is the answer."""


class BinaryFileError(Exception):
    """The file is binary."""


class NormalizedPattern:
    """A regular expression that matches composed and decomposed letters, in whichever form the pattern is written."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._plain = re.compile(pattern, flags)
        composed = unicodedata.normalize("NFC", pattern)
        differs = composed != unicodedata.normalize("NFD", pattern)
        self._composed = re.compile(composed, flags) if differs else None

    def search(self, line: str) -> re.Match[str] | None:
        """Return the first match in `line`."""
        match = self._plain.search(line)
        if match is None and self._composed is not None and not line.isascii():
            return self._composed.search(unicodedata.normalize("NFC", line))
        return match


def _open_without_links(path: bytes) -> int:
    """Open the file, following no link: one may have been created since the file was listed."""
    *folders, name = path.split(b"/")
    if not path.startswith(b"/"):
        folders.insert(0, b".")
    place: int | None = None
    try:
        for folder in folders:
            inner = os.open(folder or b"/", _FOLDER, dir_fd=place)
            if place is not None:
                os.close(place)
            place = inner
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
    finally:
        if place is not None:
            os.close(place)


def _enter_folder(path: bytes) -> None:
    """Change the working folder to a real path, following no link."""
    place = os.open(b"/", _FOLDER)
    for name in filter(None, path.split(b"/")):
        inner = os.open(name, _FOLDER, dir_fd=place)
        os.close(place)
        place = inner
    os.fchdir(place)
    os.close(place)


def lines_of(path: bytes) -> Iterator[str]:
    """Yield the lines of a regular file, without their ends; raise `BinaryFileError`, or `OSError` if unreadable."""
    with open(_open_without_links(path), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > HARD_LIMIT:
            raise OSError("not searched")
        utf_8 = _is_utf_8(file)
        file.seek(0)
        head = file.read(8192)
        if b"\0" in head and (utf_8 or not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))):
            raise BinaryFileError
        file.seek(0)
        streamed = io.TextIOWrapper(file, "utf-8-sig", "replace", newline="\n")
        for line in streamed if utf_8 else _decode(file.read()).split("\n"):
            yield line.removesuffix("\n").removesuffix("\r")


def _is_utf_8(file: BinaryIO) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while chunk := file.read(_CHUNK):
            decoder.decode(chunk)
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        return False
    return True


def _decode(data: bytes) -> str:
    """Decode a file as `read_file` does; raise `BinaryFileError` if it is binary."""
    try:
        read = _load_decoder().decode(data)
    except ModuleNotFoundError:  # the library that guesses
        return data.decode("utf-8", "replace").removesuffix("\n")
    if read is None:
        raise BinaryFileError
    return str(read.plain).removesuffix("\n")


def _load_decoder() -> Any:
    """Return the module for decoding, made of the source in the job: no file of the package is read."""
    if _DECODER not in sys.modules and _SOURCES:
        module = sys.modules[_DECODER] = types.ModuleType(_DECODER)
        exec(_SOURCES.pop(_DECODER), module.__dict__)
    return importlib.import_module(_DECODER)


class FileHits:
    """The output rows of one file: `12:` for a match, `13-` for context, `--` for skipped lines."""

    def __init__(self, context: int, limit: int) -> None:
        self._limit = limit
        self._before: deque[tuple[int, str]] = deque(maxlen=min(context, MAX_CONTEXT))
        self.matches = 0
        self.more = False
        """True if there is a match beyond the limit."""

    def rows(self, lines: Iterable[str], regex: NormalizedPattern | re.Pattern[str]) -> Iterator[str]:
        """Yield the rows; read no further than needed, and keep only possible context lines."""
        context = self._before.maxlen or 0
        after = last = 0
        for number, line in enumerate(lines, 1):
            match = None if self.more else regex.search(line)
            if match is not None and self.matches == self._limit:
                match, self.more = None, True
            if match is not None:
                if context and last and number - len(self._before) > last + 1:
                    yield "--"
                yield from (f"{before}-{text}" for before, text in self._before)
                self._before.clear()
                yield f"{number}:{_shorten_line(line, match)}"
                self.matches += 1
                after, last = context, number
            elif after:
                yield f"{number}-{_shorten_line(line, None)}"
                after -= 1
                last = number
            elif self.more:
                return
            elif context:
                self._before.append((number, _shorten_line(line, None)))


def _shorten_line(line: str, match: re.Match[str] | None) -> str:
    """Shorten a long line to the part around the match, with the number of hidden characters."""
    if len(line) <= LONGEST_LINE:
        return line
    start = max(0, min(match.start() - 100 if match else 0, len(line) - LONGEST_LINE))
    after = len(line) - start - LONGEST_LINE
    before = f"[{start} characters...]" if start else ""
    return f"{before}{line[start : start + LONGEST_LINE]}" + (f"[...{after} characters]" if after else "")


@dataclass
class SearchCounts:
    """The counts of a search so far."""

    matches: int = 0
    files: int = 0
    more: bool = False
    """True if the search stopped at its limit."""
    unknown: bool = False
    """True if the named file could not be searched."""

    def values(self) -> dict[str, int]:
        """Return the counts for the result of `grep`."""
        return {} if self.unknown else {"matches": self.matches, "files": self.files, "more": self.more}


def search(job: SearchJob, paths: Sequence[bytes], counts: SearchCounts | None = None) -> Iterator[str]:
    """Yield the answer in pieces and update `counts`. Raises as `re.compile` at once for an invalid pattern."""
    regex = NormalizedPattern(job.pattern, re.IGNORECASE if job.ignore_case else 0)
    return _search_files(job, paths, regex, counts or SearchCounts())


def _search_files(
    job: SearchJob, paths: Sequence[bytes], regex: NormalizedPattern, counts: SearchCounts
) -> Iterator[str]:
    matches = unread = 0
    has_more = binary = False
    for number, path in enumerate(paths):
        hits = FileHits(job.context, job.limit - matches)
        # The name comes above the first row, once there is one.
        before = ("\n\n" if matches else "") + _display_path(job, path)
        try:
            for row in hits.rows(lines_of(path), regex):
                yield f"{before}\n{row}"
                before = ""
        except (OSError, MemoryError):
            unread += 1
        except BinaryFileError:
            binary = True
        matches += hits.matches
        has_more = hits.more
        counts.matches, counts.more = matches, has_more
        counts.files += hits.matches > 0
        if has_more:
            total, is_all = _count_matches(paths[number:], regex)
            break
    if job.alone and (binary or unread):
        why = "is binary: it was not searched" if binary else "could not be searched: unreadable, or over 64 MiB"
        counts.unknown = True
        yield f"[{_display_path(job, paths[0])} {why}]"
        return
    if not matches:
        yield "no matches"
    if has_more:
        first = "match" if matches == 1 else f"{matches} matches"
        remaining = max(1, total - hits.matches)
        least = "" if is_all else "at least "
        verb = "is" if remaining == 1 else "are"
        yield f"\n[the first {first}; there {verb} {least}{remaining:,} more: narrow the search or raise `limit`]"
    if unread:
        least = "at least " if has_more else ""
        yield f"\n[{least}{unread} file{'s' * (unread != 1)} could not be searched: unreadable, or over 64 MiB]"


class _TimeUp(Exception):
    """The time for counting is over."""


def _count_matches(paths: Iterable[bytes], regex: NormalizedPattern) -> tuple[int, bool]:
    """Count the lines that match, for at most `COUNTING_SECONDS`; False if there may be more."""

    def end(*_: object) -> None:
        raise _TimeUp

    count = 0
    before = signal.signal(signal.SIGALRM, end)  # it arrives while an expression is matched, too
    signal.setitimer(signal.ITIMER_REAL, COUNTING_SECONDS)
    try:
        for path in paths:
            with suppress(OSError, MemoryError, BinaryFileError):
                count += sum(regex.search(line) is not None for line in lines_of(path))
    except _TimeUp:
        return count, False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return count, True


def _display_path(job: SearchJob, path: bytes) -> str:
    return job.prefix + os.fsdecode(path).encode("utf-8", "replace").decode()


def main() -> int:
    """Read the job (a line of JSON, then NUL-terminated paths), write the answer, a NUL and the counts as JSON.

    Returns the exit status.
    """
    with open(0, "rb", closefd=False) as source:
        head, _, path_data = source.read().partition(b"\n")
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    values: dict[str, Any] = json.loads(head)
    _SOURCES[_DECODER] = values.pop("decoder")
    sys.path += values.pop("libraries", ())  # last, so that nothing shadows the standard library
    with open(1, "wb", closefd=False) as sink:
        try:
            if "root" in values:
                _enter_folder(os.fsencode(values.pop("root")))
        except OSError as error:
            sink.write(f"the folder cannot be searched: {error.strerror}".encode())
            return NO_FOLDER
        try:
            counts = SearchCounts()
            answer = search(SearchJob(**values), [path for path in path_data.split(b"\0") if path], counts)
        except (re.error, RecursionError, OverflowError) as error:
            sink.write(f"`pattern` is not a Python regular expression: {error}".encode("utf-8", "replace"))
            return BAD_PATTERN
        for piece in answer:
            sink.write(piece.encode("utf-8", "replace"))
        sink.write(b"\0" + json.dumps(counts.values()).encode())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
