"""The search itself, as a program of its own: standard library only, one job on stdin, the finished text on stdout.

A process because a regular expression can take for ever and a thread that runs one cannot be stopped. Which files are
searched is in `listing`, starting it in `builtin/grep.py`.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

HARD_LIMIT = 64 * 1024 * 1024
LONGEST_LINE = 400
BAD_PATTERN = 3
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


@dataclass(frozen=True)
class Job:
    """One search."""

    pattern: str
    ignore_case: bool
    context: int
    limit: int
    prefix: str
    """Stands before every path that is shown."""


def lines_of(path: bytes) -> list[str] | None:
    """The lines of a regular file, without their ends; None for binary. `OSError` when it cannot be read."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > HARD_LIMIT:
            raise OSError("not searched")
        data = file.read(HARD_LIMIT)
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            text = data[len(bom) :].decode(encoding, "replace")
            break
    else:
        if b"\0" in data[:8192]:
            return None
        text = data.decode("utf-8", "replace")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line[:-1] if line.endswith("\r") else line for line in lines]


def block(lines: Sequence[str], found: dict[int, re.Match[str]], context: int) -> Iterator[str]:
    """The lines to show for one file: `12:` a match, `13-` around it, `--` where lines are passed over."""
    wanted = sorted({i for hit in found for i in range(max(0, hit - context), min(len(lines), hit + context + 1))})
    last = None
    for i in wanted:
        if context and last is not None and i > last + 1:
            yield "--"
        last = i
        yield f"{i + 1}{':' if i in found else '-'}{_cut(lines[i], found.get(i))}"


def _cut(line: str, match: re.Match[str] | None) -> str:
    """A very long line as the part around the match, with marks that say how much is not shown."""
    if len(line) <= LONGEST_LINE:
        return line
    start = max(0, min(match.start() - 100 if match else 0, len(line) - LONGEST_LINE))
    after = len(line) - start - LONGEST_LINE
    before = f"[{start} characters...]" if start else ""
    return f"{before}{line[start : start + LONGEST_LINE]}" + (f"[...{after} characters]" if after else "")


def search(job: Job, paths: Sequence[bytes]) -> str:
    """The whole answer. Raises `re.error`, `RecursionError` or `OverflowError` for a pattern that is none."""
    regex = re.compile(job.pattern, re.IGNORECASE if job.ignore_case else 0)
    parts: list[str] = []
    shown = unread = 0
    more = False
    for path in paths:
        try:
            lines = lines_of(path)
        except OSError:
            unread += 1
            continue
        found: dict[int, re.Match[str]] = {}
        for i, line in enumerate(lines or ()):
            match = regex.search(line)
            if match is None:
                continue
            if shown == job.limit:
                more = True
                break
            found[i] = match
            shown += 1
        if found and lines is not None:
            name = job.prefix + os.fsdecode(path).encode("utf-8", "replace").decode()
            parts.append("\n".join([name, *block(lines, found, job.context)]))
        if more:
            break
    notes = [f"[the first {shown} matches; there are more: narrow the search or raise `limit`]"] if more else []
    if unread:
        notes.append(f"[{unread} files could not be searched: unreadable, or over 64 MiB]")
    return "\n\n".join(parts or ["no matches"]) + "".join("\n" + note for note in notes)


def main() -> int:
    """Reads the job (a JSON line, then paths ended by NUL), writes the answer; 3 for a bad pattern."""
    with open(0, "rb", closefd=False) as source:
        head, _, rest = source.read().partition(b"\n")
    values: dict[str, Any] = json.loads(head)
    status = 0
    try:
        answer = search(Job(**values), [path for path in rest.split(b"\0") if path])
    except (re.error, RecursionError, OverflowError) as error:
        status, answer = BAD_PATTERN, f"`pattern` is no Python regular expression: {error}"
    with open(1, "wb", closefd=False) as sink:
        sink.write(answer.encode("utf-8", "replace"))
    return status


if __name__ == "__main__":
    raise SystemExit(main())
