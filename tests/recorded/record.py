"""Record the sessions anew, or compare them with what was recorded: `python tests/recorded/record.py [--only NAME]`."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

if __name__ == "__main__":  # started as a file, its folder is on the path instead of the one above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from recorded.forks import Forks
from recorded.person import Person
from recorded.session_list import SESSIONS
from recorded.wire import Step, read_session, write_session

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "expected"
LINES = ("tools ", "system[", "messages[", "contents[", "body ")
"""How the lines of a body begin."""
SHARED = EXPECTED / "shared"


def play(name: str, forks: Forks) -> tuple[list[Step], float]:
    """Play a session; return its steps and the CPU seconds that it took."""
    with Person(forks) as person:
        SESSIONS[name](person)
    return person.steps, person.seconds


def recorded(name: str) -> list[Step]:
    """Return the steps of a session as they were recorded; none if it never was."""
    path = EXPECTED / f"{name}.txt"
    return read_session(path.read_text(encoding="utf-8"), SHARED) if path.exists() else []


def difference(name: str, expected: Sequence[Step], seen: Sequence[Step]) -> str:
    """Return in words where a session first differs from its record; "" if nowhere."""
    number = 0
    for place in range(max(len(expected), len(seen))):
        old, new = (steps[place] if place < len(steps) else None for steps in (expected, seen))
        if old is None or new is None:
            return f"{name}: {len(seen)} steps, not {len(expected)}"
        at = f"{name}, step {place + 1} ({new.title})"
        if rows := _first(["", old.title, *old.script], ["", new.title, *new.script]):
            return f"{at}: the script is another one{rows}"
        for one in range(max(len(old.requests), len(new.requests))):
            number += 1
            if one >= len(new.requests) or one >= len(old.requests):
                return f"{at}: {len(new.requests)} requests, not {len(old.requests)}"
            first, second = old.requests[one], new.requests[one]
            if rows := _first([first.head, *first.lines], [second.head, *second.lines]):
                return f"{at}, request {number}{rows}"
        if rows := _first(old.end, new.end):
            return f"{at}: it ends in another way{rows}"
    return ""


def _first(old: Sequence[str], new: Sequence[str]) -> str:
    """Return the first line that differs, around its first character that does."""
    for place in range(max(len(old), len(new))):
        was, now = (lines[place] if place < len(lines) else "(nothing)" for lines in (old, new))
        if was != now:
            at = next((i for i, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), min(len(was), len(now)))
            begin = max(0, at - 60)
            label = now.partition(" ")[0] if now.startswith(LINES) else f"row {place + 1}"
            return f", {label}, character {at}:\n- {was[begin : at + 140]}\n+ {now[begin : at + 140]}"
    return ""


def write(name: str, steps: Sequence[Step]) -> None:
    """Make these steps the record of a session."""
    EXPECTED.mkdir(exist_ok=True)
    about = (SESSIONS[name].__doc__ or "").strip()
    (EXPECTED / f"{name}.txt").write_text(write_session(about, steps, SHARED), encoding="utf-8")


def remove_unused() -> None:
    """Remove the records of sessions that are gone, and shared lines that no record names."""
    texts = {path: path.read_text(encoding="utf-8") for path in EXPECTED.glob("*.txt")}
    for path in texts:
        if path.stem not in SESSIONS:
            path.unlink()
    named = "".join(text for path, text in texts.items() if path.stem in SESSIONS)
    for path in SHARED.glob("*.txt"):
        if f"@{path.stem}\n" not in named:
            path.unlink()


def main() -> int:
    """Record, or compare; 1 if a comparison found a difference."""
    parser = argparse.ArgumentParser(description="Record the sessions anew; look at the difference in git.")
    parser.add_argument("--only", action="append", metavar="NAME", choices=SESSIONS, help="repeatable")
    parser.add_argument("--compare", action="store_true", help="write nothing; print the first difference of each")
    parser.add_argument("--times", type=int, default=1, help="with --compare: how often")
    parser.add_argument("-j", type=int, default=3, metavar="N", help="sessions at the same time")
    given = parser.parse_args()
    if shutil.which("cc") is None:
        print("record: there is no C compiler `cc`, which builds the clock of the sessions", file=sys.stderr)
        return 2
    names = given.only or list(SESSIONS)
    failed = 0

    def one(name: str) -> tuple[str, str, list[Step], float]:
        try:
            return name, "", *play(name, forks)
        except Exception as error:  # said like a difference, so that the others are played
            return name, f"{name}: {type(error).__name__}: {error}", [], 0.0

    began = time.monotonic()
    with Forks() as forks, ThreadPoolExecutor(given.j) as pool:
        for _ in range(given.times):
            requests, seconds = 0, 0.0
            for name, why, steps, used in pool.map(one, names):
                requests += sum(len(step.requests) for step in steps)
                seconds += used
                why = why or (difference(name, recorded(name), steps) if given.compare else "")
                if why:
                    failed += 1
                    print(why, flush=True)
                elif not given.compare:
                    write(name, steps)
            counted = f"{len(names)} sessions, {requests} requests, {seconds:.0f} CPU seconds of their runs"
            print(f"{counted}, {time.monotonic() - began:.0f} s", flush=True)
    if not given.compare:
        remove_unused()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
