"""Move the pins of `package.json` to the newest versions: `python tests/parity/move_pins.py [PROGRAM...]`.

Prints each version that has changed, and what the first request of the program has gained and lost. Run all rows then.
A program whose newest version is not found or does not start keeps its pin.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from parity.first_request import count
from parity.peers import EDITOR, PACKAGES, Bench, NotRun
from parity.rows import Row
from parity.run import PROGRAMS

PINS = Path(__file__).with_name("package.json")
MOVED = {**PACKAGES, EDITOR: EDITOR}
"""The packages whose pins can be moved. The editor plays no row alone: its version is moved, nothing is counted."""


def find_newest(package: str) -> str:
    """Return the newest version of a package that npm knows. Raises `NotRun`."""
    try:
        done = subprocess.run(["npm", "view", package, "version"], capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotRun(f"npm: {error}") from error
    if done.returncode:
        raise NotRun(f"npm view {package}: {(done.stderr.strip().splitlines() or ['it failed'])[0]}")
    return done.stdout.strip()


def read_first(program: str) -> tuple[set[str], int]:
    """Return the names of the tools in the first request of the pinned version, and its tokens. Raises `NotRun`."""
    with tempfile.TemporaryDirectory() as root:
        bench = Bench(Path(root).resolve(), PROGRAMS)
        if program == EDITOR:
            bench.find(EDITOR)
            return set(), 0
        requests = bench.play_peer(Row("first", lambda played: None, {}, peer=program)).requests
    if not requests:
        raise NotRun("it sent no request")
    tools = json.loads(requests[0]).get("tools") or ()
    names = {str(one.get("name") or one.get("function", {}).get("name") or one["type"]) for one in tools}
    return names, count(requests[0])[1]


def move(program: str) -> str:
    """Move the pin of a program; return what changed. Raises `NotRun`, and then the pin is as it was."""
    if program not in MOVED:
        raise NotRun(f"choose from {', '.join(MOVED)}")
    pins, package = json.loads(PINS.read_text()), MOVED[program]
    before, newest = pins["dependencies"][package], find_newest(package)
    if newest == before:
        return f"{before}: the newest"
    tools, tokens = read_first(program)
    PINS.write_text(f"{json.dumps({**pins, 'dependencies': {**pins['dependencies'], package: newest}})}\n")
    try:
        new_tools, new_tokens = read_first(program)
    except NotRun:
        PINS.write_text(f"{json.dumps(pins)}\n")
        raise
    changes = [*(f"+{one}" for one in sorted(new_tools - tools)), *(f"-{one}" for one in sorted(tools - new_tools))]
    counted = [f"first request {tokens:,} -> {new_tokens:,} tokens", *changes] if new_tokens else ["installed"]
    return f"{before} -> {newest}: {' '.join(counted)}"


def main(programs: list[str]) -> int:
    """Move the pins of `programs`, all without; return 2 if one could not be moved."""
    status = 0
    for program in programs or MOVED:
        try:
            print(program, move(program), flush=True)
        except NotRun as why:
            print(f"{program}: not moved: {why}", flush=True)
            status = 2
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
