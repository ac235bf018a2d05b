"""What a compaction reads again from its source, to stand below the summary: the goals, and the files of the part that
goes, as they are now. Nothing here depends on what the summariser wrote.

Bounded in time, in bytes and in tokens; a file that is strange in any way is named without being read.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Sequence

from nexus_cli.context.aside import Aside, within
from nexus_cli.context.file_outline import outline
from nexus_cli.context.neutral import neutral
from nexus_cli.context.plan import Plan
from nexus_cli.context.sysinfo import one_line
from nexus_cli.core.errors import NexusError
from nexus_cli.core.services import Goal, SeenFile
from nexus_cli.session.engine import Engine

SECONDS = 2.0
"""All reading together; files that were not reached by then are left out."""
MOST_FILES = 12
MOST_BYTES = 512 * 1024
"""A larger file is named with its size, without an outline."""
LONGEST_PATH = 200


async def reattached(engine: Engine, plan: Plan, room: int, goals: Sequence[Goal] = ()) -> str:
    """The text, in at most `room` tokens by our count; "" where there is nothing or no room."""
    count = engine.context.counter.count
    first, last = plan.entries
    there = [file for file in _files(engine) if first <= file.entry <= last]
    newest = sorted(there, key=lambda file: (-file.entry, file.path))[:MOST_FILES]
    lines: list[str] = []
    base = _base(newest)
    reading = Aside[None](lambda _: _describe(newest, base, lines))
    await within({reading: SECONDS})  # what was described by then stays
    parts = [
        _block("Goals:", wanted := _goal_lines(goals), len(wanted), room // 2, count),
        _block(f"Files of that part as they are now, below {_safe(base)}:", list(lines), len(there), room, count),
    ]
    text = "\n\n".join(part for part in parts if part)
    return text if count(text) <= room else parts[0]


def _files(engine: Engine) -> Sequence[SeenFile]:
    """What the ledger has of files; nothing where it fails: a summary does not hang on it."""
    try:
        return engine.files()
    except NexusError:
        return ()


def _block(title: str, lines: Sequence[str], total: int, room: int, count: Callable[[str], int]) -> str:
    """Return `title` and as many of `lines` as fit, then how many of `total` are not among them; "" where none fits."""
    room -= count(title) + 2
    more = count(_more(total)) + 1
    shown: list[str] = []
    for line in lines:
        room -= count(line) + 1
        if room < (more if len(shown) + 1 < total else 0):
            break
        shown.append(line)
    if len(shown) < total:
        return "\n".join([title, *shown, _more(total - len(shown))]) if shown else ""
    return "\n".join([title, *shown]) if shown else ""


def _more(number: int) -> str:
    return f"- {number} more, not listed here"


def _goal_lines(goals: Sequence[Goal]) -> list[str]:
    """Goals that are not reached, each with its steps below it."""
    lines = []
    for goal in goals:
        if not goal.parent and not goal.done:
            lines.append(f"- {goal.id}: {_safe(goal.text)}")
            steps = [step for step in goals if step.parent == goal.id]
            lines += [f"  - [{'x' if step.done else ' '}] {step.id}: {_safe(step.text)}" for step in steps]
    return lines


def _describe(files: Iterable[SeenFile], base: str, lines: list[str]) -> None:
    for file in files:
        lines.append(_line(file, base))


def _line(file: SeenFile, base: str) -> str:
    """One file: path, how it was used, what it holds now."""
    name = os.path.relpath(file.path, base) if base else file.path
    head = f"- {_safe(name)[:LONGEST_PATH]} ({file.how}"
    try:
        data, size = _read(file.path)
    except FileNotFoundError:
        return f"{head}; no longer there)"
    except (OSError, ValueError):
        return f"{head}; cannot be read)"
    if data is None:
        return f"{head}; {size:,} bytes)"
    digest = hashlib.sha256(data).hexdigest()
    names = outline(file.path, data.decode("utf-8", "replace")) if b"\0" not in data[:8192] else ()
    told = f": {', '.join(map(_safe, names))}" if names else ""
    return f"{head}; sha256 {digest[:12]}){told}"


def _read(path: str) -> tuple[bytes | None, int]:
    """What a regular file that is no link holds, and its size; None where it is too large. `OSError` for others."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError("no regular file")
        if found.st_size > MOST_BYTES:
            return None, found.st_size
        with os.fdopen(os.dup(handle), "rb") as file:
            return file.read(MOST_BYTES), found.st_size
    finally:
        os.close(handle)


def _base(files: Sequence[SeenFile]) -> str:
    """The folder that all of them lie in, "" where there is none."""
    try:
        return os.path.commonpath([os.path.dirname(file.path) for file in files]) if files else ""
    except ValueError:
        return ""


def _safe(text: str) -> str:
    """A name from outside, on one line, that cannot pose as words of ours."""
    return neutral(one_line(text))
